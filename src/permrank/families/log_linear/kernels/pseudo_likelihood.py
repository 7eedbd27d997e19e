"""Likelihoods of lists and what they expect: the exact one, and the three pseudo-likelihoods of §4.3.

Lists as in `moves.advance_chains`. Relocations are in relocation.py. Every other function returns the
log-likelihood of one list, adds d/dγ to ``unary_gradient`` (n, B) and d/dλ to the upper triangle of ``pair_gradient``
(n, n): for a < b the derivative in the parameter that is +λ if a comes first and -λ if b does.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.log_linear.kernels.energy import pair_indices, pair_table
from permrank.families.log_linear.kernels.relocation import add_relocations
from permrank.families.log_linear.kernels.subsets import exact_expectations
from permrank.kernels.jit import njit, prange

BY_RELOCATION, BY_SWAPS, BY_WINDOWS, EXACT = 0, 1, 2, 3


@njit(error_model="numpy")
def _add_pair(pair_gradient, a, b, value):
    """Derivative with respect to the potential of a before b."""
    if a < b:
        pair_gradient[a, b] += value
    else:
        pair_gradient[b, a] -= value


@njit(error_model="numpy")
def swaps(order, unary, basis, pair, unary_gradient, pair_gradient):
    """Σ_{i<j} log P(this order of two items | they stand at i and j): -log(1 + e^{-ΔE_ij}).

    With prefix sums of λ along the list every ΔE costs O(1), and so does its part of the gradient: O(n²) a list.
    """
    n, n_columns = order.size, basis.shape[1]
    paired = pair.shape[0] > 0
    size = n + 1 if paired else 0
    # so_far[left, right] = Σ_{i < right} λ of the items at left and i; push: derivatives, as differences of it.
    so_far, push = np.zeros((size, size)), np.zeros((size, size))
    if paired:
        for left in range(n):
            for right in range(n):
                so_far[left, right + 1] = so_far[left, right] + pair[order[left], order[right]]
    value = 0.0
    for left in range(n):
        a = order[left]
        for right in range(left + 1, n):
            b = order[right]
            delta = 0.0
            for k in range(n_columns):
                delta += (unary[a, k] - unary[b, k]) * (basis[left, k] - basis[right, k])
            if paired:
                between = so_far[left, right] - so_far[left, left + 1] - so_far[right, right] + so_far[right, left + 1]
                delta += 2.0 * (pair[a, b] + between)
            if delta > 0.0:
                small = math.exp(-delta)
                value -= math.log1p(small)
                r = small / (1.0 + small)
            else:
                small = math.exp(delta)
                value += delta - math.log1p(small)
                r = 1.0 / (1.0 + small)
            for k in range(n_columns):
                part = r * (basis[left, k] - basis[right, k])
                unary_gradient[a, k] += part
                unary_gradient[b, k] -= part
            if paired:
                _add_pair(pair_gradient, a, b, 2.0 * r)
                push[left, left + 1] += 2.0 * r
                push[left, right] -= 2.0 * r
                push[right, left + 1] -= 2.0 * r
                push[right, right] += 2.0 * r
    if paired:
        for left in range(n):
            total = 0.0
            for right in range(n):
                total += push[left, right]
                if right != left and total != 0.0:
                    _add_pair(pair_gradient, order[left], order[right], total)
    return value


@njit(error_model="numpy")
def windows(order, width, unary, basis, pair, unary_gradient, pair_gradient):
    """Σ over sublists of ``width`` of log P(order of the sublist | the rest): n + 1 - width terms, each by subsets.

    The permutations of one window at a time are summed over (the paper's formula mixes up i and j). With a width of n
    this is the exact likelihood.
    """
    n, n_columns = order.size, basis.shape[1]
    width = min(width, n)
    paired = pair.shape[0] > 0
    nothing, beside = np.empty((0, n_columns)), np.empty((width, 0))
    before, ranks, positions = np.empty((width, width)), np.empty((width, width)), np.empty((width, 1))
    local, own = np.empty((width, n_columns)), np.zeros((width, width))
    value = 0.0
    for start in range(n + 1 - width):
        inside = basis[start : start + width]
        for i in range(width):
            a = order[start + i]
            local[i] = unary[a]
            for k in range(n_columns):
                value += unary[a, k] * inside[i, k]
            if paired:
                for j in range(width):
                    own[i, j] = pair[a, order[start + j]]
                    if j > i:
                        value += own[i, j]
        value -= exact_expectations(local, nothing, inside, own, beside, before, ranks, positions)
        for i in range(width):
            a = order[start + i]
            for k in range(n_columns):
                total = inside[i, k]
                for j in range(width):
                    total -= ranks[i, j] * inside[j, k]
                unary_gradient[a, k] += total
            if paired:
                for j in range(i + 1, width):
                    _add_pair(pair_gradient, a, order[start + j], 1.0 - (before[i, j] - before[j, i]))
    return value


@njit(error_model="numpy")
def _one_list(structure, width, lists, r, unary, positions, pairs, pair_values, unary_gradient, of_pairs):
    """`list_likelihoods` for list r; of_pairs: (n_pairs,), the gradient."""
    start, stop, weight = lists.indptr[r], lists.indptr[r + 1], lists.weights[r]
    n, order, unary = stop - start, lists.orders[start:stop], unary[start:stop]
    basis = positions.table[positions.start[n] : positions.start[n] + n]
    indices = pair_indices(lists.items[start:stop], pairs)
    pair, own, slope = pair_table(indices, pair_values), np.zeros((n, basis.shape[1])), np.zeros(indices.shape)
    if structure == BY_SWAPS:
        value = swaps(order, unary, basis, pair, own, slope)
    else:
        value = windows(order, n if structure == EXACT else width, unary, basis, pair, own, slope)
    unary_gradient[start:stop] = weight * own
    for a in range(indices.shape[0]):
        for b in range(a + 1, n):
            if indices[a, b] >= 0:
                of_pairs[indices[a, b]] += weight * slope[a, b]
    return value


@njit(error_model="numpy", parallel=True)
def list_likelihoods(
    bounds, structure, width, lists, unary, positions, pairs, partners, pair_values, unary_gradient, pair_gradient
):
    """Log-likelihood of each list by one of the structures, weights left out, and the weighted gradient.

    bounds: (n_blocks + 1,), lists of each block. width: of windows, or the most items of a list that are relocated.
    unary: (n_entries, B), coefficients. unary_gradient: (n_entries, B), written. pair_gradient: (n_blocks, n_pairs),
    added to: a row for each block, so that the sum does not depend on threads.
    """
    values = np.zeros(lists.indptr.size - 1)
    for block in prange(bounds.size - 1):
        slopes, first, last = pair_gradient[block], bounds[block], bounds[block + 1]
        if structure == BY_RELOCATION:
            add_relocations(
                first, last, width, lists, unary, positions, partners, pair_values, values, unary_gradient, slopes
            )
        else:
            for r in range(first, last):
                values[r] = _one_list(
                    structure, width, lists, r, unary, positions, pairs, pair_values, unary_gradient, slopes
                )
    return values


@njit(error_model="numpy")
def _one_statistics(lists, r, positions, pairs, unary_out, pair_out):
    """`list_statistics` for list r; pair_out: (n_pairs,)."""
    start, n, weight = lists.indptr[r], lists.indptr[r + 1] - lists.indptr[r], lists.weights[r]
    part = slice(start, start + n)
    items, order, levels = lists.items[part], lists.orders[part], lists.levels[part]
    table, first = positions.table[positions.start[n] :], 0
    while first < n:
        end = first + 1
        while end < n and levels[end] == levels[first]:
            end += 1
        for k in range(table.shape[1]):
            mean = 0.0
            for i in range(first, end):
                mean += table[i, k] / (end - first)
            for i in range(first, end):
                unary_out[start + order[i], k] = weight * mean
        first = end
    indices = pair_indices(items, pairs)
    for i in range(indices.shape[0]):
        for j in range(i + 1, n):
            a, b = order[i], order[j]
            index = indices[min(a, b), max(a, b)] if levels[i] != levels[j] else -1
            if index >= 0:
                pair_out[index] += weight if a < b else -weight


@njit(error_model="numpy", parallel=True)
def list_statistics(bounds, lists, positions, pairs, unary_out, pair_out):
    """What the log-likelihood multiplies the parameters with: g of an item's position, and ±1 for the order of a pair.

    Both are averaged over the orders inside a tie (positions of equal level), and weighted. bounds: (n_blocks + 1,),
    lists of each block; unary_out: (n_entries, B), written; pair_out: (n_blocks, n_pairs), added to.
    """
    for block in prange(bounds.size - 1):
        for r in range(bounds[block], bounds[block + 1]):
            _one_statistics(lists, r, positions, pairs, unary_out, pair_out[block])
