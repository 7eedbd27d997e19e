"""What a person says as a partial order of slots, one slot for every item on every occasion.

Entries of a ranking that are tied are a block; everything of a block lies below everything of the block before it. The
highest and the lowest utility of every block are kept up to date, so that bounds of a slot take a few steps.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.families.thurstone.kernels.normals import log_between, truncated
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import uniform

_ONE, _TWO = np.uint64(1), np.uint64(2)


class Statements(NamedTuple):
    """What users say.

    Attributes
    ----------
    user_indptr, indptr, levels
        As in `kernels.lists.Lists`.
    entry_slots : int32 (n_entries,)
        Slot of each entry, counted from the first slot of its user.
    slot_indptr : int64 (n_users + 1,)
    slot_items : int32 (n_slots,)
    slot_grades : int32 (n_slots,)
        Number of thresholds below the rating; -1 where order is all that is known. Rated slots have no order.
    one_draw : bool
        Whether all rankings of a user share their slots; else every entry has its own.
    """

    user_indptr: Any
    indptr: Any
    levels: Any
    entry_slots: Any
    slot_indptr: Any
    slot_items: Any
    slot_grades: Any
    one_draw: Any


class Order(NamedTuple):
    """The partial order of one user: slot and block of every entry, and entries of every slot.

    Blocks have the number of their first entry; ``opens`` and ``closes`` say which are the first and last of a ranking.
    ``top`` and ``bottom`` are the highest and the lowest utility of every block.
    """

    slot: Any
    block: Any
    start: Any
    opens: Any
    closes: Any
    top: Any
    bottom: Any
    seen_start: Any
    seen: Any


@njit(error_model="numpy")
def order_of(u, statements):
    """The partial order of a user, blocks still without utilities."""
    first_ranking, last_ranking = statements.user_indptr[u], statements.user_indptr[u + 1]
    begin, end = statements.indptr[first_ranking], statements.indptr[last_ranking]
    n_entries, n_slots = end - begin, statements.slot_indptr[u + 1] - statements.slot_indptr[u]
    slot = statements.entry_slots[begin:end]
    block, start = np.empty(n_entries, np.int64), np.empty(n_entries + 1, np.int64)
    opens, closes = np.zeros(n_entries, np.bool_), np.zeros(n_entries, np.bool_)
    n_blocks = 0
    for ranking in range(first_ranking, last_ranking):
        for e in range(statements.indptr[ranking], statements.indptr[ranking + 1]):
            opening = e == statements.indptr[ranking]
            if opening or statements.levels[e] != statements.levels[e - 1]:
                start[n_blocks], opens[n_blocks] = e - begin, opening
                n_blocks += 1
            block[e - begin] = n_blocks - 1
        if statements.indptr[ranking + 1] > statements.indptr[ranking]:
            closes[n_blocks - 1] = True
    start[n_blocks] = n_entries
    seen_start, seen = np.zeros(n_slots + 1, np.int64), np.empty(n_entries, np.int64)
    for e in range(n_entries):
        seen_start[slot[e] + 1] += 1
    for s in range(n_slots):
        seen_start[s + 1] += seen_start[s]
    place = seen_start[:-1].copy()
    for e in range(n_entries):
        seen[place[slot[e]]] = e
        place[slot[e]] += 1
    top, bottom = np.empty(n_blocks), np.empty(n_blocks)
    return Order(slot, block, start[: n_blocks + 1], opens, closes, top, bottom, seen_start, seen)


@njit(error_model="numpy")
def _measure(order, x, b):
    high, low = -math.inf, math.inf
    for e in range(order.start[b], order.start[b + 1]):
        high, low = max(high, x[order.slot[e]]), min(low, x[order.slot[e]])
    order.top[b], order.bottom[b] = high, low


@njit(error_model="numpy")
def measure_blocks(order, x):
    """Highest and lowest utility of every block."""
    for b in range(order.top.size):
        _measure(order, x, b)


@njit(error_model="numpy")
def bounds_of(order, s):
    """Between which utilities slot s must lie."""
    low, high = -math.inf, math.inf
    for place in range(order.seen_start[s], order.seen_start[s + 1]):
        b = order.block[order.seen[place]]
        if not order.opens[b]:
            high = min(high, order.bottom[b - 1])
        if not order.closes[b]:
            low = max(low, order.top[b + 1])
    return low, high


@njit(error_model="numpy")
def note_move(order, x, s, old):
    """Keep the blocks of slot s up to date after it has moved from an old utility."""
    new = x[s]
    for place in range(order.seen_start[s], order.seen_start[s + 1]):
        b = order.block[order.seen[place]]
        if old == order.top[b] or old == order.bottom[b]:
            _measure(order, x, b)
        else:
            order.top[b], order.bottom[b] = max(order.top[b], new), min(order.bottom[b], new)


@njit(error_model="numpy")
def count_flips(order, x):
    """Answers (pairs of entries in neighbouring blocks) that utilities contradict, and all of them."""
    flips, total = 0, 0
    for b in range(order.top.size):
        if order.closes[b]:
            continue
        for e in range(order.start[b], order.start[b + 1]):
            for f in range(order.start[b + 1], order.start[b + 2]):
                total += 1
                flips += x[order.slot[e]] < x[order.slot[f]]
    return flips, total


@njit(error_model="numpy")
def _intervals(order, x, s, mean, deviation, flip):
    """Standardised utilities of the neighbours of slot s, sorted, and the mass of every interval between them.

    Every answer is the wrong way round with probability ``flip``: between two neighbours in value the density is a
    normal one times (flip / (1 - flip))^(answers contradicted). The largest mass is 1.
    """
    n = 0
    for place in range(order.seen_start[s], order.seen_start[s + 1]):
        b = order.block[order.seen[place]]
        if not order.opens[b]:
            n += order.start[b] - order.start[b - 1]
        if not order.closes[b]:
            n += order.start[b + 2] - order.start[b + 1]
    values, above = np.empty(n), np.empty(n, np.bool_)
    n, weight, odds = 0, 0.0, math.log(flip) - math.log1p(-flip)
    for place in range(order.seen_start[s], order.seen_start[s + 1]):
        b = order.block[order.seen[place]]
        if not order.opens[b]:
            for e in range(order.start[b - 1], order.start[b]):
                values[n], above[n] = x[order.slot[e]], True
                n += 1
        if not order.closes[b]:
            for e in range(order.start[b + 1], order.start[b + 2]):
                values[n], above[n] = x[order.slot[e]], False
                weight += odds  # below everything, this answer is contradicted
                n += 1
    ranks, masses, low = np.argsort(values), np.empty(n + 1), -math.inf
    for i in range(n + 1):
        high = (values[ranks[i]] - mean) / deviation if i < n else math.inf
        masses[i] = weight + log_between(low, high) if low < high else -math.inf
        if i < n:
            weight += odds if above[ranks[i]] else -odds
            low = high
    masses -= masses.max()
    return (values[ranks] - mean) / deviation, np.exp(masses)


@njit(error_model="numpy")
def soft_draw(order, x, s, mean, deviation, flip, key, counter):
    """Draw slot s where answers may be the wrong way round: the interval by its mass, then the utility inside it."""
    values, masses = _intervals(order, x, s, mean, deviation, flip)
    n, chosen = values.size, 0
    left = uniform(key, _TWO * counter) * masses.sum()
    counter += _ONE
    while chosen < n and left >= masses[chosen]:
        left -= masses[chosen]
        chosen += 1
    low = values[chosen - 1] if chosen > 0 else -math.inf
    high = values[chosen] if chosen < n else math.inf
    z, counter = truncated(low, high, key, counter)
    return mean + deviation * z, counter


@njit(error_model="numpy")
def probability_above(order, x, s, mean, deviation, flip, bound):
    """Probability that slot s lies above a bound, given all others: its normal law, cut by what is observed."""
    limit = (bound - mean) / deviation
    if flip > 0.0:
        values, masses = _intervals(order, x, s, mean, deviation, flip)
        total, above = 0.0, 0.0
        for i in range(masses.size):
            low = values[i - 1] if i > 0 else -math.inf
            high = values[i] if i < values.size else math.inf
            total += masses[i]
            if limit <= low:
                above += masses[i]
            elif limit < high:
                above += masses[i] * math.exp(log_between(limit, high) - log_between(low, high))
        return above / total
    low, high = bounds_of(order, s)
    low, high = (low - mean) / deviation, (high - mean) / deviation
    if limit <= low or limit >= high:
        return 1.0 if limit <= low else 0.0
    return math.exp(log_between(limit, high) - log_between(low, high))


@njit(error_model="numpy", parallel=True)
def depths(statements, depth):
    """Length of the longest chain above every slot, written; returns which users contradict themselves."""
    n_users = statements.user_indptr.size - 1
    cyclic = np.zeros(n_users, np.bool_)
    for u in prange(n_users):
        cyclic[u] = _depths_of_user(
            np.int64(u), statements, depth[statements.slot_indptr[u] : statements.slot_indptr[u + 1]]
        )
    return cyclic


@njit(error_model="numpy")
def _depths_of_user(u, statements, depth):
    order, n_slots = order_of(u, statements), depth.size
    depth[:] = 0
    for _ in range(n_slots + 1):
        changed = False
        for b in range(order.top.size):
            if order.closes[b]:
                continue
            deepest = 0
            for e in range(order.start[b], order.start[b + 1]):
                deepest = max(deepest, depth[order.slot[e]] + 1)
            for e in range(order.start[b + 1], order.start[b + 2]):
                if depth[order.slot[e]] < deepest:
                    depth[order.slot[e]], changed = deepest, True
        if not changed:
            return False
    return True
