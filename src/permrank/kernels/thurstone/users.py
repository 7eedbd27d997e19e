"""Thurstone's model with factors: the pass over the users.

Given the items, x_s = μ_y + H_y·w + ε_s with w ~ N(w₀, 1), ε_s ~ N(0, σ_y²) for every slot s of a user. With w
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
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal, uniform
from permrank.kernels.thurstone.normals import truncated
from permrank.kernels.thurstone.orders import (
    bounds_of,
    count_flips,
    measure_blocks,
    note_move,
    order_of,
    soft_draw,
)

_ONE, _TWO = np.uint64(1), np.uint64(2)
_LOG_TWO_PI = math.log(2.0 * math.pi)
# Share of an item's variance that is its own at the least, against rounding.
_OWN_SHARE = 1e-12
# The proposal of a scale is so much wider than the density around its mode, so that no tail is left out.
_WIDER = 1.2


class Population(NamedTuple):
    """Components of the population.

    Attributes
    ----------
    theta : float64 (n_components, n_items, K + 1)
        Factors H and mean μ of every item.
    variances : float64 (n_components, n_items)
        σ² of every item.
    log_shares : float64 (n_components,)
    thresholds : float64 (n_thresholds,)
        Ascending, between grades.
    flip : float
        Probability that an answer is the wrong way round; 0 where nobody contradicts himself.
    """

    theta: Any
    variances: Any
    log_shares: Any
    thresholds: Any
    flip: Any


class Given(NamedTuple):
    """One user's slots given the items: loadings H, C H, σ², 1 - v, residuals r, m, factor of C^-1, (n, ...)."""

    loads: Any
    gains: Any
    variance: Any
    own: Any
    residual: Any
    mean: Any
    lower: Any


@njit(error_model="numpy")
def condition(items, theta, variances, centre, x):
    """What `Given` holds, and the log-density of x with w integrated out."""
    n, size = items.size, centre.size
    loads, gains, variance = np.empty((n, size)), np.empty((n, size)), np.empty(n)
    own, residual, mean, lower = np.empty(n), np.empty(n), np.zeros(size), np.zeros((size, size))
    value = 0.0
    for s in range(n):
        y = items[s]
        variance[s] = variances[y]
        r = x[s] - theta[y, size]
        for k in range(size):
            loads[s, k] = theta[y, k]
            r -= theta[y, k] * centre[k]
        residual[s] = r
        value -= math.log(variance[s]) + r * r / variance[s] + _LOG_TWO_PI
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
        gains[s] = loads[s]
        forward(lower, gains[s], size)
        v = 0.0
        for k in range(size):
            v += gains[s, k] * gains[s, k]
        own[s] = max(1.0 - v / variance[s], _OWN_SHARE)
        backward(lower, gains[s], size)
    return Given(loads, gains, variance, own, residual, mean, lower), 0.5 * value


@njit(error_model="numpy", inline="always")
def _left(given, s):
    """r_s - H_s·m."""
    left = given.residual[s]
    for k in range(given.mean.size):
        left -= given.loads[s, k] * given.mean[k]
    return left


@njit(error_model="numpy", inline="always")
def _shift_slot(given, x, s, step):
    """Move slot s by a step, and m with it."""
    x[s] += step
    given.residual[s] += step
    for k in range(given.mean.size):
        given.mean[k] += given.gains[s, k] * (step / given.variance[s])


@njit(error_model="numpy")
def scan(order, given, grades, thresholds, flip, x, key, counter):
    """Draw every slot given all others."""
    for s in range(x.size):
        old = x[s]
        centre = old - _left(given, s) / given.own[s]
        deviation = math.sqrt(given.variance[s] / given.own[s])
        if grades[s] < 0 and flip > 0.0:
            new, counter = soft_draw(order, x, s, centre, deviation, flip, key, counter)
        else:
            if grades[s] >= 0:
                low = thresholds[grades[s] - 1] if grades[s] > 0 else -math.inf
                high = thresholds[grades[s]] if grades[s] < thresholds.size else math.inf
            else:
                low, high = bounds_of(order, s)
            z, counter = truncated((low - centre) / deviation, (high - centre) / deviation, key, counter)
            new = min(max(centre + deviation * z, low), high)
        _shift_slot(given, x, s, new - old)
        x[s] = new
        if grades[s] < 0 and flip <= 0.0:
            note_move(order, x, s, old)
    return counter


