"""Probabilities of orders of normal numbers: along a chain if they are independent, by GHK if they are not."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.cholesky import cholesky
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, uniform
from permrank.kernels.thurstone.normals import below, cdf, log_cdf

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


@njit(error_model="numpy")
def _covariance_factor(items, theta, variances, lower):
    """Cholesky factor of H Hᵀ + D over the items, in their order."""
    n, size = items.size, theta.shape[1] - 1
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += theta[items[i], k] * theta[items[j], k]
            lower[i, j] = total
        lower[i, i] += variances[items[i]]
    cholesky(lower, n)


@njit(error_model="numpy")
def _ghk_point(lower, means, levels, alphas, shift_key, point, e, x):
    """One point of GHK: Π P(x_i below all of the block before | those drawn so far), in the log domain."""
    value, bound, lowest = 0.0, math.inf, math.inf
    for i in range(means.size):
        if i > 0 and levels[i] != levels[i - 1]:
            bound = lowest
            lowest = math.inf
        mean = means[i]
        for j in range(i):
            mean += lower[i, j] * e[j]
        # A point of a lattice with a random shift, folded so that the function is periodic.
        place = (point + 1) * alphas[i] + uniform(shift_key, np.uint64(i))
        place -= math.floor(place)
        u = min(max(1.0 - abs(2.0 * place - 1.0), 1e-16), 1.0 - 1e-16)
        limit = (bound - mean) / lower[i, i]
        if bound < math.inf:
            value += log_cdf(limit)
            e[i] = below(limit, u)
        else:
            e[i] = below(40.0, u)
        x[i] = mean + lower[i, i] * e[i]
        lowest = min(lowest, x[i])
    return value


@njit(error_model="numpy", parallel=True)
def ghk(indptr, items, levels, theta, variances, shares, centres, alphas, n_points, group, key):
    """Probabilities of partial orders of new people with their factors integrated out: (n_rankings,), logarithms.

    Geweke, Hajivassiliou and Keane: items are drawn from the best on, each below the block before it, and the
    probabilities of that multiplied. Averaged over ``n_points`` points of a lattice with its own random shift for every
    draw and component. theta: (n_draws, n_components, n_items, K + 1); centres: (n_draws, n_rankings, K).
    """
    n_rankings, n_draws = indptr.size - 1, theta.shape[0]
    out = np.empty(n_rankings)
    for r in prange(n_rankings):
        stream = derive(derive(key, np.uint64(r)), np.uint64(group))
        out[r] = _ghk_ranking(
            items[indptr[r] : indptr[r + 1]], levels[indptr[r] : indptr[r + 1]], theta, variances, shares,
            centres[:, r], alphas, n_points, stream, n_draws,
        )  # fmt: skip
    return out


@njit(error_model="numpy")
def _ghk_ranking(items, levels, theta, variances, shares, centres, alphas, n_points, stream, n_draws):
    n, size = items.size, theta.shape[3] - 1
    if n < 2 or levels[0] == levels[n - 1]:
        return 0.0
    lower, means, e, x = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    most, total = -math.inf, 0.0
    for d in range(n_draws):
        for z in range(theta.shape[1]):
            _covariance_factor(items, theta[d, z], variances[d, z], lower)
            for i in range(n):
                means[i] = theta[d, z, items[i], size]
                for k in range(size):
                    means[i] += theta[d, z, items[i], k] * centres[d, k]
            shift = derive(stream, np.uint64(d * theta.shape[1] + z))
            for point in range(n_points):
                value = _ghk_point(lower, means, levels, alphas, shift, point, e, x) + math.log(shares[d, z])
                if value > most:
                    total = total * math.exp(most - value) + 1.0
                    most = value
                elif value > -math.inf:
                    total += math.exp(value - most)
    return most + math.log(total / (n_draws * n_points))
