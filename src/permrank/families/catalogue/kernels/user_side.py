"""Quadratic forms of sparse columns: the diagonal of the closed form on the users' side."""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange


@njit(error_model="numpy", parallel=True)
def quadratic_forms(indptr, users, values, kernel):
    """Y_jᵀ K Y_j of every column j of a sparse matrix, (n_items,); K is symmetric, (n_users, n_users)."""
    out = np.zeros(indptr.size - 1)
    for j in prange(out.size):
        total = 0.0
        for p in range(indptr[j], indptr[j + 1]):
            row, part = kernel[users[p]], 0.0
            for q in range(indptr[j], p):
                part += row[users[q]] * values[q]
            total += values[p] * (2.0 * part + row[users[p]] * values[p])
        out[j] = total
    return out