@njit(error_model="numpy")
def shift_upper_parts(levels, given, chain, x, key, counter):
    """Shift all slots down to a level together, for every level but, without a chain, the last only.

    A chain: the slots are one ranking, best first. With J the slots that move, the shift t has the density
    exp(-(t² 1'Λ1 + 2 t 1'Λr) / 2) over J, cut where the lowest of J would meet the highest that stays.
    """
    n, size = x.size, given.mean.size
    gain, shifts = np.zeros(size), np.zeros(n)
    precision, slope = 0.0, 0.0
    for s in range(n):
        inner = 0.0
        for k in range(size):
            inner += given.loads[s, k] * gain[k]
        # Σ_J Λ grows by the row and column of s; gain is C Hᵀ D^-1 1 over J.
        precision += (given.own[s] - 2.0 * inner) / given.variance[s]
        for k in range(size):
            gain[k] += given.gains[s, k] / given.variance[s]
        slope += _left(given, s) / given.variance[s]
        whole = s == n - 1
        if not whole and (not chain or levels[s + 1] == levels[s]):
            continue
        precision_now = max(precision, 1e-12)
        centre, deviation, low = -slope / precision_now, 1.0 / math.sqrt(precision_now), -math.inf
        if not whole:
            lowest, highest, e = x[s], x[s + 1], s
            while e > 0 and levels[e - 1] == levels[s]:
                e -= 1
                lowest = min(lowest, x[e])
            e = s + 1
            while e + 1 < n and levels[e + 1] == levels[s + 1]:
                e += 1
                highest = max(highest, x[e])
            low = (highest - lowest - centre) / deviation
        z, counter = truncated(low, math.inf, key, counter)
        shifts[s] = centre + deviation * z
        slope += shifts[s] * precision
        for k in range(size):
            given.mean[k] += shifts[s] * gain[k]
    total = 0.0
    for s in range(n - 1, -1, -1):
        total += shifts[s]
        x[s] += total
        given.residual[s] += total
    return counter


@njit(error_model="numpy")
def stretch(given, x, key, counter):
    """Stretch all slots around their mean: x̄ + c (x - x̄), a Metropolis step with a proposal around the mode.

    With d = x - x̄ the density of c is c^(n-2) exp(-(c - 1)² d'Λd / 2 - (c - 1) d'Λr): n - 1 dimensions are stretched.
    """
    n, size = x.size, given.mean.size
    if n < 3:
        return counter
    centre = 0.0
    for s in range(n):
        centre += x[s] / n
    gain, square, slope = np.zeros(size), 0.0, 0.0
    for s in range(n):
        d = x[s] - centre
        for k in range(size):
            gain[k] += given.gains[s, k] * (d / given.variance[s])
        square += d * d / given.variance[s]
        slope += d * _left(given, s) / given.variance[s]
    for s in range(n):
        inner = 0.0
        for k in range(size):
            inner += given.loads[s, k] * gain[k]
        square -= inner * (x[s] - centre) / given.variance[s]
    if not square > 1e-12:
        return counter
    power, linear = n - 2.0, square - slope
    mode = (linear + math.sqrt(linear * linear + 4.0 * square * power)) / (2.0 * square)
    deviation = _WIDER / math.sqrt(square + power / (mode * mode))
    c = mode + deviation * normal(key, counter)
    u = uniform(key, _TWO * (counter + _ONE))
    counter += _TWO
    if c <= 0.0:
        return counter
    there = power * math.log(c) - 0.5 * square * (c - 1.0) ** 2 - slope * (c - 1.0)
    # The present state is c = 1, where the density above is 1.
    proposed = 0.5 * ((c - mode) / deviation) ** 2 - 0.5 * ((1.0 - mode) / deviation) ** 2
    if math.log(u) < there + proposed:
        for s in range(n):
            d = (c - 1.0) * (x[s] - centre)
            x[s] += d
            given.residual[s] += d
        for k in range(size):
            given.mean[k] += (c - 1.0) * gain[k]
    return counter


@njit(error_model="numpy", inline="always")
def _part(given, first, last):
    """The slots of one occasion: m and C stay those of the user."""
    return Given(
        given.loads[first:last], given.gains[first:last], given.variance[first:last], given.own[first:last],
        given.residual[first:last], given.mean, given.lower,
    )  # fmt: skip


