"""Probabilities of orders of normal numbers: integration along a chain, and GHK, against closed forms."""

from itertools import permutations

import numpy as np
import pytest
from scipy import integrate, stats

from permrank.families.thurstone.kernels.chains import chain_log_probabilities
from permrank.families.thurstone.kernels.orthants import ghk
from permrank.ragged import frozen
from permrank.randomness import stream_key

RNG_SEED = 5


def chain(means, deviations):
    return float(
        chain_log_probabilities(np.atleast_2d(means).astype(float), np.atleast_2d(deviations).astype(float))[0]
    )


def test_two_independent_normals_have_the_closed_form():
    for gap, s, t in ((0.3, 1.0, 1.0), (-4.0, 0.2, 0.9), (2.0, 0.01, 1.5), (7.0, 1.0, 0.5)):
        expected = stats.norm.logcdf(gap / np.hypot(s, t))
        np.testing.assert_allclose(chain([gap, 0.0], [s, t]), expected, rtol=0, atol=2e-4)


def test_three_independent_normals_agree_with_quadrature():
    means, deviations = [0.2, 0.5, -0.3], [1.0, 0.4, 0.8]

    def inner(x):  # P(x_1 > x) density of x_2 at x P(x_3 < x)
        return (
            stats.norm.sf(x, means[0], deviations[0])
            * stats.norm.pdf(x, means[1], deviations[1])
            * stats.norm.cdf(x, means[2], deviations[2])
        )

    expected, _ = integrate.quad(inner, -6, 6)
    np.testing.assert_allclose(np.exp(chain(means, deviations)), expected, rtol=3e-4)


def test_all_orders_of_five_add_up_to_one():
    rng = np.random.default_rng(RNG_SEED)
    means, deviations = rng.normal(size=5), rng.uniform(0.1, 2.0, 5)
    orders = np.array(list(permutations(range(5))))
    total = np.exp(chain_log_probabilities(means[orders], deviations[orders])).sum()
    np.testing.assert_allclose(total, 1.0, rtol=2e-3)


def test_known_numbers_split_the_chain():
    # x_1 > 0.5 > x_3 > -1 with x_1, x_3 normal
    found = chain([0.0, 0.5, 0.2, -1.0], [1.0, 0.0, 0.7, 0.0])
    expected = stats.norm.sf(0.5) * (stats.norm.cdf(0.3 / 0.7) - stats.norm.cdf(-1.2 / 0.7))
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-4)
    assert chain([0.0, 0.5], [0.0, 0.0]) == -np.inf
    assert chain([0.5, 0.0], [0.0, 0.0]) == 0.0


def population(n_items, n_factors, seed, n_components=1):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(1, n_components, n_items, n_factors + 1))
    variances = rng.uniform(0.3, 1.5, (1, n_components, n_items))
    return theta, variances, np.full((1, n_components), 1.0 / n_components)


def by_ghk(lists, levels, theta, variances, shares, n_points=4096):
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in lists])))
    items, flat = np.concatenate(lists).astype(np.int32), np.concatenate(levels).astype(np.int32)
    centres = np.zeros((len(theta), len(lists), theta.shape[3] - 1))
    alphas = np.sqrt(np.array([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])) % 1.0
    arrays = frozen(indptr, items, flat)
    groups = ghk(*arrays, theta, variances, np.log(shares), centres, alphas, 4, n_points, stream_key(1))
    return np.exp(groups).mean(axis=1)


@pytest.mark.parametrize("n_components", [1, 2])
def test_ghk_agrees_with_orthants_of_three_items(n_components):
    theta, variances, shares = population(3, 2, 1, n_components)
    orders = [list(order) for order in permutations(range(3))]
    found = by_ghk(orders, [[0, 1, 2]] * 6, theta, variances, shares)
    expected = np.zeros(6)
    for z in range(n_components):
        covariance = theta[0, z, :, :2] @ theta[0, z, :, :2].T + np.diag(variances[0, z])
        for i, order in enumerate(orders):
            differences = np.zeros((2, 3))
            differences[[0, 1], order[1:]], differences[[0, 1], order[:2]] = 1.0, -1.0
            law = stats.multivariate_normal(
                differences @ theta[0, z, :, 2], differences @ covariance @ differences.T, seed=0
            )
            expected[i] += law.cdf(np.zeros(2)) / n_components
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=2e-3)


def test_ghk_of_a_tie_is_the_sum_over_its_orders():
    theta, variances, shares = population(4, 2, 2)
    tied = by_ghk([[0, 1, 2, 3]], [[0, 1, 1, 1]], theta, variances, shares)[0]
    first = [[0, *rest] for rest in permutations([1, 2, 3])]
    strict = by_ghk(first, [[0, 1, 2, 3]] * 6, theta, variances, shares)
    np.testing.assert_allclose(tied, strict.sum(), rtol=5e-3)
    middle = by_ghk([[2, 3, 0, 1]], [[0, 0, 1, 1]], theta, variances, shares)[0]
    both = [[*a, *b] for a in permutations([2, 3]) for b in permutations([0, 1])]
    np.testing.assert_allclose(middle, by_ghk(both, [[0, 1, 2, 3]] * 4, theta, variances, shares).sum(), rtol=5e-3)


def test_ghk_is_right_for_rankings_that_hardly_ever_occur():
    rng = np.random.default_rng(3)
    theta, variances, shares = np.zeros((1, 1, 6, 3)), rng.uniform(0.5, 1.5, (1, 1, 6)), np.ones((1, 1))
    theta[0, 0, :, 2] = np.arange(6) * 1.2  # the best come last
    found = np.log(by_ghk([range(6)], [range(6)], theta, variances, shares, n_points=256)[0])
    expected = chain(theta[0, 0, :, 2], np.sqrt(variances[0, 0]))
    assert expected < -20.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.005)
