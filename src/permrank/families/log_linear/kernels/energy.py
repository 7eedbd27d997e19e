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
def insertion_energies(others, n_others, item, unary, basis, pair, out):
    """Energies of an item at each of the n_others + 1 positions among others, relative to the first position; §4.3.

    A single pass: from position j to j + 1 the item passes others[j], and only these two change. ``basis`` is that of
    the longer list.
    """
    out[0] = 0.0
    for j in range(n_others):
        z = others[j]
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
def insertion_energy_delta(order, source, target, unary, basis, pair):
    """E(after) - E(before) of `insert`: O(|target - source|), a chain of swaps of neighbours."""
    item = order[source]
    delta = 0.0
    if source < target:
        for j in range(source, target):
            z = order[j + 1]
            for k in range(basis.shape[1]):
                delta += (unary[item, k] - unary[z, k]) * (basis[j, k] - basis[j + 1, k])
            if pair.shape[0] > 0:
                delta += 2.0 * pair[item, z]
    else:
        for j in range(source, target, -1):
            z = order[j - 1]
            for k in range(basis.shape[1]):
                delta += (unary[item, k] - unary[z, k]) * (basis[j, k] - basis[j - 1, k])
            if pair.shape[0] > 0:
                delta -= 2.0 * pair[item, z]
    return delta


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


# Pairwise parameters are stored for pairs of items a < b, row by row: those of item a belong to the items
# pair_items[pair_indptr[a]:pair_indptr[a + 1]], ascending.


@njit(error_model="numpy")
def pair_indices(items, pair_indptr, pair_items, indices):
    """Where λ of each two items of a list is stored: indices[a, b] for a < b, or -1. ``items`` ascend.

    Looks each partner up by bisection, from where the one before it was found.
    """
    n = items.size
    for a in range(n):
        low, stop = pair_indptr[items[a]], pair_indptr[items[a] + 1]
        for b in range(a + 1, n):
            wanted = items[b]
            high = stop
            while low < high:
                middle = (low + high) // 2
                if pair_items[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            indices[a, b] = low if low < stop and pair_items[low] == wanted else -1


@njit(error_model="numpy")
def pair_table(indices, n, values):
    """Antisymmetric (n, n) table of λ from their indices; 0 where there is none."""
    table = np.zeros((n, n))
    for a in range(n):
        for b in range(a + 1, n):
            if indices[a, b] >= 0:
                table[a, b] = values[indices[a, b]]
                table[b, a] = -values[indices[a, b]]
    return table


@njit(error_model="numpy")
def potentials_of(ascending, order, pair_indptr, pair_items, values):
    """Table of λ of a list with the items ``ascending``, which stand at the positions ``order`` of the list.

    It is (0, 0) if there are no pairwise parameters at all.
    """
    if pair_items.size == 0:
        return np.zeros((0, 0))
    n = ascending.size
    indices = np.empty((n, n), np.int64)
    pair_indices(ascending, pair_indptr, pair_items, indices)
    table = np.zeros((n, n))
    for a in range(n):
        for b in range(a + 1, n):
            if indices[a, b] >= 0:
                table[order[a], order[b]] = values[indices[a, b]]
                table[order[b], order[a]] = -values[indices[a, b]]
    return table
