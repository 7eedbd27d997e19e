"""The likelihood of swaps, its gradient and Hessian, and the users' posterior."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize

from permrank.kernels.swap_users import SHARPNESS, _swap_statistics, swap_posterior_draws, update_swap_users

G = np.array([0.8, 0.3, 0.3, -0.4, -1.0])  # two tied in the middle


def statistics(scores, weight=1.0):
    residual, degree, own = np.empty(5), np.empty(5), np.empty((5, 5))
    value = _swap_statistics(G, scores, weight, residual, degree, own)
    return value, residual, degree, own


def test_value_gradient_and_hessian_are_those_of_the_definition():
    scores = np.random.default_rng(0).normal(size=5)
    value, residual, degree, own = statistics(scores, 1.7)
    wanted = sum(
        -math.log1p(math.exp(-(scores[i] - scores[j]) * (G[i] - G[j])))
        for i, j in itertools.combinations(range(5), 2)
        if G[i] != G[j]
    )
    np.testing.assert_allclose(value, 1.7 * SHARPNESS / 5 * wanted, rtol=1e-12)
    for i in range(5):
        step = np.zeros(5)
        step[i] = 1e-5
        up, down = statistics(scores + step, 1.7), statistics(scores - step, 1.7)
        np.testing.assert_allclose(residual[i], (up[0] - down[0]) / 2e-5, rtol=1e-6)
        bend = np.diag(degree) - own + np.diag(np.diag(own))
        np.testing.assert_allclose(bend[i], (down[1] - up[1]) / 2e-5, rtol=1e-5, atol=1e-8)


def test_at_equal_scores_the_information_is_a_known_multiple_of_the_full_likelihoods():
    g = np.array([0.75, 0.25, -0.25, -0.75])
    every = np.array(list(itertools.permutations(g)))
    full = np.cov(every.T, bias=True)
    mean = np.zeros((4, 4))
    for places in every:
        residual, degree, own = np.empty(4), np.empty(4), np.zeros((4, 4))
        _swap_statistics(places.copy(), np.zeros(4), 1.0, residual, degree, own)
        mean += (np.diag(degree) - own + np.diag(np.diag(own))) / len(every)
    np.testing.assert_allclose(mean, SHARPNESS / 2 * full, rtol=1e-10, atol=1e-12)


def problem():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(7, 3))
    indptr, users = np.array([0, 5, 10]), np.array([0, 1, 2])
    items = np.concatenate([rng.permutation(7)[:5] for _ in range(2)]).astype(np.int32)
    return users, indptr, items, np.tile(G, 2), np.array([1.0, 2.0]), theta, np.array([1.0, 2.0])


def negative_log_posterior(vector, u, data):
    _, indptr, items, _, weights, theta, precision = data
    rows = theta[items[indptr[u] : indptr[u + 1]]]
    value, *_ = statistics(rows[:, :2] @ vector + rows[:, 2], weights[u])
    return 0.5 * precision @ vector**2 - value


def test_users_are_moved_to_their_modes():
    data = problem()
    modes, draws, scratch = np.zeros((2, 2)), np.zeros((2, 2)), np.empty((2, 10))
    values = update_swap_users(*data, modes, draws, np.uint64(0), False, 50, 1e-10, *scratch)
    for u in range(2):
        found = minimize(negative_log_posterior, np.zeros(2), (u, data), tol=1e-12)
        np.testing.assert_allclose(modes[u], found.x, rtol=0, atol=1e-5)
        np.testing.assert_allclose(values[u], -found.fun, rtol=1e-9)
    np.testing.assert_array_equal(draws, modes)


def test_draws_have_the_density_that_is_told():
    data = problem()
    density = np.empty((2, 4000))
    drawn = swap_posterior_draws(*data, np.zeros((2, 2)), np.uint64(3), 4000, density)
    # E[1 / q] over a box equals its area for draws from q, if the density is right.
    for u in range(2):
        low, high = np.quantile(drawn[u], [0.2, 0.8], axis=0)
        inside = ((drawn[u] > low) & (drawn[u] < high)).all(axis=1)
        np.testing.assert_allclose(np.mean(inside * np.exp(-density[u])), np.prod(high - low), rtol=0.1)
