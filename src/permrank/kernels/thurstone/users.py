"""Thurstone's model with factors: the pass over the users, moves of their utilities and their factors."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal, uniform
from permrank.kernels.thurstone.conditioning import (
    along_slot,
    condition,
    conditional,
    draw_factors,
    factors_mean,
    push,
)
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
# The proposal of a scale is so much wider than the density around its mode, so that no tail is left out.
_WIDER = 1.2


@njit(error_model="numpy")
def scan(order, given, grades, thresholds, flip, x, key, counter):
    """Draw every slot given all others."""
    for s in range(x.size):
        old = x[s]
        centre, deviation = conditional(given, x, s)
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
        x[s] = new
        given.residual[s] += new - old
        push(given, given.state, s, new - old)
        if grades[s] < 0 and flip <= 0.0:
            note_move(order, x, s, old)
    return counter


@njit(error_model="numpy")
def shift_upper_parts(first, last, levels, given, chain, x, key, counter):
    """Shift all slots of an occasion down to a level together, for every level but, without a chain, the last only.

    A chain: the slots from first to last are one ranking, best first, with these levels. With J the slots that move, the shift t has the density
    exp(-(t² 1'Λ1 + 2 t 1'Λr) / 2) over J, cut where the lowest of J would meet the highest that stays.
    """
    along, shifts = np.zeros(given.state.size), np.zeros(last - first)  # Λ 1 over J
    precision, slope = 0.0, 0.0
    for s in range(first, last):
        precision += given.own[s] + 2.0 * along_slot(given, along, s, 0.0)
        push(given, along, s, 1.0)
        slope += along_slot(given, given.state, s, given.residual[s])
        whole, level = s == last - 1, levels[s - first] if chain else 0
        if not whole and (not chain or levels[s - first + 1] == level):
            continue
        precision_now = max(precision, 1e-12)
        centre, deviation, low = -slope / precision_now, 1.0 / math.sqrt(precision_now), -math.inf
        if not whole:
            lowest, highest, e = x[s], x[s + 1], s
            while e > first and levels[e - first - 1] == level:
                e -= 1
                lowest = min(lowest, x[e])
            e = s + 1
            while e + 1 < last and levels[e - first + 1] == levels[s - first + 1]:
                e += 1
                highest = max(highest, x[e])
            low = (highest - lowest - centre) / deviation
        z, counter = truncated(low, math.inf, key, counter)
        shifts[s - first] = centre + deviation * z
        slope += shifts[s - first] * precision
        for k in range(along.size):
            given.state[k] += shifts[s - first] * along[k]
    total = 0.0
    for s in range(last - 1, first - 1, -1):
        total += shifts[s - first]
        x[s] += total
        given.residual[s] += total
    return counter


@njit(error_model="numpy")
def stretch(first, last, given, x, key, counter):
    """Stretch all slots of an occasion around their mean, x̄ + c (x - x̄): a Metropolis step from around the mode.

    With d = x - x̄ the density of c is c^(n-2) exp(-(c - 1)² d'Λd / 2 - (c - 1) d'Λr): n - 1 dimensions are stretched.
    """
    n = last - first
    if n < 3:
        return counter
    centre = 0.0
    for s in range(first, last):
        centre += x[s] / n
    along, square, slope = np.zeros(given.state.size), 0.0, 0.0  # Λ d
    for s in range(first, last):
        push(given, along, s, x[s] - centre)
        slope += (x[s] - centre) * along_slot(given, given.state, s, given.residual[s])
    for s in range(first, last):
        square += (x[s] - centre) * along_slot(given, along, s, x[s] - centre)
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
        for s in range(first, last):
            d = (c - 1.0) * (x[s] - centre)
            x[s] += d
            given.residual[s] += d
        for k in range(along.size):
            given.state[k] += (c - 1.0) * along[k]
    return counter


@njit(error_model="numpy")
def move_together(u, said, given, flip, x, key, counter):
    """Shifts and stretches of each occasion of a user."""
    first_ranking, last_ranking = said.user_indptr[u], said.user_indptr[u + 1]
    begin = said.indptr[first_ranking]
    if said.one_draw:
        chain = last_ranking - first_ranking == 1 and flip <= 0.0
        levels = said.levels[begin : said.indptr[last_ranking]]
        counter = shift_upper_parts(0, x.size, levels, given, chain, x, key, counter)
        return stretch(0, x.size, given, x, key, counter)
    for ranking in range(first_ranking, last_ranking):
        first, last = said.indptr[ranking] - begin, said.indptr[ranking + 1] - begin
        if last > first:
            levels = said.levels[said.indptr[ranking] : said.indptr[ranking + 1]]
            counter = shift_upper_parts(first, last, levels, given, flip <= 0.0, x, key, counter)
            counter = stretch(first, last, given, x, key, counter)
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
    factors_mean(given, mean)
    draw_factors(given, mean, key, counter, w)
    for k in range(w.size):
        mean[k] += centre[k]
        w[k] += centre[k]
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
