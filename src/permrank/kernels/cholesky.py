"""Cholesky factors of small matrices, in place, without a call into LAPACK from a parallel loop."""

from __future__ import annotations

import math

from permrank.kernels.jit import njit


@njit(error_model="numpy")
def cholesky(matrix, n):
    """Lower Cholesky factor in place; a pivot lost to rounding is replaced by a small positive one."""
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = math.sqrt(max(total, 1e-12))
            else:
                matrix[i, j] = total / matrix[j, j]


@njit(error_model="numpy")
def forward(lower, x, n):
    """Solve L z = x in place."""
    for i in range(n):
        total = x[i]
        for k in range(i):
            total -= lower[i, k] * x[k]
        x[i] = total / lower[i, i]


@njit(error_model="numpy")
def backward(lower, x, n):
    """Solve Lᵀ z = x in place."""
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= lower[k, i] * x[k]
        x[i] = total / lower[i, i]


@njit(error_model="numpy")
def trace_of_inverse(lower, scratch, n):
    """Trace of (L Lᵀ)^-1: the squares of L^-1, column by column."""
    total = 0.0
    for j in range(n):
        for i in range(j, n):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= lower[i, k] * scratch[k]
            scratch[i] = value / lower[i, i]
            total += scratch[i] * scratch[i]
    return total
