"""What Thurstone's model makes of features when it answers: known users, new users, items that nobody has listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.core.users import NewUser, new_user
from permrank.errors import InputError
from permrank.posterior.known import Known
from permrank.types import Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.families.thurstone.model import FactoredThurstone


def features_of(model: FactoredThurstone, users: Int64Array) -> Float64Array | None:
    """Features of users of the training data, if the model has learnt from them."""
    return Known.of(model.rankings_).users[users] if model.estimate_.n_user_features else None


def fold_in(self: FactoredThurstone, said: object, *, features: Mapping[str, Any] | None = None) -> NewUser:
    """Make a new user from a list, a dict of item to rating, or `Rankings` of one user: the items stay as they are.

    The chain of a user runs once for every kept draw of the items.

    Parameters
    ----------
    said : list, dict or Rankings
        Empty for somebody who has said nothing.
    features : dict, optional
        Attributes of the user, where the model has learnt from such features.
    """
    self._require_fitted()
    made, known = new_user(said, self.rankings_), {}
    if features is not None:
        encoder = self.rankings_.features("user")
        if encoder is None or not self.estimate_.n_user_features:
            raise InputError("the model has learnt from no features of users; fit it to rankings.with_features(users=)")
        known = {"features": encoder.of_row(features)[None]}
    state = self._state(self._said(NewUser(made.rankings, known)))
    return NewUser(made.rankings, state | known)


def warm_items(self: FactoredThurstone) -> Int64Array:
    """Items that the model knows by their features alone."""
    if np.ndim(self.estimate_.item_effects) != 2 or self.rankings_.features("item") is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.bincount(self.rankings_.items, minlength=self.rankings_.n_items) == 0)
