"""Benter's damping (§3.1): how much scores count depends on the stage, so the order of some items is no race."""

from __future__ import annotations

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.errors import InputError
from permrank.kernels.luce.damping import damped_rankings, damped_statistics
from permrank.randomness import stream_key
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
