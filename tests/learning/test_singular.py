"""Singular values and vectors by products, against LAPACK and ARPACK."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import svds

from permrank.learning.linear_algebra import singular_values


def of(matrix, n_vectors, n_rounds, seed=0):
    start = np.random.default_rng([seed, 9]).normal(size=(matrix.shape[1], n_vectors))
    return singular_values(lambda x: matrix @ x, lambda y: matrix.T @ y, start, n_rounds)


def falling(n_rows, n_columns, seed, ratio=0.7):
    """A matrix whose singular values fall by a ratio, as SVD makes it."""
    rng = np.random.default_rng(seed)
    size = min(n_rows, n_columns)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in (n_rows, n_columns))
    return left * ratio ** np.arange(size) @ right.T


@pytest.mark.parametrize(("n_rows", "n_columns"), [(40, 25), (25, 40), (9, 9)])
def test_values_and_vectors_are_those_of_lapack(n_rows, n_columns):
    matrix = falling(n_rows, n_columns, seed=n_rows)
    _, wanted, rows = np.linalg.svd(matrix)
    values, vectors = of(matrix, 8, 40)
    # The ninth value is 0.49 of the seventh: after 40 rounds 0.49 ^ 80 = 2e-25 of the error is left.
    assert_allclose(values[:7], wanted[:7], rtol=1e-9, atol=0)
    assert_allclose(np.abs(np.sum(vectors[:, :7] * rows[:7].T, axis=0)), 1.0, rtol=0, atol=1e-9)
    assert_allclose(vectors.T @ vectors, np.eye(8), rtol=0, atol=1e-12)


def test_of_a_sparse_matrix_they_are_those_of_arpack():
    matrix = sparse.random_array((300, 120), density=0.05, rng=np.random.default_rng(3)).tocsr()
    values, _ = of(matrix, 12, 200)
    assert_allclose(values[:3], svds(matrix, 3, return_singular_vectors=False, random_state=0)[::-1], rtol=1e-6, atol=0)
    # The control: after one round nothing is known yet.
    assert of(matrix, 12, 1)[0][0] < 0.9 * values[0]


def test_one_column_is_the_power_iteration():
    matrix = falling(30, 20, seed=1)
    values, vectors = of(matrix, 1, 60)
    assert_allclose(values, 1.0, rtol=1e-9, atol=0)
    assert vectors.shape == (20, 1)


def test_beyond_the_rank_there_is_nothing():
    matrix = falling(30, 20, seed=2)
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    values, vectors = of(left[:, :2] * [5.0, 3.0] @ right[:2], 4, 20)
    assert_allclose(values, [5.0, 3.0, 0.0, 0.0], rtol=1e-9, atol=1e-6)
    assert_allclose(vectors[:, 2:], 0.0, rtol=0, atol=1e-6)
    values, vectors = of(np.zeros((5, 3)), 2, 4)
    assert values.tolist() == [0.0, 0.0]
    assert not vectors.any()


def test_the_number_of_threads_changes_no_bit():
    matrix, before, results = sparse.csr_array(falling(50, 30, seed=4)), numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            results.append(of(matrix, 5, 10))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)
