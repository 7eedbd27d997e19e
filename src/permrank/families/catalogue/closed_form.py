"""Regression of every item on all the others, solved among the items or among the users, whichever are fewer."""

from __future__ import annotations

import numpy as np

from permrank.families.catalogue import item_weights, user_side
from permrank.families.catalogue.blend import Part
from permrank.families.catalogue.entries import Data
from permrank.families.catalogue.item_weights import MOST_DENSE, ItemScores, ItemWeights, Penalties
from permrank.families.catalogue.user_side import UserSideScores


def can_regress(data: Data) -> bool:
    """Whether one of the two sides is small enough."""
    return min(data.entries.n_users, data.n_items) <= MOST_DENSE


def _among_users(data: Data) -> bool:
    return data.entries.n_users < data.n_items


def choose_penalties(data: Data) -> Penalties:
    """The penalties with the least error when one user at a time is left out."""
    if _among_users(data):
        return user_side.choose_penalties(data)[0]
    return item_weights.choose_penalties(data.entries.scaled(np.sqrt(data.weights)), data.n_items)[0]


def regression(data: Data, penalties: Penalties) -> ItemWeights:
    """What is kept of the closed form with these penalties."""
    if _among_users(data):
        return user_side.user_side_weights(data, penalties)
    return item_weights.regression_weights(data.entries.scaled(np.sqrt(data.weights)), data.n_items, penalties)


def scores_by(weights: ItemWeights, penalties: Penalties, data: Data) -> Part:
    """What gives rows of scores by weights that were learnt from data."""
    return UserSideScores(weights, penalties, data) if weights.kernel.size else ItemScores(weights)
