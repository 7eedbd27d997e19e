"""Maximisers of objectives, handed callables and arrays only: truncated Newton, minorise-maximise, accelerated EM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from permrank.learning.learner import Learner, State, Step, standing
from permrank.types import BoolArray, Float64Array


class Evaluation(NamedTuple):
    """An objective at one point.

    Attributes
    ----------
    value : float
    gradient : float64 (n,)
    curvature : float64 (n,)
        A positive upper bound, or estimate, of minus the diagonal of the Hessian.
    """

    value: float
    gradient: Float64Array
    curvature: Float64Array


Objective: TypeAlias = Callable[[Float64Array], Evaluation]

# A rise that rounding hides still counts as none: sums of a million terms carry this relative error.
_ROUNDING = 1e-12
# Differences of gradients are good to about 1e-10 of the curvature; less bend than this is none.
_FLAT = 1e-9


def newton(objective: Objective, start: Float64Array, *, tol: float) -> Learner[Float64Array]:
    """Truncated Newton ascent for a smooth objective of many variables; of a concave one it finds the maximum.

    Newton's equations are solved by conjugate gradients with a diagonal preconditioner; a product with
    the Hessian is a difference of two gradients, so a step costs some tens of passes over the data and no
    matrix. Convergence is judged by the size of the full step and not by the value, because a value of
    many millions is blind to changes in an item that was seen twice. Where the objective bends upwards, as
    it may if it is not concave, the step is what was found so far, or else uphill along the gradient.

    Parameters
    ----------
    objective : callable
    start : float64 (n,)
    tol : float
        Stop when the largest change of any variable in a full step is below this.

    Returns
    -------
    Learner
        Of a local maximiser, float64 (n,); the objective never falls from one sweep to the next.
    """

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        point, forcing = (kept["point"], kept["forcing"]) if kept else (start.copy(), 0.1)
        now = objective(point)
        if kept:
            now = now._replace(value=kept["value"])

        def estimate() -> Float64Array:
            return point

        def state() -> State:
            return {"point": point, "value": now.value, "forcing": forcing}

        yield standing(estimate, state)
        while True:
            step = _conjugate_gradients(objective, point, now, forcing)
            new, here, length = _climb(objective, point, now, step)
            moved = float(np.abs(step).max(initial=0.0))
            # A step that promises less than rounding, and does not even make the gradient smaller, is made of rounding.
            blind = float(now.gradient @ step) < _ROUNDING * abs(now.value) and _largest(here) >= _largest(now)
            point, now = new, here
            # A solution of the linear equations to 10 % says nothing about steps a thousand times smaller.
            if (moved < tol and forcing <= 1e-3) or length == 0.0 or blind:
                # No step helps although one was wanted: that is the end of what rounding lets us see.
                yield Step(now.value, estimate, converged=_newton_size(now) < max(tol, 1e-9))
                return
            forcing = max(1e-6, min(forcing, 0.1 * moved)) if length == 1.0 else 0.1
            yield Step(now.value, estimate, state)

    return steps


def _largest(now: Evaluation) -> float:
    """Largest slope."""
    return float(np.abs(now.gradient).max(initial=0.0))


def _newton_size(now: Evaluation) -> float:
    """Largest step of any variable by itself."""
    return float(np.abs(now.gradient / np.maximum(now.curvature, 1e-300)).max(initial=0.0))


def _conjugate_gradients(objective: Objective, point: Float64Array, now: Evaluation, forcing: float) -> Float64Array:
    """Solve Hessian x step = gradient to the relative accuracy ``forcing``."""
    scale = 1.0 / np.maximum(now.curvature, 1e-300)
    step = np.zeros_like(point)
    residual = now.gradient.copy()
    direction = scale * residual
    rho = float(residual @ direction)
    target = forcing * forcing * rho
    for _ in range(min(2 * point.size + 10, 500)):
        if rho <= target or rho <= 0.0:
            break
        # The step of the difference balances rounding (eps / h) against the third derivative (h).
        h = 1e-6 / max(float(np.abs(direction).max()), 1e-300)
        product = (now.gradient - objective(point + h * direction).gradient) / h
        curvature = float(direction @ product)
        # Along (1, ..., 1) a likelihood of rankings is flat, and what is left there is rounding; elsewhere this is
        # the end of where the objective is concave.
        if curvature <= _FLAT * float(direction**2 @ now.curvature):
            return step if step.any() else direction
        alpha = rho / curvature
        step += alpha * direction
        residual -= alpha * product
        preconditioned = scale * residual
        new_rho = float(residual @ preconditioned)
        direction = preconditioned + (new_rho / rho) * direction
        rho = new_rho
    return step


def _climb(
    objective: Objective, point: Float64Array, now: Evaluation, step: Float64Array
) -> tuple[Float64Array, Evaluation, float]:
    """Halve the step until the objective does not fall; scores beyond e^5 a step are never believed."""
    length = 1.0
    largest = float(np.abs(step).max(initial=0.0))
    if largest > 5.0:
        step, length = step * (5.0 / largest), 5.0 / largest
    slack = _ROUNDING * abs(now.value)
    for _ in range(40):
        new = point + step
        there = objective(new)
        if there.value >= now.value:
            return new, there, length
        # Within rounding the value cannot tell; a smaller gradient can, but then the value is kept level.
        if there.value >= now.value - slack and _largest(there) < _largest(now):
            return new, there._replace(value=now.value), length
        step, length = step / 2, length / 2
    return point, now, 0.0


def minorise_maximise(
    update: Callable[[Float64Array], tuple[Float64Array, float]], start: Float64Array, *, tol: float
) -> Learner[Float64Array]:
    """Iterate an update that never lowers its objective (Hunter 2004) until it stands still.

    Parameters
    ----------
    update : callable
        Point to (next point, objective at the point).
    start : float64 (n,)
    tol : float
        Stop when no variable changes by more than this in a sweep.
    """

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        point = kept["point"] if kept else start

        def estimate() -> Float64Array:
            return point

        def state() -> State:
            return {"point": point}

        yield standing(estimate, state)
        while True:
            new, value = update(point)
            moved = float(np.abs(new - point).max(initial=0.0))
            point = new
            yield Step(value, estimate, state, moved < tol)

    return steps


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
            measured = bool(np.isfinite(before).all())
            point, best = update(point)
            if not (accelerate and measured):
                yield Step(float(best.mean()), estimate, state, measured and small(before))
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
