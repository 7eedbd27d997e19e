"""Ratings by proportional odds: their likelihood given scores and thresholds, and what the thresholds need.

An item of score s is rated above a threshold of score c with probability σ(s - c), the Plackett-Luce probability that
it is chosen over the threshold; thresholds are the same for everybody, and in order. The rating between the thresholds
a < b then has probability σ(s - a) - σ(s - b) = σ(s - a) σ(b - s) (1 - e^(a - b)): the item beats the threshold below
it and loses to the one above, and the last factor is about the thresholds alone.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange

# Beyond this gap between two thresholds nothing is curved any more, and e^gap would overflow much later.
MOST_CURVED = 50.0


@njit(error_model="numpy", inline="always")
def _lost(x):
    """1 - σ(x) and -log σ(x), without overflow."""
    small = math.exp(-abs(x))
    if x > 0.0:
        return small / (1.0 + small), math.log1p(small)
    return 1.0 / (1.0 + small), math.log1p(small) - x


@njit(error_model="numpy")
def odds_statistics(levels, scores, start, stop, theta, n_thresholds, chosen, expected):
    """log P of the ratings of the entries start to stop, but for what is about the thresholds alone.

    ``levels`` holds how many thresholds lie below each; those are the last rows of theta, their scores the last column.
    Fills expected = -d²/ds² and chosen = d/ds + expected.
    """
    first, last, value = theta.shape[0] - n_thresholds, theta.shape[1] - 1, 0.0
    for e in range(start, stop):
        below, bend, slope = levels[e], 0.0, 0.0
        if below > 0:
            p, loss = _lost(scores[e] - theta[first + below - 1, last])
            slope += p
            bend += p * (1.0 - p)
            value -= loss
        if below < n_thresholds:
            p, loss = _lost(theta[first + below, last] - scores[e])
            slope -= p
            bend += p * (1.0 - p)
            value -= loss
        expected[e] = bend
        chosen[e] = slope + bend
    return value


@njit(error_model="numpy", parallel=True)
def threshold_sums(bounds, lists, theta, n_thresholds, users):
    """Sums of every block for each threshold, (n_blocks, n_thresholds, 3), the gaps between thresholds left out.

    Derivative of log P by it, minus the second derivative, weight of the entries just below it.
    """
    n_blocks, n_factors = bounds.size - 1, users.shape[1]
    first = theta.shape[0] - n_thresholds
    sums = np.zeros((n_blocks, n_thresholds, 3))
    for b in prange(n_blocks):
        for u in range(bounds[b], bounds[b + 1]):
            for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
                weight = lists.weights[r]
                for e in range(lists.indptr[r], lists.indptr[r + 1]):
                    row, below = theta[lists.items[e]], lists.levels[e]
                    score = row[n_factors]
                    for k in range(n_factors):
                        score += users[u, k] * row[k]
                    if below > 0:
                        p, _ = _lost(score - theta[first + below - 1, n_factors])
                        sums[b, below - 1, 0] -= weight * p
                        sums[b, below - 1, 1] += weight * p * (1.0 - p)
                    if below < n_thresholds:
                        p, _ = _lost(theta[first + below, n_factors] - score)
                        sums[b, below, 0] += weight * p
                        sums[b, below, 1] += weight * p * (1.0 - p)
                        sums[b, below, 2] += weight
    return sums
