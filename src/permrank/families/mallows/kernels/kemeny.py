"""Kemeny orders: the order with the least disagreement with weighted pairs, where above[i, j] want i before j.

The cost of an order is the sum of above[j, i] over all pairs that it puts i before j.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.streams import bits


@njit
def order_cost(above, order):
    """Σ above[j, i] over i before j."""
    total = 0.0
    for k in range(order.size):
        for m in range(k + 1, order.size):
            total += above[order[m], order[k]]
    return total


@njit
def exact_order(above):
    """Best order by dynamic programming over sets, O(2^n n²): the last of a set costs those who want it earlier."""
    n = above.shape[0]
    best = np.zeros(1 << n)
    last = np.zeros(1 << n, np.int8)
    for members in range(1, 1 << n):
        least, chosen = np.inf, -1
        for i in range(n):
            if members >> i & 1:
                rest = members ^ (1 << i)
                cost = best[rest]
                for j in range(n):
                    if rest >> j & 1:
                        cost += above[i, j]
                if cost < least:
                    least, chosen = cost, i
        best[members], last[members] = least, chosen
    order = np.empty(n, np.int64)
    members = (1 << n) - 1
    for position in range(n - 1, -1, -1):
        order[position] = last[members]
        members ^= 1 << order[position]
    return order


@njit
def _improve(above, order):
    """Move single items to their best positions until none gains; in place. O(n²) a round."""
    n = order.size
    improved = True
    while improved:
        improved = False
        for item in range(n):
            position = 0
            while order[position] != item:
                position += 1
            best, target, change = -1e-9, position, 0.0
            for k in range(position - 1, -1, -1):  # to the front
                change += above[order[k], item] - above[item, order[k]]
                if change < best:
                    best, target = change, k
            change = 0.0
            for k in range(position + 1, n):  # to the back
                change += above[item, order[k]] - above[order[k], item]
                if change < best:
                    best, target = change, k
            if target != position:
                improved = True
                step = 1 if target > position else -1
                for k in range(position, target, step):
                    order[k] = order[k + step]
                order[target] = item


@njit
def searched_order(above, start, key, n_kicks):
    """Local search from an order, then from what is left of the best after some items were moved at random."""
    n = start.size
    best = start.copy()
    _improve(above, best)
    cost = order_cost(above, best)
    for kick in range(n_kicks):
        order = best.copy()
        for move in range(max(2, n // 10)):
            counter = 2 * (kick * n + move)
            a = np.int64(bits(key, counter) % np.uint64(n))
            b = np.int64(bits(key, counter + 1) % np.uint64(n))
            order[a], order[b] = order[b], order[a]
        _improve(above, order)
        reached = order_cost(above, order)
        if reached < cost - 1e-9:
            cost = reached
            best = order
    return best
