"""Probabilities of orders of normal numbers that are not independent: GHK with minimax tilting.

A strict ranking of x ~ N(μ, H Hᵀ + D) says that the differences y_i = x_i - x_(i+1) are positive. With y = m + L z and
rows divided by the diagonal of L, that is z_i > b_i - Σ_(j<i) A_ij z_j. Geweke, Hajivassiliou and Keane draw z_i from
N(0, 1) beyond its bound and multiply the probabilities of that. Here z_i comes from N(τ_i, 1) (Botev 2017), with τ at
the saddle point of the logarithm of the weight, so that the weights vary little even where the ranking is very
unlikely. The saddle point solves t + (M - 1) h(t) = b with M = (1 + A)(1 + A)ᵀ and h = φ / Φ̄ the hazard rate, the
gradient of a convex function of h; then τ = Aᵀ h(t).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.thurstone.kernels.normals import below, log_cdf
from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, uniform

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
# Newton's steps at most, and the largest residual of the saddle point that is good enough: any tilt is unbiased.
_STEPS, _CLOSE = 50, 1e-6
# Derivatives of the hazard rate are kept above this, where the bound is far below.
_FLATTEST = 1e-12


@njit(error_model="numpy")
def _hazards(t, hazard):
    """h(t) = φ(t) / Φ(-t), written."""
    for i in range(t.size):
        hazard[i] = math.exp(-0.5 * t[i] * t[i] - _LOG_ROOT_TWO_PI - log_cdf(-t[i]))


@njit(error_model="numpy")
def _residual(t, hazard, matrix, b, out):
    """b - t - (M - 1) h(t), written, and its largest absolute value."""
    largest = 0.0
    for i in range(t.size):
        out[i] = b[i] - t[i] + hazard[i]
        for j in range(t.size):
            out[i] -= matrix[i, j] * hazard[j]
        largest = max(largest, abs(out[i]))
    return largest


@njit(error_model="numpy")
def saddle_point(matrix, b, hazard):
    """h(t) with t + (M - 1) h(t) = b, written: Newton's method with steps that are halved."""
    n = b.size
    t, trial, found, residual = b.copy(), np.empty(n), np.empty(n), np.empty(n)
    lower, step, slope = np.empty((n, n)), np.empty(n), np.empty(n)
    _hazards(t, hazard)
    largest = _residual(t, hazard, matrix, b, residual)
    for _ in range(_STEPS):
        if largest < _CLOSE:
            return
        for i in range(n):
            slope[i] = min(max(hazard[i] * (hazard[i] - t[i]), _FLATTEST), 1.0)
            for j in range(i):
                lower[i, j] = matrix[i, j]
            lower[i, i] = 1.0 / slope[i] - 1.0 + matrix[i, i]
            step[i] = residual[i]
        cholesky(lower, n)
        forward(lower, step, n)
        backward(lower, step, n)
        share = 1.0
        for _ in range(20):
            for i in range(n):
                trial[i] = t[i] + share * step[i] / slope[i]
            _hazards(trial, found)
            now = _residual(trial, found, matrix, b, residual)
            if now < largest:
                break
            share *= 0.5
        if not now < largest:
            return
        largest = now
        for i in range(n):
            t[i], hazard[i] = trial[i], found[i]


@njit(error_model="numpy")
def _differences(items, theta, variances, centre, lower, b, tilt):
    """Of a strict ranking: A below the diagonal of ``lower``, b, and the tilt, written."""
    n, size = items.size - 1, centre.size
    loads, own = np.empty((n, size)), np.empty(n + 1)
    for i in range(n):
        first, second = theta[items[i]], theta[items[i + 1]]
        b[i] = first[size] - second[size]
        for k in range(size):
            loads[i, k] = first[k] - second[k]
            b[i] += loads[i, k] * centre[k]
    for i in range(n + 1):
        own[i] = variances[items[i]]
    matrix = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += loads[i, k] * loads[j, k]
            if j == i:
                total += own[i] + own[i + 1]
            elif j == i - 1:
                total -= own[i]
            lower[i, j], matrix[i, j], matrix[j, i] = total, total, total
    cholesky(lower, n)
    for i in range(n):
        b[i] /= -lower[i, i]
        for j in range(n):
            matrix[i, j] /= lower[i, i] * lower[j, j]
    for i in range(n):
        for j in range(i):
            lower[i, j] /= lower[i, i]
    hazard = np.empty(n)
    saddle_point(matrix, b, hazard)
    for j in range(n):
        tilt[j] = 0.0
        for i in range(j + 1, n):
            tilt[j] += lower[i, j] * hazard[i]


