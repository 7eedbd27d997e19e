"""Exact sums over rankings by dynamic programming over subsets, in the log domain.

k items ("free") are ranked among n others whose order is fixed ("context"; often there are none). A state is (S, i):
the free items in S and the first i of the context have been placed, so the next position is |S| + i.

free: (k, B), context: (n, B), coefficients of the items; basis: (k + n, B), position functions.
pair: (k, k), λ_ab of free items; beside: (k, n), λ_az of a free item a before a context item z; both antisymmetric:
the other order has the opposite sign. The constant Σ λ within the context is left out.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.sets import log_add, n_members
from permrank.kernels.streams import uniform


@njit(error_model="numpy")
def _subset_sums(pair):
    """Σ_{b in S} pair[b, a], as tables over the low and the high half of the bits of S: O(1) a sum, 2^(k/2) memory."""
    k, n = pair.shape
    half = (k + 1) // 2
    low, high = np.zeros((1 << half, n)), np.zeros((1 << (k - half), n))
    for b in range(k):
        table, bit = (low, 1 << b) if b < half else (high, 1 << (b - half))
        for s in range(bit, 2 * bit):
            for a in range(n):
                table[s, a] = table[s - bit, a] + pair[b, a]
    return half, low, high


@njit(error_model="numpy")
def _tables(free, context, basis, pair, beside):
    """What a state adds to -E, from tables.

    own: (k, k + n), log-potential of each free item at each position; fixed: (n, k + 1), of each item of the context,
    by how many free ones are before it; passed: (k, n + 1), what a free item gets for coming after the first i of the
    context; then what `_subset_sums` gives for the free items and the context, by the low and the high half of a set.
    """
    k, n = beside.shape
    own, fixed, passed = np.zeros((k, k + n)), np.zeros((n, k + 1)), np.zeros((k, n + 1))
    for c in range(basis.shape[1]):
        for a in range(k):
            for p in range(k + n):
                own[a, p] += free[a, c] * basis[p, c]
        for i in range(n):
            for size in range(k + 1):
                fixed[i, size] += context[i, c] * basis[i + size, c]
    for a in range(k):
        for i in range(n):
            passed[a, i + 1] = passed[a, i] - beside[a, i]
    half, low, high = _subset_sums(pair)
    _, low_c, high_c = _subset_sums(beside)
    return own, fixed, passed, half, low, high, low_c, high_c


@njit(error_model="numpy")
def prefix_sums(free, context, basis, pair, beside):
    """F(S, i) = log Σ e^{-E} over all ways to fill the first |S| + i positions; (2^k, n + 1). F at the end is log Z.

    F(S, i) = log [ Σ_{a in S} e^{F(S - a, i) + w(a)} + e^{F(S, i - 1) + w(context i)} ], O(2^k (n + 1) k).
    """
    k, n = beside.shape
    own, fixed, passed, half, low, high, low_c, high_c = _tables(free, context, basis, pair, beside)
    mask = (1 << half) - 1
    out = np.full((1 << k, n + 1), -np.inf)
    out[0, 0] = 0.0
    terms = np.empty(k + 1)
    for s in range(1 << k):
        size = n_members(s)
        for i in range(n + 1):
            if s == 0 and i == 0:
                continue
            position = size + i - 1
            count = 0
            for a in range(k):
                if s >> a & 1:
                    before = s ^ (1 << a)
                    weight = own[a, position] + low[before & mask, a] + high[before >> half, a] + passed[a, i]
                    terms[count] = out[before, i] + weight
                    count += 1
            if i > 0:
                weight = fixed[i - 1, size] + low_c[s & mask, i - 1] + high_c[s >> half, i - 1]
                terms[count] = out[s, i - 1] + weight
                count += 1
            largest = terms[0]
            for t in range(1, count):
                largest = max(largest, terms[t])
            total = 0.0
            for t in range(count):
                total += math.exp(terms[t] - largest)
            out[s, i] = largest + math.log(total)
    return out


@njit(error_model="numpy")
def exact_expectations(free, context, basis, pair, beside, before, ranks, positions):
    """Log Z and the marginals of the exact distribution, by one pass forwards and one backwards.

    Written: before (k, k), P(a before b); ranks (k, k), P(a is the r-th of the free items); positions (k, n + 1),
    P(a comes after exactly i of the context).
    """
    k, n = beside.shape
    own, fixed, passed, half, low, high, low_c, high_c = _tables(free, context, basis, pair, beside)
    mask = (1 << half) - 1
    forward = prefix_sums(free, context, basis, pair, beside)
    log_z = forward[(1 << k) - 1, n]
    backward = np.full((1 << k, n + 1), -np.inf)
    backward[(1 << k) - 1, n] = 0.0
    # P(S just before a), summed over the low and the high half of S: the order of two items in O(2^k k) altogether.
    low_mass, high_mass = np.zeros((k, low.shape[0])), np.zeros((k, high.shape[0]))
    before[:], ranks[:], positions[:] = 0.0, 0.0, 0.0
    for s in range((1 << k) - 1, -1, -1):
        size = n_members(s)
        for i in range(n, -1, -1):
            position = size + i
            value = backward[s, i]
            here = forward[s, i] - log_z
            for a in range(k):
                if not s >> a & 1:
                    weight = own[a, position] + low[s & mask, a] + high[s >> half, a] + passed[a, i]
                    after = weight + backward[s | (1 << a), i]
                    value = log_add(value, after)
                    p = math.exp(here + after)
                    ranks[a, size] += p
                    positions[a, i] += p
                    low_mass[a, s & mask] += p
                    high_mass[a, s >> half] += p
            if i < n:
                weight = fixed[i, size] + low_c[s & mask, i] + high_c[s >> half, i]
                value = log_add(value, weight + backward[s, i + 1])
            backward[s, i] = value
    for a in range(k):
        for b in range(k):
            bit = 1 << (b if b < half else b - half)
            mass = low_mass if b < half else high_mass
            for s in range(mass.shape[1]):
                if s & bit:
                    before[b, a] += mass[a, s]
    return log_z


@njit(error_model="numpy")
def exact_draws(free, context, basis, pair, beside, key, size):
    """Orders of free items (numbers below k) and context (k + i), drawn exactly, last position first: (size, k + n)."""
    k, n = beside.shape
    own, fixed, passed, half, low, high, low_c, high_c = _tables(free, context, basis, pair, beside)
    mask = (1 << half) - 1
    forward = prefix_sums(free, context, basis, pair, beside)
    orders = np.empty((size, k + n), np.int64)
    counter = 0
    for d in range(size):
        s, i = (1 << k) - 1, n
        for position in range(k + n - 1, -1, -1):
            u = uniform(key, counter)
            counter += 1
            chosen = -1
            for a in range(k):
                if s >> a & 1:
                    before = s ^ (1 << a)
                    weight = own[a, position] + low[before & mask, a] + high[before >> half, a] + passed[a, i]
                    u -= math.exp(forward[before, i] + weight - forward[s, i])
                    chosen = a
                    if u < 0.0:
                        break
            if i > 0 and u >= 0.0:
                weight = fixed[i - 1, position - i + 1] + low_c[s & mask, i - 1] + high_c[s >> half, i - 1]
                # What rounding leaves of u belongs to the last state that is possible.
                if chosen < 0 or math.exp(forward[s, i - 1] + weight - forward[s, i]) > 0.0:
                    chosen = k + i - 1
            orders[d, position] = chosen
            if chosen < k:
                s ^= 1 << chosen
            else:
                i -= 1
    return orders
