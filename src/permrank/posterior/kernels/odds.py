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

from permrank.kernels.jit import njit, prange
from permrank.posterior.kernels.choices import exponentials

Array = NDArray[Any]

# Scores this far from a threshold are certain; the product of two factors 1 + e^170 is 1e148.
_FARTHEST = 170.0
# Beyond this gap between two thresholds nothing is curved any more, and e^gap would overflow much later.
MOST_CURVED = 50.0


def edges_of(thetas: Array, n_thresholds: int) -> Array:
    """What `odds_statistics` needs of the thresholds, the last rows of theta: (3, n_thresholds + 1).

    With w = e^(s - origin) an entry of score s passes the threshold below it with odds w, if there is one (``below`` is
    1, not 0), and the one above it with odds w * above. The origin is the threshold below, for the lowest rating the
    one above. Of several draws of theta, as many tables.
    """
    scores = thetas[..., thetas.shape[-2] - n_thresholds :, -1]
    edges = np.empty((*thetas.shape[:-2], 3, n_thresholds + 1))
    origin, below, above = (edges[..., part, :] for part in range(3))
    origin[..., 0], origin[..., 1:] = scores[..., 0], scores
    below[..., 0], below[..., 1:] = 0.0, 1.0
    above[..., 0], above[..., 1:-1], above[..., -1] = 1.0, np.exp(scores[..., :-1] - scores[..., 1:]), 0.0
    return edges


@njit(error_model="numpy")
def odds_value(levels, edges, of_user, a, b):
    """log P of the ratings of the entries a to b of a user, but for what is about the thresholds alone.

    ``levels`` holds how many thresholds lie below each, ``edges`` is `edges_of` theta. Leaves w in ``worths``.
    """
    scores, worths, away, n = of_user.scores[a:b], of_user.worths[a:b], of_user.own[a:b], b - a
    origin, below, above = edges[0], edges[1], edges[2]
    farthest, value = 0.0, 0.0
    for e in range(n):
        away[e] = scores[e] - origin[levels[e]]
        farthest = max(farthest, abs(away[e]))
    if farthest > _FARTHEST:
        for e in range(n):
            beyond = away[e] - min(max(away[e], -_FARTHEST), _FARTHEST)
            if beyond < 0.0:
                value += below[levels[e]] * beyond
            elif above[levels[e]] > 0.0:
                value -= max(0.0, min(beyond, away[e] + math.log(above[levels[e]])))
            away[e] -= beyond
    exponentials(away, n, 0.0, of_user.powers, of_user.bits, worths)
    # log σ(s - a) + log σ(b - s) = log w - log((1 + w)(1 + w e^(a - b))), the logarithm of products, which is rarer:
    # of four, which do not wait for each other.
    p, q, r, s, whole = 1.0, 1.0, 1.0, 1.0, n - n % 4
    for e in range(0, whole, 4):
        h, i, j, k = levels[e], levels[e + 1], levels[e + 2], levels[e + 3]
        p *= (1.0 + below[h] * worths[e]) * (1.0 + above[h] * worths[e])
        q *= (1.0 + below[i] * worths[e + 1]) * (1.0 + above[i] * worths[e + 1])
        r *= (1.0 + below[j] * worths[e + 2]) * (1.0 + above[j] * worths[e + 2])
        s *= (1.0 + below[k] * worths[e + 3]) * (1.0 + above[k] * worths[e + 3])
        value += (below[h] * away[e] + below[i] * away[e + 1]) + (below[j] * away[e + 2] + below[k] * away[e + 3])
        if max(max(p, q), max(r, s)) > 1e150:
            value -= (math.log(p) + math.log(q)) + (math.log(r) + math.log(s))
            p, q, r, s = 1.0, 1.0, 1.0, 1.0
    value -= (math.log(p) + math.log(q)) + (math.log(r) + math.log(s))
    for e in range(whole, n):
        h = levels[e]
        value += below[h] * away[e] - math.log((1.0 + below[h] * worths[e]) * (1.0 + above[h] * worths[e]))
    return value


@njit(error_model="numpy")
def odds_statistics(levels, edges, of_user, a, b):
    """`odds_value`; fills expected = -d²/ds² and made = d/ds + expected."""
    made, expected, worths = of_user.made[a:b], of_user.expected[a:b], of_user.worths[a:b]
    below, above = edges[1], edges[2]
    value = odds_value(levels, edges, of_user, a, b)
    for e in range(b - a):
        w, under = worths[e], above[levels[e]] * worths[e]
        p, q = below[levels[e]] / (1.0 + below[levels[e]] * w), under / (1.0 + under)
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
