"""Limited-memory BFGS for smooth functions of very many variables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from permrank.learning.learner import Monitor
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


def minimise(
    function: Function, start: Float64Array, scale: Float64Array, monitor: Monitor, *, tol: float
) -> Float64Array:
    """Descend until a sweep gains less than ``tol`` of the value (Nocedal and Wright 2006, algorithm 7.5).

    Parameters
    ----------
    function : callable
    start : float64 (n,)
    scale : float64 (n,)
        Positive; proportional to the inverse curvature of each variable, as far as it is known beforehand.
    monitor : Monitor
        Is told minus the value after every sweep; the value never rises.
    tol : float

    Returns
    -------
    float64 (n,)
    """
    point, (value, gradient) = start, function(start)
    memory: deque[tuple[Float64Array, Float64Array, float]] = deque(maxlen=_MEMORY)
    small_gains = 0
    if state := monitor.resumed():
        point, value, gradient, small_gains = (state[name] for name in ("point", "value", "gradient", "small_gains"))
        memory.extend(zip(state["moved"], state["change"], state["bend"].tolist(), strict=True))
    while not monitor.exhausted:
        step = -_inverse_hessian(gradient, memory, scale)
        slope = _dot(step, gradient)
        if slope >= 0.0:  # rounding has spoilt the memory, or this is the end
            memory.clear()
            step = -scale * gradient
            slope = _dot(step, gradient)
        # The first step knows no curvature: it changes no variable by more than one.
        length = 1.0 if memory else min(1.0, 1.0 / max(float(np.abs(step).max(initial=0.0)), 1e-300))
        new, there, gain = point, (value, gradient), 0.0
        for _ in range(40):
            trial = point + length * step
            found = function(trial)
            if found[0] <= value + _ENOUGH * length * slope:
                new, there, gain = trial, found, value - found[0]
                break
            length *= 0.5
        moved, change = new - point, there[1] - gradient
        bend = _dot(moved, change)
        if bend > 1e-12 * _dot(change, change * scale):
            memory.append((moved, change, bend))
        point, (value, gradient) = new, there
        monitor.update(-value, point)
        # One small step may be luck; two in a row are the end.
        small_gains = small_gains + 1 if gain <= max(tol, _ROUNDING) * (abs(value) + 1e-300) else 0
        if small_gains == 2:
            monitor.converged = True
            break
        if gain == 0.0:
            memory.clear()
        if monitor.due:
            steps = np.reshape([part[0] for part in memory], (-1, point.size))
            changes = np.reshape([part[1] for part in memory], (-1, point.size))
            bends = np.array([part[2] for part in memory])
            monitor.keep(
                point=point, value=value, gradient=gradient, small_gains=small_gains, moved=steps, change=changes,
                bend=bends,
            )  # fmt: skip
    return point


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
