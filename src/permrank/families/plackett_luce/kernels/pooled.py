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
from permrank.kernels.luce.likelihood import stage_statistics

Array = NDArray[Any]

# exp(-300) > 1e-131: with products of tail sums kept in [1e-150, 1e150], one more factor cannot underflow.
NARROW = 300.0
# Five-point differences err by step^4 / 30 * f^(5) = 8e-12 f^(5); quadrature noise of 1e-13 / step is 3e-11.
_STEP = 2.0**-8
_MOVES = np.array([1.0, -1.0, 2.0, -2.0])
# Entries of perturbed rankings held at a time: about 30 MB.
_CHUNK = 1 << 20


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
def _add_columns(indptr, items, weights, ranking_of, first, copies, gradient, information):
    """information[i, j] -= weight * ∂(gradient of i) / ∂(score of j), with five-point central differences."""
    for c in range(0, copies.size - 1, 4):
        entry = first + c // 4
        r = ranking_of[entry]
        scale = weights[r] / (12.0 * _STEP)
        for k in range(indptr[r + 1] - indptr[r]):
            near = gradient[copies[c] + k] - gradient[copies[c + 1] + k]
            far = gradient[copies[c + 2] + k] - gradient[copies[c + 3] + k]
            information[items[indptr[r] + k], items[entry]] -= scale * (8.0 * near - far)


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

    Of rankings without ties in closed form, n² for n entries. Of others by central differences of the analytic
    gradient in each entry, then symmetrised: 4 n gradients of length n, errors about 1e-9 of the largest entry.
    Rows sum to zero, as scores are defined up to a constant. indptr: (n_rankings + 1,); items, levels:
    (n_entries,); weights: (n_rankings,). The same bits for any number of threads.
    """
    scores = scores_by_item[items]
    information = np.zeros((scores_by_item.size, scores_by_item.size))
    strict = _strict_and_narrow(indptr, levels, scores)
    _add_strict(indptr, items, scores, weights, np.flatnonzero(strict), information)
    if strict.all():
        return information
    kept = np.repeat(~strict, np.diff(indptr))
    lengths = np.diff(indptr)[~strict]
    items, levels, scores, weights = items[kept], levels[kept], scores[kept], weights[~strict]
    like = indptr
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    for array in (indptr, items, levels, weights):
        array.flags.writeable = like.flags.writeable
    ranking_of = np.repeat(np.arange(lengths.size), lengths)
    cost = np.concatenate([[0], np.cumsum(4 * lengths[ranking_of])])
    first = 0
    while first < items.size:
        stop = max(first + 1, int(np.searchsorted(cost, cost[first] + _CHUNK, side="right")) - 1)
        # Four copies of the ranking of each entry from first on, that entry's score moved by ±step, ±2 step.
        entry = np.repeat(np.arange(first, stop), 4)
        start, copied = indptr[ranking_of[entry]], lengths[ranking_of[entry]]
        copies = np.concatenate([[0], np.cumsum(copied)])
        where = np.repeat(start - copies[:-1], copied) + np.arange(copies[-1])
        new_levels, new_scores = levels[where], scores[where]
        new_scores[copies[:-1] + entry - start] += np.tile(_MOVES, stop - first) * _STEP
        chosen, expected = np.empty(new_scores.size), np.empty(new_scores.size)
        # Numba compiles anew for arrays that may be written; those of `Rankings` may not.
        copies.flags.writeable = new_levels.flags.writeable = indptr.flags.writeable
        stage_statistics(copies, new_levels, new_scores, ties, chosen, expected)
        _add_columns(indptr, items, weights, ranking_of, first, copies, chosen - expected, information)
        first = stop
    return np.asarray(0.5 * (information + information.T))
