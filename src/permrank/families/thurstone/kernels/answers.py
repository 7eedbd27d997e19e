"""Thurstone's model with factors: probabilities of pairs where the chains of users stand."""

from __future__ import annotations

import math

import numpy as np

from permrank.families.thurstone.kernels.conditioning import condition, conditional, factors_mean, factors_variance
from permrank.families.thurstone.kernels.normals import cdf
from permrank.families.thurstone.kernels.orders import measure_blocks, order_of, probability_above
from permrank.kernels.jit import njit, prange


@njit(error_model="numpy")
def _slot_of(items, y):
    for s in range(items.size):
        if items[s] == y:
            return s
    return -1


@njit(error_model="numpy")
def _pair(order, given, theta, variances, mean, spread, items, x, flip, first, second):
    """P(first before second) given x, or for what was said about, given all of x but one of them.

    mean: of w; spread: its deviation a priori.
    """
    size = mean.size
    a, b = _slot_of(items, first), _slot_of(items, second)
    if a >= 0 and b >= 0:
        total = 0.0
        for turn in range(2):
            s, bound = (a, x[b]) if turn == 0 else (b, x[a])
            centre, deviation = conditional(given, x, s)
            p = probability_above(order, x, s, centre, deviation, flip, bound)
            total += p if turn == 0 else 1.0 - p
        return 0.5 * total
    gap, variance, difference = 0.0, 0.0, np.zeros(size)
    for turn in range(2):
        y, s, sign = (first, a, 1.0) if turn == 0 else (second, b, -1.0)
        if s >= 0:
            gap += sign * x[s]
            continue
        gap += sign * theta[y, size]
        variance += variances[y]
        for k in range(size):
            gap += sign * theta[y, k] * mean[k]
            difference[k] += sign * theta[y, k] * spread
    return cdf(gap / math.sqrt(variance + factors_variance(given, difference)))


@njit(error_model="numpy", parallel=True)
def pair_probabilities(statements, population, centres, fresh, x, components, pair_indptr, pairs):
    """P(pairs[i, 0] before pairs[i, 1]) under every draw, given utilities x, pairs by user: (n_draws, n_pairs).

    fresh: another occasion is asked about, so that what was said tells of w alone.
    """
    n_draws, n_users = components.shape
    out = np.zeros((n_draws, pairs.shape[0]))
    for place in prange(n_draws * n_users):
        d, u = np.int64(place // n_users), np.int64(place % n_users)
        if pair_indptr[u] < pair_indptr[u + 1]:
            own = x[d, statements.slot_indptr[u] : statements.slot_indptr[u + 1]]
            _pairs_of_user(
                d, u, statements, population, centres[d, u], fresh, own, components[d, u], pair_indptr, pairs, out[d]
            )
    return out


@njit(error_model="numpy")
def _pairs_of_user(d, u, statements, population, centre, fresh, x, z, pair_indptr, pairs, out):
    items, order = (
        statements.slot_items[statements.slot_indptr[u] : statements.slot_indptr[u + 1]],
        order_of(u, statements),
    )
    measure_blocks(order, x)
    theta, variances, mean = population.theta[d, z], population.variances[d, z], np.empty(centre.size - 1)
    given, _ = condition(items, theta, variances, centre, x)
    factors_mean(given, mean)
    for k in range(mean.size):
        mean[k] = centre[mean.size] * mean[k] + centre[k]
    spoken = items[: 0 if fresh else items.size]
    for p in range(pair_indptr[u], pair_indptr[u + 1]):
        first, second = pairs[p, 0], pairs[p, 1]
        out[p] = _pair(
            order, given, theta, variances, mean, centre[mean.size], spoken, x, population.flips[d], first, second
        )
