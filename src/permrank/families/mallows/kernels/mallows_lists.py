"""Probability under Mallows' model (Kendall's distance) of lists that leave items out.

Items of the centre before the first or after the last listed one change nothing. A list whose items are neighbours in
the centre is a complete one, and two items have Mallows' formula. Else P = Σ e^{-θ d} / Z over all complete orders that
agree with the list, which are made by placing one item after the other: the next one adds to d the number of items not
yet placed that the centre has before it. Runs of the centre without a listed item, and runs of items that are tied, are
classes: only how many of a class are left matters, and the next of r that are left adds 0 .. r - 1 from its own class.
So the sum goes over the numbers left, Π (size + 1) of them for each block of the list. Where these are too many, orders
are drawn (importance sampling), with a standard error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.families.mallows.kernels.mallows import block_log_probability, insert_around, log_geometric
from permrank.kernels.jit import njit, prange
from permrank.kernels.sets import log_add
from permrank.kernels.streams import derive, uniform

Array = NDArray[Any]

# Effective number of draws, (Σ w)² / Σ w², below which their spread does not tell the error.
_FEWEST = 20
# Difference of two estimates (nats) that is no chance where both have enough draws.
_CLEARLY = 0.7
_SURELY = math.log(100.0)
# The block of items that a list leaves out; typed, or Numba compiles once for -1 and once for other blocks.
_UNLISTED = np.int64(-1)


@njit(error_model="numpy")
def pair_log_probability(gap, agrees, theta):
    """log P of the order of two items that lie `gap` positions apart in the centre (Mallows 1957).

    They disagree with the centre with probability g / (e^{gθ} - 1) - (g + 1) / (e^{(g+1)θ} - 1).
    """
    if theta < 1e-5:
        against = 0.5 - theta * (2 * gap + 1) / 12
    else:
        against = gap / math.expm1(gap * theta) - (gap + 1) / math.expm1((gap + 1) * theta)
    return math.log1p(-against) if agrees else math.log(against)


@njit
def _classes(labels):
    """Runs of equal labels: the label and the size of each."""
    kinds, sizes, n = np.empty(labels.size, np.int64), np.zeros(labels.size, np.int64), -1
    for i in range(labels.size):
        if i == 0 or labels[i] != labels[i - 1]:
            n += 1
            kinds[n] = labels[i]
        sizes[n] += 1
    return kinds[: n + 1], sizes[: n + 1]


@njit
def _n_states(kinds, sizes, kind):
    """Numbers that may be left of the classes of a kind; as a float, which cannot overflow."""
    states = 1.0
    for c in range(kinds.size):
        if kinds[c] == kind:
            states *= sizes[c] + 1.0
    return states


@njit
def _work(kinds, sizes):
    """Steps of `_summed_log_probability`."""
    steps, n_unlisted = 0.0, np.sum(kinds == _UNLISTED)
    for block in range(kinds.max() + 1):
        steps += _n_states(kinds, sizes, block) * (n_unlisted + np.sum(kinds == block))
    return steps * _n_states(kinds, sizes, _UNLISTED)


@njit(error_model="numpy")
def _summed_log_probability(kinds, sizes, theta, log_z):
    """log P of a list, summed over all orders. `kinds` of the classes: the block, from 0 and none left out, or -1."""
    n_blocks, n_unlisted = kinds.max() + 1, np.int64(_n_states(kinds, sizes, _UNLISTED))
    before = np.full(n_unlisted, -np.inf)
    before[0] = 0.0
    active, strides, waiting = np.empty(kinds.size, np.int64), np.empty(kinds.size, np.int64), np.empty(kinds.size)
    for block in range(n_blocks):
        n_mine = np.int64(_n_states(kinds, sizes, block))
        # Classes that the next item may come from, in the order of the centre: unlisted ones change quickest in a
        # state, which counts how many of each are placed. What waits for its block is passed over in any case.
        n_active, low, high, later = 0, 1, n_unlisted, 0
        for c in range(kinds.size):
            if kinds[c] == _UNLISTED or kinds[c] == block:
                active[n_active], waiting[n_active] = sizes[c], later
                if kinds[c] == _UNLISTED:
                    strides[n_active] = low
                    low *= sizes[c] + 1
                else:
                    strides[n_active] = high
                    high *= sizes[c] + 1
                n_active += 1
            elif kinds[c] > block:
                later += sizes[c]
        logs = np.full(n_unlisted * n_mine, -np.inf)
        logs[:n_unlisted] = before
        end = logs.size if block == n_blocks - 1 else logs.size - n_unlisted  # what follows a block precedes the next
        for state in range(end):
            value, passed = logs[state], 0
            if value == -np.inf:
                continue
            for a in range(n_active):
                left = active[a] - state // strides[a] % (active[a] + 1)
                if left > 0:
                    step = log_geometric(theta, left) - theta * (passed + waiting[a])
                    logs[state + strides[a]] = log_add(logs[state + strides[a]], value + step)
                    passed += left
        before = logs[n_unlisted * (n_mine - 1) :].copy()
    return before[-1] - log_z[sizes.sum()]


@njit
def _least_costs(kinds, sizes):
    """What an unlisted item of each class will cost at least from each block on (n_classes, n_blocks + 1).

    That is the pairs with listed items that the centre has the other way round, those with blocks before left out.
    """
    n_blocks = kinds.max() + 1
    least = np.zeros((kinds.size, n_blocks + 1))
    for c in range(kinds.size):
        if kinds[c] >= 0:
            continue
        earlier, later = np.zeros(n_blocks), np.zeros(n_blocks)  # items of each block before and after the class
        for d in range(kinds.size):
            if kinds[d] >= 0:
                if d < c:
                    earlier[kinds[d]] += sizes[d]
                else:
                    later[kinds[d]] += sizes[d]
        for block in range(n_blocks - 1, -1, -1):
            # Here it comes before all that is left of the list; or else the block comes before it.
            least[c, block] = min(earlier[block:].sum(), later[block] + least[c, block + 1])
    return least


@njit(error_model="numpy")
def _drawn_log_weight(kinds, sizes, least, theta, key, left, chances):
    """log of the weight of one order that agrees with a list, drawn item by item; its mean is Σ e^{-θ d}.

    The next item is drawn by what it costs now and at least later, a listed one also by how many listed ones are left:
    for θ = 0, and where only the nearest orders count, all weights are then nearly the same. `left` and `chances` are
    room for a number a class.
    """
    n_blocks, n_listed, n_all = kinds.max() + 1, 0, sizes.sum()
    in_block = np.zeros(n_blocks, np.int64)
    for c in range(kinds.size):
        left[c] = sizes[c]
        if kinds[c] >= 0:
            in_block[kinds[c]] += sizes[c]
            n_listed += sizes[c]
    block, log_weight = 0, 0.0
    for turn in range(n_all):
        if block < n_blocks and in_block[block] == 0:
            block += 1
        to_come = 0.0  # what the unlisted ones cost more at least if the block is done
        if block < n_blocks and in_block[block] == 1:
            for c in range(kinds.size):
                if kinds[c] < 0 and left[c] > 0:
                    to_come += left[c] * (least[c, block + 1] - least[c, block])
        passed, forced, total, top = 0, 0, 0.0, -np.inf  # (later blocks come later, whatever is drawn)
        for c in range(kinds.size):
            chances[c] = -np.inf
            if left[c] == 0:
                continue
            if kinds[c] < 0:
                chances[c] = log_geometric(theta, left[c]) - theta * (passed - least[c, block])
            elif kinds[c] == block:
                chances[c] = log_geometric(theta, left[c]) - theta * (passed - forced + to_come)
                chances[c] += math.log(n_listed / in_block[block])
            passed += left[c]
            forced += left[c] * (kinds[c] > block)
            top = max(top, chances[c])
        for c in range(kinds.size):
            total += math.exp(chances[c] - top)
        u, chosen, passed = uniform(key, turn) * total, -1, 0
        for c in range(kinds.size):
            if left[c] > 0 and (kinds[c] < 0 or kinds[c] == block):
                chosen, u = c, u - math.exp(chances[c] - top)
                if u < 0.0:
                    break
        for c in range(chosen):
            passed += left[c]
        log_weight += log_geometric(theta, left[chosen]) - theta * passed - (chances[chosen] - top - math.log(total))
        left[chosen] -= 1
        if kinds[chosen] >= 0:
            in_block[block] -= 1
            n_listed -= 1
    return log_weight


@njit(error_model="numpy")
def _log_mean(logs):
    """log of the mean of e^logs, and the standard error of that logarithm.

    Never less than 1 / n, for what so many draws have not met. If a few of them have nearly all of the weight, nobody
    knows what the others have missed: the error is infinite.
    """
    top = logs.max()
    weights = np.exp(logs - top)
    total, squares = weights.sum(), np.sum(weights * weights)
    spread = max(squares - total * total / logs.size, 0.0)
    error = max(math.sqrt(spread) / total, 1.0 / logs.size)
    return top + math.log(total / logs.size), error if total * total >= _FEWEST * squares else np.inf


@njit(error_model="numpy")
def _sampled_log_probability(centre, level_of, n_wanted, kinds, sizes, theta, log_z, key, n_draws):
    """log of the mean weight of orders that agree with a list, and its standard error; from two kinds of draws.

    Insertion around the list does well with lists that the model would draw, and misses all that counts with those that
    contradict the centre, where it finds too little; there the items are drawn one after the other.
    """
    order, least = np.empty(level_of.size, np.int64), _least_costs(kinds, sizes)
    left, chances = np.empty(kinds.size, np.int64), np.empty(kinds.size)
    around, in_turn = np.empty(n_draws), np.empty(n_draws)
    for draw in range(n_draws):
        stream = derive(key, draw)
        around[draw] = insert_around(centre, theta, level_of, n_wanted, stream, order)
        in_turn[draw] = _drawn_log_weight(kinds, sizes, least, theta, derive(stream, 1), left, chances)
    first, error = _log_mean(around)
    second, other = _log_mean(in_turn - log_z[sizes.sum()])
    # Draws that have missed something find too little. A few draws with all of the weight may find too much, but only
    # with probability 1 / c at most c times as much (Markov).
    missed = second > first + (_CLEARLY if other < np.inf else _SURELY)
    if missed or (other < error and not first > second + _CLEARLY):
        return second, other
    return first, error


@njit(error_model="numpy")
def _list_log_likelihood(listed, level, centre, positions, theta, log_z, key, n_draws, most_work):
    """log P of one list and its standard error."""
    first, last, level_of = centre.size, -1, np.full(centre.size, -1, np.int64)
    for e in range(listed.size):
        level_of[listed[e]] = level[e]
        first, last = min(first, positions[listed[e]]), max(last, positions[listed[e]])
    if last - first + 1 <= listed.size:
        return block_log_probability(listed, level, positions, theta, log_z), 0.0
    if listed.size == 2:
        if level[0] == level[1]:
            return 0.0, 0.0
        return pair_log_probability(last - first, positions[listed[0]] < positions[listed[1]], theta), 0.0
    labels = np.empty(last - first + 1, np.int64)
    for position in range(first, last + 1):
        labels[position - first] = level_of[centre[position]]
    kinds, sizes = _classes(labels)
    if _work(kinds, sizes) <= most_work:
        return _summed_log_probability(kinds, sizes, theta, log_z), 0.0
    return _sampled_log_probability(centre, level_of, last + 1, kinds, sizes, theta, log_z, key, n_draws)


@njit(parallel=True)
def list_log_likelihoods(lists, communities, log_z, draws, most_work):
    """log P(list | community) and its standard error, (n_lists, n_communities) each; 0 where it is exact.

    Arguments as of `list_log_probabilities`; sums of more than ``most_work`` numbers are estimated.
    """
    indptr, items, levels = lists
    centres, positions, thetas = communities
    n_lists, n_communities = indptr.size - 1, centres.shape[0]
    out, errors = np.zeros((n_lists, n_communities)), np.zeros((n_lists, n_communities))
    for r in prange(n_lists):
        for z in range(n_communities):
            out[r, z], errors[r, z] = _list_log_likelihood(
                items[indptr[r] : indptr[r + 1]], levels[indptr[r] : indptr[r + 1]], centres[z], positions[z],
                thetas[z], log_z[z], derive(derive(draws.key, r), z), draws.size, most_work,
            )  # fmt: skip
    return out, errors
