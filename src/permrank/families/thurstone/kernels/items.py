"""Thurstone's model with factors: what items, variances and thresholds need of the slots, by blocks of users."""

from __future__ import annotations

import math

import numpy as np

from permrank.families.thurstone.kernels.normals import log_between, truncated
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


@njit(error_model="numpy", inline="always")
def _predicted(row, w):
    """μ_y + H_y·w."""
    total = row[w.size]
    for k in range(w.size):
        total += row[k] * w[k]
    return total


@njit(error_model="numpy", parallel=True)
def slot_terms(statements, theta, variances, components, component, draws, x):
    """ε_s / σ² and 1 / σ² of the slots of users in a component, 0 for all others: (n_slots,) both.

    theta: (n_items, K + 1), variances: (n_items,), of the component.
    """
    residual, curvature = np.zeros(x.size), np.zeros(x.size)
    for u in prange(draws.shape[0]):
        if components[u] == component:
            for s in range(statements.slot_indptr[u], statements.slot_indptr[u + 1]):
                y = statements.slot_items[s]
                curvature[s] = 1.0 / variances[y]
                residual[s] = (x[s] - _predicted(theta[y], draws[u])) * curvature[s]
    return residual, curvature


@njit(error_model="numpy", parallel=True)
def squares_by_item(bounds, statements, theta, components, draws, x):
    """Σ ε² and number of the slots of every item by block and component: (n_blocks, n_components, n_items, 2)."""
    n_blocks = bounds.size - 1
    sums = np.zeros((n_blocks, theta.shape[0], theta.shape[1], 2))
    for b in prange(n_blocks):
        for u in range(bounds[b], bounds[b + 1]):
            z = components[u]
            for s in range(statements.slot_indptr[u], statements.slot_indptr[u + 1]):
                y = statements.slot_items[s]
                left = x[s] - _predicted(theta[z, y], draws[u])
                sums[b, z, y, 0] += left * left
                sums[b, z, y, 1] += 1.0
    return sums


@njit(error_model="numpy")
def _density(z):
    return math.exp(-0.5 * z * z) / _ROOT_TWO_PI if abs(z) < 40.0 else 0.0


@njit(error_model="numpy", parallel=True)
def threshold_sums(bounds, statements, population, components, draws, thresholds):
    """What thresholds need, with the utilities integrated out given w, by block: (n_blocks, 1 + 3 T).

    Log-likelihood Σ log(Φ((t_g - η) / σ) - Φ((t_(g-1) - η) / σ)), its gradient by the T thresholds, and minus the
    diagonal and the upper diagonal (T - 1, then a 0) of its matrix of second derivatives.
    """
    n_blocks, n = bounds.size - 1, thresholds.size
    out = np.zeros((n_blocks, 1 + 3 * n))
    for b in prange(n_blocks):
        for u in range(bounds[b], bounds[b + 1]):
            theta, variances = population.theta[0, components[u]], population.variances[0, components[u]]
            for s in range(statements.slot_indptr[u], statements.slot_indptr[u + 1]):
                y, g = statements.slot_items[s], statements.slot_grades[s]
                deviation, centre = math.sqrt(variances[y]), _predicted(theta[y], draws[u])
                low = (thresholds[g - 1] - centre) / deviation if g > 0 else -math.inf
                high = (thresholds[g] - centre) / deviation if g < n else math.inf
                log_mass = log_between(low, high)
                out[b, 0] += log_mass
                up = math.exp(math.log(max(_density(high), 1e-300)) - log_mass) / deviation if g < n else 0.0
                down = math.exp(math.log(max(_density(low), 1e-300)) - log_mass) / deviation if g > 0 else 0.0
                if g < n:
                    out[b, 1 + g] += up
                    out[b, 1 + n + g] += up * (up + high / deviation)
                if g > 0:
                    out[b, g] -= down
                    out[b, n + g] += down * (down - low / deviation)
                if 0 < g < n:
                    out[b, 2 * n + g] -= up * down
    return out


@njit(error_model="numpy", parallel=True)
def draw_rated(statements, population, components, draws, key, before, x):
    """Utilities of rated slots given w and thresholds, independent of each other; x is written."""
    thresholds = population.thresholds[0]
    for u in prange(draws.shape[0]):
        stream, counter = derive(key, before + np.uint64(u)), np.uint64(0)
        theta, variances = population.theta[0, components[u]], population.variances[0, components[u]]
        for s in range(statements.slot_indptr[u], statements.slot_indptr[u + 1]):
            y, g = statements.slot_items[s], statements.slot_grades[s]
            deviation, centre = math.sqrt(variances[y]), _predicted(theta[y], draws[u])
            low = thresholds[g - 1] if g > 0 else -math.inf
            high = thresholds[g] if g < thresholds.size else math.inf
            z, counter = truncated((low - centre) / deviation, (high - centre) / deviation, stream, counter)
            x[s] = min(max(centre + deviation * z, low), high)


@njit(error_model="numpy", parallel=True)
def completed_scatter(bounds, statements, population, components, draws, key, before, x):
    """Σ v vᵀ with v = (utilities of all items, 1) by block and component: (n_blocks, n_components, n + 1, n + 1).

    What a user has not spoken of is drawn given w. For populations of few items.
    """
    theta, variances = population.theta[0], population.variances[0]
    n_blocks, n = bounds.size - 1, theta.shape[1]
    sums = np.zeros((n_blocks, theta.shape[0], n + 1, n + 1))
    for b in prange(n_blocks):
        v = np.ones(n + 1)
        for u in range(bounds[b], bounds[b + 1]):
            z, stream = components[u], derive(key, before + np.uint64(u))
            first, last = statements.slot_indptr[u], statements.slot_indptr[u + 1]
            if last - first < n:
                for y in range(n):
                    v[y] = _predicted(theta[z, y], draws[u]) + math.sqrt(variances[z, y]) * normal(stream, np.uint64(y))
            for s in range(first, last):
                v[statements.slot_items[s]] = x[s]
            for i in range(n + 1):
                for j in range(i + 1):
                    sums[b, z, i, j] += v[i] * v[j]
    return sums
