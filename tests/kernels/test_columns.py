"""Sums over the entries of columns against matrix products."""

import numpy as np
import pytest

from permrank.kernels.columns import add_gram, add_products, combined, gather_columns


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11, 24, 67, 101, 700])
@pytest.mark.parametrize("n_columns", [1, 3, 16])
def test_sums_are_those_of_matrix_products(n, n_columns):
    rng = np.random.default_rng([n, n_columns])
    rows, weights, vector = rng.normal(size=(n + 2, n_columns)), rng.normal(size=n + 2), rng.normal(size=n_columns)
    start, gram = rng.normal(size=n_columns), rng.normal(size=(n_columns, n_columns))
    out, total, square = np.full(n + 2, np.nan), start.copy(), gram.copy()
    columns = np.ascontiguousarray(rows.T)
    combined(columns, n, vector, out)
    add_products(columns, n, weights, total)
    add_gram(columns, n, weights, square)
    np.testing.assert_allclose(out[:n], rows[:n] @ vector, rtol=1e-12, atol=1e-12)
    assert np.isnan(out[n:]).all()
    np.testing.assert_allclose(total, start + weights[:n] @ rows[:n], rtol=1e-12, atol=1e-12)
    whole = gram + (rows[:n].T * weights[:n]) @ rows[:n]
    np.testing.assert_allclose(np.tril(square), np.tril(whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_chosen_rows_are_gathered_as_columns(n):
    rng = np.random.default_rng(n)
    rows, chosen, columns = (
        rng.normal(size=(5, 3)),
        rng.integers(0, 5, 2 + n).astype(np.int32),
        np.full((2, n + 1), np.nan),
    )
    gather_columns(rows, chosen, 2, n, columns)
    np.testing.assert_array_equal(columns[:, :n], rows[chosen[2:], :2].T)
    assert np.isnan(columns[:, n]).all()
