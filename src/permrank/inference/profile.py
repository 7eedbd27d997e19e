"""Limits of profile-likelihood intervals by constrained Newton steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from permrank.types import Float64Array

if TYPE_CHECKING:
    from permrank.inference.likelihood import Likelihood

_STEPS, _INNER, _HALVINGS = 40, 50, 40
_TOL = 1e-7
# A step with an old Hessian should leave at most this part of what there was to gain.
_SLOW = 0.2


class Evaluated(NamedTuple):
    """A concave function at a point: value, gradient (p,), and what computes minus the Hessian (p, p)."""

    value: float
    gradient: Float64Array
    information: Callable[[], Float64Array]


def profile_interval(
    evaluate: Callable[[Float64Array], Evaluated],
    best: Likelihood,
    direction: Float64Array,
    gauge: Float64Array,
    width: float,
) -> tuple[float | None, float | None]:
    """Limits of direction · point where twice the drop of the profile likelihood is width².

    The profile likelihood at c is the largest likelihood with direction · point = c. Its signed root, sign(c - ĉ)
    sqrt(2 (l̂ - l(c))), is nearly linear in c, so that a few secant steps find where it is ±width.

    Parameters
    ----------
    evaluate : callable
        The log-likelihood, its gradient and information at a point; -inf where it is not defined.
    best : Likelihood
        At its maximum.
    direction : float64 (p,)
        Orthogonal to the gauge.
    gauge : float64 (p,)
        A shift along it changes nothing.
    width : float
        Quantile of the normal distribution.
    """
    stiff = best.information + np.outer(gauge, gauge)
    response = np.linalg.solve(stiff, direction)  # how all parameters move with the one that is profiled
    error = float(np.sqrt(direction @ response))
    limits: list[float | None] = []
    for side in (-1.0, 1.0):
        point, target, found = best.point, float(direction @ best.point) + side * width * error, None
        last = (float(direction @ best.point), 0.0)
        for _ in range(_STEPS):
            point = point + response * (target - direction @ point) / (direction @ response)
            settled = _constrained(evaluate, point, direction, gauge)
            if settled is None:  # beyond the domain: half way back
                target, point = (target + last[0]) / 2.0, best.point
                continue
            point, value = settled
            root = side * np.sqrt(max(2.0 * (best.value - value), 0.0))
            if abs(root - side * width) < _TOL * width:
                found = target
                break
            slope = (root - last[1]) / (target - last[0])
            last = (target, root)
            if not slope > 0.0:
                break
            target += (side * width - root) / slope
        limits.append(found)
    return limits[0], limits[1]


def _constrained(
    evaluate: Callable[[Float64Array], Evaluated], point: Float64Array, direction: Float64Array, gauge: Float64Array
) -> tuple[Float64Array, float] | None:
    """Maximise with direction · point held, by damped Newton; None if it does not settle.

    The Hessian is what costs: it is computed again only where steps with the last one gain too little.
    """
    now, size = evaluate(point), point.size
    if not np.isfinite(now.value):
        return None
    system = np.zeros((size + 2, size + 2))
    system[:size, size:] = np.stack([direction, gauge], axis=1)
    system[size:, :size] = system[:size, size:].T
    inverse, last = None, 0.0
    for _ in range(_INNER):
        if inverse is None:
            system[:size, :size] = now.information()
            try:
                inverse = np.linalg.inv(system)[:size, :size]
            except np.linalg.LinAlgError:
                return None
        step = inverse @ now.gradient
        gain = float(now.gradient @ step)
        if gain < 1e-12 * max(1.0, abs(now.value)):  # half of it is what is left to gain
            return point, now.value
        slow, last = last > 0.0 and gain > _SLOW * last, gain
        if slow:
            inverse, last = None, 0.0
            continue
        for _ in range(_HALVINGS):
            after = evaluate(point + step)
            if after.value >= now.value:
                break
            step = step / 2.0
        else:
            return point, now.value
        point, now = point + step, after
    return None
