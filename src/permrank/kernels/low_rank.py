"""Products of tall matrices that are held at a low rank: the same bits for any number of threads."""

from __future__ import annotations

import numpy as np

from permrank.kernels.columns import add_gram
from permrank.kernels.jit import njit, prange

# Rows are added up in so many blocks, whatever the number of threads, and copied so many at a time.
_BLOCKS, _PANEL = 16, 128


@njit(error_model="numpy", parallel=True)
def joint_gram(held, new, size):
    """[held new]ᵀ [held new], with the first ``size`` columns of new; held: float32 (n, p), new: float64."""
    n, p = held.shape
    parts = np.zeros((_BLOCKS, p + size, p + size))
    for b in prange(_BLOCKS):
        begin, end, ones = b * n // _BLOCKS, (b + 1) * n // _BLOCKS, np.ones(_PANEL)
        columns = np.empty((p + size, _PANEL))
        for first in range(begin, end, _PANEL):
            n_rows = min(_PANEL, end - first)
            for i in range(n_rows):
                for j in range(p):
                    columns[j, i] = held[first + i, j]
                for j in range(size):
                    columns[p + j, i] = new[first + i, j]
            add_gram(columns, n_rows, ones, parts[b])
    total = parts[0].copy()
    for b in range(1, _BLOCKS):
        total += parts[b]
    for i in range(p + size):
        for j in range(i):
            total[j, i] = total[i, j]
    return total


@njit(error_model="numpy", parallel=True)
def recombined(held, new, size, mixing):
    """[held new] mixing, with the first ``size`` columns of new: float32."""
    n, p = held.shape
    out = np.empty((n, mixing.shape[1]), np.float32)
    for b in prange(_BLOCKS):
        total = np.empty(mixing.shape[1])
        for i in range(b * n // _BLOCKS, (b + 1) * n // _BLOCKS):
            total[:] = 0.0
            for j in range(p):
                for k in range(total.size):
                    total[k] += held[i, j] * mixing[j, k]
            for j in range(size):
                for k in range(total.size):
                    total[k] += new[i, j] * mixing[p + j, k]
            for k in range(total.size):
                out[i, k] = total[k]
    return out
