"""Thurstone's model with factors: one user's utilities given the items, with the factors integrated out.

Given the items, x_s = μ_y + H_y·w + ε_s with w ~ N(w₀, 1), ε_s ~ N(0, σ_y²) for every slot s of a user; another
deviation of w than 1 is a factor of H. With w
integrated out the slots are jointly normal with precision Λ = D^-1 - D^-1 H C Hᵀ D^-1, where D = diag σ² and
C = (1 + Hᵀ D^-1 H)^-1 is the covariance of w given x. So with r = x - μ - H w₀ and m = C Hᵀ D^-1 r a slot given all
others is normal with mean x_s - (r_s - H_s·m) / (1 - v_s) and variance σ² / (1 - v_s), v_s = H_s·C H_s / σ²: K steps
for each.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.jit import njit
from permrank.kernels.streams import normal

_ONE = np.uint64(1)
_LOG_TWO_PI = math.log(2.0 * math.pi)
# Share of an item's variance that is its own at the least, against rounding.
_OWN_SHARE = 1e-12


class Population(NamedTuple):
    """Draws of the items: components of the population, with a slice for every draw.

    Attributes
    ----------
    theta : float64 (n_draws, n_components, n_items, K + 1)
        Factors H and mean μ of every item.
    variances : float64 (n_draws, n_components, n_items)
        σ² of every item.
    log_shares : float64 (n_draws, n_components)
    thresholds : float64 (n_draws, n_thresholds)
        Ascending, between grades.
    flips : float64 (n_draws,)
        Probability that an answer is the wrong way round; 0 where nobody contradicts himself.
    """

    theta: Any
    variances: Any
    log_shares: Any
    thresholds: Any
    flips: Any


class Given(NamedTuple):
    """One user's slots given the items: all that their moves need, kept up to date by them.

    There are two forms of the same numbers. Up to K slots Λ itself is there: ``rows`` is Λ, ``state`` is Λ r. Beyond,
    rows of ``rows`` are C H_s / σ_s², and ``state`` is m: (Λ r)_s = r_s / σ_s² - H_s·m / σ_s².

    Attributes
    ----------
    loads : float64 (n, K)
        H, times the deviation of w.
    variance, own, residual : float64 (n,)
        σ², the diagonal of Λ, and r.
    rows : float64 (n, n) or (n, K)
    state : float64 (n,) or (K,)
    lower : float64 (K, K)
        Cholesky factor of C^-1; of no size in the first form.
    dense : bool
        Whether it is the first form.
    """

    loads: Any
    variance: Any
    own: Any
    residual: Any
    rows: Any
    state: Any
    lower: Any
    dense: Any


@njit(error_model="numpy")
def condition(items, theta, variances, centre, x):
    """What `Given` holds, and the log-density of x with w integrated out.

    centre: (K + 1,), w₀ and the deviation of w around it; what follows is in units of that.
    """
    n, size = items.size, centre.size - 1
    loads, variance, residual = np.empty((n, size)), np.empty(n), np.empty(n)
    for s in range(n):
        y = items[s]
        variance[s] = variances[y]
        r = x[s] - theta[y, size]
        for k in range(size):
            loads[s, k] = theta[y, k] * centre[size]
            r -= theta[y, k] * centre[k]
        residual[s] = r
    if n <= size:
        return _condition_slots(loads, variance, residual)
    return _condition_factors(loads, variance, residual)


@njit(error_model="numpy")
def _condition_slots(loads, variance, residual):
    """The form with Λ = (H Hᵀ + D)^-1."""
    n, size = loads.shape
    lower, rows, state, own = np.empty((n, n)), np.zeros((n, n)), np.zeros(n), np.empty(n)
    for s in range(n):
        for t in range(s + 1):
            total = 0.0
            for k in range(size):
                total += loads[s, k] * loads[t, k]
            lower[s, t] = total
        lower[s, s] += variance[s]
    cholesky(lower, n)
    value = -n * _LOG_TWO_PI
    for s in range(n):  # L^-1 into the rows below
        value -= 2.0 * math.log(lower[s, s])
        rows[s, s] = 1.0 / lower[s, s]
        for t in range(s):
            total = 0.0
            for k in range(t, s):
                total -= lower[s, k] * rows[k, t]
            rows[s, t] = total / lower[s, s]
    for s in range(n):  # Λ = L^-ᵀ L^-1: what is needed of L^-1 lies in rows from s on
        for t in range(s + 1):
            total = 0.0
            for k in range(s, n):
                total += rows[k, s] * rows[k, t]
            lower[s, t] = total
    for s in range(n):
        for t in range(s + 1):
            rows[s, t], rows[t, s] = lower[s, t], lower[s, t]
        own[s] = rows[s, s]
    for s in range(n):
        for t in range(n):
            state[s] += rows[s, t] * residual[t]
        value -= state[s] * residual[s]
    return Given(loads, variance, own, residual, rows, state, np.empty((0, 0)), True), 0.5 * value


@njit(error_model="numpy")
def _condition_factors(loads, variance, residual):
    """The form with C = (1 + Hᵀ D^-1 H)^-1."""
    n, size = loads.shape
    rows, own, mean, lower = np.empty((n, size)), np.empty(n), np.zeros(size), np.zeros((size, size))
    value = -n * _LOG_TWO_PI
    for s in range(n):
        r = residual[s]
        value -= math.log(variance[s]) + r * r / variance[s]
        for k in range(size):
            part = loads[s, k] / variance[s]
            mean[k] += part * r
            for j in range(k + 1):
                lower[k, j] += part * loads[s, j]
    for k in range(size):
        lower[k, k] += 1.0
    cholesky(lower, size)
    forward(lower, mean, size)
    for k in range(size):
        value += mean[k] * mean[k] - 2.0 * math.log(lower[k, k])
    backward(lower, mean, size)
    for s in range(n):
        rows[s] = loads[s]
        forward(lower, rows[s], size)
        v = 0.0
        for k in range(size):
            v += rows[s, k] * rows[s, k]
        own[s] = max(1.0 - v / variance[s], _OWN_SHARE) / variance[s]
        backward(lower, rows[s], size)
        rows[s] /= variance[s]
    return Given(loads, variance, own, residual, rows, mean, lower, False), 0.5 * value


@njit(error_model="numpy")
def along_slot(given, vector, s, coefficient):
    """(Λ v)_s of a vector v that was pushed, with this coefficient at s."""
    if given.dense:
        return vector[s]
    total = coefficient
    for k in range(vector.size):
        total -= given.loads[s, k] * vector[k]
    return total / given.variance[s]


@njit(error_model="numpy")
def push(given, vector, s, coefficient):
    """Add to Λ v what a coefficient at slot s adds."""
    for k in range(vector.size):
        vector[k] += coefficient * given.rows[s, k]


@njit(error_model="numpy")
def conditional(given, x, s):
    """Mean and deviation of slot s given all others."""
    return x[s] - along_slot(given, given.state, s, given.residual[s]) / given.own[s], math.sqrt(1.0 / given.own[s])


@njit(error_model="numpy")
def factors_mean(given, mean):
    """Mean of w - w₀ given x, in units of its deviation, written."""
    if not given.dense:
        mean[:] = given.state
        return
    mean[:] = 0.0
    for s in range(given.state.size):
        for k in range(mean.size):
            mean[k] += given.loads[s, k] * given.state[s]


@njit(error_model="numpy")
def draw_factors(given, key, counter, w):
    """Draw w - w₀ given x, in units of its deviation, written.

    In the first form by Matheron's rule: what a draw of everything from the prior lacks to have these utilities.
    """
    for k in range(w.size):
        w[k] = normal(key, counter)
        counter += _ONE
    if not given.dense:
        backward(given.lower, w, w.size)
        for k in range(w.size):
            w[k] += given.state[k]
        return
    n = given.state.size
    drawn = np.empty(n)
    for s in range(n):
        drawn[s] = math.sqrt(given.variance[s]) * normal(key, counter)
        counter += _ONE
        for k in range(w.size):
            drawn[s] += given.loads[s, k] * w[k]
    for s in range(n):
        lacking = given.state[s]
        for t in range(n):
            lacking -= given.rows[s, t] * drawn[t]
        for k in range(w.size):
            w[k] += given.loads[s, k] * lacking


@njit(error_model="numpy")
def factors_variance(given, direction):
    """Variance of w·direction given x, in units of its deviation; the direction is overwritten."""
    size, total = direction.size, 0.0
    if not given.dense:
        forward(given.lower, direction, size)
    for k in range(size):
        total += direction[k] * direction[k]
    if given.dense:
        n = given.state.size
        along = np.zeros(n)
        for s in range(n):
            for k in range(size):
                along[s] += given.loads[s, k] * direction[k]
        for s in range(n):
            for t in range(n):
                total -= along[s] * given.rows[s, t] * along[t]
    return max(total, 0.0)
