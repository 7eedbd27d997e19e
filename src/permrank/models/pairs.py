"""Comparisons in pairs, from rankings of any length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.kernels.pairs import pair_counts
from permrank.types import Float64Array, Int32Array, Int64Array

# A billion comparisons take some ten seconds to count, and those of different pairs at most 28 GB.
_MOST_COMPARISONS = 20_000_000_000


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
        return np.repeat(np.arange(self.rows.size - 1), np.diff(self.rows))

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
    """Break every ranking into its pairs, each with the weight of the ranking."""
    lengths = np.diff(rankings.indptr)
    total = int(np.sum(lengths * lengths))
    if total > _MOST_COMPARISONS:
        raise InputError(f"the lists make {total} pairs, more than can be counted; use shorter lists")
    owner = np.repeat(np.arange(lengths.size), lengths)
    view = rankings.item_view
    rows, partners, counts = pair_counts(
        view.indptr, view.entries, owner, rankings.indptr, rankings.items, rankings.levels, rankings.weights
    )
    return Comparisons(rows, partners, *np.ascontiguousarray(counts.T))
