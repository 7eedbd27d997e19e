"""Thurstone's model with factors: what follows for users from draws of the items.

Every kept draw of the items has a chain of its own for a user. Its moves are those of the pass over the users, so that
a chain that has come to the posterior stays there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive
from permrank.kernels.thurstone.conditioning import (
    Population,
    condition,
    conditional,
    draw_factors,
    factors_mean,
    factors_variance,
)
from permrank.kernels.thurstone.normals import cdf
from permrank.kernels.thurstone.orders import measure_blocks, order_of, probability_above
from permrank.kernels.thurstone.users import draw_component, move_together, scan


class Draws(NamedTuple):
    """Draws of the items: as `Population`, with a slice for every draw, and prior means of the users.

    Attributes
    ----------
    theta : float64 (n_draws, n_components, n_items, K + 1)
    variances : float64 (n_draws, n_components, n_items)
    log_shares : float64 (n_draws, n_components)
    thresholds : float64 (n_draws, n_thresholds)
    flips : float64 (n_draws,)
    centres : float64 (n_draws, n_users, K)
    """

    theta: Any
    variances: Any
    log_shares: Any
    thresholds: Any
    flips: Any
    centres: Any


class Chains(NamedTuple):
    """Where the chains of users stand: utilities (n_draws, n_slots) and components (n_draws, n_users)."""

    x: Any
    components: Any


@njit(error_model="numpy", inline="always")
def _population(draws, d):
    return Population(draws.theta[d], draws.variances[d], draws.log_shares[d], draws.thresholds[d], draws.flips[d])


@njit(error_model="numpy")
def _advance(u, said, population, centre, order, x, z, n_moves, key, counter):
    """Some rounds of all moves of a user under one draw; returns the component, what is given and the counter."""
    first, last = said.slot_indptr[u], said.slot_indptr[u + 1]
    items, grades = said.slot_items[first:last], said.slot_grades[first:last]
    ordered = x.size > 0 and grades[0] < 0
    if ordered:
        measure_blocks(order, x)
    for _ in range(n_moves):
        if population.log_shares.size > 1:
            z, counter = draw_component(items, population, centre, x, key, counter)
        given, _ = condition(items, population.theta[z], population.variances[z], centre, x)
        counter = scan(order, given, grades, population.thresholds, population.flip, x, key, counter)
        if ordered:
            counter = move_together(u, said, given, population.flip, x, key, counter)
            measure_blocks(order, x)
    given, _ = condition(items, population.theta[z], population.variances[z], centre, x)
    return z, given, counter


@njit(error_model="numpy", parallel=True)
def run_chains(said, draws, n_burn, n_keep, key, before, chains, means, residuals):
    """Bring the chains of all users to their posterior, parallel over users and draws.

    chains: written. means: (n_draws, n_users, K), written: of w given x, over the rounds that count. residuals:
    (n_draws, n_slots), written: what these leave of the utilities.
    """
    n_draws, n_users = chains.components.shape
    for place in prange(n_draws * n_users):
        d, u = np.int64(place // n_users), np.int64(place % n_users)
        stream = derive(derive(key, before + np.uint64(u)), np.uint64(d))
        _run_chain(d, u, said, draws, n_burn, n_keep, stream, chains, means[d, u], residuals[d])


@njit(error_model="numpy")
def _run_chain(d, u, said, draws, n_burn, n_keep, key, chains, mean, residuals):
    first, last = said.slot_indptr[u], said.slot_indptr[u + 1]
    x, z, centre = chains.x[d, first:last], chains.components[d, u], draws.centres[d, u]
    population, order, counter = _population(draws, d), order_of(u, said), np.uint64(0)
    now = np.empty(mean.size)
    mean[:] = 0.0
    residuals[first:last] = 0.0
    for i in range(n_keep):
        z, given, counter = _advance(
            u, said, population, centre, order, x, z, n_burn + 1 if i == 0 else 1, key, counter
        )
        factors_mean(given, now)
        for k in range(mean.size):
            mean[k] += (now[k] + centre[k]) / n_keep
        for s in range(x.size):
            left = given.residual[s]
            for k in range(mean.size):
                left -= given.loads[s, k] * now[k]
            residuals[first + s] += left / n_keep
    chains.components[d, u] = z


@njit(error_model="numpy")
def _slot_of(items, y):
    for s in range(items.size):
        if items[s] == y:
            return s
    return -1


@njit(error_model="numpy")
def _pair(order, given, theta, variances, mean, items, x, flip, first, second):
    """P(first before second) given x, or for what was said about, given all of x but one of them; mean: of w."""
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
            difference[k] += sign * theta[y, k]
    return cdf(gap / math.sqrt(variance + factors_variance(given, difference)))


@njit(error_model="numpy", parallel=True)
def pair_probabilities(said, draws, fresh, n_keep, key, chains, pair_indptr, pairs):
    """P(pairs[i, 0] before pairs[i, 1]) under every draw, pairs by user: (n_draws, n_pairs).

    The first of ``n_keep`` rounds is where the chains stand; they are not written. fresh: another occasion is asked
    about, so that what was said tells of w alone.
    """
    n_draws, n_users = chains.components.shape
    out = np.zeros((n_draws, pairs.shape[0]))
    for place in prange(n_draws * n_users):
        d, u = np.int64(place // n_users), np.int64(place % n_users)
        stream = derive(derive(key, np.uint64(u)), np.uint64(d))
        _pairs_of_user(d, u, said, draws, fresh, n_keep, stream, chains, pair_indptr, pairs, out[d])
    return out


@njit(error_model="numpy")
def _pairs_of_user(d, u, said, draws, fresh, n_keep, key, chains, pair_indptr, pairs, out):
    if pair_indptr[u] == pair_indptr[u + 1]:
        return
    first, last = said.slot_indptr[u], said.slot_indptr[u + 1]
    items = said.slot_items[first:last]
    x, z, centre = chains.x[d, first:last].copy(), chains.components[d, u], draws.centres[d, u]
    population, order, counter = _population(draws, d), order_of(u, said), np.uint64(0)
    mean = np.empty(centre.size)
    for i in range(n_keep):
        z, given, counter = _advance(u, said, population, centre, order, x, z, min(i, 1), key, counter)
        theta, variances = population.theta[z], population.variances[z]
        factors_mean(given, mean)
        mean += centre
        for p in range(pair_indptr[u], pair_indptr[u + 1]):
            out[p] += _pair(
                order, given, theta, variances, mean, items[: 0 if fresh else items.size], x, population.flip,
                pairs[p, 0], pairs[p, 1],
            ) / n_keep  # fmt: skip


@njit(error_model="numpy", parallel=True)
def utility_draws(said, draws, fresh, n_keep, key, chains, items):
    """Mean and deviation of the utilities of some items for the only user, given w and x: (n_draws, n_keep, n) both.

    The deviation is 0 for items that the user has spoken of: their utility is drawn itself.
    """
    n_draws = chains.components.shape[0]
    means, deviations = np.empty((n_draws, n_keep, items.size)), np.zeros((n_draws, n_keep, items.size))
    for d in prange(n_draws):
        stream = derive(key, np.uint64(d))
        _utilities_of_draw(np.int64(d), said, draws, fresh, n_keep, stream, chains, items, means[d], deviations[d])
    return means, deviations


@njit(error_model="numpy")
def _utilities_of_draw(d, said, draws, fresh, n_keep, key, chains, items, means, deviations):
    x, z, centre = chains.x[d].copy(), chains.components[d, 0], draws.centres[d, 0]
    population, order, counter, size = _population(draws, d), order_of(0, said), np.uint64(0), centre.size
    w, mean = np.empty(size), np.empty(size)
    for i in range(n_keep):
        z, given, counter = _advance(0, said, population, centre, order, x, z, min(i, 1), key, counter)
        factors_mean(given, mean)
        counter = draw_factors(given, mean, key, counter, w)
        w += centre
        for place in range(items.size):
            y = items[place]
            s = -1 if fresh else _slot_of(said.slot_items, y)
            if s >= 0:
                means[i, place] = x[s]
                continue
            total = population.theta[z, y, size]
            for k in range(size):
                total += population.theta[z, y, k] * w[k]
            means[i, place], deviations[i, place] = total, math.sqrt(population.variances[z, y])
