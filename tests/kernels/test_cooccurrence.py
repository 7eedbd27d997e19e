"""Sums of rows along lists, and products of tall matrices."""

import numba
import numpy as np
from scipy import sparse

from permrank.kernels.cooccurrence import cross, row_sums
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled


def case(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 7, 60)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    return *frozen(indptr, rng.integers(0, 15, indptr[-1]).astype(np.int32)), rng.normal(size=(15, 4))


def test_row_sums_are_products_with_a_sparse_matrix():
    indptr, index, rows = case(0)
    matrix = sparse.csr_array((np.ones(index.size), index, indptr), shape=(60, 15))
    np.testing.assert_allclose(row_sums(indptr, index, rows), matrix @ rows, rtol=1e-12, atol=1e-12)
    assert row_sums(indptr, index, rows[:, :0]).shape == (60, 0)


def test_cross_is_the_product_of_the_transpose():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(50, 3)), rng.normal(size=(50, 6))
    np.testing.assert_allclose(cross(left, right), left.T @ right, rtol=1e-12, atol=1e-12)


def test_the_number_of_threads_changes_no_bit():
    indptr, index, rows = case(2)
    before, results = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            sums = row_sums(indptr, index, rows)
            results.append((sums, cross(sums, sums)))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
