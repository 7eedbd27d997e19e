"""Losses over the ordered pairs of a list (paper, §2): Σ_{i before j} L(d_ij), d_ij = s_i - s_j, with their gradients.

Pairs of tied entries say nothing and are left out. With n entries the squared loss takes O(n), the hinge O(n log n),
and the logistic loss O(n²) for short lists and O(n m) with m partners drawn for every entry beyond.
Every kernel writes the gradient in the scores, (n_entries,), and returns the losses of the rankings, (n_rankings,),
both times the weight of the ranking.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.logistic import logistic, softplus
from permrank.kernels.streams import bits, derive


@njit(error_model="numpy", parallel=True)
def squared_pairs(indptr, weights, levels, scores, gradient):
    """Σ (1 - d_ij)²: running sums of 1, s and s² over what lies above an entry, and over what lies below."""
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        centre = np.mean(scores[start:stop])  # differences are all that counts; small numbers keep their digits
        count, total, squares = 0.0, 0.0, 0.0
        first = start
        while first < stop:
            end = first + 1
            while end < stop and levels[end] == levels[first]:
                end += 1
            for e in range(first, end):
                a = 1.0 + scores[e] - centre
                values[r] += count * a * a - 2.0 * a * total + squares
                gradient[e] = 2.0 * (count * a - total)
            for e in range(first, end):
                s = scores[e] - centre
                count, total, squares = count + 1.0, total + s, squares + s * s
            first = end
        count, total = 0.0, 0.0
        end = stop
        while end > start:
            first = end - 1
            while first > start and levels[first - 1] == levels[end - 1]:
                first -= 1
            for e in range(first, end):
                gradient[e] -= 2.0 * (count * (1.0 - scores[e] + centre) + total)
            for e in range(first, end):
                count, total = count + 1.0, total + scores[e] - centre
            end = first
        values[r] *= weights[r]
        for e in range(start, stop):
            gradient[e] *= weights[r]
    return values


@njit(error_model="numpy")
def _add(tree, index, s):
    """Enter a score at a 0-based index of a Fenwick tree of (count, Σ s, Σ s²)."""
    index += 1
    while index < tree.shape[0]:
        tree[index, 0] += 1.0
        tree[index, 1] += s
        tree[index, 2] += s * s
        index += index & -index


@njit(error_model="numpy")
def _prefix(tree, index):
    """(count, Σ s, Σ s²) of what was entered before an index."""
    count, total, squares = 0.0, 0.0, 0.0
    while index > 0:
        count += tree[index, 0]
        total += tree[index, 1]
        squares += tree[index, 2]
        index -= index & -index
    return count, total, squares


@njit(error_model="numpy", parallel=True)
def hinge_pairs(indptr, weights, levels, smoothing, scores, gradient):
    """Σ h(1 - d_ij): h(z) = max(0, z), for a smoothing μ > 0 z² / 2μ below μ and z - μ/2 beyond.

    Entries are met level by level and kept in a Fenwick tree over the order of their scores, so that all pairs with
    0 < z < μ and with z >= μ are sums over two stretches of it. With μ = 0 the gradient is a subgradient.
    """
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        n = stop - start
        s = scores[start:stop] - np.mean(scores[start:stop])
        order = np.argsort(s)
        ascending = s[order]
        position = np.empty(n, np.int64)
        for i in range(n):
            position[order[i]] = i
        tree = np.zeros((n + 1, 3))
        first = 0
        while first < n:  # the entry is the worse one of its pairs: better ones with a score below 1 + s count
            end = first + 1
            while end < n and levels[start + end] == levels[start + first]:
                end += 1
            for i in range(first, end):
                a = 1.0 + s[i]
                count, total, squares = _prefix(tree, np.searchsorted(ascending, a))
                far, far_total, far_squares = count, total, squares
                slope = 0.0
                if smoothing > 0.0:
                    far, far_total, far_squares = _prefix(tree, np.searchsorted(ascending, a - smoothing))
                    near, near_total, near_squares = count - far, total - far_total, squares - far_squares
                    slope = (near * a - near_total) / smoothing
                    values[r] += (near * a * a - 2.0 * a * near_total + near_squares) / (2.0 * smoothing)
                values[r] += far * (a - 0.5 * smoothing) - far_total
                gradient[start + i] = slope + far
            for i in range(first, end):
                _add(tree, position[i], s[i])
            first = end
        tree[:] = 0.0
        entered = 0.0
        end = n
        while end > 0:  # the entry is the better one: worse ones with a score above s - 1 count
            first = end - 1
            while first > 0 and levels[start + first - 1] == levels[start + end - 1]:
                first -= 1
            for i in range(first, end):
                a = s[i] - 1.0
                low, low_total, _ = _prefix(tree, np.searchsorted(ascending, a, side="right"))
                far = entered - low
                if smoothing > 0.0:
                    below, below_total, _ = _prefix(tree, np.searchsorted(ascending, a + smoothing, side="right"))
                    far = entered - below
                    gradient[start + i] -= ((below_total - low_total) - (below - low) * a) / smoothing
                gradient[start + i] -= far
            for i in range(first, end):
                _add(tree, position[i], s[i])
                entered += 1.0
            end = first
        values[r] *= weights[r]
        for e in range(start, stop):
            gradient[e] *= weights[r]
    return values


@njit(error_model="numpy", parallel=True)
def logistic_pairs(indptr, weights, numbers, levels, n_partners, key, scores, gradient):
    """Σ log(1 + e^{-d_ij}), all pairs of a list of up to 2 ``n_partners`` entries, an unbiased estimate beyond.

    In a longer list every entry i meets ``n_partners`` others, drawn evenly from the D_i that are not tied with it, and
    each of these pairs counts D_i / (2 n_partners): the sum over entries and partners has the sum over pairs as its
    mean. The draws depend on the key and the number of the list alone and stay the same from call to call, so that the
    estimate is one fixed function with the gradient that is given.
    """
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        gradient[start:stop] = 0.0
        first = start
        if stop - start <= 2 * n_partners:
            for j in range(start, stop):
                if levels[j] != levels[first]:
                    first = j
                for i in range(start, first):
                    value, slope = softplus(scores[j] - scores[i]), logistic(scores[j] - scores[i])
                    values[r] += value
                    gradient[i] -= slope
                    gradient[j] += slope
        else:
            stream, drawn = derive(key, numbers[r]), 0
            while first < stop:
                end = first + 1
                while end < stop and levels[end] == levels[first]:
                    end += 1
                others = (stop - start) - (end - first)
                share = others / (2.0 * n_partners)
                for e in range(first, end):
                    for _ in range(n_partners if others > 0 else 0):
                        # 32 random bits times the number of others: uneven by less than n / 2^32.
                        picked = (bits(stream, drawn) >> np.uint64(32)) * np.uint64(others) >> np.uint64(32)
                        drawn += 1
                        other = start + np.int64(picked)
                        if other >= first:
                            other += end - first
                        i, j = (other, e) if other < e else (e, other)
                        value, slope = softplus(scores[j] - scores[i]), logistic(scores[j] - scores[i])
                        values[r] += share * value
                        gradient[i] -= share * slope
                        gradient[j] += share * slope
                first = end
        values[r] *= weights[r]
        for e in range(start, stop):
            gradient[e] *= weights[r]
    return values
