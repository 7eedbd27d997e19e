"""A ranking of the factored model's point estimate: log-likelihood, gradient and curvature in its scores (paper, §3).

The quick way for strict lists and for Breslow's ties, with exponentials that the compiler turns into vector
instructions (Numba's own cost 5 ns each); all other treatments of ties, and damping, go through their own kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.luce.damping import damped_ranking
from permrank.kernels.luce.likelihood import BRESLOW, PARTITION, ranking_statistics

# e^x = 2^k e^r, |r| <= log(2) / 2: the Taylor series to r^11 / 11! errs by 6e-15.
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
# 1.5 * 2^52: a double this large holds whole numbers in its lowest bits.
_MAGIC = 6755399441055744.0
# Scores of a list that span less than this go the quick way: four worths multiply to no less than e^-120 = 1e-52.
NARROW = 30.0


class Law(NamedTuple):
    """How a ranking comes about: the treatment of ties, and damping (longest list,), or empty for none.

    Damping is for strict lists alone.
    """

    ties: Any
    damping: Any


class Room(NamedTuple):
    """Arrays for one user at a time, whose entries are counted from the user's first; n: of the longest list.

    Attributes
    ----------
    rows : float32 (n, K)
        Factors of the entries' items.
    flat : float32 (6, n)
        Intercepts, change of the scores along a step, two for products, residual, curvature.
    work : float64 (10, n)
        Scores, worths, exposure (with damping Σ_j p_i(j) s_j instead), two for float64 results, five for damping.
    powers, bits : float64 and int64 (n,)
        The same memory, for exponentials.
    sums : float64 (2, 31)
        For damping.
    vectors : float32 (8, K)
        Gradient, direction, residual, conjugate direction, product, inverse diagonal, scratch, trial.
    """

    rows: Any
    flat: Any
    work: Any
    powers: Any
    bits: Any
    sums: Any
    vectors: Any


@njit(error_model="numpy")
def exponentials(scores, n, largest, powers, bits, worths):
    """worths = exp(scores - largest), vectorised; ``bits`` is ``powers`` seen as whole numbers."""
    for i in range(n):
        x = scores[i] - largest
        shifted = x * _LOG2_E + _MAGIC
        k = shifted - _MAGIC
        powers[i] = shifted
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        worths[i] = p * r + 1.0
    for i in range(n):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(n):
        worths[i] *= powers[i]


@njit(error_model="numpy")
def strict_choices(n, worths, exposure, expected):
    """Σ_e log A_e of a strict list, A_e = Σ_{j>=e} worth_j; exposure = 1 / A, expected = worth_e Σ_{j<=e} 1 / A_j.

    The last item left is certain: its A counts nothing.
    """
    tail = worths[n - 1]
    for e in range(n - 2, -1, -1):
        tail += worths[e]
        exposure[e] = tail
    total, product, whole = 0.0, 1.0, (n - 1) - (n - 1) % 4
    for e in range(0, whole, 4):
        product *= (exposure[e] * exposure[e + 1]) * (exposure[e + 2] * exposure[e + 3])
        if product > 1e150 or product < 1e-150:
            total += math.log(product)
            product = 1.0
    for e in range(whole, n - 1):
        product *= exposure[e]
    for e in range(n - 1):
        exposure[e] = 1.0 / exposure[e]
    exposure[n - 1] = 0.0
    so_far = 0.0
    for e in range(n):
        so_far += exposure[e]
        expected[e] = worths[e] * so_far
    return total + math.log(product)


@njit(error_model="numpy")
def tied_choices(levels, n, worths, exposure, expected):
    """Σ_blocks m log A with Breslow's ties; exposure = m / A at the first entry of a block, 0 elsewhere."""
    total, tail, last = 0.0, 0.0, n
    while last > 0:
        first = last - 1
        tail += worths[first]
        exposure[first] = 0.0
        while first > 0 and levels[first - 1] == levels[last - 1]:
            first -= 1
            tail += worths[first]
            exposure[first] = 0.0
        if last < n or last - first > 1:
            exposure[first] = (last - first) / tail
            total += (last - first) * math.log(tail)
        last = first
    so_far = 0.0
    for e in range(n):
        so_far += exposure[e]
        expected[e] = worths[e] * so_far
    return total


@njit(error_model="numpy")
def directional_curvature(worths, exposure, change, n):
    """Minus the second derivative of the two above along a change of the scores: Σ_blocks m Var(change)."""
    a, b, c, total = 0.0, 0.0, 0.0, 0.0
    for e in range(n - 1, -1, -1):
        z = float(change[e])
        part = worths[e] * z
        a += worths[e]
        b += part
        c += part * z
        total += exposure[e] * (c - b * b / a)
    return total


@njit(error_model="numpy")
def ranking_terms(lists, r, origin, law, room):
    """log P of ranking r at the scores room.work[0], and whether `directional_curvature` has the true curvature.

    The arrays of the room begin at the entry ``origin``. Fills residual = weight * (choices made - expected) and
    curvature = weight * expected choices (with damping: times ρ).
    """
    levels, start, stop, weight = lists.levels, lists.indptr[r], lists.indptr[r + 1], lists.weights[r]
    ties, damping, work, residual, curvature = law.ties, law.damping, room.work, room.flat[4], room.flat[5]
    a, b, n = start - origin, stop - origin, stop - start
    scores, worths, exposure, made, expected = work[0, a:b], work[1, a:b], work[2, a:b], work[3, :n], work[4, :n]
    lowest, largest, total = scores[0], scores[0], 0.0
    for e in range(n):
        lowest, largest = min(lowest, scores[e]), max(largest, scores[e])
        total += scores[e]
    strict = levels[stop - 1] == n - 1
    if damping.size > 0:
        value = damped_ranking(scores, damping, work[5:], room.sums, made, expected)
        for e in range(n):
            exposure[e], made[e] = work[9, e], (damping[e] if e < n - 1 else 0.0) - made[e]
    elif largest - lowest < NARROW and (ties == BRESLOW or (strict and ties != PARTITION)):
        exponentials(scores, n, largest, room.powers, room.bits, worths)
        last = 1 if n == 1 or levels[stop - 2] != levels[stop - 1] else 0  # a single last item is certain
        value = total - last * scores[n - 1] - (n - last) * largest
        if strict:
            value -= strict_choices(n, worths, exposure, expected)
        else:
            value -= tied_choices(levels[start:stop], n, worths, exposure, expected)
        for e in range(n):
            residual[a + e], curvature[a + e] = weight * (1.0 - expected[e]), weight * expected[e]
        residual[b - 1] -= last * weight
        return weight * value, True
    else:
        value = ranking_statistics(levels[start:stop], scores, np.int64(0), n, ties, made, expected)
        for e in range(n):
            made[e] -= expected[e]
    for e in range(n):
        residual[a + e], curvature[a + e] = weight * made[e], weight * expected[e]
    return weight * value, False