@njit(error_model="numpy")
def move_together(u, said, given, flip, x, key, counter):
    """Shifts and stretches of each occasion of a user."""
    first_ranking, last_ranking = said.user_indptr[u], said.user_indptr[u + 1]
    begin = said.indptr[first_ranking]
    if said.one_draw:
        chain = last_ranking - first_ranking == 1 and flip <= 0.0
        levels = said.levels[begin : said.indptr[last_ranking]]
        counter = shift_upper_parts(levels, given, chain, x, key, counter)
        return stretch(given, x, key, counter)
    for ranking in range(first_ranking, last_ranking):
        first, last = said.indptr[ranking] - begin, said.indptr[ranking + 1] - begin
        if last > first:
            part, own = _part(given, first, last), x[first:last]
            levels = said.levels[said.indptr[ranking] : said.indptr[ranking + 1]]
            counter = shift_upper_parts(levels, part, flip <= 0.0, own, key, counter)
            counter = stretch(part, own, key, counter)
    return counter


@njit(error_model="numpy")
def draw_component(items, population, centre, x, key, counter):
    """The component of a user given the utilities, with w integrated out."""
    n = population.log_shares.size
    logs = np.empty(n)
    for z in range(n):
        _, value = condition(items, population.theta[z], population.variances[z], centre, x)
        logs[z] = value + population.log_shares[z]
    most, total = logs.max(), 0.0
    for z in range(n):
        logs[z] = math.exp(logs[z] - most)
        total += logs[z]
    left, z = uniform(key, _TWO * counter) * total, 0
    while z < n - 1 and left >= logs[z]:
        left -= logs[z]
        z += 1
    return z, counter + _ONE


@njit(error_model="numpy")
def move_user(u, said, population, centre, x, z, n_scans, key, w, mean):
    """All moves of one user: x in place, w and its mean given x written; component, log-density and flips returned."""
    first, last = said.slot_indptr[u], said.slot_indptr[u + 1]
    items, grades = said.slot_items[first:last], said.slot_grades[first:last]
    counter, flips, total = np.uint64(0), 0, 0
    if population.log_shares.size > 1:
        z, counter = draw_component(items, population, centre, x, key, counter)
    given, value = condition(items, population.theta[z], population.variances[z], centre, x)
    if x.size > 0:
        order, ordered = order_of(u, said), grades[0] < 0
        if ordered:
            measure_blocks(order, x)
        for _ in range(n_scans):
            counter = scan(order, given, grades, population.thresholds, population.flip, x, key, counter)
            if ordered:
                counter = move_together(u, said, given, population.flip, x, key, counter)
                measure_blocks(order, x)
        if ordered and population.flip > 0.0:
            flips, total = count_flips(order, x)
    for k in range(w.size):
        mean[k] = given.mean[k] + centre[k]
        w[k] = normal(key, counter)
        counter += _ONE
    backward(given.lower, w, w.size)
    for k in range(w.size):
        w[k] += mean[k]
    return z, value, flips, total


@njit(error_model="numpy", parallel=True)
def move_users(said, population, centres, n_scans, key, before, x, components, draws, means):
    """One pass over all users; streams of users that others come ``before`` are numbered after theirs.

    x: (n_slots,), components: (n_users,), written. draws, means: (n_users, K), written. Returns for every user the
    log-density of x before the moves, with w integrated out, the flips and the answers (n_users, 3).
    """
    n_users = said.user_indptr.size - 1
    values = np.empty((n_users, 3))
    for u in prange(n_users):
        own, stream = x[said.slot_indptr[u] : said.slot_indptr[u + 1]], derive(key, before + np.uint64(u))
        z, value, flips, total = move_user(
            np.int64(u), said, population, centres[u], own, components[u], n_scans, stream, draws[u], means[u]
        )
        components[u] = z
        values[u, 0], values[u, 1], values[u, 2] = value, flips, total
    return values


@njit(error_model="numpy", parallel=True)
def residuals_of(said, theta, components, centres, x):
    """x_s - μ_y - H_y·w_u of every slot for users w given as centres: (n_slots,)."""
    out, size = np.empty(x.size), centres.shape[1]
    for u in prange(centres.shape[0]):
        for s in range(said.slot_indptr[u], said.slot_indptr[u + 1]):
            row = theta[components[u], said.slot_items[s]]
            left = x[s] - row[size]
            for k in range(size):
                left -= row[k] * centres[u, k]
            out[s] = left
    return out
