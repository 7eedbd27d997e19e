"""What every estimate by draws of factors has, and what follows from it for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from permrank.core.estimates import RULE, Estimate
from permrank.errors import InputError
from permrank.posterior.co_listing import user_coordinates
from permrank.posterior.effects import NO_EFFECTS
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array


class Evidence(NamedTuple):
    """Rankings of some users, their items in the numbering of the model, and side information.

    Attributes
    ----------
    rankings : Rankings
    items : int32 (n_entries,)
    features : float64 (n_users, n_features), optional
    pull : float64 (n_kept, n_users, n_columns + 1), optional
        What friends say under every draw: what is added to the prior mean, and how many times as sure.
    """

    rankings: Rankings
    items: Int32Array
    features: Float64Array | None = None
    pull: Float64Array | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawsEstimate(Estimate):
    """Draws of the items, how prior means of users depend on what is known of them, and what features are worth."""

    item_draws: Array
    user_slopes: Array
    co_listing: Float64Array
    thresholds: Float64Array
    item_effects: Array = field(default_factory=lambda: NO_EFFECTS)
    pair_effects: Array = field(default_factory=lambda: NO_EFFECTS)
    item_shares: Array = field(default_factory=lambda: NO_EFFECTS)
    user_shares: Array = field(default_factory=lambda: NO_EFFECTS)
    link_strength: Array = field(default_factory=lambda: NO_EFFECTS)
    seed: int = field(metadata=RULE)

    @property
    def n_columns(self) -> int:
        """Coordinates of a user under a draw: factors, and the level if there are ratings."""
        return int(self.item_draws.shape[-1]) - 1

    @property
    def odds(self) -> bool:
        """Whether there are thresholds between ratings."""
        return bool(np.size(self.thresholds) > 0)

    @property
    def n_factors(self) -> int:
        """K; a user's level comes after the factors."""
        return self.n_columns - self.odds

    @property
    def n_user_features(self) -> int:
        """Columns of users' features; their slopes come after those of co-listing."""
        return int(self.user_slopes.shape[1] - self.co_listing.shape[1])

    def users_in_mean(self) -> Array:
        """Users in the mean scores, (n_users, rank)."""
        raise NotImplementedError

    def factor_bases(self) -> Array:
        """Factors w of a user under a draw are w @ basis in the mean scores: (n_kept, n_factors, rank)."""
        raise NotImplementedError

    def coordinates(self, evidence: Evidence, *, alone: bool = False) -> Float64Array:
        """Coordinates of users by what they list, then features; ``alone``: as if every ranking were a user's."""
        rankings, features = evidence.rankings, evidence.features
        bounds = rankings.indptr if alone else rankings.indptr[rankings.user_indptr]
        listed = user_coordinates(np.asarray(self.co_listing, np.float64), *frozen(bounds, evidence.items))
        of_users = np.zeros((len(listed), self.n_user_features))
        if features is not None:
            of_users[:] = np.repeat(features, np.diff(rankings.user_indptr), axis=0) if alone else features
        return np.hstack((listed, of_users))

    @cached_property
    def _from_mean(self) -> Float64Array:
        return np.linalg.pinv(self.factor_bases().astype(np.float64))

    def near_modes(self, factors: Float64Array) -> Float64Array:
        """A user with these factors (rank,) under the draws, (n_kept, n_columns): near the modes; a level is 0."""
        near = np.zeros((len(self._from_mean), self.n_columns))
        near[:, : self.n_factors] = np.einsum("r,drk->dk", factors, self._from_mean)
        return near

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        thresholds = np.asarray(self.thresholds)
        if thresholds.ndim != 1 or np.any(np.diff(thresholds) <= 0):
            raise InputError("thresholds_ is not an ascending list of ratings")
