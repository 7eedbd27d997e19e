"""Answers of the factored model under Benter's damping (§3.1), which is a law of strict orders.

P(ranking | u) = Π_i e^{ρ_i s_i} / Σ_{j >= i} e^{ρ_i s_j}, ρ_1 >= ρ_2 >= ... >= 0: how much scores count depends on
the stage, so the order of some items is no longer a race that leaves the others out. Every answer is about a list of
the items asked for, whose first stage has ρ_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from permrank.checks import one_of
from permrank.data.rankings import Rankings
from permrank.distributions.base import RankingDistribution
from permrank.distributions.damped import DampedLuce, damped_likelihoods
from permrank.errors import InputError
from permrank.kernels.factored.point import climb_users
from permrank.kernels.plackett_luce.damping import damping_sequence
from permrank.models.factored.distribution import _USER_DRAWS
from permrank.models.factored.explain import Neighbours
from permrank.models.factored.point import blocks_of_users
from permrank.models.users import UserReference
from permrank.ragged import frozen
from permrank.types import Float64Array, Int64Array

KINDS = ("none", "log", "natural_log", "learnt")
# Of these the factors of any stage are known, also of lists longer than those learnt from.
_FORMULAS = ("log", "natural_log")
# Steps of a new user's ascent, and of conjugate gradients in each; quadratic convergence needs about six.
_STEPS, _CONJUGATE = 30, 30
# Step of a difference of gradients: the cube root of the rounding of float64, for scores of size one.
_DIFFERENCE = 1e-5


def check_damping(damping: object) -> None:
    """Raise unless it is a known word, or numbers that begin above 0, never rise and end at 0 or above."""
    if isinstance(damping, str) or damping is None:
        one_of("damping", damping, KINDS)
        return
    try:
        values = np.asarray(damping, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"damping={damping!r}, expected 'none', 'log', 'natural_log', 'learnt' or numbers: the factor of each stage"
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


class DampedAnswers(Neighbours):
    """Answers under damping where there is one; those of the race otherwise."""

    damping: str | Sequence[float]
    damping_: Any
    seed: int

    @property
    def _is_damped(self) -> bool:
        return not (isinstance(self.damping, str) and self.damping == "none")

    def _damping_of(self, n: int) -> Float64Array:
        """Factors of n stages; a sequence that is too short goes on with its last value."""
        by_formula = isinstance(self.damping, str) and self.damping in _FORMULAS
        return damping_sequence(self.damping if by_formula else self.damping_, n)

    def _strict(self, rankings: Rankings, question: str) -> None:
        if rankings.has_ties:
            raise InputError(
                f"{question} under damping is defined for strict orders only, and these rankings have ties"
            )

    def _fold_in_damped(self, rankings: Rankings) -> Float64Array:
        """Modes of new users; ties are put into a random order, the same one for the same seed."""
        if rankings.has_ties:
            rankings = rankings.shuffled_ties(self.seed)
        (items,) = frozen(self._aligned_items(rankings))
        (theta,) = self.item_draws_
        n_items, size = theta.shape
        modes = np.zeros((rankings.n_users, size - 1), np.float32)
        bounds = blocks_of_users(rankings, size - 1)
        n_blocks, damping = bounds.size - 1, self._damping_of(int(np.diff(rankings.indptr).max(initial=1)))
        climb_users(
            bounds, rankings.user_indptr, rankings.indptr, items, rankings.levels, rankings.weights, 0, damping,
            np.array(theta), np.float32(self._precision()[0]), modes, _STEPS, _CONJUGATE,
            np.empty((n_blocks, n_items, size + 1), np.float32), np.empty((n_blocks, size)),
            np.empty((n_blocks, damping.size)),
        )  # fmt: skip
        return modes[:, None].astype(np.float64)

    def _likelihoods(self, scores: Float64Array) -> tuple[Float64Array, Float64Array]:
        return damped_likelihoods(scores, self._damping_of(scores.shape[1]))

    def _laplace(self, lists: list[Any], weights: Any, mode: Float64Array) -> Float64Array:
        """Precision of a user's vector at its mode, by differences of the gradient: (K, K)."""
        theta = self.item_draws_[0].astype(np.float64)
        precision = np.diag(self._precision())
        around = mode + _DIFFERENCE * np.concatenate((np.eye(mode.size), -np.eye(mode.size)))
        for items, weight in zip(lists, weights, strict=True):
            rows = theta[items]
            _, gradients = self._likelihoods(around @ rows[:, :-1].T + rows[:, -1])
            up, down = np.split(gradients @ rows[:, :-1], 2)
            precision -= weight * (up - down) / (2.0 * _DIFFERENCE)
        return 0.5 * (precision + precision.T)

    def _user_draws(self, user: UserReference, size: int = _USER_DRAWS) -> Float64Array:
        if not self._is_damped:
            return super()._user_draws(user, size)
        _, bounds, items, _, weights = self._user_lists(user)
        mode = self._modes(user)[0]
        lists = np.split(items, bounds[1:-1]) if weights.size else []
        lower = np.linalg.cholesky(self._laplace(lists, weights, mode))
        noise = np.random.default_rng(0).normal(size=(mode.size, size))
        return np.asarray(mode + np.linalg.solve(lower.T, noise).T)[None]

    @property
    def _knows_ranks(self) -> bool:
        # A draw of n items takes n² steps under damping: too many for intervals over a catalogue.
        return not self._is_damped

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        if not self._is_damped:
            return super()._distribution(user, items)
        return DampedLuce(self._score_draws(user, items), self._damping_of(items.size))

    def explain(self, user: object, item: object) -> pl.DataFrame:
        """Which listed items pushed this one up or down for the user, and by how much (see `Neighbours`)."""
        if self._is_damped:
            self._refuse("explain with damping; fit with damping='none', for which a score is a sum over the list,")
        return super().explain(user, item)

    def log_likelihood_with_error(self, rankings: Rankings, size: int = 64) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities with the user integrated out, and their standard errors (see `PosteriorAnswers`)."""
        if not self._is_damped:
            return super().log_likelihood_with_error(rankings, size)
        self._require_fitted()
        self._check_points(size, rankings.n_rankings)
        self._strict(rankings, "log_likelihood")
        n, theta, precision = rankings.n_rankings, self.item_draws_[0].astype(np.float64), self._precision()
        items = self._aligned_items(rankings)
        alone = Rankings._trusted(
            np.arange(n + 1), rankings.indptr, rankings.items, rankings.levels, np.ones(n), rankings.user_ids,
            rankings.item_ids,
        )  # fmt: skip
        modes = self._fold_in_damped(alone)[:, 0]
        rng, values, errors = np.random.default_rng(1), np.empty(n), np.empty(n)
        for r in range(n):
            own = items[rankings.indptr[r] : rankings.indptr[r + 1]]
            lower = np.linalg.cholesky(self._laplace([own], [1.0], modes[r]))
            noise = rng.normal(size=(size, precision.size))
            points = modes[r] + np.linalg.solve(lower.T, noise.T).T
            likelihood, _ = self._likelihoods(points @ theta[own, :-1].T + theta[own, -1])
            log_prior = 0.5 * np.sum(np.log(precision)) - 0.5 * (points**2 @ precision)
            log_proposal = np.sum(np.log(np.diag(lower))) - 0.5 * np.sum(noise**2, axis=1)
            logs = likelihood + log_prior - log_proposal
            worths = np.exp(logs - logs.max())
            values[r] = logs.max() + np.log(worths.mean())
            errors[r] = worths.std() / (worths.mean() * np.sqrt(size))
        return values, errors
