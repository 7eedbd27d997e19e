"""Mallows' model with Spearman's distance, the sum of squared differences of positions, by sums over all subsets.

Z_n(θ) = perm(e^{-θ (i - j)²}) (permanent), in O(2^n n): position by position, over the set of items placed so far.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.sets import n_members
from permrank.kernels.streams import derive, uniform

MOST_ITEMS = 16


@njit
def completions(theta, n, first, second):
    """Sums over the orders of what is not yet placed, by the set of items placed (2^n,), and minus their θ-slopes.

    Item i of the centre at position k weighs e^{-θ (i - k)²}. Where first >= 0 only orders with
    `first` before `second` count.
    """
    size = 1 << n
    value, slope = np.zeros(size), np.zeros(size)
    value[size - 1] = 1.0
    for members in range(size - 2, -1, -1):
        position = n_members(members)
        for i in range(n):
            if members >> i & 1 or (i == second and first >= 0 and not members >> first & 1):
                continue
            squared = float((i - position) ** 2)
            weight = math.exp(-theta * squared)
            after = members | 1 << i
            value[members] += weight * value[after]
            slope[members] += weight * (slope[after] + squared * value[after])
    return value, slope


@njit(parallel=True)
def spearman_precedence(theta, n):
    """P(i before j) for items i and j of the centre (n, n)."""
    out = np.full((n, n), 0.5)
    total = completions(theta, n, -1, -1)[0][0]
    for pair in prange(n * n):
        i, j = pair // n, pair % n
        if i < j:
            out[i, j] = completions(theta, n, i, j)[0][0] / total
    for i in range(n):
        for j in range(i):
            out[i, j] = 1.0 - out[j, i]
    return out


@njit
def spearman_rankings(centre, theta, key, size):
    """Orders drawn from the model, exactly (size, n)."""
    n = centre.size
    value = completions(theta, n, -1, -1)[0]
    out = np.empty((size, n), np.int64)
    for draw in range(size):
        stream, members = derive(key, draw), 0
        for position in range(n):
            left = uniform(stream, position) * value[members]
            chosen = -1
            for i in range(n):
                if members >> i & 1:
                    continue
                chosen = i  # rounding may leave nothing: the last one serves
                left -= math.exp(-theta * float((i - position) ** 2)) * value[members | 1 << i]
                if left <= 0.0:
                    break
            members |= 1 << chosen
            out[draw, position] = centre[chosen]
    return out
