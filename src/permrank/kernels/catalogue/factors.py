"""Least-squares factors with a weight for everything that is missing: one side given the other.

The loss of a row x of one side, given the factors V of the other, is

    Σ_{i listed} (t_i - x·V_i)² + ω Σ_{i not listed} (x·V_i)² + λ (n + ω m) |x|²

with n listed of m, so that its normal equations are

    (ω VᵀV + (1 - ω) Σ_listed V_i V_iᵀ + λ (n + ω m)) x = Σ_listed t_i V_i

(Hu, Koren and Volinsky 2008, with targets; penalty by frequency as in Rendle and others 2022).
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.jit import njit, prange

# Sums of products may be taken in any order; there are no NaN or infinities to be missed.
_FAST = {"reassoc", "contract", "nsz"}
_BLOCKS = 64


@njit(error_model="numpy", fastmath=_FAST)
def _times(gram, ridge, missing, rows, others, x, out):
    """out = (missing * gram + (1 - missing) Σ rows rowsᵀ + ridge) x."""
    size = x.size
    for k in range(size):
        out[k] = ridge * x[k]
    for i in range(size):
        scaled = missing * x[i]
        for k in range(size):
            out[k] += scaled * gram[i, k]
    for place in rows:
        row = others[place]
        dot = np.float32(0.0)
        for k in range(size):
            dot += row[k] * x[k]
        dot *= np.float32(1.0) - missing
        for k in range(size):
            out[k] += dot * row[k]


@njit(error_model="numpy", parallel=True, fastmath=_FAST)
def improve_rows(entries, others, gram, settings, n_steps, own):
    """A few steps of conjugate gradients for every row of one side, in place.

    entries: (indptr, indices, targets). others: (n_others, K) float32; gram: their Gram matrix. settings: float32
    (missing, penalty, total), the weight ω of what is missing, λ and the number m of the others. own: (n, K) float32.
    """
    n, size = own.shape
    missing, penalty, total = settings[0], settings[1], settings[2]
    for u in prange(n):
        first, last = entries[0][u], entries[0][u + 1]
        if first == last:
            own[u] = np.float32(0.0)
            continue
        rows = entries[1][first:last]
        ridge = penalty * (np.float32(last - first) + missing * total)
        x = own[u].copy()
        product = np.zeros(size, np.float32)
        _times(gram, ridge, missing, rows, others, x, product)
        residual = -product
        for p in range(first, last):
            row, target = others[entries[1][p]], entries[2][p]
            for k in range(size):
                residual[k] += target * row[k]
        direction = residual.copy()
        square = np.float32(0.0)
        for k in range(size):
            square += residual[k] * residual[k]
        for _ in range(n_steps):
            if not square > np.float32(1e-20):
                break
            _times(gram, ridge, missing, rows, others, direction, product)
            curvature = np.float32(0.0)
            for k in range(size):
                curvature += direction[k] * product[k]
            step = square / curvature
            new = np.float32(0.0)
            for k in range(size):
                x[k] += step * direction[k]
                residual[k] -= step * product[k]
                new += residual[k] * residual[k]
            ratio = new / square
            square = new
            for k in range(size):
                direction[k] = residual[k] + ratio * direction[k]
        own[u] = x


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
        cholesky(matrix, size)
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


@njit(error_model="numpy", parallel=True)
def gram_matrix(rows):
    """rowsᵀ rows in float64, summed over fixed blocks of rows in a fixed order: no bit depends on the threads."""
    n, size = rows.shape
    parts = np.zeros((_BLOCKS, size, size))
    for block in prange(_BLOCKS):
        part = parts[block]
        for u in range(block * n // _BLOCKS, (block + 1) * n // _BLOCKS):
            for i in range(size):
                x = np.float64(rows[u, i])
                for k in range(i + 1):
                    part[i, k] += x * rows[u, k]
    out = np.zeros((size, size))
    for block in range(_BLOCKS):
        out += parts[block]
    for i in range(size):
        for k in range(i):
            out[k, i] = out[i, k]
    return out
