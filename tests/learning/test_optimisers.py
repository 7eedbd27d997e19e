"""The maximisers on problems whose answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permrank.learning.learner import run
from permrank.learning.optimisers import Evaluation, minorise_maximise, newton


def quadratic(matrix, target):
    def objective(x):
        gradient = matrix @ (target - x)
        return Evaluation(-0.5 * (target - x) @ matrix @ (target - x), gradient, np.diag(matrix).copy())

    return objective


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(0, 2**31))
def test_newton_solves_a_quadratic(n, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n + 5))
    matrix, target = root @ root.T + 0.1 * np.eye(n), rng.normal(size=n)
    fitted = run(newton(quadratic(matrix, target), np.zeros(n), tol=1e-9), max_iter=100)
    np.testing.assert_allclose(fitted.estimate, target, rtol=0, atol=1e-6)
    assert fitted.converged
    assert (np.diff(fitted.history) >= 0).all()


def test_newton_reaches_a_flat_maximum_that_values_cannot_see():
    # One well-determined variable of weight 1e8 and one of weight 1e-3: the value alone is blind to the second.
    weights, target = np.array([1e8, 1e-3]), np.array([1.0, -2.0])

    def objective(x):
        d = target - x
        return Evaluation(-1e9 - float(weights @ np.cosh(d)), weights * np.sinh(d), weights * np.cosh(d))

    fitted = run(newton(objective, np.zeros(2), tol=1e-9), max_iter=100)
    np.testing.assert_allclose(fitted.estimate, target, rtol=0, atol=1e-6)
    assert fitted.converged


@pytest.mark.parametrize("seed", range(5))
def test_newton_ends_where_rounding_is_all_that_is_left_of_the_gradient(seed):
    """A maximum that is flat along (1, ..., 1), as of scores, with gradients off in their last bits."""
    rng = np.random.default_rng(seed)
    n = 20
    weights = rng.uniform(1, 5, size=(n, n))
    weights += weights.T
    bend = np.diag(weights.sum(axis=1)) - weights
    target = rng.normal(size=n)
    target -= target.mean()

    def objective(x):
        away = target - x
        noise = 1e-12 * np.random.default_rng(x.view(np.uint32)).normal(size=n)
        return Evaluation(-1000.0 - 0.5 * away @ bend @ away, bend @ away + noise, np.diag(bend))

    fitted = run(newton(objective, np.zeros(n), tol=1e-10), max_iter=100)
    found = fitted.estimate
    assert fitted.converged
    assert len(fitted.history) < 30
    np.testing.assert_allclose(found - found.mean(), target, rtol=0, atol=1e-7)


def test_newton_from_far_away_never_lowers_the_objective():
    def objective(x):
        p = 1 / (1 + np.exp(-x))
        return Evaluation(float(np.sum(x - 2 * np.logaddexp(0, x))), 1 - 2 * p, 2 * p * (1 - p) + 1e-12)

    fitted = run(newton(objective, np.array([12.0, -9.0]), tol=1e-9), max_iter=200)
    np.testing.assert_allclose(fitted.estimate, 0, rtol=0, atol=1e-8)
    assert (np.diff(fitted.history) >= 0).all()


def test_minorise_maximise_stops_at_a_fixed_point_or_at_the_limit():
    learner = minorise_maximise(lambda x: (x / 2, -float(x @ x)), np.ones(3), tol=1e-6)
    fitted = run(learner, max_iter=100)
    assert fitted.converged
    assert np.abs(fitted.estimate).max() < 1e-5
    short = run(learner, max_iter=3)
    assert not short.converged
    assert len(short.history) == 3
