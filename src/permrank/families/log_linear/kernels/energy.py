"""Energies of rankings and their changes, §4: E(π) = -Σ_i γ_{π_i}·g(i) - Σ_{i<j} λ_{π_i π_j}; P(π) ∝ e^{-E}.

A list of n items is numbered 0..n-1 here, and ``order[position]`` is such a number.

unary: (n, B), coefficients of an item; basis: (n, B), the position functions g at every position (B = 1 in the paper).
pair: (n, n), λ_ab for a before b, antisymmetric: only λ_ab - λ_ba has an influence, because one of the two always
counts. An array of shape (0, 0) stands for no pairwise part; a swap then costs O(B).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit


@njit(error_model="numpy")
def energy(order, unary, basis, pair):
    """E(π), summed anew: O(n²)."""
    total = 0.0
    for i in range(order.size):
        for k in range(basis.shape[1]):
            total -= unary[order[i], k] * basis[i, k]
        if pair.shape[0] > 0:
            for j in range(i + 1, order.size):
                total -= pair[order[i], order[j]]
    return total


@njit(error_model="numpy")
def swap_energy_delta(order, first, second, unary, basis, pair):
    """E(after) - E(before) when the items at positions first < second change places: O(second - first).

    (γ_l - γ_m)·(g(l) - g(m)) + 2 λ_lm + 2 Σ_{l<i<m} (λ_li - λ_mi)   (§4.5, with λ antisymmetric).
    """
    a, b = order[first], order[second]
    delta = 0.0
    for k in range(basis.shape[1]):
        delta += (unary[a, k] - unary[b, k]) * (basis[first, k] - basis[second, k])
    if pair.shape[0] > 0:
        total = pair[a, b]
        for i in range(first + 1, second):
            z = order[i]
            total += pair[a, z] - pair[b, z]
        delta += 2.0 * total
    return delta


@njit(error_model="numpy")
def insertion_energies(order, source, unary, basis, pair, out):
    """Energies of the item at ``source`` at each position, relative to the first, the others in their order; §4.3.

    A single pass: from position j to j + 1 the item passes one other, and only these two change.
    """
    item = order[source]
    out[0] = 0.0
    for j in range(order.size - 1):
        z = order[j] if j < source else order[j + 1]
        delta = 0.0
        for k in range(basis.shape[1]):
            delta += (unary[item, k] - unary[z, k]) * (basis[j, k] - basis[j + 1, k])
        if pair.shape[0] > 0:
            delta += 2.0 * pair[item, z]
        out[j + 1] = out[j] + delta


@njit(error_model="numpy")
def insert(order, source, target):
    """Take the item at source and put it at target, in place; those between shift by one."""
    item = order[source]
    if source < target:
        for i in range(source, target):
            order[i] = order[i + 1]
    else:
        for i in range(source, target, -1):
            order[i] = order[i - 1]
    order[target] = item


@njit(error_model="numpy")
def softmax_of_energies(energies, n, out):
    """Probabilities e^{-E} / Σ e^{-E} of n states into out; returns log Σ e^{-E}."""
    least = energies[0]
    for j in range(1, n):
        least = min(least, energies[j])
    total = 0.0
    for j in range(n):
        out[j] = math.exp(least - energies[j])
        total += out[j]
    for j in range(n):
        out[j] /= total
    return math.log(total) - least


@njit(error_model="numpy")
def draw_state(probabilities, n, u):
    """One of n states by a number that is uniform on [0, 1)."""
    for j in range(n - 1):
        u -= probabilities[j]
        if u < 0.0:
            return j
    return n - 1


@njit(error_model="numpy")
def pair_index(items, low, stop, wanted):
    """First of the partners items[low:stop], which ascend, that is not smaller than the one wanted; by bisection."""
    while low < stop:
        middle = (low + stop) // 2
        if items[middle] < wanted:
            low = middle + 1
        else:
            stop = middle
    return low


@njit(error_model="numpy")
def pair_indices(items, pairs):
    """Where λ of each two items of a list, which ascend, is stored: (n, n), for a < b, or -1; (0, 0) without pairs.

    Each partner is looked up from where the one before it was found.
    """
    n = items.size if pairs.items.size > 0 else 0
    indices = np.empty((n, n), np.int64)
    for a in range(n):
        low, stop = pairs.indptr[items[a]], pairs.indptr[items[a] + 1]
        for b in range(a + 1, n):
            low = pair_index(pairs.items, low, stop, items[b])
            indices[a, b] = low if low < stop and pairs.items[low] == items[b] else -1
    return indices


@njit(error_model="numpy")
def pair_table(indices, values):
    """Antisymmetric table of λ from their indices; 0 where there is none."""
    n = indices.shape[0]
    table = np.zeros((n, n))
    for a in range(n):
        for b in range(a + 1, n):
            if indices[a, b] >= 0:
                table[a, b] = values[indices[a, b]]
                table[b, a] = -values[indices[a, b]]
    return table
