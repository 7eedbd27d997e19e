"""Thurstone's model with factors: the pass over the users, moves of their utilities and their factors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.families.thurstone.kernels.conditioning import (
    along_slot,
    condition,
    conditional,
    draw_factors,
    factors_mean,
    push,
)
from permrank.families.thurstone.kernels.normals import truncated
from permrank.families.thurstone.kernels.orders import (
    bounds_of,
    count_flips,
    measure_blocks,
    note_move,
    order_of,
    soft_draw,
)
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal, uniform

_ONE, _TWO = np.uint64(1), np.uint64(2)


class Rounds(NamedTuple):
    """Rounds of all moves: not counted, counted, and scans of a user's slots in each."""

    burn_in: Any
    kept: Any
    scans: Any


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

    A chain: the slots from first to last are one ranking, best first, with these levels. With J the slots that move,
    the shift t has the density exp(-(t² 1'Λ1 + 2 t 1'Λr) / 2) over J, cut where the lowest of J would meet the highest
    that stays.
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
def move_together(u, statements, given, flip, x, key, counter):
    """Shifts and stretches of each occasion of a user."""
    first_ranking, last_ranking = statements.user_indptr[u], statements.user_indptr[u + 1]
    begin, n_rankings = statements.indptr[first_ranking], last_ranking - first_ranking
    chain = flip <= 0.0 and (n_rankings == 1 or not statements.one_draw)
    for occasion in range(min(n_rankings, 1) if statements.one_draw else n_rankings):
        from_entry, to_entry = (
            statements.indptr[first_ranking + occasion],
            statements.indptr[first_ranking + occasion + 1],
        )
        first, last = from_entry - begin, to_entry - begin
        if statements.one_draw:
            last = x.size
        if last > first:
            levels = statements.levels[from_entry:to_entry]
            counter = shift_upper_parts(first, last, levels, given, chain, x, key, counter)
            counter = stretch(first, last, given, x, key, counter)
    return counter


@njit(error_model="numpy")
def _given(d, items, population, centre, x, z, key, counter):
    """What is given the items of a draw, of the component z; the component is drawn first if there are several."""
    n = population.log_shares.shape[1]
    logs, left, most = np.empty(n), 0.0, -math.inf
    for turn in range(n + 1 if n > 1 else 1):
        now = turn if n > 1 and turn < n else z
        given, value = condition(items, population.theta[d, now], population.variances[d, now], centre, x)
        if n == 1 or turn == n:
            break
        logs[turn] = value + population.log_shares[d, turn]
        most = max(most, logs[turn])
        if turn == n - 1:
            for c in range(n):
                logs[c] = math.exp(logs[c] - most)
                left += logs[c]
            left *= uniform(key, _TWO * counter)
            counter += _ONE
            z = 0
            while z < n - 1 and left >= logs[z]:
                left -= logs[z]
                z += 1
    return given, value, z, counter


@njit(error_model="numpy")
def _move_user(d, u, statements, population, centre, rounds, key, x, z, w, mean, residual):
    """All moves of one user under one draw: component, log-density before the last round and flips are returned."""
    first, last = statements.slot_indptr[u], statements.slot_indptr[u + 1]
    items, grades = statements.slot_items[first:last], statements.slot_grades[first:last]
    counter, flips, total, flip, value = np.uint64(0), 0, 0, population.flips[d], 0.0
    order, ordered = order_of(u, statements), x.size > 0 and grades[0] < 0
    mean[:] = 0.0
    residual[:] = 0.0
    for i in range(rounds.burn_in + rounds.kept):
        given, value, z, counter = _given(d, items, population, centre, x, z, key, counter)
        for _ in range(rounds.scans):
            if ordered:
                measure_blocks(order, x)
            counter = scan(order, given, grades, population.thresholds[d], flip, x, key, counter)
            if ordered:
                counter = move_together(u, statements, given, flip, x, key, counter)
        if i < rounds.burn_in:
            continue
        factors_mean(given, w)
        for k in range(w.size):
            mean[k] += (centre[w.size] * w[k] + centre[k]) / rounds.kept
        for s in range(x.size):
            left = given.residual[s]
            for k in range(w.size):
                left -= given.loads[s, k] * w[k]
            residual[s] += left / rounds.kept
        if i == rounds.burn_in + rounds.kept - 1:
            draw_factors(given, key, counter, w)
            for k in range(w.size):
                w[k] = centre[w.size] * w[k] + centre[k]
    if ordered and flip > 0.0:
        measure_blocks(order, x)
        flips, total = count_flips(order, x)
    return z, value, flips, total


@njit(error_model="numpy", parallel=True)
def move_users(statements, population, centres, rounds, key, before, x, components, draws, means, residuals):
    """Some rounds of all moves of all users, under each draw of the items.

    Streams of users that others come ``before`` are numbered after theirs. centres: (n_draws, n_users, K + 1), prior
    means and deviations of w. Written are x: (n_draws, n_slots), components: (n_draws, n_users), draws of w and their
    means given x over the rounds that are kept, (n_draws, n_users, K), and what these leave of x, (n_draws, n_slots).
    Returns for every draw and user the log-density of x before the last round, with w integrated out, the flips and the
    answers, (n_draws, n_users, 3).
    """
    n_draws, n_users = components.shape
    values = np.empty((n_draws, n_users, 3))
    for place in prange(n_draws * n_users):
        d, u = np.int64(place // n_users), np.int64(place % n_users)
        first, last = statements.slot_indptr[u], statements.slot_indptr[u + 1]
        stream = derive(derive(key, before + np.uint64(u)), np.uint64(d))
        z, value, flips, total = _move_user(
            d, u, statements, population, centres[d, u], rounds, stream, x[d, first:last], components[d, u],
            draws[d, u], means[d, u], residuals[d, first:last],
        )  # fmt: skip
        components[d, u] = z
        values[d, u, 0], values[d, u, 1], values[d, u, 2] = value, flips, total
    return values
