"""Sums over the entries of a few long columns, as the factors of a model are when entries lie side by side.

Loops run along the columns, where the processor adds several numbers at once; so the order of a sum depends on it.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit


@njit(error_model="numpy")
def combined(columns, n, vector, out):
    """out_e = Σ_k columns_ke vector_k of the first n entries."""
    n_columns, k = vector.size, 0
    for e in range(n):
        out[e] = 0.0
    while k + 4 <= n_columns:
        a, b, c, d = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        p, q, r, s = vector[k], vector[k + 1], vector[k + 2], vector[k + 3]
        for e in range(n):
            out[e] += (p * a[e] + q * b[e]) + (r * c[e] + s * d[e])
        k += 4
    while k < n_columns:
        column, part = columns[k], vector[k]
        for e in range(n):
            out[e] += part * column[e]
        k += 1


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def add_products(columns, n, weights, total):
    """total_k += Σ_e weights_e columns_ke over the first n entries."""
    for k in range(total.size):
        column, product = columns[k], 0.0
        for e in range(n):
            product += weights[e] * column[e]
        total[k] += product


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def add_gram(columns, n, weights, gram):
    """gram_km += Σ_e weights_e columns_ke columns_me over the first n entries; only the lower triangle."""
    weighted = np.empty(n)
    for k in range(gram.shape[0]):
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
            other, product = columns[m], 0.0
            for e in range(n):
                product += weighted[e] * other[e]
            gram[k, m] += product
            m += 1


@njit(error_model="numpy")
def gather_columns(rows, chosen, first, n, columns):
    """columns_ke = rows_ik with i = chosen_(first + e), for e < n and every row of columns; four entries at a time."""
    n_columns, whole = columns.shape[0], n - n % 4
    for e in range(0, whole, 4):
        a, b = rows[chosen[first + e]], rows[chosen[first + e + 1]]
        c, d = rows[chosen[first + e + 2]], rows[chosen[first + e + 3]]
        for k in range(n_columns):
            column = columns[k]
            column[e], column[e + 1], column[e + 2], column[e + 3] = a[k], b[k], c[k], d[k]
    for e in range(whole, n):
        row = rows[chosen[first + e]]
        for k in range(n_columns):
            columns[k, e] = row[k]
