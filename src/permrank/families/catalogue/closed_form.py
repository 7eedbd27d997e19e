"""Regression of every item on all the others, solved among the items or among the users, whichever are fewer.

It is normalised in two ways. A user of d_u entries counts d_u^-β times, so that few long lists do not say it all. And
W_ij = d_i^a B_ij d_j^-a with d_j the entries of item j: with a > 0 what many have taken up speaks louder, and is found
later (Park and others 2025, DAN). Both exponents come from held-out entries (`implicit.choose_normalisation`).
"""

from __future__ import annotations

import numpy as np

from permrank.families.catalogue import item_weights, user_side
from permrank.families.catalogue.blend import Scorer
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
    data = weighted(data, penalties.user_exponent)
    if _among_users(data):
        return user_side.user_side_weights(data, penalties)
    return item_weights.regression_weights(data, penalties)


def weighted(data: Data, exponent: float) -> Data:
    """The data with the weight of every user times d_u^-exponent, so scaled that entries weigh as much as before."""
    if exponent == 0.0:
        return data
    lengths = np.diff(data.entries.indptr)
    factors = np.maximum(lengths, 1.0) ** -exponent
    usual = (factors * lengths * data.weights).sum() / max((lengths * data.weights).sum(), 1.0)
    return data._replace(weights=data.weights * factors / usual)


def scores_by(weights: ItemWeights, penalties: Penalties, data: Data) -> Scorer:
    """What gives rows of scores by weights that were learnt from data."""
    if weights.kernel.size:
        return UserSideScores(weights, penalties, weighted(data, penalties.user_exponent))
    return ItemScores(weights)
