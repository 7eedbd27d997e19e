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
    counts = np.zeros((rows[-1], 3))
    for b in prange(n_blocks):
        sums, met = np.zeros((n_items, 3)), np.zeros(n_items, np.bool_)
        for y in range(b, n_items, n_blocks):
            place = rows[y]
            for k in range(item_indptr[y], item_indptr[y + 1]):
                e = entries[k]
                r = owner[e]
                for f in range(indptr[r], indptr[r + 1]):
                    x = items[f]
                    if f == e:
                        continue
                    if not met[x]:
                        met[x] = True
                        partners[place] = x
                        place += 1
                    column = 0 if levels[e] < levels[f] else (1 if levels[e] > levels[f] else 2)
                    sums[x, column] += weights[r]
            for k in range(rows[y], place):
                x = partners[k]
                met[x] = False
                for column in range(3):
                    counts[k, column] = sums[x, column]
                    sums[x, column] = 0.0
    return partners, counts


def pair_counts(
    item_indptr: Array, entries: Array, owner: Array, indptr: Array, items: Array, levels: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Comparisons of every item with every other.

    Returns rows (n_items + 1,), partners (n_pairs,) and counts (n_pairs, 3): item y met partners[k], for k from
    rows[y] to rows[y + 1], and was above it, below it and level with it by these weights.
    """
    n_blocks = max(1, min(_MOST_BLOCKS, item_indptr.size - 1))
    sizes = _row_sizes(item_indptr, entries, owner, indptr, items, n_blocks)
    rows = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    partners, counts = _fill_rows(item_indptr, entries, owner, indptr, items, levels, weights, n_blocks, rows)
    return rows, partners, counts
