"""Limited-memory BFGS."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize as scipy_minimise
from scipy.optimize import rosen, rosen_der

from permrank.learning.lbfgs import minimise
from permrank.learning.learner import run


def test_a_quadratic_is_solved():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    matrix, wanted = root @ root.T + np.eye(30), rng.normal(size=30)

    def function(x):
        return 0.5 * (x - wanted) @ matrix @ (x - wanted), matrix @ (x - wanted)

    fitted = run(minimise(function, np.zeros(30), 1.0 / np.diag(matrix), tol=1e-14), max_iter=500)
    assert_allclose(fitted.estimate, wanted, rtol=0, atol=1e-5)
    assert (np.diff(fitted.history) >= 0).all()


def test_a_curved_valley_ends_where_scipy_ends():
    start = np.array([-1.2, 1.0, 0.5, -0.4])
    fitted = run(minimise(lambda x: (rosen(x), rosen_der(x)), start, np.ones(4), tol=1e-15), max_iter=500)
    wanted = scipy_minimise(rosen, start, jac=rosen_der, method="L-BFGS-B", tol=1e-14).x
    assert_allclose(fitted.estimate, wanted, rtol=0, atol=1e-4)
    assert fitted.converged


def test_learning_ends_with_the_sweeps_or_at_once_where_nothing_can_be_gained():
    valley = minimise(lambda x: (rosen(x), rosen_der(x)), np.array([-1.2, 1.0]), np.ones(2), tol=1e-12)
    fitted = run(valley, max_iter=3)
    assert len(fitted.history) == 3
    assert not fitted.converged
    fitted = run(minimise(lambda x: (0.0, np.zeros(2)), np.ones(2), np.ones(2), tol=1e-9), max_iter=50)
    assert fitted.estimate.tolist() == [1.0, 1.0]
    assert fitted.converged
    assert len(fitted.history) == 2


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_scale_of_the_variables_does_not_matter(size):
    curvatures = size * np.array([1.0, 4.0, 9.0])
    descent = minimise(
        lambda x: (0.5 * float(curvatures @ (x - 1) ** 2), curvatures * (x - 1)), np.zeros(3), 1 / curvatures, tol=1e-15
    )
    assert_allclose(run(descent, max_iter=100).estimate, 1.0, rtol=0, atol=1e-6)
