"""Limited-memory BFGS on problems whose answer is known."""

import numpy as np
from numpy.testing import assert_allclose

from permrank.learning.limited_memory import LimitedMemory, inner


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
    assert_allclose(memory.direction(bend @ step, np.ones(6)), step, rtol=1e-4, atol=1e-5)
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


def test_the_direction_is_that_of_the_two_loops_over_whole_vectors():
    rng = np.random.default_rng(2)
    n = 10_000  # several chunks
    memory, pairs = LimitedMemory(4, n), []
    for _ in range(6):
        step = rng.normal(size=n).astype(np.float32)
        fall = (step * rng.uniform(0.5, 2.0, n)).astype(np.float32)
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
