"""Sums over rankings for models with one score an item: statistics and observed information (paper, §3).

The functions that call `stage_statistics` are plain Python: a compiled caller in another file would keep an
old copy of it in Numba's cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange
from permrank.kernels.luce.likelihood import EXACT, block_curvature, stage_statistics
from permrank.kernels.sets import log_add

Array = NDArray[Any]

# exp(-300) > 1e-131: with products of tail sums kept in [1e-150, 1e150], one more factor cannot underflow.
NARROW = 300.0


@njit(error_model="numpy", parallel=True)
def strict_sums(bounds, indptr, items, worths, weights, longest):
    """Sums over strict rankings from a table of worths, one row for each block of rankings; no exp at all.

    bounds: (n_blocks + 1,), rankings of each block; worths: (n_items,), the largest at most `NARROW` above the smallest
    in logarithms; longest: of the rankings.
    Returns -Σ weight Σ log A_p by block, chosen and expected by block and item; the last stage is left out.
    """
    n_blocks, n_items = bounds.size - 1, worths.size
    value = np.zeros(n_blocks)
    chosen, expected = np.zeros((n_blocks, n_items)), np.zeros((n_blocks, n_items))
    for b in prange(n_blocks):
        inverse = np.empty(longest)
        for r in range(bounds[b], bounds[b + 1]):
            start, last, weight = indptr[r], indptr[r + 1] - 1, weights[r]
            if last <= start:
                continue
            tail, product, logs = worths[items[last]], 1.0, 0.0
            for e in range(last - 1, start - 1, -1):
                tail += worths[items[e]]
                inverse[e - start] = weight / tail
                product *= tail
                if product > 1e150 or product < 1e-150:
                    logs += math.log(product)
                    product = 1.0
            value[b] -= weight * (logs + math.log(product))
            exposure = 0.0
            for e in range(start, last):
                item = items[e]
                exposure += inverse[e - start]
                chosen[b, item] += weight
                expected[b, item] += worths[item] * exposure
            expected[b, items[last]] += worths[items[last]] * exposure
    return value, chosen, expected


@njit(error_model="numpy", parallel=True)
def _sums_by_item(indptr, items, weights, bounds, values, n_items):
    """Σ weight * value over the entries of an item, one row for each block of rankings."""
    sums = np.zeros((bounds.size - 1, n_items))
    for b in prange(bounds.size - 1):
        for r in range(bounds[b], bounds[b + 1]):
            for e in range(indptr[r], indptr[r + 1]):
                sums[b, items[e]] += weights[r] * values[e]
    return sums


def ranking_sums(
    bounds: Array, indptr: Array, items: Array, levels: Array, item_scores: Array, weights: Array, ties: int
) -> tuple[Array, Array, Array]:
    """Weighted log-likelihoods of rankings, (n_rankings,), chosen and expected by block and item: any ties."""
    chosen, expected = np.empty(items.size), np.empty(items.size)
    values = stage_statistics(indptr, levels, item_scores[items], ties, chosen, expected)
    sums = [_sums_by_item(indptr, items, weights, bounds, x, item_scores.size) for x in (chosen, expected)]
    return values * weights, sums[0], sums[1]


@njit(error_model="numpy")
def _add_strict(indptr, items, scores, weights, chosen, information):
    """information[i, j] -= weight * ∂²log P / ∂s_i ∂s_j of the chosen rankings, which are strict and narrow.

    With worths w and tail sums A_p that is weight * (δ_ij w_i Σ_{p<=i} 1 / A_p - w_i w_j Σ_{p<=min(i,j)} 1 / A_p²).
    """
    for r in chosen:
        start, stop = indptr[r], indptr[r + 1]
        n = stop - start
        largest = scores[start]
        for e in range(start + 1, stop):
            largest = max(largest, scores[e])
        worths, inverse = np.empty(n), np.empty(n)
        tail = 0.0
        for k in range(n - 1, -1, -1):
            worths[k] = math.exp(scores[start + k] - largest)
            tail += worths[k]
            inverse[k] = 1.0 / tail
        inverse[n - 1] = 0.0  # one item left is no choice
        exposure, squares, weight = 0.0, 0.0, weights[r]
        for k in range(n):
            exposure += inverse[k]
            squares += inverse[k] * inverse[k]
            i, shared = items[start + k], weight * squares * worths[k]
            information[i, i] += weight * worths[k] * exposure - shared * worths[k]
            for q in range(k + 1, n):
                j, value = items[start + q], shared * worths[q]
                information[i, j] -= value
                information[j, i] -= value


@njit(error_model="numpy")
def _add_blocks(indptr, items, levels, scores, weights, chosen, ties, information):
    """As `_add_strict`, of rankings with ties and of any finite scores.

    Where f is the log-probability of a block of scores s with log W after it, and p = w / W are the shares of what
    follows, the second derivatives are f'' in s, -p Σ_u f''_tu between t in the block and the rest, and
    (Σ f'' + Σ f') pp' - diag(p) Σ f' in the rest: f does not change if s and log W move together. What blocks before
    have to say of all that is left is kept beside its own W: square for pairs of items, single for each.
    """
    for r in chosen:
        start, n = indptr[r], indptr[r + 1] - indptr[r]
        tail, share = np.full(n + 1, -np.inf), np.zeros(n)
        for k in range(n - 1, -1, -1):
            tail[k] = log_add(scores[start + k], tail[k + 1])
        square, single, first = 0.0, 0.0, 0
        while first < n:
            last = first + 1
            while last < n and levels[start + last] == levels[start + first]:
                last += 1
            second, slope = np.zeros((last - first, last - first)), 0.0
            if last < n or (ties != EXACT and last > first + 1):
                own = scores[start + first : start + last]
                slope = block_curvature(own, tail[last], tail[first], ties, second)
            for t in range(first, last):
                i, beside = items[start + t], square * share[t]
                information[i, i] -= weights[r] * single * share[t]
                cross = second[t - first].sum()
                for k in range(t, n):
                    j, value = items[start + k], beside * share[k]
                    value += (
                        second[t - first, k - first] if k < last else -cross * math.exp(scores[start + k] - tail[last])
                    )
                    information[i, j] -= weights[r] * value
                    if k > t:
                        information[j, i] -= weights[r] * value
            left = math.exp(tail[last] - tail[first])
            square = square * left * left + second.sum() + slope
            single = single * left - slope
            for k in range(last, n):
                share[k] = math.exp(scores[start + k] - tail[last])
            first = last


def _strict_and_narrow(indptr: Array, levels: Array, scores: Array) -> Array:
    """Whether each ranking is without ties, with worths that can be multiplied."""
    owner = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    tied = (owner[1:] == owner[:-1]) & (levels[1:] == levels[:-1])
    low, high = np.full(indptr.size - 1, np.inf), np.full(indptr.size - 1, -np.inf)
    np.minimum.at(low, owner, scores)
    np.maximum.at(high, owner, scores)
    strict = np.bincount(owner[1:], tied, indptr.size - 1) == 0
    return np.asarray(strict & (np.diff(indptr) > 0) & (high - low < NARROW))


def observed_information(
    indptr: Array, items: Array, levels: Array, scores_by_item: Array, weights: Array, ties: int
) -> Array:
    """Minus the Hessian of the weighted log-likelihood (paper, §3) in the item scores, (n_items, n_items).

    The cost is n² for n entries. Rows sum to zero, as scores are defined up to a constant. indptr: (n_rankings + 1,);
    items, levels: (n_entries,); weights: (n_rankings,).
    """
    scores = scores_by_item[items]
    information = np.zeros((scores_by_item.size, scores_by_item.size))
    strict = _strict_and_narrow(indptr, levels, scores)
    _add_strict(indptr, items, scores, weights, np.flatnonzero(strict), information)
    _add_blocks(indptr, items, levels, scores, weights, np.flatnonzero(~strict), ties, information)
    return information
