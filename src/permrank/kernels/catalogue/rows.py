"""Rows of scores over the whole catalogue, for a block of users: parallel over users and runs of items."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.catalogue.products import FAST, add_products
from permrank.kernels.jit import njit, prange

# Items that a task scores: its part of a row stays in the nearest cache.
_RUN = 4096
# Users and items whose factors are multiplied together.
_TILE = 64


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


@njit(error_model="numpy", parallel=True)
def factor_rows(own, others):
    """out_u = others own_u, (n_users, n_items) float32."""
    n, n_items = own.shape[0], others.shape[0]
    out = np.zeros((n, n_items), np.float32)
    n_runs = (n_items + _TILE - 1) // _TILE
    for run in prange(n_runs):
        first, last = run * _TILE, min((run + 1) * _TILE, n_items)
        for u in range(0, n, _TILE):
            v = min(u + _TILE, n)
            add_products(own[u:v], others[first:last], np.float32(1.0), out[u:v, first:last])
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
