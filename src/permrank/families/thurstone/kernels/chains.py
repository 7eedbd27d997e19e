"""Probabilities of orders of independent normal numbers, by integration along the chain."""

from __future__ import annotations

import math

import numpy as np

from permrank.families.thurstone.kernels.normals import cdf
from permrank.kernels.jit import njit, prange

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
# Beyond so many deviations a normal density is below 1e-16.
_REACH, _CELLS = 8.5, 512
_SMALLEST = 1e-300


@njit(error_model="numpy")
def _density(z):
    return math.exp(-0.5 * z * z) / _ROOT_TWO_PI


@njit(error_model="numpy")
def _free_run(means, deviations, first, last, low, high):
    """log P(low < x_(last-1) < ... < x_first < high).

    F(t) = P(all after i lie in order below t) is integrated against the density of i, from the last on. Over a cell F
    is the parabola through its ends and, since its derivative is known too, its middle; the normal density is
    integrated exactly, so that no deviation is too small for the grid.
    """
    bottom, top = math.inf, -math.inf
    for i in range(first, last):
        bottom = min(bottom, means[i] - _REACH * deviations[i])
        top = max(top, means[i] + _REACH * deviations[i])
    bottom, top = max(bottom, low), min(top, high)
    if not bottom < top:
        return -math.inf
    step = (top - bottom) / _CELLS
    function, derivative, scale = np.ones(_CELLS + 1), np.zeros(_CELLS + 1), 0.0
    for i in range(last - 1, first - 1, -1):
        width = step / deviations[i]
        total, z = 0.0, (bottom - means[i]) / deviations[i]
        mass, density = cdf(z), _density(z)
        before, slope = function[0], derivative[0]
        function[0], derivative[0] = 0.0, density / deviations[i] * before
        for c in range(1, _CELLS + 1):
            there = (bottom + c * step - means[i]) / deviations[i]
            mass_there, density_there = cdf(there), _density(there)
            after, slope_after = function[c], derivative[c]
            middle = 0.5 * (before + after) + 0.125 * step * (slope - slope_after)
            # before + a s + b s² with s = z - start, and the integrals of 1, s and s² against the density
            a, b = (4.0 * middle - 3.0 * before - after) / width, 2.0 * (before + after - 2.0 * middle) / width**2
            area = mass_there - mass
            first_moment = density - density_there - z * area
            second_moment = area - width * density_there - z * first_moment
            total += before * area + a * first_moment + b * second_moment
            before, slope, mass, density, z = after, slope_after, mass_there, density_there, there
            function[c], derivative[c] = total, density / deviations[i] * after
        if not total > _SMALLEST:
            return -math.inf
        scale += math.log(total)
        for c in range(_CELLS + 1):
            function[c] /= total
            derivative[c] /= total
    return scale


@njit(error_model="numpy", parallel=True)
def chain_log_probabilities(means, deviations):
    """log P(x_1 > x_2 > ... > x_n) of independent normals, a row for each draw; a deviation of 0 is a known number."""
    n_draws, n = means.shape
    out = np.zeros(n_draws)
    for d in prange(n_draws):
        high, first = math.inf, 0
        for i in range(n + 1):
            if i < n and deviations[d, i] > 0.0:
                continue
            low = means[d, i] if i < n else -math.inf
            if not low <= high:
                out[d] = -math.inf
            elif i > first:
                out[d] += _free_run(means[d], deviations[d], first, i, low, high)
            high, first = low, i + 1
    return out
