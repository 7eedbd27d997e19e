"""The normal distribution: cdf and its logarithm, quantiles, and draws between two bounds, right far in the tails."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.streams import exponential, normal, uniform

_ROOT_HALF, _ROOT_TWO_PI = math.sqrt(0.5), math.sqrt(2.0 * math.pi)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ONE, _TWO = np.uint64(1), np.uint64(2)  # typed: Numba turns int64 with uint64 into float64
# Below this the complementary error function nears the end of the numbers, and a series in 1 / z² has 15 digits.
_FAR = -25.0
# Winitzki's approximation of the inverse error function, off by at most 0.004: where Newton's steps begin.
_WINITZKI = 0.147
# From here on an exponential proposal is accepted more often than the half of a normal one.
_HALF_NORMAL = 0.45


@njit(signature="float64(float64)", error_model="numpy")
def cdf(z):
    """Φ(z)."""
    return 0.5 * math.erfc(-z * _ROOT_HALF)


@njit(signature="float64(float64)", error_model="numpy")
def log_cdf(z):
    """log Φ(z)."""
    if z > 0.0:
        return math.log1p(-0.5 * math.erfc(z * _ROOT_HALF))
    if z > _FAR:
        return math.log(0.5 * math.erfc(-z * _ROOT_HALF))
    # Φ(z) = φ(z) / |z| (1 - 1/z² + 3/z⁴ - 15/z⁶ + 105/z⁸ - ...)
    t = 1.0 / (z * z)
    series = -t * (1.0 - 3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t)))
    return -0.5 * z * z - math.log(-z) - _LOG_ROOT_TWO_PI + math.log1p(series)


@njit(signature="float64(float64, float64)", error_model="numpy")
def log_between(low, high):
    """log(Φ(high) - Φ(low)) for low < high, in the tail where the two are small."""
    if low > 0.0:
        low, high = -high, -low
    upper = log_cdf(high)
    gap = log_cdf(low) - upper
    return upper + math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf


@njit(signature="float64(float64)", error_model="numpy")
def quantile_of_log(log_p):
    """The z with log Φ(z) = log_p <= log 1/2: Newton's method on log Φ, which is concave."""
    if log_p < -300.0:
        z = -math.sqrt(-2.0 * log_p)  # φ(z) alone; the steps below do the rest
    else:
        p = math.exp(log_p)
        inner = math.log(4.0 * p * (1.0 - p))
        first = 2.0 / (math.pi * _WINITZKI) + 0.5 * inner
        z = -math.sqrt(2.0 * max(math.sqrt(first * first - inner / _WINITZKI) - first, 0.0))
    for _ in range(20):
        value = log_cdf(z)
        # d log Φ / dz = φ(z) / Φ(z)
        step = (log_p - value) / math.exp(-0.5 * z * z - _LOG_ROOT_TWO_PI - value)
        z += step
        if abs(step) < 1e-6 / (1.0 + abs(z)):  # quadratic convergence: what is left is below 1e-12
            break
    return z


@njit(signature="float64(float64, float64)", error_model="numpy")
def below(bound, u):
    """The quantile u of a standard normal that lies below a bound: Φ^-1(u Φ(bound))."""
    log_p = log_cdf(bound) + math.log(u)
    if log_p <= -math.log(2.0):
        return quantile_of_log(log_p)
    return -quantile_of_log(math.log(-math.expm1(log_p)))


@njit(signature="Tuple((float64, uint64))(float64, float64, uint64, uint64)", error_model="numpy")
def truncated(low, high, key, counter):
    """A standard normal between low and high (low <= high), and the counter after the words it took.

    Rejection from the normal, half-normal, exponential or uniform distribution, whichever fits the interval (Robert
    1995): in every case more than a fifth of the proposals is accepted.
    """
    if not low < high:
        return low, counter
    sign = 1.0
    if high < 0.0:
        low, high, sign = -high, -low, -1.0
    if low <= 0.0:
        if high - low > _ROOT_TWO_PI:
            while True:
                z = normal(key, counter)
                counter += _ONE
                if low <= z <= high:
                    return sign * z, counter
        while True:
            z = low + (high - low) * uniform(key, _TWO * counter)
            accepted = uniform(key, _TWO * counter + _ONE) <= math.exp(-0.5 * z * z)
            counter += _ONE
            if accepted:
                return sign * z, counter
    root = math.sqrt(low * low + 4.0)
    rate = 0.5 * (low + root)
    # Where the exponential proposal, cut at the upper bound, is no better than a uniform one.
    if high - low > math.exp(0.25 * (low * low - low * root) + 0.5) / rate:
        while True:
            if low < _HALF_NORMAL:
                z = abs(normal(key, counter))
                accepted = low <= z
            else:
                z = low + exponential(key, _TWO * counter) / rate
                accepted = uniform(key, _TWO * counter + _ONE) <= math.exp(-0.5 * (z - rate) * (z - rate))
            counter += _ONE
            if accepted and z <= high:
                return sign * z, counter
    while True:
        z = low + (high - low) * uniform(key, _TWO * counter)
        accepted = uniform(key, _TWO * counter + _ONE) <= math.exp(0.5 * (low * low - z * z))
        counter += _ONE
        if accepted:
            return sign * z, counter
