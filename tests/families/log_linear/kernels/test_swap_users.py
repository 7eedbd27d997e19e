"""The likelihood of swaps, its gradient and Hessian, and the users' posterior."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from permrank.families.log_linear.kernels import swap_users as su
from permrank.families.log_linear.kernels import swaps as sw
from permrank.kernels.lists import Lists
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Users
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled

G = np.array([0.8, 0.3, 0.3, -0.4, -1.0])  # two tied in the middle


def statistics(scores, weight=1.0, g=G):
    residual, degree = np.empty(g.size), np.empty(g.size)
    value = sw.swap_statistics(sw.swaps_of(g.size, 0), g, scores, weight, residual, degree)
    return value, residual, degree


def bend(scores, weight=1.0, g=G):
    """Minus the Hessian in the scores: that in the factors if these are unit vectors."""
    n = g.size
    residual, degree, hessian, swaps = np.empty(n), np.empty(n), np.zeros((n, n)), sw.swaps_of(n, n)
    sw.swap_statistics(swaps, g, scores, weight, residual, degree)
    sw.add_swap_hessian(swaps, np.eye(n), 0, weight, degree, hessian)
    return np.tril(hessian) + np.tril(hessian, -1).T


@pytest.mark.parametrize("n", [1, 2, 3, 6, 13])
def test_value_gradient_and_hessian_are_those_of_the_definition(n):
    rng = np.random.default_rng(n)
    scores, g = rng.normal(size=n), np.sort(rng.normal(size=n).round(1))[::-1].copy()
    value, residual, _ = statistics(scores, 1.7, g)
    wanted = sum(
        -math.log1p(math.exp(-(scores[i] - scores[j]) * (g[i] - g[j])))
        for i, j in itertools.combinations(range(n), 2)
        if g[i] != g[j]
    )
    np.testing.assert_allclose(value, 1.7 * sw.SHARPNESS / n * wanted, rtol=1e-12)
    for i in range(n):
        step = np.zeros(n)
        step[i] = 1e-5
        up, down = statistics(scores + step, 1.7, g), statistics(scores - step, 1.7, g)
        np.testing.assert_allclose(residual[i], (up[0] - down[0]) / 2e-5, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(bend(scores, 1.7, g)[i], (down[1] - up[1]) / 2e-5, rtol=1e-5, atol=1e-8)


def test_long_lists_are_judged_by_a_part_of_their_swaps_that_counts_for_all():
    n = 1001
    g = np.linspace(1, -1, n)
    scores = 2 * g + np.random.default_rng(0).normal(size=n)
    value, residual, degree = statistics(scores, 1.0, g)
    gap = g[:, None] - g[None, :]
    margin = (scores[:, None] - scores[None, :]) * gap
    wrong = 1 / (1 + np.exp(margin))
    np.testing.assert_allclose(value, 0.5 * sw.SHARPNESS / n * np.log1p(-wrong).sum(), rtol=0.01)
    full = sw.SHARPNESS / n * np.sum(wrong * gap, axis=1)
    assert np.corrcoef(residual, full)[0, 1] > 0.99
    np.testing.assert_allclose(degree.sum(), sw.SHARPNESS / n * np.sum(gap**2 * wrong * (1 - wrong)), rtol=0.02)


def test_at_equal_scores_the_information_is_a_known_multiple_of_the_full_likelihoods():
    g = np.array([0.75, 0.25, -0.25, -0.75])
    every = np.array(list(itertools.permutations(g)))
    mean = np.mean([bend(np.zeros(4), 1.0, places.copy()) for places in every], axis=0)
    np.testing.assert_allclose(mean, sw.SHARPNESS / 2 * np.cov(every.T, bias=True), rtol=1e-10, atol=1e-12)


def problem():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(7, 3))
    indptr, users = np.array([0, 5, 10]), np.array([0, 1, 2])
    items = np.concatenate([rng.permutation(7)[:5] for _ in range(2)]).astype(np.int32)
    data = frozen(users, indptr, items, np.tile(G, 2), np.array([1.0, 2.0]))
    return Lists(*data), theta, np.array([1.0, 2.0])


def negative_log_posterior(vector, u, data):
    (_, indptr, items, _, weights), theta, precision = data
    rows = theta[items[indptr[u] : indptr[u + 1]]]
    value, *_ = statistics(rows[:, :2] @ vector + rows[:, 2], weights[u])
    return 0.5 * precision @ vector**2 - value


def test_users_are_moved_to_their_modes():
    data = problem()
    modes, draws, entries = np.zeros((2, 2)), np.zeros((2, 2)), Entries(*np.empty((2, 10)))
    values = su.move_swap_users(*data, Users(modes, draws), Newton(50, 1e-10), NO_NOISE, entries)
    for u in range(2):
        found = minimize(negative_log_posterior, np.zeros(2), (u, data), tol=1e-12)
        np.testing.assert_allclose(modes[u], found.x, rtol=0, atol=1e-5)
        np.testing.assert_allclose(values[u], -found.fun, rtol=1e-9)
    np.testing.assert_array_equal(draws, modes)


def test_draws_have_the_density_that_is_told():
    data = problem()
    density = np.empty((2, 4000))
    drawn = su.swap_posterior_draws(*data, np.zeros((2, 2)), np.uint64(3), 4000, density)
    # E[1 / q] over a box equals its area for draws from q, if the density is right.
    for u in range(2):
        low, high = np.quantile(drawn[u], [0.2, 0.8], axis=0)
        inside = ((drawn[u] > low) & (drawn[u] < high)).all(axis=1)
        np.testing.assert_allclose(np.mean(inside * np.exp(-density[u])), np.prod(high - low), rtol=0.1)
