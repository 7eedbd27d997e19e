"""Sums over the rows of a matrix, four rows at a time.

The columns are few (the factors of a model), so a loop over them is over before the processor is busy. Four rows in one
loop keep it busy, and a sum is read and written once for four rows. Sums are in the order of the rows.
"""

from __future__ import annotations

from permrank.kernels.jit import njit


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


@njit(error_model="numpy")
def add_gram(rows, n, weights, gram):
    """gram += Σ_e weights_e rows_e rows_eᵀ over the first n rows."""
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
