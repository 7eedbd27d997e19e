"""Means of products at a low rank, against the products themselves."""

import numba
import numpy as np
import pytest

from permrank.learning.linear_algebra import MeanProduct, onto

N_LEFT, N_RIGHT, K = 70, 40, 3


@pytest.fixture
def draws():
    """Twelve draws of the same product, each in a basis of its own and with noise: the mean is nearly of rank K."""
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(N_LEFT, K)), rng.normal(size=(N_RIGHT + 2, K))
    made = []
    for _ in range(12):
        turn = np.linalg.qr(rng.normal(size=(K, K)))[0]
        noisy = [side @ turn + 0.3 * rng.normal(size=side.shape) for side in (left, right)]
        made.append([np.hstack((side, np.full((len(side), 1), 9.0))) for side in noisy])  # a column that is not used
    return made


def held(draws, rank):
    mean = MeanProduct(N_LEFT, N_RIGHT, rank)
    for left, right in draws:
        mean.add(left, right, K)
    return mean


def product(mean):
    left, right = mean.factors()
    return left.astype(float) @ right.T.astype(float)


def test_with_enough_rank_it_is_the_mean(draws):
    whole = np.mean([left[:, :K] @ right[:N_RIGHT, :K].T for left, right in draws[:4]], axis=0)
    np.testing.assert_allclose(product(held(draws[:4], 4 * K)), whole, rtol=0, atol=1e-4)


def test_at_twice_the_rank_little_is_lost_and_at_half_of_it_much(draws):
    whole = np.mean([left[:, :K] @ right[:N_RIGHT, :K].T for left, right in draws], axis=0)
    best = np.linalg.svd(whole, compute_uv=False)
    lost = {rank: np.sum((product(held(draws, rank)) - whole) ** 2) for rank in (2 * K, K - 1)}
    assert lost[2 * K] < 1.5 * np.sum(best[2 * K :] ** 2)
    assert lost[2 * K] < 0.02 * np.sum(best**2) < lost[K - 1]
    left, right = held(draws, 2 * K).factors()
    for side in (left, right):  # orthogonal, and as long on either side
        gram = side.T.astype(float) @ side
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), rtol=0, atol=1e-4 * gram.max())
        np.testing.assert_allclose(np.diag(gram), np.diag(left.T.astype(float) @ left), rtol=1e-4)


def test_a_run_goes_on_to_the_same_bits_for_any_number_of_threads(draws):
    before, found = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            resumed = MeanProduct(N_LEFT, N_RIGHT, 2 * K)
            resumed.restore(held(draws[:5], 2 * K).state())
            for left, right in draws[5:]:
                resumed.add(left, right, K)
            found += [held(draws, 2 * K).factors(), resumed.factors()]
    finally:
        numba.set_num_threads(before)
    for each in found[1:]:
        np.testing.assert_array_equal(each[0], found[0][0])
        np.testing.assert_array_equal(each[1], found[0][1])


def test_rows_of_a_draw_in_the_basis_of_the_mean_have_the_products_of_the_draw(draws):
    _, factors = held(draws[:2], 2 * K).factors()
    for left, right in draws[:2]:  # both lie in the space of the factors
        moved = left[:, :K] @ onto(factors, right, K)
        np.testing.assert_allclose(moved @ factors.T, left[:, :K] @ right[:N_RIGHT, :K].T, rtol=0, atol=1e-3)


def test_nothing_but_zeros():
    mean = MeanProduct(4, 5, 2)
    mean.add(np.zeros((4, 3)), np.ones((5, 3)), 3)
    left, right = mean.factors()
    assert (left @ right.T).shape == (4, 5)
    assert onto(right, np.ones((5, 3)), 3).shape == (3, right.shape[1])
