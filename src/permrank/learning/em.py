"""EM and its acceleration for any model: handed an update, it walks uphill, from several starts side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from permrank.learning.learner import Learner, State, Step, standing
from permrank.types import BoolArray, Float64Array

Update: TypeAlias = Callable[[Float64Array], tuple[Float64Array, Float64Array]]
"""Points (n_starts, n) to (points after one EM step, objectives at the given points (n_starts,))."""

# Extrapolations longer than this many EM steps are hardly ever accepted, and cost a pass when they are not.
_LONGEST = 64.0


def expectation_maximisation(
    update: Update, start: Float64Array, *, tol: float, accelerate: bool = True
) -> Learner[Float64Array]:
    """Iterate an update that never lowers its objective, and with it, if asked, SQUAREM steps.

    SQUAREM (Varadhan and Roland 2008, their third step length) takes two EM steps, x1 = F(x0) and x2 = F(x1), and
    goes on to x0 + 2 c r + c² v with r = x1 - x0, v = x2 - x1 - r, c = |r| / |v|. A start whose objective at that
    point is below that at x1 goes back to x2: what is recorded never falls. Each start has its own step.

    Parameters
    ----------
    update : callable
        See `Update`.
    start : float64 (n_starts, n)
        Points to start from; the update must accept any real numbers near them.
    tol : float
        Learning ends when the objective of no start grows by more than this part of itself over a pass, or, with
        acceleration, over three of them.

    Returns
    -------
    Learner
        Of points (n_starts, n) at least as good as the last that were recorded. The objective of a step is the mean
        over the starts. It can be resumed from the end of an extrapolation, not from within.
    """

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        point, best = (kept["point"], kept["best"]) if kept else (start, np.full(start.shape[0], -np.inf))

        def estimate() -> Float64Array:
            return point

        def state() -> State:
            return {"point": point, "best": best}

        def small(before: Float64Array) -> bool:
            return bool((best - before <= tol * np.abs(best)).all())

        yield standing(estimate, state)
        while True:
            before = best
            known = bool(np.isfinite(before).all())
            point, best = update(point)
            if not (accelerate and known):
                yield Step(float(best.mean()), estimate, state, known and small(before))
                continue
            yield Step(float(best.mean()), estimate)
            first = point
            point, best = update(first)
            yield Step(float(best.mean()), estimate)
            second = point
            point, best = update(second)
            yield Step(float(best.mean()), estimate)
            point, best = _extrapolated(update, (first, second, point), best)
            yield Step(float(best.mean()), estimate, state, small(before))

    return steps


def _extrapolated(
    update: Update, points: tuple[Float64Array, Float64Array, Float64Array], best: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """An extrapolation of three points in a row, kept by the starts that it helps; the others stay at the third."""
    first, second, third = points
    r, v = second - first, third - 2.0 * second + first
    length = np.linalg.norm(r, axis=1) / np.maximum(np.linalg.norm(v, axis=1), 1e-300)
    length = np.clip(length, 1.0, _LONGEST)[:, None]
    guess = first + 2.0 * length * r + length**2 * v
    image, value = update(guess)
    helped: BoolArray = np.isfinite(value) & (value >= best)
    return np.where(helped[:, None], image, third), np.where(helped, value, best)
