"""Sums over the rows of a matrix, four rows at a time.

The columns are few (the factors of a model), so a loop over them is over before the processor is busy. Four rows in one
loop keep it busy, and a sum is read and written once for four rows. Sums are in the order of the rows, but for those of
products of long columns, whose order depends on the processor.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit

# So many rows are turned to columns at a time, if there are so many at least.
_PANEL, _MANY = 64, 24


@njit(error_model="numpy")
def row_products(rows, n, vector, out):
    """out_e = Σ_k rows_ek vector_k of the first n rows."""
    n_columns, whole = vector.size, n - n % 4
    for e in range(0, whole, 4):
        a, b, c, d = rows[e], rows[e + 1], rows[e + 2], rows[e + 3]
        of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
        for k in range(n_columns):
            of_a += a[k] * vector[k]
            of_b += b[k] * vector[k]
            of_c += c[k] * vector[k]
            of_d += d[k] * vector[k]
        out[e], out[e + 1], out[e + 2], out[e + 3] = of_a, of_b, of_c, of_d
    for e in range(whole, n):
        total = 0.0
        for k in range(n_columns):
            total += rows[e, k] * vector[k]
        out[e] = total


@njit(error_model="numpy")
def add_rows(rows, n, weights, total):
    """total += Σ_e weights_e rows_e over the first n rows."""
    n_columns, whole = total.size, n - n % 4
    for e in range(0, whole, 4):
        a, b, c, d = rows[e], rows[e + 1], rows[e + 2], rows[e + 3]
        p, q, r, s = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
        for k in range(n_columns):
            total[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k])
    for e in range(whole, n):
        for k in range(n_columns):
            total[k] += weights[e] * rows[e, k]


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def _add_gram_of_columns(rows, n, weights, gram, columns):
    """`add_gram` of at most _PANEL rows, by products of columns; columns: (K + 1, _PANEL), for work."""
    n_columns, weighted = gram.shape[0], columns[gram.shape[0]]
    for e in range(n):
        for k in range(n_columns):
            columns[k, e] = rows[e, k]
    for k in range(n_columns):
        column = columns[k]
        for e in range(n):
            weighted[e] = weights[e] * column[e]
        m = 0
        while m + 3 <= k:
            a, b, c, d = columns[m], columns[m + 1], columns[m + 2], columns[m + 3]
            of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
            for e in range(n):
                of_a += weighted[e] * a[e]
                of_b += weighted[e] * b[e]
                of_c += weighted[e] * c[e]
                of_d += weighted[e] * d[e]
            gram[k, m] += of_a
            gram[k, m + 1] += of_b
            gram[k, m + 2] += of_c
            gram[k, m + 3] += of_d
            m += 4
        while m <= k:
            other, total = columns[m], 0.0
            for e in range(n):
                total += weighted[e] * other[e]
            gram[k, m] += total
            m += 1


@njit(error_model="numpy")
def _add_gram_of_rows(rows, n, weights, gram):
    """`add_gram` of few rows."""
    n_columns, whole = gram.shape[0], n - n % 4
    for e in range(0, whole, 4):
        a, b, c, d = rows[e], rows[e + 1], rows[e + 2], rows[e + 3]
        for k in range(n_columns):
            p, q, r, s = weights[e] * a[k], weights[e + 1] * b[k], weights[e + 2] * c[k], weights[e + 3] * d[k]
            total = gram[k]
            for m in range(n_columns):  # all of them: a loop of one length is quicker than half of it
                total[m] += (p * a[m] + q * b[m]) + (r * c[m] + s * d[m])
    for e in range(whole, n):
        row = rows[e]
        for k in range(n_columns):
            part, total = weights[e] * row[k], gram[k]
            for m in range(n_columns):
                total[m] += part * row[m]


@njit(error_model="numpy")
def add_gram(rows, n, weights, gram):
    """gram += Σ_e weights_e rows_e rows_eᵀ over the first n rows; only the lower triangle, above it is anything.

    Of many rows columns are multiplied: their loops are long, and half of the products suffice.
    """
    start = 0
    if n >= _MANY:
        columns = np.empty((gram.shape[0] + 1, _PANEL))
        while n - start >= _MANY:
            size = min(_PANEL, n - start)
            _add_gram_of_columns(rows[start:], size, weights[start:], gram, columns)
            start += size
    if start < n:
        _add_gram_of_rows(rows[start:], n - start, weights[start:], gram)
