"""Limited-memory BFGS on problems whose answer is known, and against SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize as scipy_minimise
from scipy.optimize import rosen, rosen_der

from permrank.learning.lbfgs import LimitedMemory, inner, minimise
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


def test_without_memory_the_direction_is_the_scaled_gradient():
    gradient, diagonal = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    assert_allclose(LimitedMemory(3, 2).direction(gradient, diagonal), gradient * diagonal, rtol=1e-12)


def test_what_was_seen_along_a_step_is_known():
    """The secant equation: the approximate inverse takes the last fall of the gradient to the last step."""
    rng = np.random.default_rng(0)
    bend = rng.normal(size=(6, 6))
    bend = bend @ bend.T + np.eye(6)
    memory = LimitedMemory(3, 6)
    for _ in range(5):
        step = rng.normal(size=6)
        memory.remember(step, bend @ step)
    assert len(memory) == 3
    assert_allclose(memory.direction(bend @ step, np.ones(6)), step, rtol=1e-8, atol=1e-8)
    memory.forget()
    assert len(memory) == 0


def test_a_quadratic_is_climbed_to_its_top():
    rng = np.random.default_rng(1)
    bend = rng.normal(size=(8, 8))
    bend = bend @ bend.T + np.eye(8)
    point, memory, top = np.zeros(8), LimitedMemory(8, 8), rng.normal(size=8)
    for _ in range(9):
        gradient = bend @ (top - point)
        direction = memory.direction(gradient, np.ones(8))
        step = inner(gradient, direction) / (direction @ bend @ direction) * direction
        memory.remember(step, bend @ step)
        point = point + step
    assert_allclose(point, top, rtol=0, atol=1e-4)


def test_a_step_along_which_nothing_bends_down_is_not_kept():
    memory = LimitedMemory(2, 3)
    memory.remember(np.ones(3), -np.ones(3))
    memory.remember(np.ones(3), np.zeros(3))
    assert len(memory) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_direction_is_that_of_the_two_loops_over_whole_vectors(dtype):
    rng = np.random.default_rng(2)
    n = 10_000  # several chunks
    memory, pairs = LimitedMemory(4, n, dtype), []
    for _ in range(6):
        step = rng.normal(size=n).astype(dtype)
        fall = (step * rng.uniform(0.5, 2.0, n)).astype(dtype)
        memory.remember(step, fall)
        pairs.append((step.astype(float), fall.astype(float)))
    gradient, diagonal, shares = rng.normal(size=n), rng.uniform(0.5, 2.0, n), []
    found = gradient.copy()
    for step, fall in pairs[:1:-1]:
        shares.append(step @ found / (step @ fall))
        found -= shares[-1] * fall
    found *= diagonal * (step_fall := pairs[-1][0] @ pairs[-1][1]) / (pairs[-1][1] @ (diagonal * pairs[-1][1]))
    assert step_fall > 0
    for (step, fall), share in zip(pairs[2:], reversed(shares), strict=True):
        found += (share - fall @ found / (step @ fall)) * step
    assert_allclose(memory.direction(gradient, diagonal), found, rtol=1e-9, atol=1e-9)
