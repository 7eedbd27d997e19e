"""What the factored Plackett-Luce model has learnt, and how its answers are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from permrank.checks import require_choice
from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.kernels.factored.items import item_noise
from permrank.kernels.lists import Lists
from permrank.kernels.plackett_luce.damping import damping_sequence
from permrank.kernels.plackett_luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION
from permrank.models.estimates import RULE, Estimate, absent, formerly
from permrank.models.factored.problem import anchored_lists, odds_lists
from permrank.models.priors.co_listing import user_coordinates
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int32Array, Int64Array

TIES = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION, "shuffle": EXACT}
KINDS = ("none", "log", "natural_log", "learned")
# Of these the factors of any stage are known, also of lists longer than those learnt from.
_FORMULAS = ("log", "natural_log")
# Where nothing is known of items and users.
NO_EFFECTS = np.zeros(0, np.float32)
# Draws of items are put side by side so many numbers at a time: 32 MiB.
_NUMBERS_AT_A_TIME, _FEW_USERS = 1 << 23, 4


class Said(NamedTuple):
    """Rankings of some users, their items in the numbering of the model, and what else is known of them.

    Attributes
    ----------
    rankings : Rankings
    items : int32 (n_entries,)
    features : float64 (n_users, n_features), optional
        0 if nothing is known.
    pull : float64 (n_kept, n_columns + 1), optional
        Of one user, what friends say under every draw: what is added to the prior mean, and how many times as sure.
    """

    rankings: Rankings
    items: Int32Array
    features: Float64Array | None = None
    pull: Float64Array | None = None


@dataclass(frozen=True, eq=False)
class FactoredEstimate(Estimate):
    """Draws of items, or one point estimate, and what follows for users; see the attributes of the model.

    ties: code of the treatment of ties. precision: prior precision of a user's coordinates. rule_of_damping: how the
    factors of longer lists go on; "none" without damping. seed: of the order in which tied items are put.
    """

    item_draws: Array
    user_modes: Array
    factor_scale: float
    temperature: float
    thresholds: Float64Array
    co_listing: Float64Array = field(metadata=formerly("company"))
    user_slopes: Array
    item_variances: Array
    curve: Float64Array
    damping: Float64Array
    personal_weight: float = field(metadata=absent(1.0))
    item_effects: Array = field(metadata=absent(NO_EFFECTS), default_factory=lambda: NO_EFFECTS)
    pair_effects: Array = field(metadata=absent(NO_EFFECTS), default_factory=lambda: NO_EFFECTS)
    item_shares: Array = field(metadata=absent(NO_EFFECTS), default_factory=lambda: NO_EFFECTS)
    user_shares: Array = field(metadata=absent(NO_EFFECTS), default_factory=lambda: NO_EFFECTS)
    link_strength: Array = field(metadata=absent(NO_EFFECTS), default_factory=lambda: NO_EFFECTS)
    ties: int = field(metadata=RULE, kw_only=True)
    precision: float = field(metadata=RULE, kw_only=True)
    rule_of_damping: str = field(metadata=RULE, kw_only=True)
    seed: int = field(metadata=RULE, kw_only=True)

    @property
    def n_factors(self) -> int:
        """K; with proportional odds a user's level comes after the factors."""
        return int(self.user_modes.shape[2]) - self.odds

    @cached_property
    def odds(self) -> bool:
        """Whether ratings have proportional odds; else thresholds stand in lists, and have factors like items."""
        return np.size(self.thresholds) > 0 and not self.item_draws[:, self.n_items :, :-1].any()

    @property
    def n_items(self) -> int:
        """Items; thresholds between ratings are numbered after them."""
        return int(self.item_draws.shape[1] - np.size(self.thresholds))

    @property
    def is_damped(self) -> bool:
        """Whether scores count less at later stages."""
        return self.rule_of_damping != "none"

    def precisions(self) -> Float64Array:
        """Prior precision of each coordinate of a user."""
        return np.full(self.user_modes.shape[2], self.precision)

    def slopes(self, draw: int) -> Float64Array:
        """How the prior mean of a user depends on what the user lists, under one draw."""
        return np.asarray(self.user_slopes[draw], np.float64)

    def lists(self, said: Said) -> tuple[Lists, int]:
        """Lists as they were learnt from, and the treatment of their ties (see kernels/factored/users.py)."""
        if self.odds and said.rankings.ratings is not None:
            return odds_lists(said.rankings, self.thresholds, said.items), -self.thresholds.size
        thresholds = np.zeros(0) if self.odds else self.thresholds
        return anchored_lists(said.rankings, thresholds, self.n_items, said.items), self.ties

    def coordinates(self, said: Said, *, alone: bool = False) -> Float64Array:
        """Coordinates of users by what they list (co_listing.py); ``alone``: as if every ranking were a user's."""
        bounds = said.rankings.indptr if alone else said.rankings.indptr[said.rankings.user_indptr]
        found = user_coordinates(np.asarray(self.co_listing, np.float64), *frozen(bounds, said.items))
        features = np.zeros((len(found), self.n_user_features))
        if said.features is not None:
            features[:] = (
                np.repeat(said.features, np.diff(said.rankings.user_indptr), axis=0) if alone else said.features
            )
        return np.hstack((found, features))

    @property
    def n_user_features(self) -> int:
        """Columns of users' features; their slopes come after those of co-listing."""
        return int(self.user_slopes.shape[1] - self.co_listing.shape[1])

    def scores(self, items: Int64Array, modes: Float64Array) -> Float64Array:
        """Scores of items for a user with these modes (n_kept, K), averaged over the draws."""
        chosen = self.item_draws[:, items].astype(np.float64)
        # Sums of each item by itself: the same bits in whatever order items are asked for.
        personal = np.einsum("dik,dk->di", chosen[:, :, :-1], modes).sum(axis=0)
        total = self.personal_weight * personal + chosen[:, :, -1].sum(axis=0)
        return np.asarray(total * (self.temperature / chosen.shape[0]))

    def score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """Scores of many users and items, averaged over the draws."""
        total = np.zeros(who.size)
        for theta, modes in zip(self.item_draws, self.user_modes, strict=True):
            rows = theta[what]
            total += self.personal_weight * np.einsum("ek,ek->e", rows[:, :-1], modes[who]) + rows[:, -1]
        return np.asarray(total * (self.temperature / len(self.item_draws)))

    def score_rows(self, modes: Array) -> Array:
        """Scores of all items for users with these modes (n_kept, n_users, K), averaged: float32 (n_users, n_items).

        A mean over draws of products is one product: of all the draws of a user, side by side, and those of an item.
        For few users it does not pay to put the draws of the items side by side.
        """
        n_kept, n_users, n_columns = modes.shape
        modes = (self.personal_weight * modes).astype(np.float32)
        if n_users <= _FEW_USERS:
            ones, rows = np.ones((n_users, 1), np.float32), np.zeros((n_users, self.n_items), np.float32)
            for theta, each in zip(self.item_draws[:, : self.n_items], modes, strict=True):
                rows += np.hstack((each, ones)) @ theta.T
            return rows * np.float32(self.temperature / n_kept)
        side_by_side = np.ascontiguousarray(modes.transpose(1, 0, 2)).reshape(n_users, n_kept * n_columns)
        rows = np.empty((n_users, self.n_items), np.float32)
        size = max(1, _NUMBERS_AT_A_TIME // max(1, n_kept * n_columns))
        for first in range(0, self.n_items, size):
            part = self.item_draws[:, first : min(first + size, self.n_items)]
            of_items = part[:, :, :-1].transpose(0, 2, 1).reshape(n_kept * n_columns, part.shape[1])
            rows[:, first : first + size] = side_by_side @ of_items + part[:, :, -1].sum(axis=0)
        return rows * np.float32(self.temperature / n_kept)

    def score_draws(self, items: Int64Array, users: Float64Array) -> Float64Array:
        """Scores of items under draws of a user (n_kept, size, K), the items' own uncertainty included.

        Returns (n_kept * size, n_items).
        """
        theta = self.item_draws[:, items].astype(np.float64)
        scores = np.einsum("dik,djk->dji", theta[:, :, :-1], users)
        spread = np.sqrt(self.item_variances[:, None, items].astype(np.float64))
        scores += spread * item_noise(items, scores.shape[0], scores.shape[1], stream_key(2))
        scores = self.personal_weight * scores + theta[:, None, :, -1]
        return np.asarray(self.temperature * scores.reshape(scores.shape[0] * scores.shape[1], items.size))

    def damping_of(self, n: int) -> Float64Array:
        """Factors of n stages; a sequence that is too short goes on with its last value."""
        return damping_sequence(self.rule_of_damping if self.rule_of_damping in _FORMULAS else self.damping, n)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        shape, n_kept, k = np.shape(self.item_draws), len(self.item_draws), np.shape(self.user_modes)[-1]
        thresholds = np.asarray(self.thresholds)
        if thresholds.ndim != 1 or np.any(np.diff(thresholds) <= 0):
            raise InputError("thresholds_ is not an ascending list of ratings")
        if not float(self.temperature) > 0:
            raise InputError(f"temperature_ is {self.temperature}, which is not above 0")
        if not float(self.personal_weight) > 0:
            raise InputError(f"personal_weight_ is {self.personal_weight}, which is not above 0")
        if shape != (n_kept, n_items + thresholds.size, k + 1):
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the items and factors")
        if np.shape(self.user_modes) != (n_kept, n_users, k):
            raise InputError(f"user_modes_ has shape {np.shape(self.user_modes)}, which does not fit the users")
        table, slopes = np.shape(self.co_listing), np.shape(self.user_slopes)
        if (
            len(table) != 2
            or table[0] != n_items
            or len(slopes) != 3
            or slopes != (n_kept, max(slopes[1], table[1]), k)
        ):
            raise InputError(f"co_listing_ and user_slopes_ have shapes {table} and {slopes}, which do not fit")
        if np.shape(self.item_variances) != shape[:2] or np.any(np.asarray(self.item_variances) < 0):
            raise InputError("item_variances_ does not fit the items, or holds values below 0")
        check_damping(np.asarray(self.damping))


def rule_of(damping: str | Sequence[float]) -> str:
    """The word for a damping; numbers are "given"."""
    return damping if isinstance(damping, str) else "given"


def check_damping(damping: object) -> None:
    """Raise unless it is a known word, or numbers that begin above 0, never rise and end at 0 or above."""
    if isinstance(damping, str) or damping is None:
        require_choice("damping", damping, KINDS)
        return
    try:
        values = np.asarray(damping, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"damping={damping!r}, expected 'none', 'log', 'natural_log', 'learned' or numbers: a factor for each stage"
        ) from error
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"damping has the shape {values.shape}, expected one number for each stage")
    if not (np.isfinite(values) & (values >= 0.0)).all():
        place = int(np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))[0])
        raise InputError(f"damping of stage {place + 1} is {values[place]:g}, expected a finite number from 0")
    if values[0] == 0.0:
        raise InputError("damping begins with 0, expected a number above 0: every choice would be uniform")
    if (np.diff(values) > 0.0).any():
        place = int(np.flatnonzero(np.diff(values) > 0.0)[0])
        raise InputError(
            f"damping rises from {values[place]:g} at stage {place + 1} to {values[place + 1]:g}; later choices count "
            "less, so it must never rise"
        )
