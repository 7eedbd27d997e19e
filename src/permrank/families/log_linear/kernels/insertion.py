"""Where an item enters a list whose order is fixed, §4.4, for all candidates of all users.

The list of n + 1 items has the position functions of its own length. Inside a tie the order is not known: each of its
items counts with the tie's mean coefficients, which is the mean energy over the orders of the tie.
"""

from __future__ import annotations

import numpy as np

from permrank.families.log_linear.kernels.energy import pair_index, softmax_of_energies
from permrank.kernels.jit import njit, prange

EXPECTED, MODE, PUBLISHED = 0, 1, 2


@njit(error_model="numpy")
def position_energies(item, own, items, levels, unary, basis, pairs, pair_values, energies):
    """Energies of an item at the positions of a list, relative to the first; returns the number of positions.

    own: (B,), coefficients of the item; items, levels, unary (n, B): the list. If the item is on the list, it is taken
    from it; basis: (at least the number of positions, B) is that of the list with the item.
    """
    n, n_columns, mean = items.size, basis.shape[1], np.empty(basis.shape[1])
    energies[0] = 0.0
    position = 0
    first = 0
    while first < n:
        end = first + 1
        while end < n and levels[end] == levels[first]:
            end += 1
        size = 0
        beside = 0.0
        mean[:] = 0.0
        for e in range(first, end):
            if items[e] != item:
                size += 1
                for k in range(n_columns):
                    mean[k] += unary[e, k]
                if pairs.items.size > 0:
                    first_item, last_item = min(item, items[e]), max(item, items[e])
                    stop = pairs.indptr[first_item + 1]
                    index = pair_index(pairs.items, pairs.indptr[first_item], stop, last_item)
                    if index < stop and pairs.items[index] == last_item:
                        beside += pair_values[index] if item < items[e] else -pair_values[index]
        for _ in range(size):
            delta = 2.0 * beside / size
            for k in range(n_columns):
                delta += (own[k] - mean[k] / size) * (basis[position, k] - basis[position + 1, k])
            energies[position + 1] = energies[position] + delta
            position += 1
        first = end
    return position + 1


@njit(error_model="numpy")
def _position_score(probabilities, n_positions, rule):
    """Share of the list that the item comes before, 0 to 1: expected, or at the likeliest position.

    Equal positions are ordered by how likely they are, which is less than a position: under `PUBLISHED` the likelier
    is the better everywhere (§3.2.2), under `MODE` in the upper half of the list only.
    """
    if n_positions == 1:
        return 0.5
    if rule == EXPECTED:
        total = 0.0
        for j in range(n_positions):
            total += probabilities[j] * (n_positions - 1 - j)
        return total / (n_positions - 1)
    best = 0
    for j in range(1, n_positions):
        if probabilities[j] > probabilities[best]:
            best = j
    # More likely at the top is better, more likely at the bottom is worse.
    middle = 0.5 * (n_positions - 1)
    sure = probabilities[best] if rule == PUBLISHED or best <= middle else 1.0 - probabilities[best]
    return (n_positions - 1 - best + sure) / n_positions


@njit(error_model="numpy", parallel=True)
def insertion_scores(lists, unary, candidates, positions, pairs, pair_values, rule):
    """Score of candidates: the share of the user's listed items that each is expected to come before.

    It is the mean over the user's lists, each by its number of items; NaN for a user without a list. unary:
    (n_entries, B), coefficients of the listed items.
    """
    out = np.empty(candidates.items.size)
    for u in prange(lists.user_indptr.size - 1):
        first, last, longest = lists.user_indptr[u], lists.user_indptr[u + 1], 0
        for r in range(first, last):
            longest = max(longest, lists.indptr[r + 1] - lists.indptr[r])
        energies, probabilities = np.empty(longest + 1), np.empty(longest + 1)
        for c in range(candidates.bounds[u], candidates.bounds[u + 1]):
            item, total, weight = candidates.items[c], 0.0, 0.0
            for r in range(first, last):
                start, stop = lists.indptr[r], lists.indptr[r + 1]
                n = np.int64(1) + np.count_nonzero(lists.items[start:stop] != item)
                position_energies(
                    item, candidates.own[c], lists.items[start:stop], lists.levels[start:stop],
                    unary[start:stop], positions.table[positions.start[n] : positions.start[n] + n], pairs,
                    pair_values, energies,
                )  # fmt: skip
                softmax_of_energies(energies, n, probabilities)
                total += (n - 1) * _position_score(probabilities, n, rule)
                weight += n - 1
            out[c] = total / weight if weight > 0.0 else np.nan
    return out
