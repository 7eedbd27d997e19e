"""Directions of ascent that remember the last few steps: limited-memory BFGS."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[Any]

# A pair of steps whose gradients hardly differ says nothing about curvature.
_FLAT = 1e-10


class LimitedMemory:
    """Approximate inverse of minus a Hessian, from the last few steps and a diagonal (Nocedal 1980).

    Pairs are kept as float32; all sums are float64 and made by one thread, so that no library that adds up in parallel
    can change a bit.

    Parameters
    ----------
    size : int
        Steps that are remembered.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pairs: list[tuple[Vector, Vector, float]] = []

    def __len__(self) -> int:
        return len(self._pairs)

    def state(self) -> dict[str, Vector]:
        """What is remembered, as arrays by name."""
        steps, falls, bends = zip(*self._pairs, strict=True) if self._pairs else ((), (), ())
        return {
            "steps": np.array(steps, np.float32),
            "falls": np.array(falls, np.float32),
            "bends": np.array(bends, np.float64),
        }

    def restore(self, state: dict[str, Vector]) -> None:
        """Remember what `state` gave."""
        self._pairs = list(zip(state["steps"], state["falls"], state["bends"].tolist(), strict=True))

    def forget(self) -> None:
        """Begin anew."""
        self._pairs.clear()

    def remember(self, step: Vector, fall: Vector) -> None:
        """Keep a step and the fall of the gradient over it; one along which the objective does not bend is dropped."""
        step, fall = step.astype(np.float32), fall.astype(np.float32)
        bend = inner(step, fall)
        if bend > _FLAT * np.sqrt(inner(step, step) * inner(fall, fall)):
            self._pairs.append((step, fall, bend))
            del self._pairs[: -self._size]

    def direction(self, gradient: Vector, diagonal: Vector) -> Vector:
        """Newton-like step uphill; ``diagonal`` approximates the inverse where nothing is remembered."""
        found = gradient.astype(np.float64)
        shares = []
        for step, fall, bend in reversed(self._pairs):
            shares.append(inner(step, found) / bend)
            found -= shares[-1] * fall
        found *= diagonal
        if self._pairs:
            _, fall, bend = self._pairs[-1]
            found *= bend / inner(fall, diagonal * fall)
        for (step, fall, bend), share in zip(self._pairs, reversed(shares), strict=True):
            found += (share - inner(fall, found) / bend) * step
        return found


def inner(a: Vector, b: Vector) -> float:
    """Σ a b, added up by one thread in float64."""
    return float(np.sum(np.multiply(a, b, dtype=np.float64)))
