"""Limited-memory BFGS for smooth functions of very many variables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from permrank.learning.learner import Learner, State, Step, standing
from permrank.types import Float64Array

Function: TypeAlias = Callable[[Float64Array], tuple[float, Float64Array]]
"""Point to (value, gradient)."""

# Pairs of steps and changes of the gradient that are kept; 5 to 20 is usual.
_MEMORY = 10
# Armijo's share of the decrease that the slope promises.
_ENOUGH = 1e-4
# A value of many terms is blind below this part of itself.
_ROUNDING = 1e-14


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Sum of products in one fixed order: a BLAS may split it by its number of threads."""
    return float(np.sum(a * b))


def minimise(function: Function, start: Float64Array, scale: Float64Array, *, tol: float) -> Learner[Float64Array]:
    """Descend until a sweep gains less than ``tol`` of the value (Nocedal and Wright 2006, algorithm 7.5).

    Parameters
    ----------
    function : callable
    start : float64 (n,)
    scale : float64 (n,)
        Positive; proportional to the inverse curvature of each variable, as far as it is known beforehand.
    tol : float

    Returns
    -------
    Learner
        Of a minimiser, float64 (n,); the objective of a step is minus the value, which never rises.
    """

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        memory: deque[tuple[Float64Array, Float64Array, float]] = deque(maxlen=_MEMORY)
        if kept:
            point: Float64Array = kept["point"]
            value, gradient, small_gains = (kept[name] for name in ("value", "gradient", "small_gains"))
            memory.extend(zip(kept["moved"], kept["change"], kept["bend"].tolist(), strict=True))
        else:
            point, (value, gradient), small_gains = start, function(start), 0

        def estimate() -> Float64Array:
            return point

        def state() -> State:
            moved, change = (np.reshape([part[i] for part in memory], (-1, point.size)) for i in (0, 1))
            return {
                "point": point, "value": value, "gradient": gradient, "small_gains": small_gains, "moved": moved,
                "change": change, "bend": np.array([part[2] for part in memory]),
            }  # fmt: skip

        yield standing(estimate, state)
        while True:
            new, there = _descended(function, point, (value, gradient), memory, scale)
            gain = value - there[0]
            moved, change = new - point, there[1] - gradient
            bend = _dot(moved, change)
            if bend > 1e-12 * _dot(change, change * scale):
                memory.append((moved, change, bend))
            point, (value, gradient) = new, there
            # One small step may be luck; two in a row are the end.
            small_gains = small_gains + 1 if gain <= max(tol, _ROUNDING) * (abs(value) + 1e-300) else 0
            if gain == 0.0:
                memory.clear()
            yield Step(-value, estimate, state, small_gains == 2)

    return steps


def _descended(
    function: Function,
    point: Float64Array,
    now: tuple[float, Float64Array],
    memory: deque[tuple[Float64Array, Float64Array, float]],
    scale: Float64Array,
) -> tuple[Float64Array, tuple[float, Float64Array]]:
    """Halve a step until it gains enough (Armijo); the same point if none does."""
    value, gradient = now
    step = -_inverse_hessian(gradient, memory, scale)
    slope = _dot(step, gradient)
    if slope >= 0.0:  # rounding has spoilt the memory, or this is the end
        memory.clear()
        step = -scale * gradient
        slope = _dot(step, gradient)
    # The first step knows no curvature: it changes no variable by more than one.
    length = 1.0 if memory else min(1.0, 1.0 / max(float(np.abs(step).max(initial=0.0)), 1e-300))
    for _ in range(40):
        trial = point + length * step
        found = function(trial)
        if found[0] <= value + _ENOUGH * length * slope:
            return trial, found
        length *= 0.5
    return point, now


def _inverse_hessian(
    gradient: Float64Array, memory: deque[tuple[Float64Array, Float64Array, float]], scale: Float64Array
) -> Float64Array:
    """Product with the inverse Hessian that the memory implies: the two loops."""
    q = gradient.copy()
    shares = []
    for moved, change, bend in reversed(memory):
        share = _dot(moved, q) / bend
        shares.append(share)
        q -= share * change
    q *= scale
    if memory:
        moved, change, bend = memory[-1]
        q *= bend / max(_dot(change, scale * change), 1e-300)
    for (moved, change, bend), share in zip(memory, reversed(shares), strict=True):
        q += (share - _dot(change, q) / bend) * moved
    return q
