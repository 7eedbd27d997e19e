"""Rankings broken into pairs: how often each item is ranked above, below and level with each other.

Row y of the result holds the items that share a ranking with y. Rows are independent, so they are
filled in parallel over blocks of items, and the sums come out in the same order for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange

Array = NDArray[Any]

# Blocks of rows, each with its own scratch rows; more than threads anybody has, so that long rows spread.
_MOST_BLOCKS = 64


@njit(parallel=True)
def _row_sizes(item_indptr, entries, owner, indptr, items, n_blocks):
    """Number of different partners of each item."""
    n_items = item_indptr.size - 1
    sizes = np.zeros(n_items, np.int64)
    for b in prange(n_blocks):
        seen = np.full(n_items, -1, np.int64)
        for y in range(b, n_items, n_blocks):
            for k in range(item_indptr[y], item_indptr[y + 1]):
                r = owner[entries[k]]
                for f in range(indptr[r], indptr[r + 1]):
                    x = items[f]
                    if x != y and seen[x] != y:
                        seen[x] = y
                        sizes[y] += 1
    return sizes


@njit(parallel=True)
def _fill_rows(item_indptr, entries, owner, indptr, items, levels, weights, n_blocks, rows):
    """Partners of each item in the order of meeting, with weighted numbers of wins, losses and ties."""
    n_items = item_indptr.size - 1
    partners = np.empty(rows[-1], np.int32)
    counts = np.zeros((3, rows[-1]))
    for b in prange(n_blocks):
        sums, met = np.zeros((n_items, 3)), np.zeros(n_items, np.bool_)
        for y in range(b, n_items, n_blocks):
            index = rows[y]
            for k in range(item_indptr[y], item_indptr[y + 1]):
                e = entries[k]
                r = owner[e]
                for f in range(indptr[r], indptr[r + 1]):
                    x = items[f]
                    if f == e:
                        continue
                    if not met[x]:
                        met[x] = True
                        partners[index] = x
                        index += 1
                    column = 0 if levels[e] < levels[f] else (1 if levels[e] > levels[f] else 2)
                    sums[x, column] += weights[r]
            for k in range(rows[y], index):
                x = partners[k]
                met[x] = False
                for column in range(3):
                    counts[column, k] = sums[x, column]
                    sums[x, column] = 0.0
    return partners, counts


@njit(parallel=True)
def _net_majorities(item_indptr, entries, owner, indptr, items, levels, weights, n_blocks):
    """Σ_x sign(wins of y over x - losses to x) of each item y, a row at a time."""
    n_items = item_indptr.size - 1
    net = np.zeros(n_items)
    for b in prange(n_blocks):
        sums, met, partners = np.zeros((n_items, 2)), np.zeros(n_items, np.bool_), np.empty(n_items, np.int64)
        for y in range(b, n_items, n_blocks):
            n_partners = 0
            for k in range(item_indptr[y], item_indptr[y + 1]):
                e = entries[k]
                r = owner[e]
                for f in range(indptr[r], indptr[r + 1]):
                    x = items[f]
                    if levels[f] == levels[e]:
                        continue
                    if not met[x]:
                        met[x] = True
                        partners[n_partners] = x
                        n_partners += 1
                    sums[x, 0 if levels[e] < levels[f] else 1] += weights[r]
            for k in range(n_partners):
                x = partners[k]
                net[y] += np.sign(sums[x, 0] - sums[x, 1])
                met[x], sums[x, 0], sums[x, 1] = False, 0.0, 0.0
    return net


def net_majorities(
    item_indptr: Array, entries: Array, owner: Array, indptr: Array, items: Array, levels: Array, weights: Array
) -> Array:
    """Items that a majority puts below each item, less those that a majority puts above it: (n_items,).

    No pair is kept, so that this takes no more memory than the lists.
    """
    return np.asarray(
        _net_majorities(item_indptr, entries, owner, indptr, items, levels, weights, _n_blocks(item_indptr))
    )


def pair_rows(item_indptr: Array, entries: Array, owner: Array, indptr: Array, items: Array) -> Array:
    """Where the partners of each item begin, (n_items + 1,); the last is the number of pairs, each counted twice."""
    sizes = _row_sizes(item_indptr, entries, owner, indptr, items, _n_blocks(item_indptr))
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def pair_counts(
    rows: Array, item_indptr: Array, entries: Array, owner: Array, indptr: Array, items: Array, levels: Array,
    weights: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Comparisons of every item with every other.

    Returns partners (n_pairs,) and counts (3, n_pairs): item y met partners[k], for k from rows[y] to rows[y + 1], and
    was above it, below it and level with it by these weights.
    """
    n_blocks = _n_blocks(item_indptr)
    partners, counts = _fill_rows(item_indptr, entries, owner, indptr, items, levels, weights, n_blocks, rows)
    return partners, counts


def _n_blocks(item_indptr: Array) -> int:
    return max(1, min(_MOST_BLOCKS, item_indptr.size - 1))
