"""Products of matrices in single precision, in tiles that stay in registers: no bit depends on the threads.

Written out because a call of BLAS from a parallel loop would start threads of its own, and rounds otherwise with
another number of them.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange

# Sums of products may be taken in any order; there are no NaN or infinities to be missed.
FAST = {"reassoc", "contract", "nsz"}
# Rows that are summed in single precision before they are added in double; and tasks, which are fixed.
_RUN, _TASKS = 256, 64


@njit(error_model="numpy", fastmath=FAST)
def add_products(left, right, scale, out):
    """Add scale * left rightᵀ to out: float32 (m, K), (n, K) and (m, n)."""
    m, n, size = left.shape[0], right.shape[0], left.shape[1]
    zero = np.float32(0.0)
    for i in range(0, m - 3, 4):
        a, b, c, d = left[i], left[i + 1], left[i + 2], left[i + 3]
        for j in range(0, n - 1, 2):
            p, q = right[j], right[j + 1]
            ap, aq, bp, bq, cp, cq, dp, dq = zero, zero, zero, zero, zero, zero, zero, zero
            for k in range(size):
                ap += a[k] * p[k]
                aq += a[k] * q[k]
                bp += b[k] * p[k]
                bq += b[k] * q[k]
                cp += c[k] * p[k]
                cq += c[k] * q[k]
                dp += d[k] * p[k]
                dq += d[k] * q[k]
            out[i, j] += scale * ap
            out[i, j + 1] += scale * aq
            out[i + 1, j] += scale * bp
            out[i + 1, j + 1] += scale * bq
            out[i + 2, j] += scale * cp
            out[i + 2, j + 1] += scale * cq
            out[i + 3, j] += scale * dp
            out[i + 3, j + 1] += scale * dq
    whole, even = m - m % 4, n - n % 2
    for i in range(m):
        for j in range(even if i < whole else 0, n):
            total = zero
            for k in range(size):
                total += left[i, k] * right[j, k]
            out[i, j] += scale * total


@njit(error_model="numpy", parallel=True)
def gram_matrix(rows):
    """rowsᵀ rows of float32 rows, (K, K) float64: sums of a few rows in single precision, sums of these in double."""
    n, size = rows.shape
    parts = np.zeros((_TASKS, size, size))
    for task in prange(_TASKS):
        columns, product = np.zeros((size, _RUN), np.float32), np.empty((size, size), np.float32)
        last = (task + 1) * n // _TASKS
        for first in range(task * n // _TASKS, last, _RUN):
            count = min(_RUN, last - first)
            for k in range(size):
                for r in range(count):
                    columns[k, r] = rows[first + r, k]
                columns[k, count:] = np.float32(0.0)
            product[:] = np.float32(0.0)
            add_products(columns, columns, np.float32(1.0), product)
            for i in range(size):
                for k in range(size):
                    parts[task, i, k] += product[i, k]
    out = np.zeros((size, size))
    for task in range(_TASKS):
        out += parts[task]
    return out
