"""Sums of rows along lists, and products of tall matrices: the same bits for any number of threads."""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange


@njit(error_model="numpy", parallel=True)
def row_sums(indptr, index, rows):
    """out[g] = Σ of rows[index[p]] over indptr[g] <= p < indptr[g + 1]: a sparse matrix of ones times a dense one."""
    n, size = indptr.size - 1, rows.shape[1]
    out = np.zeros((n, size))
    for g in prange(n):
        total, p, stop = out[g], indptr[g], indptr[g + 1]
        while p + 4 <= stop:  # a sum is read and written once for four rows
            a, b, c, d = rows[index[p]], rows[index[p + 1]], rows[index[p + 2]], rows[index[p + 3]]
            for k in range(size):
                total[k] += (a[k] + b[k]) + (c[k] + d[k])
            p += 4
        while p < stop:
            row = rows[index[p]]
            for k in range(size):
                total[k] += row[k]
            p += 1
    return out


@njit(error_model="numpy", parallel=True)
def cross(left, right):
    """leftᵀ right, every sum in the order of the rows (a BLAS with threads does not promise that)."""
    n, p = left.shape
    size = right.shape[1]
    out = np.zeros((p, size))
    for j in prange(p):
        for i in range(n):
            x = left[i, j]
            for k in range(size):
                out[j, k] += x * right[i, k]
    return out
