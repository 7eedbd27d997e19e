"""Directions of ascent that remember the last few steps: limited-memory BFGS with a diagonal that may change."""

from __future__ import annotations

import numpy as np

from permrank.kernels.lbfgs import chunk_inner, memory_products, memory_sum
from permrank.types import Array

Vector = Array

# A pair of steps whose gradients hardly differ says nothing about curvature.
_FLAT = 1e-10


class LimitedMemory:
    """Approximate inverse of minus a Hessian, from the last few steps and a diagonal (Nocedal 1980).

    The recursion runs over inner products alone, all of which one pass over the memory gives; a second pass adds up the
    direction. Pairs are kept as float32 and summed in float64.

    Parameters
    ----------
    size : int
        Steps that are remembered.
    n : int
        Length of a step.
    """

    def __init__(self, size: int, n: int) -> None:
        self._steps, self._falls = np.empty((2, size, n), np.float32)
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
        found: Vector = memory_sum(steps, falls, gradient, diagonal, scale, of_steps, of_falls)
        return found


def inner(a: Vector, b: Vector) -> float:
    """Σ a b in float64."""
    return float(chunk_inner(a.ravel(), b.ravel()).sum())
