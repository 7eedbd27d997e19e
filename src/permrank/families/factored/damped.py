"""Users of the factored model under Benter's damping (§3.1), which is a law of strict orders.

P(ranking | u) = Π_i e^{ρ_i s_i} / Σ_{j >= i} e^{ρ_i s_j}, ρ_1 >= ρ_2 >= ... >= 0: how much scores count depends on
the stage, so the order of some items is no longer a race that leaves the others out. Every answer is about a list of
the items asked for, whose first stage has ρ_1. The same three functions as in undamped.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.errors import InputError
from permrank.families.factored.estimate import FactoredEstimate
from permrank.families.factored.kernels import Steps, Sums, climb_users
from permrank.families.factored.point import blocks_of_users
from permrank.kernels.lists import Lists
from permrank.kernels.luce.damping import damped_rankings, damped_statistics
from permrank.posterior.estimate import Evidence
from permrank.posterior.kernels.choices import Law
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array


def damped_likelihoods(scores: Float64Array, damping: Float64Array) -> tuple[Float64Array, Float64Array]:
    """log P of the same items in the same order under each row of scores, and its gradients: (rows,), (rows, n).

    damping: (n,), the factors of the stages.
    """
    rows, n = scores.shape
    chosen, expected, unused = np.empty((3, rows * n))
    values = damped_statistics(
        np.arange(rows + 1) * n, np.ascontiguousarray(scores).ravel(), damping, chosen, expected, unused
    )
    return values, (chosen - expected).reshape(rows, n)


class DampedLuce(RankingDistribution):
    """P(ranking) = mean over d of Π_i e^{ρ_i s_di} / Σ_{j >= i} e^{ρ_i s_dj}, with ρ_1 >= ρ_2 >= ... >= 0.

    A law of strict orders of exactly these items, the first stage of which has ρ_1.

    Parameters
    ----------
    scores : float64 (n_draws, n)
    damping : float64 (n,)
        ρ.
    """

    _nanoseconds = 10.0

    def __init__(self, scores: Float64Array, damping: Float64Array) -> None:
        self.scores, self.damping = scores, damping

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.scores.shape[1])

    def _prefers(self, first: int, second: int) -> float:
        """Return the probability that one item is ranked before the other, where they are the only two."""
        if self.n_items > 2:
            return super()._prefers(first, second)
        scores = self.damping[0] * self.scores
        gap = np.clip(scores[:, second] - scores[:, first], -700.0, 700.0)
        return float(np.mean(1.0 / (1.0 + np.exp(gap))))

    def _top(self, k: int) -> Float64Array:
        """Return the probability of each item to be first; for larger ``k`` there is no closed form."""
        if k != 1:
            raise InputError(f"k={k}, but under damping only k=1 has a closed form; count the rows of sample() instead")
        from permrank.core.luce import LuceMixture

        return LuceMixture(self.damping[0] * self.scores).top(1)

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Return the probabilities of the positions of the last item, given the order of the others (§3.2.2)."""
        n = self.n_items - 1
        if levels.size and levels[-1] != levels.size - 1:
            raise InputError("under damping a position is defined in a strict order only, and the user's list has ties")
        orders = np.array([np.insert(np.arange(n), j, n) for j in range(n + 1)])
        total = np.zeros(n + 1)
        for row in self.scores:
            values, _ = damped_likelihoods(row[orders], self.damping)
            worths = np.exp(values - values.max())
            total += worths / worths.sum()
        return np.asarray(total / total.sum())

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings, exactly."""
        turns = np.random.default_rng(seed).integers(len(self.scores), size=size)
        return np.asarray(damped_rankings(self.scores, turns, self.damping, stream_key(seed)))

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of all items."""
        logs, _ = damped_likelihoods(self.scores[:, order], self.damping)
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


# Steps of a new user's ascent, and of conjugate gradients in each; quadratic convergence needs about six.
_STEPS, _CONJUGATE = 30, 30
# Step of a difference of gradients: the cube root of the rounding of float64, for scores of size one.
_DIFFERENCE = 1e-5


