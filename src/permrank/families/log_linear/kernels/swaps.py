"""The pseudo-likelihood of swaps of one list: value, derivatives in the scores, Hessian in the factors of a user.

A list is written down twice, one copy after the other, so that the swaps of positions i and i + d (modulo n) are loops
along contiguous arrays, one for each distance d. Every loop writes one array: so the compiler makes vector instructions
of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.columns import add_products
from permrank.kernels.jit import njit
from permrank.posterior.kernels.choices import exponentials

SHARPNESS = 4.0
# Every item of a long list is swapped with twice as many others as this: a sweep is then linear in the entries.
MOST_DISTANCES = 32
# e^-700 is still a normal number; a swap that is as sure as that has no derivatives.
_SURE = 700.0


class Swaps(NamedTuple):
    """Arrays for the swaps of one list of n entries at a time, K factors and D distances; or of fewer entries.

    Attributes
    ----------
    g, scores : (2 n,)
        Position functions and scores, each twice.
    columns : (K, 2 n)
        Factors of the items, each twice.
    bends : (D, n)
        Minus the second derivative of the swap of i and i + d in its difference of scores, for every distance.
    beside : (n,)
        Σ_d bend times a factor of i + d.
    pushed, bent : (2 n,)
        What swaps say about the second of the two.
    gaps, margins, smaller, odds, sums, product, powers, bits : (n,)
        For one distance: g_i - g_j, (s_i - s_j)(g_i - g_j), minus its size, e to this; sums and products over
        distances; for exponentials, and the same memory.
    """

    g: Any
    scores: Any
    columns: Any
    bends: Any
    beside: Any
    pushed: Any
    bent: Any
    gaps: Any
    margins: Any
    smaller: Any
    odds: Any
    sums: Any
    product: Any
    powers: Any
    bits: Any


@njit(error_model="numpy")
def n_distances(n):
    """Distances of swaps that count in a list of n: all of them, or evenly spread ones."""
    return min(n // 2, MOST_DISTANCES)


@njit(error_model="numpy")
def swaps_of(n, n_factors):
    """Room for a list of n."""
    twice, once = np.empty((4, 2 * n)), np.empty((7, n))
    return Swaps(
        twice[0], twice[1], np.empty((n_factors, 2 * n)), np.empty((n_distances(n), n)), np.empty(n),
        twice[2], twice[3], once[0], once[1], once[2], once[3], once[4], once[5], once[6], once[6].view(np.int64),
    )  # fmt: skip


@njit(error_model="numpy")
def _distance(n, t):
    """The t-th distance, and the number of its swaps.

    The swaps of positions i and i + d (modulo n), for d up to n / 2, are all swaps, each once; of d = n / 2 there are
    half as many.
    """
    d = 1 + ((2 * t + 1) * (n // 2)) // (2 * n_distances(n))
    return d, (d if 2 * d == n else n)


@njit(error_model="numpy")
def _factor(n, weight):
    """What a swap counts."""
    return weight * SHARPNESS / n * (n // 2) / max(n_distances(n), 1)


@njit(error_model="numpy")
def swap_statistics(swaps, positions, own, weight, residual, degree):
    """Value of a list's swaps; writes the gradient in the scores, and the diagonal of minus the Hessian.

    positions, own: (n,), position functions and scores of the list. ``bends`` are those of unit weight.
    """
    n, scores, g, gaps, margins, odds = own.size, swaps.scores, swaps.g, swaps.gaps, swaps.margins, swaps.odds
    smaller, sums, product = swaps.smaller, swaps.sums, swaps.product
    for i in range(n):
        g[i], g[n + i], scores[i], scores[n + i] = positions[i], positions[i], own[i], own[i]
        residual[i], degree[i], sums[i], product[i] = 0.0, 0.0, 0.0, 1.0
    for i in range(2 * n):
        swaps.pushed[i], swaps.bent[i] = 0.0, 0.0
    for t in range(n_distances(n)):
        d, count = _distance(n, t)
        other_g, other_scores, bends = g[d:], scores[d:], swaps.bends[t]
        pushed, bent = swaps.pushed[d:], swaps.bent[d:]
        for i in range(count):
            gaps[i] = g[i] - other_g[i]
        for i in range(count):
            margins[i] = (scores[i] - other_scores[i]) * gaps[i]
        for i in range(count):
            smaller[i] = max(-abs(margins[i]), -_SURE)
        exponentials(smaller, count, 0.0, swaps.powers, swaps.bits, odds)
        for i in range(count):
            sums[i] += min(margins[i], 0.0)
        # Tied items have no gap, and their swaps count nothing. At most MOST_DISTANCES factors of 2 at most.
        for i in range(count):
            product[i] *= 1.0 + odds[i] if gaps[i] != 0.0 else 1.0
        # From here on margins is the gradient, and smaller the share of the likelier order.
        for i in range(count):
            smaller[i] = 1.0 / (1.0 + odds[i])
        for i in range(count):
            margins[i] = (odds[i] if margins[i] > 0.0 else 1.0) * smaller[i] * gaps[i]
        for i in range(count):
            bends[i] = gaps[i] * gaps[i] * odds[i] * smaller[i] * smaller[i]
        for i in range(count, n):
            bends[i] = 0.0
        for i in range(count):
            residual[i] += margins[i]
        for i in range(count):
            pushed[i] += margins[i]
        for i in range(count):
            degree[i] += bends[i]
        for i in range(count):
            bent[i] += bends[i]
    factor, value = _factor(n, weight), 0.0
    for i in range(n):
        residual[i] = factor * (residual[i] - swaps.pushed[i] - swaps.pushed[n + i])
        degree[i] = factor * (degree[i] + swaps.bent[i] + swaps.bent[n + i])
        value += sums[i] - math.log(product[i])
    return factor * value


@njit(error_model="numpy")
def add_swap_hessian(swaps, columns, first, weight, degree, hessian):
    """Add minus the Hessian in the factors of the user, at the scores of the last `swap_statistics`, to the lower half.

    columns: (K, n_entries), factors of the items; the list begins at the entry ``first``. degree: (n,), as written.

    It is Σ ω_ij (x_i - x_j)(x_i - x_j)ᵀ over the swaps, or M + Mᵀ with M = Σ_i (degree_i / 2 x_i - Σ_d ω x_(i+d)) x_iᵀ.
    """
    n, n_factors = degree.size, hessian.shape[0]
    kept, factor, product = n_distances(n), _factor(n, weight), np.zeros((n_factors, n_factors))
    for k in range(n_factors):
        own, column = columns[k, first:], swaps.columns[k]
        for i in range(n):
            column[i] = own[i]
        for i in range(n):
            column[n + i] = own[i]
    for k in range(n_factors):
        beside, column = swaps.beside, swaps.columns[k]
        for i in range(n):
            beside[i] = 0.0
        t = 0
        while t + 4 <= kept:
            a, b, c, d = swaps.bends[t], swaps.bends[t + 1], swaps.bends[t + 2], swaps.bends[t + 3]
            p, q = column[_distance(n, t)[0] :], column[_distance(n, t + 1)[0] :]
            r, s = column[_distance(n, t + 2)[0] :], column[_distance(n, t + 3)[0] :]
            for i in range(n):
                beside[i] += (a[i] * p[i] + b[i] * q[i]) + (c[i] * r[i] + d[i] * s[i])
            t += 4
        while t < kept:
            a, p = swaps.bends[t], column[_distance(n, t)[0] :]
            for i in range(n):
                beside[i] += a[i] * p[i]
            t += 1
        for i in range(n):
            beside[i] = 0.5 * degree[i] * column[i] - factor * beside[i]
        add_products(swaps.columns, n, beside, product[k])
    for k in range(n_factors):
        for m in range(k + 1):
            hessian[k, m] += product[k, m] + product[m, k]
