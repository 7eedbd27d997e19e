"""What the factored Plackett-Luce model has learnt, and how its answers are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from permrank.checks import require_choice
from permrank.core.estimates import RULE
from permrank.core.luce import averaged_choice
from permrank.errors import InputError
from permrank.kernels.lists import Lists
from permrank.kernels.low_rank import joint_gram
from permrank.kernels.luce.damping import damping_sequence
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION
from permrank.posterior.effects import NO_EFFECTS
from permrank.posterior.estimate import DrawsEstimate, Evidence
from permrank.posterior.kernels.items import item_noise
from permrank.posterior.problem import lists_of, odds_lists
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int64Array

TIES = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION, "shuffle": EXACT}
KINDS = ("none", "log", "natural_log", "learned")
# Of these the factors of any stage are known, also of lists longer than those learnt from.
_FORMULAS = ("log", "natural_log")
# Rows of so many pairs fit a cache.
_PAIRS_AT_A_TIME = 1 << 13
# Of the noise of items.
_NOISE = stream_key(2)


@dataclass(frozen=True, eq=False, kw_only=True)
class FactoredEstimate(DrawsEstimate):
    """Mean scores and some draws of items, or one point estimate; see the attributes of the model.

    ties: code of the treatment of ties. precision: prior precision of a user's coordinates. rule_of_damping: how the
    factors of longer lists go on; "none" without damping. seed: of the order in which tied items are put.
    """

    user_factors: Array
    item_factors: Array
    item_intercepts: Array
    bases: Array
    factor_scale: float
    temperature: float = 1.0
    item_variances: Array
    curve: Float64Array = field(default_factory=lambda: np.zeros((0, 3)))
    damping: Float64Array = field(default_factory=lambda: np.ones(1))
    personal_weight: float = 1.0
    score_error: float = 0.0
    start_objectives: Array = field(default_factory=lambda: NO_EFFECTS)
    ties: int = field(metadata=RULE)
    precision: float = field(metadata=RULE)
    rule_of_damping: str = field(metadata=RULE)

    @property
    def n_items(self) -> int:
        """Items; thresholds between ratings are numbered after them."""
        return int(self.item_draws.shape[1] - np.size(self.thresholds))

    @property
    def is_point(self) -> bool:
        """Whether it is the one of ``method="point"``."""
        return self.factor_scale == 0.0

    @property
    def is_damped(self) -> bool:
        """Whether scores count less at later stages."""
        return self.rule_of_damping != "none"

    def precisions(self) -> Float64Array:
        """Prior precision of each coordinate of a user."""
        return np.full(self.n_columns, self.precision)

    def slopes(self, draw: int) -> Float64Array:
        """How the prior mean of a user depends on what the user lists, under one draw."""
        return np.asarray(self.user_slopes[draw], np.float64)

    def users_in_mean(self) -> Array:
        """Users in the mean scores, (n_users, rank)."""
        return self.user_factors

    def factor_bases(self) -> Array:
        """What a user's factors under each draw are in the basis of the mean."""
        return self.bases

    def lists(self, evidence: Evidence) -> tuple[Lists, int]:
        """Lists as they were learnt from, and the treatment of their ties (see posterior/kernels/users.py)."""
        if self.odds and evidence.rankings.ratings is not None:
            return odds_lists(evidence.rankings, self.thresholds, evidence.items), -self.thresholds.size
        return lists_of(evidence.rankings, evidence.items), self.ties

    def mean_factors(self, modes: Float64Array) -> Float64Array:
        """Factors of users in the mean scores, (n_users, rank), by their modes under the draws (n_users, n_kept, K)."""
        return np.asarray(np.einsum("udk,dkr->ur", modes[:, :, : self.n_factors], self.bases)) / len(self.bases)

    def scores(self, items: Int64Array, factors: Float64Array) -> Float64Array:
        """Mean scores of items for a user with these factors (rank,)."""
        # Sums of each item by itself: the same bits in whatever order items are asked for.
        personal = np.einsum("ir,r->i", self.item_factors[items].astype(np.float64), factors)
        return np.asarray(self.temperature * (self.personal_weight * personal + self.item_intercepts[items]))

    def score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """Mean scores of many users and items."""
        users, items, personal = self.user_factors, self.item_factors, np.empty(who.size)
        if who.size > len(users) + len(items):  # once for all of them
            users, items = users.astype(np.float32), items.astype(np.float32)
        for first in range(0, who.size, _PAIRS_AT_A_TIME):
            part = slice(first, first + _PAIRS_AT_A_TIME)
            rows = users[who[part]].astype(np.float32), items[what[part]].astype(np.float32)
            np.einsum("er,er->e", *rows, out=personal[part], dtype=np.float32, casting="same_kind")
        return np.asarray(self.temperature * (self.personal_weight * personal + self.item_intercepts[what]))

    @cached_property
    def _item_columns(self) -> Array:
        """What a row of users' factors, with a 1 at the end, is multiplied with: float32 (rank + 1, n_items)."""
        own = np.vstack((self.personal_weight * self.item_factors.T.astype(np.float32), self.item_intercepts))
        return np.ascontiguousarray(np.float32(self.temperature) * own, np.float32)

    def score_rows(self, factors: Array) -> Array:
        """Mean scores of all items for users with these factors (n_users, rank): float32 (n_users, n_items)."""
        ones = np.ones((len(factors), 1), np.float32)
        return np.asarray(np.hstack((factors.astype(np.float32), ones)) @ self._item_columns)

    @cached_property
    def _grams(self) -> tuple[Float64Array, Float64Array]:
        """Second moments of the users' and of the items' factors: (rank, rank)."""
        none = np.zeros((0, 0))
        users, items = (
            joint_gram(np.ascontiguousarray(factors, np.float32), none, np.int64(0))
            for factors in (self.user_factors, self.item_factors)
        )
        return users, items

    def likeness_of_items(self, factors: Array) -> Float64Array:
        """Cosine of what users make of an item and of every item, by their factors."""
        return _cosines(self.item_factors, factors, self._grams[0])

    def likeness_of_users(self, factors: Array) -> Float64Array:
        """Cosine of what a user and every user make of the items, by their factors."""
        return _cosines(self.user_factors, factors, self._grams[1])

    def score_draws(self, items: Int64Array, users: Float64Array) -> Float64Array:
        """Scores of items under draws of a user (n_kept, size, K), the items' own uncertainty included.

        Returns (n_kept * size, n_items).
        """
        theta = self.item_draws[:, items].astype(np.float32).astype(np.float64)  # float16 in one step is slow
        spread = np.sqrt(self.item_variances[:, None, items].astype(np.float64))
        (n_kept, size, _), weight = users.shape, self.temperature * self.personal_weight
        scores = item_noise(items, n_kept, size, _NOISE)
        scores *= weight * spread
        # Each item by itself: the same bits in whatever company it is asked for.
        scores += np.einsum("dik,djk->dji", theta[:, :, :-1], weight * users)
        scores += self.temperature * theta[:, None, :, -1]
        return np.asarray(scores.reshape(n_kept * size, items.size))

    def prefers(
        self, first: Int64Array, second: Int64Array, gaps: Float64Array, modes: Float64Array, roots: Float64Array
    ) -> Float64Array:
        """Probabilities that one item is ranked before another, for several pairs.

        Given a draw of the items the difference of two scores is normal, with the user (`undamped.user_roots`) and the
        items' own uncertainty, and the draws are put around the differences of the mean scores, ``gaps``.
        """
        rows = self.item_draws[:, first].astype(np.float64) - self.item_draws[:, second]
        variances = self.item_variances.astype(np.float64)
        weight = self.temperature * self.personal_weight
        means = weight * np.einsum("dpk,dk->dp", rows[:, :, :-1], modes) + self.temperature * rows[:, :, -1]
        spread = np.sum(np.einsum("dpk,djk->dpj", rows[:, :, :-1], roots) ** 2, axis=2)
        spread += variances[:, first] + variances[:, second]
        return np.asarray(averaged_choice(means + gaps - means.mean(axis=0), weight**2 * spread).mean(axis=0))

    def damping_of(self, n: int) -> Float64Array:
        """Factors of n stages; a sequence that is too short goes on with its last value."""
        return damping_sequence(self.rule_of_damping if self.rule_of_damping in _FORMULAS else self.damping, n)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        shape, n_kept, rank = np.shape(self.item_draws), len(self.item_draws), np.shape(self.user_factors)[-1]
        if not float(self.temperature) > 0:
            raise InputError(f"temperature_ is {self.temperature}, which is not above 0")
        if not float(self.personal_weight) > 0:
            raise InputError(f"personal_weight_ is {self.personal_weight}, which is not above 0")
        if len(shape) != 3 or n_kept < 1 or shape[1] != n_items + np.size(self.thresholds) or shape[2] < 1:
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the items and factors")
        self.check_shapes(
            user_factors=(n_users, rank), item_factors=(n_items, rank), item_intercepts=(n_items,),
            bases=(n_kept, self.n_factors, rank),
        )  # fmt: skip
        table, slopes = np.shape(self.co_listing), np.shape(self.user_slopes)
        fits = len(table) == 2 and table[0] == n_items and len(slopes) == 3 and slopes[1] >= table[1]
        if not fits or slopes != (n_kept, slopes[1], self.n_columns):
            raise InputError(f"co_listing_ and user_slopes_ have shapes {table} and {slopes}, which do not fit")
        variances = np.asarray(self.item_variances)
        if variances.shape not in (shape[:2], (1, shape[1])) or np.any(variances < 0):
            raise InputError("item_variances_ does not fit the items, or holds values below 0")
        check_damping(np.asarray(self.damping))


def _cosines(rows: Array, target: Array, metric: Float64Array) -> Float64Array:
    rows, target = rows.astype(np.float64), target.astype(np.float64)
    seen = rows @ metric
    lengths = np.sqrt(np.maximum(np.einsum("ir,ir->i", seen, rows) * float(target @ metric @ target), 0.0))
    return np.asarray(seen @ target / np.where(lengths > 0, lengths, 1.0))


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
