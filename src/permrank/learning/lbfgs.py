"""Limited-memory BFGS: a memory that gives directions of ascent, and a descent on functions of one vector by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from permrank.kernels.lbfgs import chunk_inner, memory_products, memory_sum
from permrank.learning.learner import Learner, State, Step, standing
from permrank.types import Array, Float64Array

Vector = Array
Function: TypeAlias = Callable[[Float64Array], tuple[float, Float64Array]]
"""Point to (value, gradient)."""

# A pair of steps whose gradients hardly differ says nothing about curvature.
_FLAT = 1e-10
# Pairs of steps and changes of the gradient that `minimise` keeps; 5 to 20 is usual.
_MEMORY = 10
# Armijo's share of the decrease that the slope promises.
_ENOUGH = 1e-4
# A value of many terms is blind below this part of itself.
_ROUNDING = 1e-14


class LimitedMemory:
    """Approximate inverse of minus a Hessian, from the last few steps and a diagonal (Nocedal 1980).

    The recursion runs over inner products alone, all of which one pass over the memory gives; a second pass adds up the
    direction, both in float64 and in one fixed order.

    Parameters
    ----------
    size : int
        Steps that are remembered.
    n : int
        Length of a step.
    dtype : data type
        Of what is kept: float32 where the memory is the largest thing there is.
    """

    def __init__(self, size: int, n: int, dtype: npt.DTypeLike = np.float64) -> None:
        self._steps, self._falls = np.empty((2, size, n), dtype)
        self._order: list[int] = []  # rows in use, the oldest first

    def __len__(self) -> int:
        return len(self._order)

    def state(self) -> dict[str, Vector]:
        """What is remembered, as arrays by name."""
        m = len(self._order)
        return {"steps": self._steps[:m], "falls": self._falls[:m], "order": np.array(self._order, np.int64)}

    def restore(self, state: dict[str, Vector]) -> None:
        """Remember what `state` gave, row by row as it was, so that sums round alike."""
        self._order = state["order"].tolist()
        self._steps[: len(self._order)], self._falls[: len(self._order)] = state["steps"], state["falls"]

    def forget(self) -> None:
        """Begin anew."""
        self._order.clear()

    def remember(self, step: Vector, fall: Vector) -> None:
        """Keep a step and the fall of the gradient over it; one along which the objective does not bend is dropped."""
        if inner(step, fall) > _FLAT * np.sqrt(inner(step, step) * inner(fall, fall)):
            row = len(self._order) if len(self._order) < len(self._steps) else self._order.pop(0)
            self._steps[row], self._falls[row] = step, fall
            self._order.append(row)

    def direction(self, gradient: Vector, diagonal: Vector) -> Vector:
        """Newton-like step uphill; ``diagonal`` approximates the inverse where nothing is remembered."""
        m = len(self._order)
        if m == 0:
            return np.asarray(gradient * diagonal)
        steps, falls = self._steps[:m], self._falls[:m]
        products = memory_products(steps, falls, gradient, diagonal).sum(axis=0)
        mixed, bends, of_gradient = products[:, :m], products[:, m : 2 * m], products[:, 2 * m :]
        of_falls, of_steps = np.zeros(m), np.zeros(m)
        for i in reversed(self._order):
            of_falls[i] = (of_gradient[i, 0] - mixed[i] @ of_falls) / mixed[i, i]
        last = self._order[-1]
        scale = mixed[last, last] / bends[last, last]
        for i in self._order:
            along = scale * (of_gradient[i, 1] - bends[i] @ of_falls) + mixed[:, i] @ of_steps
            of_steps[i] = of_falls[i] - along / mixed[i, i]
        direction: Vector = memory_sum(steps, falls, gradient, diagonal, scale, of_steps, of_falls)
        return direction


def inner(a: Vector, b: Vector) -> float:
    """Σ a b in float64."""
    return float(chunk_inner(a.ravel(), b.ravel()).sum())


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
        memory = LimitedMemory(_MEMORY, start.size)
        if kept:
            point: Float64Array = kept["point"]
            value, gradient, small_gains = (kept[name] for name in ("value", "gradient", "small_gains"))
            memory.restore(kept)
        else:
            point, (value, gradient), small_gains = start, function(start), 0

        def estimate() -> Float64Array:
            return point

        def state() -> State:
            state = {"point": point, "value": value, "gradient": gradient, "small_gains": small_gains}
            return state | memory.state()

        yield standing(estimate, state)
        while True:
            new, there = _descended(function, point, (value, gradient), memory, scale)
            gain = value - there[0]
            memory.remember(new - point, there[1] - gradient)
            point, (value, gradient) = new, there
            # One small step may be luck; two in a row are the end.
            small_gains = small_gains + 1 if gain <= max(tol, _ROUNDING) * (abs(value) + 1e-300) else 0
            if gain == 0.0:
                memory.forget()
            yield Step(-value, estimate, state, small_gains == 2)

    return steps


def _descended(
    function: Function,
    point: Float64Array,
    now: tuple[float, Float64Array],
    memory: LimitedMemory,
    scale: Float64Array,
) -> tuple[Float64Array, tuple[float, Float64Array]]:
    """Halve a step until it gains enough (Armijo); the same point if none does."""
    value, gradient = now
    step = memory.direction(-gradient, scale)
    slope = inner(step, gradient)
    if slope >= 0.0:  # rounding has spoilt the memory, or this is the end
        memory.forget()
        step = memory.direction(-gradient, scale)
        slope = inner(step, gradient)
    # The first step knows no curvature: it changes no variable by more than one.
    length = 1.0 if len(memory) else min(1.0, 1.0 / max(float(np.abs(step).max(initial=0.0)), 1e-300))
    for _ in range(40):
        trial = point + length * step
        there = function(trial)
        if there[0] <= value + _ENOUGH * length * slope:
            return trial, there
        length *= 0.5
    return point, now
