"""How often two items are ranked together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit, prange

# Of a longer list so many items are looked at for each of its items, evenly spread, and count for all.
MOST_PARTNERS = 1024
# Counts up to this are told apart.
N_BINS = 65_536
# Items are counted in so many rows of scratch.
_N_BLOCKS = 8


class Entries(NamedTuple):
    """Entries by item, and the lists that they belong to.

    view_indptr, view_entries: entries of each item; rankings: (n_entries,), the list of each entry; indptr, items,
    weights: the lists.
    """

    view_indptr: Any
    view_entries: Any
    rankings: Any
    indptr: Any
    items: Any
    weights: Any


@njit(error_model="numpy")
def _count(entries, a, seen, together, found):
    """Weight of the lists that item a shares with each larger item: of those in ``found``; returns how many these are.

    seen: (n_items,), item for which each was met last.
    """
    n_found = 0
    for index in range(entries.view_indptr[a], entries.view_indptr[a + 1]):
        r = entries.rankings[entries.view_entries[index]]
        start, n = entries.indptr[r], entries.indptr[r + 1] - entries.indptr[r]
        kept = min(n, MOST_PARTNERS)
        weight = entries.weights[r] * n / kept
        for t in range(kept):
            e = t if kept == n else ((2 * t + 1) * n // (2 * kept) + a) % n
            b = entries.items[start + e]
            if b > a:
                if seen[b] != a:
                    seen[b], together[b] = a, 0.0
                    found[n_found] = b
                    n_found += 1
                together[b] += weight
    return n_found


@njit(error_model="numpy", parallel=True)
def count_histogram(entries):
    """Number of pairs of items by how often they are ranked together, rounded down: (N_BINS,)."""
    n_items = entries.view_indptr.size - 1
    out = np.zeros((_N_BLOCKS, N_BINS), np.int64)
    for block in prange(_N_BLOCKS):
        own, seen, together, found = out[block], np.full(n_items, -1), np.empty(n_items), np.empty(n_items, np.int32)
        for a in range(block, n_items, _N_BLOCKS):
            for i in range(_count(entries, np.int64(a), seen, together, found)):
                own[min(int(together[found[i]]), N_BINS - 1)] += 1
    return out.sum(axis=0)


@njit(error_model="numpy", parallel=True)
def count_pairs(entries, least, pair_indptr, pair_items):
    """Pairs of items that are ranked together in lists of total weight ``least`` or more, row by row.

    With an empty ``pair_items`` the numbers of pairs of each item are written to pair_indptr[item + 1], else the
    partners are written to their rows. Parallel over items; O(Σ n min(n, MOST_PARTNERS)) steps.
    """
    n_items = entries.view_indptr.size - 1
    for block in prange(_N_BLOCKS):
        seen, together, found = np.full(n_items, -1), np.empty(n_items), np.empty(n_items, np.int32)
        for a in range(block, n_items, _N_BLOCKS):
            n_kept = 0
            for i in range(_count(entries, np.int64(a), seen, together, found)):
                if together[found[i]] >= least and together[found[i]] > 0.0:
                    found[n_kept] = found[i]
                    n_kept += 1
            if pair_items.size > 0:
                pair_items[pair_indptr[a] : pair_indptr[a] + n_kept] = np.sort(found[:n_kept])
            else:
                pair_indptr[a + 1] = n_kept


@njit(error_model="numpy", parallel=True)
def pair_weights(entries, pairs):
    """Weight of the lists in which the items of each pair are together, (n_pairs,)."""
    n_items, out = entries.view_indptr.size - 1, np.empty(pairs.items.size)
    for block in prange(_N_BLOCKS):
        seen, together, found = np.full(n_items, -1), np.empty(n_items), np.empty(n_items, np.int32)
        for a in range(block, n_items, _N_BLOCKS):
            _count(entries, np.int64(a), seen, together, found)
            for p in range(pairs.indptr[a], pairs.indptr[a + 1]):
                out[p] = together[pairs.items[p]] if seen[pairs.items[p]] == a else 0.0
    return out
