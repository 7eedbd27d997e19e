"""EM and its acceleration for any model: handed an update, it walks uphill, from several starts side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from permrank.learning.learner import Monitor
from permrank.types import BoolArray, Float64Array

Update: TypeAlias = Callable[[Float64Array], tuple[Float64Array, Float64Array]]
"""Points (n_starts, n) to (points after one EM step, objectives at the given points (n_starts,))."""

# Extrapolations longer than this many EM steps are hardly ever accepted, and cost a pass when they are not.
_LONGEST = 64.0


def expectation_maximisation(
    update: Update, start: Float64Array, monitor: Monitor, *, tol: float, accelerate: bool = True
) -> Float64Array:
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
    monitor : Monitor
        Is told the mean objective over the starts after every pass.
    tol : float
        Learning ends when the objective of no start grows by more than this part of itself over a pass, or, with
        acceleration, over three of them.

    Returns
    -------
    float64 (n_starts, n)
        Points at least as good as the last that were recorded.
    """
    point, best = start, np.full(start.shape[0], -np.inf)
    if state := monitor.resumed():
        point, best = state["point"], state["best"]
    while not monitor.exhausted:
        # Here and not at the end, where a stop may have cut an extrapolation short.
        if monitor.due:
            monitor.keep(point=point, best=best)
        before = best
        point, best = _pass(update, point, monitor)
        if accelerate and not monitor.exhausted and np.isfinite(before).all():
            point, best = _squared(update, point, monitor)
        if np.isfinite(before).all() and (best - before <= tol * np.abs(best)).all():
            monitor.converged = True
            break
    return point


def _pass(update: Update, point: Float64Array, monitor: Monitor) -> tuple[Float64Array, Float64Array]:
    """One EM step; records the objective at the point it starts from."""
    new, value = update(point)
    monitor.update(float(value.mean()), new)
    return new, value


def _squared(update: Update, first: Float64Array, monitor: Monitor) -> tuple[Float64Array, Float64Array]:
    """From x0 = first: two EM steps and an extrapolation, kept by the starts that it helps."""
    second, best = _pass(update, first, monitor)
    if monitor.exhausted:
        return second, best
    third, best = _pass(update, second, monitor)
    if monitor.exhausted:
        return third, best
    r, v = second - first, third - 2.0 * second + first
    length = np.linalg.norm(r, axis=1) / np.maximum(np.linalg.norm(v, axis=1), 1e-300)
    length = np.clip(length, 1.0, _LONGEST)[:, None]
    guess = first + 2.0 * length * r + length**2 * v
    image, value = update(guess)
    helped: BoolArray = np.isfinite(value) & (value >= best)
    best, end = np.where(helped, value, best), np.where(helped[:, None], image, third)
    monitor.update(float(best.mean()), end)
    return end, best