@njit(error_model="numpy")
def _folded(point, alpha, shift_key, i):
    """A coordinate of a point of a lattice with a random shift, folded so that the function is periodic."""
    place = (point + 1) * alpha + uniform(shift_key, np.uint64(i))
    place -= math.floor(place)
    return min(max(1.0 - abs(2.0 * place - 1.0), 1e-16), 1.0 - 1e-16)


@njit(error_model="numpy")
def _tilted_point(lower, b, tilt, alphas, shift_key, point, z):
    """Logarithm of the weight of one point of a strict ranking."""
    value = 0.0
    for i in range(b.size):
        bound = b[i] - tilt[i]
        for j in range(i):
            bound -= lower[i, j] * z[j]
        value += log_cdf(-bound)
        if i < b.size - 1:
            z[i] = tilt[i] - below(-bound, _folded(point, alphas[i], shift_key, i))
            value += tilt[i] * (0.5 * tilt[i] - z[i])
    return value


@njit(error_model="numpy")
def _covariance_factor(items, theta, variances, centre, lower, means):
    """Cholesky factor of H Hᵀ + D over the items, in their order, and their means, written."""
    n, size = items.size, centre.size
    for i in range(n):
        means[i] = theta[items[i], size]
        for k in range(size):
            means[i] += theta[items[i], k] * centre[k]
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += theta[items[i], k] * theta[items[j], k]
            lower[i, j] = total
        lower[i, i] += variances[items[i]]
    cholesky(lower, n)


@njit(error_model="numpy")
def _tied_point(lower, means, levels, alphas, shift_key, point, e):
    """Logarithm of Π P(x_i below all of the block before | those drawn so far): items are drawn from the best on."""
    value, bound, lowest = 0.0, math.inf, math.inf
    for i in range(means.size):
        if i > 0 and levels[i] != levels[i - 1]:
            bound = lowest
            lowest = math.inf
        mean = means[i]
        for j in range(i):
            mean += lower[i, j] * e[j]
        limit = 40.0
        if bound < math.inf:
            limit = (bound - mean) / lower[i, i]
            value += log_cdf(limit)
        e[i] = below(limit, _folded(point, alphas[i], shift_key, i))
        lowest = min(lowest, mean + lower[i, i] * e[i])
    return value


@njit(error_model="numpy", parallel=True)
def ghk(indptr, items, levels, theta, variances, log_shares, centres, alphas, n_groups, n_points, key):
    """Logarithms of probabilities of orders of new people with their factors integrated out: (n_rankings, n_groups).

    Averages over ``n_points`` points of a lattice with its own random shift for every group, draw and component. theta:
    (n_draws, n_components, n_items, K + 1); centres: (n_draws, n_rankings, K).
    """
    n_rankings = indptr.size - 1
    out = np.zeros((n_rankings, n_groups))
    for r in prange(n_rankings):
        own, tied = items[indptr[r] : indptr[r + 1]], levels[indptr[r] : indptr[r + 1]]
        if own.size >= 2 and tied[0] != tied[-1]:
            stream = derive(key, np.uint64(r))
            _ghk_ranking(own, tied, theta, variances, log_shares, centres[:, r], alphas, n_points, stream, out[r])
    return out


@njit(error_model="numpy")
def _ghk_ranking(items, levels, theta, variances, log_shares, centres, alphas, n_points, stream, out):
    n, strict = items.size, True
    for i in range(1, n):
        strict = strict and levels[i] != levels[i - 1]
    n -= 1 if strict else 0
    lower, b, tilt, z = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    n_draws, n_components, n_groups = theta.shape[0], theta.shape[1], out.size
    most, total = np.full(n_groups, -math.inf), np.zeros(n_groups)
    for place in range(n_draws * n_components):
        d, c = place // n_components, place % n_components
        if strict:
            _differences(items, theta[d, c], variances[d, c], centres[d], lower, b, tilt)
        else:
            _covariance_factor(items, theta[d, c], variances[d, c], centres[d], lower, b)
        for group in range(n_groups):
            shift = derive(stream, np.uint64(place * n_groups + group))
            for point in range(n_points):
                value = log_shares[d, c]
                if strict:
                    value += _tilted_point(lower, b, tilt, alphas, shift, point, z)
                else:
                    value += _tied_point(lower, b, levels, alphas, shift, point, z)
                if value > most[group]:
                    total[group] = total[group] * math.exp(most[group] - value) + 1.0
                    most[group] = value
                elif value > -math.inf:
                    total[group] += math.exp(value - most[group])
    for group in range(n_groups):
        out[group] = most[group] + math.log(total[group] / (n_draws * n_points))
