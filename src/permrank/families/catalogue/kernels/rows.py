"""Rows of scores over the whole catalogue, for a block of users: parallel over users and runs of items."""

from __future__ import annotations

import math

import numpy as np

from permrank.families.catalogue.kernels.products import FAST, add_products
from permrank.kernels.jit import njit, prange

# Items that a task scores: its part of a row stays in the nearest cache.
_RUN = 4096
# Items, and users, whose factors are multiplied together.
_TILE, _FEW = 256, 16


@njit(error_model="numpy", parallel=True)
def dense_rows(entries, weights):
    """out_u = Σ_i x_ui weights_i over the entries of each user, (n_users, n_items) float32."""
    n, n_items = entries[0].size - 1, weights.shape[1]
    out = np.zeros((n, n_items), np.float32)
    n_runs = (n_items + _RUN - 1) // _RUN
    for task in prange(n * n_runs):
        u, first = task // n_runs, (task % n_runs) * _RUN
        last = min(first + _RUN, n_items)
        part = out[u, first:last]
        for p in range(entries[0][u], entries[0][u + 1]):
            row, x = weights[entries[1][p], first:last], entries[2][p]
            for j in range(part.size):
                part[j] += x * row[j]
    return out


@njit(error_model="numpy", parallel=True)
def neighbour_rows(entries, neighbours, n_items):
    """The same with sparse weights: neighbours are (indptr, indices, weights)."""
    n = entries[0].size - 1
    out = np.zeros((n, n_items), np.float32)
    for u in prange(n):
        for p in range(entries[0][u], entries[0][u + 1]):
            i, x = entries[1][p], entries[2][p]
            for q in range(neighbours[0][i], neighbours[0][i + 1]):
                out[u, neighbours[1][q]] += x * neighbours[2][q]
    return out


@njit(error_model="numpy", parallel=True, fastmath=FAST)
def factor_rows(own, others):
    """out_u = others own_u, (n_users, n_items) float32."""
    n, size = own.shape
    n_items = others.shape[0]
    out = np.empty((n, n_items), np.float32)
    n_tiles = (n_items + _TILE - 1) // _TILE
    whole = n - n % 4 if n >= _FEW else 0  # a few users are not worth a copy of the items
    for tile in prange(n_tiles):
        first, last = tile * _TILE, min((tile + 1) * _TILE, n_items)
        if whole:
            items = others[first:last].copy()
            product = np.empty((_FEW, last - first), np.float32)
            for u in range(0, whole, _FEW):
                v = min(u + _FEW, whole)
                product[:] = np.float32(0.0)
                add_products(own[u:v], items, np.float32(1.0), product)
                out[u:v, first:last] = product[: v - u]
        for u in range(whole, n):
            for j in range(first, last):
                total = np.float32(0.0)
                for k in range(size):
                    total += own[u, k] * others[j, k]
                out[u, j] = total
    return out


@njit(error_model="numpy", parallel=True, fastmath=FAST)
def add_standardised(rows, weight, out):
    """out += weight (rows - mean) / deviation, each row by its own; a row that does not vary adds nothing."""
    n, n_items = rows.shape
    for u in prange(n):
        total, square = 0.0, 0.0
        for j in range(n_items):
            total += rows[u, j]
        mean = total / n_items
        for j in range(n_items):
            square += (rows[u, j] - mean) ** 2
        deviation = math.sqrt(square / n_items)
        if deviation > 0.0:
            for j in range(n_items):
                out[u, j] += np.float32(weight * (rows[u, j] - mean) / deviation)


@njit(error_model="numpy", parallel=True)
def found_gains(rows, known, hidden, depth):
    """NDCG of hidden entries among the ``depth`` best of every row, gains being their grades: (n_users,).

    known, hidden: (indptr, items, grades); scores of known items are overwritten. Of equal scores the lower index
    goes first.
    """
    n, n_items = rows.shape
    out = np.zeros(n)
    for u in prange(n):
        row = rows[u]
        for p in range(known[0][u], known[0][u + 1]):
            row[known[1][p]] = -np.inf
        best, value = np.full(depth, -1), np.full(depth, -np.inf, np.float32)
        for j in range(n_items):
            if row[j] > value[depth - 1]:
                place = depth - 1
                while place > 0 and row[j] > value[place - 1]:
                    value[place], best[place] = value[place - 1], best[place - 1]
                    place -= 1
                value[place], best[place] = row[j], j
        first, last = hidden[0][u], hidden[0][u + 1]
        ideal = np.sort(-hidden[2][first:last])
        total, most = 0.0, 0.0
        for place in range(depth):
            for p in range(first, last):
                if hidden[1][p] == best[place]:
                    total += hidden[2][p] / math.log2(place + 2.0)
            if place < ideal.size:
                most -= ideal[place] / math.log2(place + 2.0)
        if most > 0.0:
            out[u] = total / most
    return out
