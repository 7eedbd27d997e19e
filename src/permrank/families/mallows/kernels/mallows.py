"""Mallows' model: P(π) = e^{-θ d(π, centre)} / Z_n(θ), with Kendall's distance and with Spearman's.

Kendall's, by repeated insertion: put the items of the centre, first to last, into a growing list. The t-th (from 0)
goes before the last v of those already there with probability ∝ e^{-θ v}, v = 0 .. t, and so adds v to the distance.
Hence Z_n = Π_{m <= n} (1 - e^{-mθ}) / (1 - e^{-θ}). A complete list with ties, blocks of sizes m_b, has the probability
e^{-θ D} Π Z_{m_b} / Z_n, where D counts the pairs between blocks that the centre has the other way round. A list that
leaves items out has none in closed form; see `insert_around`.

Spearman's, the sum of squared differences of positions, by sums over all subsets: Z_n(θ) = perm(e^{-θ (i - j)²})
(permanent), in O(2^n n), position by position, over the set of items placed so far.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange
from permrank.kernels.sets import n_members
from permrank.kernels.streams import derive, uniform

Array = NDArray[Any]
# Under Spearman's distance.
MOST_ITEMS = 16


class Listed(NamedTuple):
    """Lists: indptr (n_lists + 1,); items, levels (n_entries,)."""

    indptr: Any
    items: Any
    levels: Any


class Centres(NamedTuple):
    """Centres, best first, and the position of each item in each, (K, n) both; dispersions θ (K,)."""

    centres: Any
    positions: Any
    thetas: Any


class Draws(NamedTuple):
    """So many draws a list, from the streams of a key; lists that others come ``before`` are numbered after them."""

    key: Any
    size: Any
    before: Any = 0


def log_normalisers(theta: float, n: int) -> Array:
    """log Z_m(θ) for m = 0 .. n."""
    sizes = np.arange(1, n + 1)
    steps = np.log(sizes) if theta < 1e-12 else np.log(np.expm1(-sizes * theta) / np.expm1(-theta))
    return np.concatenate(([0.0], np.cumsum(steps)))


def expected_distance(theta: float, n: int) -> float:
    """E d = Σ_m e^{-θ} / (1 - e^{-θ}) - m e^{-mθ} / (1 - e^{-mθ})."""
    sizes = np.arange(1, n + 1)
    if theta < 1e-5:  # E v = (m - 1) / 2 - θ (m² - 1) / 12 + ...
        return float(np.sum((sizes - 1) / 2 - theta * (sizes**2 - 1) / 12))
    return float(np.sum(1.0 / math.expm1(theta) - sizes / np.expm1(np.minimum(sizes * theta, 700.0))))


def precedence(theta: float, n: int) -> Array:
    """P(the earlier of two items of the centre comes first) by their distance g = 0 .. n - 1 in it; 1/2 at 0.

    (g + 1) / (1 - e^{-(g+1)θ}) - g / (1 - e^{-gθ})   (Mallows 1957).
    """
    gaps = np.arange(1, n)
    if theta < 1e-5:
        inside = 0.5 + theta * (2 * gaps + 1) / 12
    else:
        inside = -(gaps + 1) / np.expm1(-(gaps + 1) * theta) + gaps / np.expm1(-gaps * theta)
    return np.concatenate(([0.5], inside))


@njit(error_model="numpy")
def _drawn_steps(theta, n_choices, u):
    """v with P(v) ∝ e^{-θ v}, v = 0 .. n_choices - 1, from a uniform number."""
    if theta * n_choices < 1e-9:
        return min(n_choices - 1, np.int64(u * n_choices))
    v = np.int64(math.log1p(u * math.expm1(-theta * n_choices)) / -theta)
    return min(max(v, 0), n_choices - 1)


@njit(error_model="numpy")
def log_geometric(theta, n_choices):
    """log Σ_{v < n_choices} e^{-θ v}."""
    if theta * n_choices < 1e-9:
        return math.log(n_choices)
    return math.log(math.expm1(-theta * n_choices) / math.expm1(-theta))


@njit(error_model="numpy")
def insert_around(centre, theta, level_of, n_wanted, key, order):
    """Draw a complete order that agrees with a list, and the weight that makes it count right.

    Repeated insertion where a listed item is only put where the list allows it (Lu and Boutilier 2014). The weight is
    the product of the probabilities of what was allowed: its mean over draws is the probability of the list, without
    bias. `level_of` has the level of every listed item and -1 for the others; only the first `n_wanted` of the centre
    are put in. Fills `order` and returns the logarithm of the weight.
    """
    log_weight = 0.0
    for t in range(n_wanted):
        item = centre[t]
        level = level_of[item]
        low, high = 0, t
        if level >= 0:
            for p in range(t):
                other = level_of[order[p]]
                if 0 <= other < level:
                    low = p + 1
                elif other > level and high == t:
                    high = p
            log_weight += log_geometric(theta, high - low + 1) - theta * (t - high) - log_geometric(theta, t + 1)
        p = high - _drawn_steps(theta, high - low + 1, uniform(key, t))
        for q in range(t, p, -1):
            order[q] = order[q - 1]
        order[p] = item
    return log_weight


@njit(parallel=True)
def repeated_insertion(centre, theta, key, size):
    """Orders drawn from the model (size, n)."""
    n = centre.size
    out = np.empty((size, n), np.int64)
    for draw in prange(size):
        insert_around(centre, theta, np.full(n, -1, np.int64), n, derive(key, draw), out[draw])
    return out


@njit
def block_log_probability(items, levels, positions, theta, log_z):
    """log P of a complete list with ties."""
    n = items.size
    crossed, value, size = 0, 0.0, 1
    for i in range(n):
        for j in range(i + 1, n):
            crossed += levels[j] > levels[i] and positions[items[j]] < positions[items[i]]
        if i + 1 < n and levels[i + 1] == levels[i]:
            size += 1
        else:
            value += log_z[size]
            size = 1
    return value - theta * crossed - log_z[n]


@njit(parallel=True, error_model="numpy")
def list_log_probabilities(lists, communities, log_z, draws):
    """log P(list | community) (n_lists, n_communities): exact for complete lists, else the log of the mean weight.

    lists: `Listed`; communities: `Centres`; draws: `Draws`; `log_z` has the normalisers by size.
    """
    indptr, items, levels = lists
    centres, positions, thetas = communities
    n_lists, n = indptr.size - 1, centres.shape[1]
    out = np.zeros((n_lists, centres.shape[0]))
    for r in prange(n_lists):
        start, end = indptr[r], indptr[r + 1]
        level_of, order = np.full(n, -1, np.int64), np.empty(n, np.int64)
        for e in range(start, end):
            level_of[items[e]] = levels[e]
        for z in range(centres.shape[0]):
            first, last = n, -1
            for e in range(start, end):
                first, last = min(first, positions[z, items[e]]), max(last, positions[z, items[e]])
            # All items, or neighbours in the centre: the others lie before or after all of them and change nothing.
            if last - first + 1 == end - start:
                out[r, z] = block_log_probability(
                    items[start:end], levels[start:end], positions[z], thetas[z], log_z[z]
                )
                continue
            total, top = 0.0, -np.inf
            for draw in range(draws.size):
                stream = derive(derive(derive(draws.key, draws.before + r), z), draw)
                weight = insert_around(centres[z], thetas[z], level_of, last + 1, stream, order)
                if weight > top:
                    total, top = total * math.exp(top - weight) + 1.0, weight
                else:
                    total += math.exp(weight - top)
            out[r, z] = top + math.log(total / draws.size)
    return out


@njit
def _add_block_pairs(items, levels, positions, chance, weight, inside, above):
    """Add P(i before j | list) of a complete list with ties: certain between blocks, Mallows' inside.

    `inside` is room for a block, in the order of the centre.
    """
    n = items.size
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and levels[end] == levels[begin]:
            end += 1
        for e in range(begin, end):
            slot = e - begin
            while slot > 0 and positions[inside[slot - 1]] > positions[items[e]]:
                inside[slot] = inside[slot - 1]
                slot -= 1
            inside[slot] = items[e]
        for a in range(end - begin):
            for b in range(a + 1, end - begin):
                above[inside[a], inside[b]] += weight * chance[b - a]
                above[inside[b], inside[a]] += weight * (1.0 - chance[b - a])
            for e in range(end, n):
                above[inside[a], items[e]] += weight
        begin = end


@njit(parallel=True, error_model="numpy")
def expected_pairs(bounds, lists, communities, chances, shares, draws):
    """E[i before j] summed over the lists of each block, (n_blocks, n_communities, n, n).

    bounds: (n_blocks + 1,), lists of each block; chances: `precedence` of each community; each list counts `shares`
    (n_lists, n_communities). Exact for complete lists, else over the draws of `list_log_probabilities`, by their
    weights.
    """
    indptr, items, levels = lists
    centres, positions, thetas = communities
    n_blocks, n_draws, (n_communities, n) = bounds.size - 1, draws.size, centres.shape
    parts = np.zeros((n_blocks, n_communities, n, n))
    for b in prange(n_blocks):
        orders, weights = np.empty((n_draws, n), np.int64), np.empty(n_draws)
        level_of, inside = np.full(n, -1, np.int64), np.empty(n, np.int64)
        for r in range(bounds[b], bounds[b + 1]):
            start, end = indptr[r], indptr[r + 1]
            for e in range(start, end):
                level_of[items[e]] = levels[e]
            for z in range(n_communities):
                share, above = shares[r, z], parts[b, z]
                if share < 1e-12:
                    continue
                if end - start == n:
                    _add_block_pairs(
                        items[start:end], levels[start:end], positions[z], chances[z], share, inside, above
                    )
                    continue
                total, top = 0.0, -np.inf
                for draw in range(n_draws):
                    stream = derive(derive(derive(draws.key, draws.before + r), z), draw)
                    weights[draw] = insert_around(centres[z], thetas[z], level_of, n, stream, orders[draw])
                    top = max(top, weights[draw])
                for draw in range(n_draws):
                    weights[draw] = math.exp(weights[draw] - top)
                    total += weights[draw]
                for draw in range(n_draws):
                    weight = share * weights[draw] / total
                    for i in range(n):
                        for j in range(i + 1, n):
                            above[orders[draw, i], orders[draw, j]] += weight
            for e in range(start, end):
                level_of[items[e]] = -1
    return parts


@njit
def completions(theta, n, first, second):
    """Sums over the orders of what is not yet placed, by the set of items placed (2^n,), and minus their θ-slopes.

    Item i of the centre at position k weighs e^{-θ (i - k)²}. Where first >= 0 only orders with
    `first` before `second` count.
    """
    size = 1 << n
    value, slope = np.zeros(size), np.zeros(size)
    value[size - 1] = 1.0
    for members in range(size - 2, -1, -1):
        position = n_members(members)
        for i in range(n):
            if members >> i & 1 or (i == second and first >= 0 and not members >> first & 1):
                continue
            squared = float((i - position) ** 2)
            weight = math.exp(-theta * squared)
            after = members | 1 << i
            value[members] += weight * value[after]
            slope[members] += weight * (slope[after] + squared * value[after])
    return value, slope


@njit(parallel=True)
def spearman_precedence(theta, n):
    """P(i before j) for items i and j of the centre (n, n)."""
    out = np.full((n, n), 0.5)
    total = completions(theta, n, -1, -1)[0][0]
    for pair in prange(n * n):
        i, j = pair // n, pair % n
        if i < j:
            out[i, j] = completions(theta, n, i, j)[0][0] / total
    for i in range(n):
        for j in range(i):
            out[i, j] = 1.0 - out[j, i]
    return out


@njit
def spearman_rankings(centre, theta, key, size):
    """Orders drawn from the model, exactly (size, n)."""
    n = centre.size
    value = completions(theta, n, -1, -1)[0]
    out = np.empty((size, n), np.int64)
    for draw in range(size):
        stream, members = derive(key, draw), 0
        for position in range(n):
            left = uniform(stream, position) * value[members]
            chosen = -1
            for i in range(n):
                if members >> i & 1:
                    continue
                chosen = i  # rounding may leave nothing: the last one serves
                left -= math.exp(-theta * float((i - position) ** 2)) * value[members | 1 << i]
                if left <= 0.0:
                    break
            members |= 1 << chosen
            out[draw, position] = centre[chosen]
    return out
