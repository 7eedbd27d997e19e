"""Least-squares factors with a weight for everything that is missing: one side given the other.

The loss of a row x of one side, given the factors V of the other, is

    Σ_{i listed} (t_i - x·V_i)² + ω Σ_{i not listed} (x·V_i)² + λ (n + ω m) |x|²

with n listed of m, so that its normal equations are

    (ω VᵀV + (1 - ω) Σ_listed V_i V_iᵀ + λ (n + ω m)) x = Σ_listed t_i V_i

(Hu, Koren and Volinsky 2008, with targets; penalty by frequency as in Rendle and others 2022).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.catalogue.kernels.products import FAST, add_products
from permrank.kernels.cholesky import backward, forward
from permrank.kernels.jit import njit, prange

# Rows that take their steps together: the Gram matrix is read once for all of them.
_TOGETHER = 16


@njit(error_model="numpy", fastmath=FAST)
def _times(gram, penalty, missing, total, lists, others, x, out):
    """out = (missing * gram + (1 - missing) Σ rows rowsᵀ + ridge) x for each of a few rows x of one side.

    lists: (indptr, indices) of these rows.
    """
    n, size = x.shape
    out[:n] = np.float32(0.0)
    add_products(x, gram, missing, out)
    for r in range(n):
        first, last = lists[0][r], lists[0][r + 1]
        ridge = penalty * (np.float32(last - first) + missing * total)
        own, product = x[r], out[r]
        for k in range(size):
            product[k] += ridge * own[k]
        for p in range(first, last):
            row = others[lists[1][p]]
            dot = np.float32(0.0)
            for k in range(size):
                dot += row[k] * own[k]
            dot *= np.float32(1.0) - missing
            for k in range(size):
                product[k] += dot * row[k]


@njit(error_model="numpy", parallel=True, fastmath=FAST)
def improve_rows(entries, others, gram, settings, n_steps, own):
    """A few steps of conjugate gradients for every row of one side, in place.

    entries: (indptr, indices, targets). others: (n_others, K) float32; gram: their Gram matrix. settings: float32
    (missing, penalty, total), the weight ω of what is missing, λ and the number m of the others. own: (n, K) float32.
    """
    n, size = own.shape
    missing, penalty, total = settings[0], settings[1], settings[2]
    for block in prange((n + _TOGETHER - 1) // _TOGETHER):
        begin, end = block * _TOGETHER, min((block + 1) * _TOGETHER, n)
        x, lists = own[begin:end], (entries[0][begin : end + 1], entries[1])
        product = np.zeros((end - begin, size), np.float32)
        _times(gram, penalty, missing, total, lists, others, x, product)
        residual = -product
        square = np.zeros(end - begin, np.float32)
        for r in range(end - begin):
            for p in range(lists[0][r], lists[0][r + 1]):
                row, target = others[entries[1][p]], entries[2][p]
                for k in range(size):
                    residual[r, k] += target * row[k]
            for k in range(size):
                square[r] += residual[r, k] * residual[r, k]
        direction = residual.copy()
        for _ in range(n_steps):
            _times(gram, penalty, missing, total, lists, others, direction, product)
            for r in range(end - begin):
                curvature = np.float32(0.0)
                for k in range(size):
                    curvature += direction[r, k] * product[r, k]
                if not (square[r] > np.float32(1e-20) and curvature > np.float32(0.0)):
                    continue
                step = square[r] / curvature
                new = np.float32(0.0)
                for k in range(size):
                    x[r, k] += step * direction[r, k]
                    residual[r, k] -= step * product[r, k]
                    new += residual[r, k] * residual[r, k]
                ratio = new / square[r]
                square[r] = new
                for k in range(size):
                    direction[r, k] = residual[r, k] + ratio * direction[r, k]
        for r in range(end - begin):
            if lists[0][r] == lists[0][r + 1]:
                x[r] = np.float32(0.0)


@njit(error_model="numpy", fastmath=FAST)
def _cholesky(matrix, n):
    """Lower Cholesky factor in place; sums in any order, which is several times as fast for a large matrix."""
    for i in range(n):
        row = matrix[i]
        for j in range(i + 1):
            other, total = matrix[j], 0.0
            for k in range(j):
                total += row[k] * other[k]
            if i == j:
                row[i] = math.sqrt(max(row[i] - total, 1e-12))
            else:
                row[j] = (row[j] - total) / other[j]


@njit(error_model="numpy", parallel=True)
def solve_rows(entries, others, gram, settings):
    """The rows that minimise the loss exactly, (n, K) float64: for answers, which must not depend on a start."""
    n, size = entries[0].size - 1, others.shape[1]
    missing, penalty, total = settings[0], settings[1], settings[2]
    out = np.zeros((n, size))
    for u in prange(n):
        first, last = entries[0][u], entries[0][u + 1]
        if first == last:
            continue
        matrix = missing * gram
        for p in range(first, last):
            row, target = others[entries[1][p]], entries[2][p]
            for i in range(size):
                out[u, i] += target * row[i]
                scaled = (1.0 - missing) * row[i]
                for k in range(i + 1):
                    matrix[i, k] += scaled * row[k]
        for i in range(size):
            matrix[i, i] += penalty * ((last - first) + missing * total)
        _cholesky(matrix, size)
        forward(matrix, out[u], size)
        backward(matrix, out[u], size)
    return out


@njit(error_model="numpy", parallel=True)
def listed_losses(entries, own, others, missing):
    """Σ_{i listed} (t - s)² - ω s² of every row, s being the score: what listed entries add to ω Σ_all s²."""
    n, size = own.shape
    out = np.zeros(n)
    for u in prange(n):
        for p in range(entries[0][u], entries[0][u + 1]):
            row, score = others[entries[1][p]], 0.0
            for k in range(size):
                score += own[u, k] * row[k]
            out[u] += (entries[2][p] - score) ** 2 - missing * score * score
    return out