def fold_in(estimate: FactoredEstimate, evidence: Evidence) -> Float64Array:
    """Modes of new users, (n_users, 1, K); ties are put into a random order, the same one for the same seed."""
    rankings, listed = evidence.rankings, evidence.items
    if rankings.has_ties:
        aligned = rankings.items is listed
        shuffled = rankings.shuffled_ties(estimate.seed)
        # Only the order of tied entries changes: each keeps its number in the model.
        number = np.zeros(rankings.n_items, np.int32)
        number[rankings.items] = listed
        rankings, listed = shuffled, shuffled.items if aligned else number[shuffled.items]
    (items,) = frozen(listed)
    (theta,) = estimate.item_draws
    n_items, size = theta.shape
    modes = np.zeros((rankings.n_users, size - 1), np.float32)
    bounds = blocks_of_users(rankings, size - 1)
    n_blocks, damping = bounds.size - 1, estimate.damping_of(int(np.diff(rankings.indptr).max(initial=1)))
    lists = Lists(rankings.user_indptr, rankings.indptr, items, rankings.levels, rankings.weights)
    gradients, moments = np.empty((n_blocks, n_items, size + 1), np.float32), np.empty((n_blocks, size))
    sums = Sums(gradients, moments, np.empty((n_blocks, damping.size)))
    penalty, steps = np.float32(estimate.precision), Steps(_STEPS, _CONJUGATE)
    climb_users(bounds, lists, Law(0, damping), np.array(theta), penalty, modes, steps, sums)
    return modes[:, None].astype(np.float64)


def _likelihoods(estimate: FactoredEstimate, scores: Float64Array) -> tuple[Float64Array, Float64Array]:
    return damped_likelihoods(scores, estimate.damping_of(scores.shape[1]))


def _laplace(estimate: FactoredEstimate, lists: list[Any], weights: Any, mode: Float64Array) -> Float64Array:
    """Precision of a user's vector at its mode, by differences of the gradient: (K, K)."""
    theta = estimate.item_draws[0].astype(np.float64)
    precision = np.diag(estimate.precisions())
    around = mode + _DIFFERENCE * np.concatenate((np.eye(mode.size), -np.eye(mode.size)))
    for items, weight in zip(lists, weights, strict=True):
        rows = theta[items]
        _, gradients = _likelihoods(estimate, around @ rows[:, :-1].T + rows[:, -1])
        up, down = np.split(gradients @ rows[:, :-1], 2)
        precision -= weight * (up - down) / (2.0 * _DIFFERENCE)
    return 0.5 * (precision + precision.T)


def user_draws(estimate: FactoredEstimate, evidence: Evidence, modes: Float64Array, size: int) -> Float64Array:
    """Draws of one user's vector from the Laplace approximation at the mode (1, K): (1, size, K)."""
    (_, bounds, items, _, weights), _ = estimate.lists(evidence)
    mode = modes[0]
    lists = np.split(items, bounds[1:-1]) if weights.size else []
    lower = np.linalg.cholesky(_laplace(estimate, lists, weights, mode))
    noise = np.random.default_rng(0).normal(size=(mode.size, size))
    return np.asarray(mode + np.linalg.solve(lower.T, noise).T)[None]


def log_likelihoods(estimate: FactoredEstimate, evidence: Evidence, size: int) -> tuple[Float64Array, Float64Array]:
    """Log-probability of each ranking, its user integrated over the prior by importance sampling, and its error."""
    rankings, items = evidence.rankings, evidence.items
    if rankings.has_ties:
        raise InputError("log_likelihood under damping is defined for strict orders only, and these rankings have ties")
    n, theta, precision = rankings.n_rankings, estimate.item_draws[0].astype(np.float64), estimate.precisions()
    alone = Rankings._trusted(
        np.arange(n + 1), rankings.indptr, rankings.items, rankings.levels, np.ones(n), rankings.user_ids,
        rankings.item_ids,
    )  # fmt: skip
    modes = fold_in(estimate, Evidence(alone, items))[:, 0]
    rng, values, errors = np.random.default_rng(1), np.empty(n), np.empty(n)
    for r in range(n):
        own = items[rankings.indptr[r] : rankings.indptr[r + 1]]
        lower = np.linalg.cholesky(_laplace(estimate, [own], [1.0], modes[r]))
        noise = rng.normal(size=(size, precision.size))
        points = modes[r] + np.linalg.solve(lower.T, noise.T).T
        likelihood, _ = _likelihoods(estimate, points @ theta[own, :-1].T + theta[own, -1])
        log_prior = 0.5 * np.sum(np.log(precision)) - 0.5 * (points**2 @ precision)
        log_proposal = np.sum(np.log(np.diag(lower))) - 0.5 * np.sum(noise**2, axis=1)
        logs = likelihood + log_prior - log_proposal
        worths = np.exp(logs - logs.max())
        values[r] = logs.max() + np.log(worths.mean())
        errors[r] = worths.std() / (worths.mean() * np.sqrt(size))
    return values, errors
