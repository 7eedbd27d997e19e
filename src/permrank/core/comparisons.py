"""Comparisons in pairs, from rankings of any length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.checks import require_memory
from permrank.errors import InputError
from permrank.kernels.pairs import net_majorities, pair_counts, pair_rows
from permrank.ragged import owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array, Int64Array

# A billion comparisons take some ten seconds to count.
_MOST_COMPARISONS = 20_000_000_000
# Different pairs that are kept: 3.2 GiB. Lists that make more are of thousands of items each, made for other models.
_MOST_PAIRS = 2**25
# A pair: the partner, wins, losses and ties, and three columns of working space of those who use them.
_BYTES = 4 + 6 * 8
_REMEDY = "leave out rare items, shorten lists, or use PlackettLuce, which takes lists whole"


class Comparisons(NamedTuple):
    """Who met whom: item y met ``partners[k]`` for k from ``rows[y]`` to ``rows[y + 1]``; every pair is there twice.

    ``wins``, ``losses`` and ``ties`` are weighted numbers, from the view of y.
    """

    rows: Int64Array
    partners: Int32Array
    wins: Float64Array
    losses: Float64Array
    ties: Float64Array

    @property
    def items(self) -> Int64Array:
        """Item y of each k."""
        return owners(self.rows)

    def sums(self, values: Float64Array) -> Float64Array:
        """Sum of values over each item's row."""
        return np.bincount(self.items, values, self.rows.size - 1).astype(np.float64)

    def matrix(self, values: Float64Array) -> Float64Array:
        """Values as a matrix, items by items; 0 for pairs that never met."""
        n = self.rows.size - 1
        dense = np.zeros((n, n))
        dense[self.items, self.partners] = values
        return dense


def comparisons(rankings: Rankings) -> Comparisons:
    """Break every ranking into its pairs, each with the weight of the ranking; too many different pairs raise."""
    longest = int(rankings.lengths.max(initial=0))
    _require_few(longest * (longest - 1) // 2)  # before anything is counted
    data = _entries(rankings)
    rows = pair_rows(*data)
    n_pairs = int(rows[-1]) // 2
    _require_few(n_pairs)
    require_memory(2 * n_pairs * _BYTES, f"{n_pairs:,} pairs of items that share a list", _REMEDY)
    partners, counts = pair_counts(rows, *data, rankings.levels, rankings.weights)
    return Comparisons(rows, partners, *counts)


def _require_few(n_pairs: int) -> None:
    if n_pairs > _MOST_PAIRS:
        raise InputError(
            f"the lists hold {n_pairs:,} different pairs of items, more than the {_MOST_PAIRS:,} that are kept; "
            f"{_REMEDY}"
        )


def majorities(rankings: Rankings) -> Float64Array:
    """How many items a majority puts below each item, less those above it; equal majorities count on neither side."""
    return net_majorities(*_entries(rankings), rankings.levels, rankings.weights)


def _entries(rankings: Rankings) -> tuple[Array, Array, Array, Array, Array]:
    """Entries by item, the ranking of each, and the rankings; too many comparisons raise."""
    total = int(np.sum(rankings.lengths**2))
    if total > _MOST_COMPARISONS:
        raise InputError(f"the lists make {total:,} comparisons, more than can be counted; use shorter lists")
    view = rankings.item_view
    return view.indptr, view.entries, rankings.entry_rankings(), rankings.indptr, rankings.items
