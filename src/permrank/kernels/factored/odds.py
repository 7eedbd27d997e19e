"""Ratings by proportional odds: their likelihood given scores and thresholds, and what the thresholds need.

An item of score s is rated above a threshold of score c with probability σ(s - c), the Plackett-Luce probability that
it is chosen over the threshold; thresholds are the same for everybody, and in order. The rating between the thresholds
a < b then has probability σ(s - a) - σ(s - b) = σ(s - a) σ(b - s) (1 - e^(a - b)): the item beats the threshold below
it and loses to the one above, and the last factor is about the thresholds alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.factored.choices import exponentials
from permrank.kernels.jit import njit, prange

Array = NDArray[Any]

# A threshold that is never passed, and one that always is; e^-700 is next to nothing, and no number below it is needed.
_BEYOND, _FARTHEST = 1e300, -700.0
# Beyond this gap between two thresholds nothing is curved any more, and e^gap would overflow much later.
MOST_CURVED = 50.0


def edges_of(thetas: Array, n_thresholds: int) -> Array:
    """Scores of the thresholds, the last rows of theta, between two that lie beyond everything: (n_thresholds + 2,).

    Of several draws of theta, a row for each.
    """
    edges = np.full((*thetas.shape[:-2], n_thresholds + 2), _BEYOND)
    edges[..., 0] = -_BEYOND
    edges[..., 1:-1] = thetas[..., thetas.shape[-2] - n_thresholds :, -1]
    return edges


@njit(error_model="numpy")
def odds_statistics(levels, edges, of_user, a, b):
    """log P of the ratings of the entries a to b of a user, but for what is about the thresholds alone.

    ``levels`` holds how many thresholds lie below each, ``edges`` is `edges_of` theta. Fills expected = -d²/ds² and
    made = d/ds + expected.
    """
    scores, made, expected, n = of_user.scores[a:b], of_user.made[a:b], of_user.expected[a:b], b - a
    over, under, away = of_user.worths[a:b], of_user.exposure[a:b], of_user.own[a:b]
    for e in range(n):
        away[e] = max(-abs(scores[e] - edges[levels[e]]), _FARTHEST)
    exponentials(away, n, 0.0, of_user.powers, of_user.bits, over)
    for e in range(n):
        away[e] = max(-abs(edges[levels[e] + 1] - scores[e]), _FARTHEST)
    exponentials(away, n, 0.0, of_user.powers, of_user.bits, under)
    # -log σ(x) = log(1 + e^-|x|) + max(0, -x): the logarithm is taken of products, which is rarer.
    value, product = 0.0, 1.0
    for e in range(n):
        x, y = scores[e] - edges[levels[e]], edges[levels[e] + 1] - scores[e]
        product *= (1.0 + over[e]) * (1.0 + under[e])
        if product > 1e150:
            value -= math.log(product)
            product = 1.0
        value += min(x, 0.0) + min(y, 0.0)
    value -= math.log(product)
    for e in range(n):
        x, y = scores[e] - edges[levels[e]], edges[levels[e] + 1] - scores[e]
        p = (over[e] if x > 0.0 else 1.0) / (1.0 + over[e])
        q = (under[e] if y > 0.0 else 1.0) / (1.0 + under[e])
        bend = p * (1.0 - p) + q * (1.0 - q)
        expected[e] = bend
        made[e] = p - q + bend
    return value


@njit(error_model="numpy")
def _lost(gradient, curvature):
    """Probabilities p and q that the rating was not above the threshold below it, and not below the one above it.

    From what `odds_statistics` leaves of an entry: p - q and p (1 - p) + q (1 - q). Their sum is at most 1, because the
    thresholds are in order, so that one of two roots remains.
    """
    both = 1.0 - math.sqrt(max(0.0, 1.0 - 2.0 * curvature - gradient * gradient))
    return 0.5 * (both + gradient), 0.5 * (both - gradient)


@njit(error_model="numpy")
def _add_thresholds(first, last, lists, entries, sums):
    """`threshold_sums` of the users from ``first`` to ``last``."""
    n_thresholds = sums.shape[0]
    for r in range(lists.user_indptr[first], lists.user_indptr[last]):
        weight = lists.weights[r]
        if weight == 0.0:
            continue
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            below = lists.levels[e]
            p, q = _lost(entries.residual[e] / weight, entries.curvature[e] / weight)
            if below > 0:
                sums[below - 1, 0] -= weight * p
                sums[below - 1, 1] += weight * p * (1.0 - p)
            if below < n_thresholds:
                sums[below, 0] += weight * q
                sums[below, 1] += weight * q * (1.0 - q)
                sums[below, 2] += weight


@njit(error_model="numpy", parallel=True)
def threshold_sums(bounds, lists, entries, n_thresholds):
    """Sums of every block for each threshold, (n_blocks, n_thresholds, 3), the gaps between thresholds left out.

    Derivative of log P by it, minus the second derivative, weight of the entries just below it; entries: what the pass
    over the users says of them.
    """
    n_blocks = bounds.size - 1
    sums = np.zeros((n_blocks, n_thresholds, 3))
    for b in prange(n_blocks):
        _add_thresholds(bounds[b], bounds[b + 1], lists, entries, sums[b])
    return sums
