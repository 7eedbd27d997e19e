"""Mixtures of Plackett-Luce distributions: one of them, or one for each draw from a posterior."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr

from permrank.core.distribution import RankingDistribution
from permrank.kernels.luce.insertion import insertion_probabilities
from permrank.kernels.luce.race import gumbel_rankings, gumbel_ranks, top_probabilities
from permrank.kernels.luce.ranks import rank_quantiles
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int32Array, Int64Array

# Of `averaged_choice`.
_SHARES = (0.060098803, 0.370247083, 0.460152680, 0.109501434)
_SLOPES = (0.320624018, 0.473757799, 0.696081747, 1.019385581)
# Ranks of so many items are counted: more take longer than a sort of all.
_COUNTED = 64


@cache
def _keys(size: int, seed: int) -> Array:
    """Of the streams of several rankings."""
    return np.array([stream_key(seed, draw) for draw in range(size)], np.uint64)


def averaged_choice(mean: Float64Array, variance: Float64Array) -> Float64Array:
    """1 / (1 + e^-d) averaged over d ~ N(mean, variance): P that one of two items is chosen; errs by less than 1e-5.

    The logistic curve is close to a mixture of normal distribution functions Σ_k p_k Φ(s_k d) (Monahan and Stefanski
    1992; p and s here by least squares), and the average of each is Φ(s_k mean / sqrt(1 + s_k² variance)).
    """
    total = np.zeros(np.broadcast_shapes(np.shape(mean), np.shape(variance)))
    for p, s in zip(_SHARES, _SLOPES, strict=True):
        total += p * ndtr(s * mean / np.sqrt(1.0 + s**2 * variance))
    return total


class LuceMixture(RankingDistribution):
    """P(ranking) = mean over d of Π_i e^{s_di} / Σ_{j >= i} e^{s_dj}   (§3, eq. 1).

    Parameters
    ----------
    scores : float64 (n_draws, n)
        Log-worths s, one row for each component.
    """

    def __init__(self, scores: Float64Array) -> None:
        self.scores = scores

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.scores.shape[1])

    def _prefers(self, first: int, second: int) -> float:
        """Return the probability that one item is ranked before another: mean 1 / (1 + e^{s_second - s_first})."""
        gap = np.clip(self.scores[:, second] - self.scores[:, first], -700.0, 700.0)
        return float(np.mean(1.0 / (1.0 + np.exp(gap))))

    def _top(self, k: int) -> Float64Array:
        """Return the probability of each item to be among the first ``k``."""
        k = min(k, self.n_items)
        return np.asarray(np.mean([top_probabilities(row, k) for row in self.scores], axis=0))

    def _top_of(self, chosen: Int64Array, k: int) -> Float64Array:
        return self._top(k)[chosen] if len(self.scores) == 1 or k >= self.n_items else super()._top_of(chosen, k)

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Return the probabilities of the positions of the last item, given the order of the others (§3.2.2).

        A tie says nothing about the order inside it: all its orders are summed over, each with its probability.
        """
        parts = [insertion_probabilities(levels, row[:-1].copy(), row[-1]) for row in self.scores]
        return np.asarray(np.mean(parts, axis=0))

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings, exactly; several components take turns."""
        if len(self.scores) == 1:
            return np.asarray(gumbel_rankings(self.scores[0].copy(), stream_key(seed), size))
        rows = self.scores[self._turns(size, seed)]
        orders = [gumbel_rankings(row, key, 1)[0] for row, key in zip(rows, _keys(size, seed), strict=True)]
        return np.stack(orders) if orders else np.zeros((0, self.n_items), np.int32)

    def _turns(self, size: int, seed: int) -> Int64Array:
        """Which component each of several rankings is drawn from."""
        return np.resize(np.random.default_rng(seed).permutation(len(self.scores)), size)

    def _sample_ranks(self, chosen: Int64Array, size: int) -> Int32Array:
        """The ranks of few items are counted, without a sort of all; the rankings are those of `_sample`."""
        if len(self.scores) == 1 or chosen.size > _COUNTED:
            return super()._sample_ranks(chosen, size)
        return np.asarray(gumbel_ranks(self.scores, self._turns(size, 0), _keys(size, 0), chosen))

    def _rank_quantiles(self, chosen: Int64Array, probabilities: Float64Array) -> Int64Array:
        """Quantiles of the ranks of some items; of one component exactly, of several from draws."""
        if len(self.scores) > 1 or chosen.size == 0:
            return super()._rank_quantiles(chosen, probabilities)
        return np.asarray(rank_quantiles(self.scores[0].copy(), chosen, probabilities))

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of all items."""
        ranked = self.scores[:, order]
        rest = np.logaddexp.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]
        logs = np.sum(ranked - rest, axis=1)
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))
