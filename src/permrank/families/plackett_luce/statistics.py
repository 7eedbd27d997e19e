"""Sums over all rankings for a model with one score an item, over shards of rankings."""

from __future__ import annotations

from functools import partial

import numpy as np

from permrank.families.plackett_luce.kernels.pooled import NARROW, ranking_sums, strict_sums
from permrank.kernels.luce.likelihood import PARTITION
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.ragged import new_blocks
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array

# Sums of a block are one number an item: many blocks cost little.
_MOST_BLOCKS = 64


class PooledStatistics:
    """Weighted log-likelihood and Σ chosen, Σ expected by item, when a score depends on the item only.

    As `stage_statistics`, summed with the rankings' weights: the gradient of the log-likelihood in the item scores is
    chosen - expected, Hunter's update is w <- w chosen / expected (§3). The same bits for any number of threads and
    shards.

    Parameters
    ----------
    indptr : int64 (n_rankings + 1,)
    items, levels : int32 (n_entries,)
    weights : float64 (n_rankings,)
    n_items : int
    ties : int
        A code of `kernels.plackett_luce`.
    """

    def __init__(
        self,
        indptr: Int64Array,
        items: Int32Array,
        levels: Int32Array,
        weights: Float64Array,
        n_items: int,
        ties: int,
    ) -> None:
        n_rankings = indptr.size - 1
        # A block has accumulators of n_items cells: together at most as many as there are entries, or one block.
        n_blocks = n_blocks_of(n_rankings, items.size // max(1, n_items), most=_MOST_BLOCKS)
        self._shards = shards_of(blocks_by_entries(indptr, n_blocks), (indptr,), ((weights,), (items, levels)))
        self._longest = int(np.diff(indptr).max()) if n_rankings else 0
        self._ties = ties
        # Decided for all rankings: the two ways of summing round differently.
        self._strict = ties != PARTITION and bool(new_blocks(levels, indptr).all())

    @classmethod
    def of(cls, rankings: Rankings, ties: int) -> PooledStatistics:
        """Of all rankings."""
        return cls(rankings.indptr, rankings.items, rankings.levels, rankings.weights, rankings.n_items, ties)

    def __call__(self, item_scores: Float64Array) -> tuple[float, Float64Array, Float64Array]:
        """Value, chosen (n_items,) and expected (n_items,) at scores (n_items,)."""
        largest = float(item_scores.max()) if item_scores.size else 0.0
        narrow = item_scores.size > 0 and largest - float(item_scores.min()) < NARROW
        if narrow and self._strict:
            job = partial(_strict_sums, np.exp(item_scores - largest), self._longest)
            values, chosen, expected = gathered(job, self._shards)
            chosen = chosen.sum(axis=0)
            value = float(values.sum() + np.sum(chosen * (item_scores - largest)))
            return value, chosen, expected.sum(axis=0)
        values, chosen, expected = gathered(partial(_ranking_sums, item_scores, self._ties), self._shards)
        # np.sum, not @: BLAS may split a long dot product over its threads.
        return float(np.sum(values)), chosen.sum(axis=0), expected.sum(axis=0)


def _strict_sums(worths: Float64Array, longest: int, shard: Shard) -> tuple[Float64Array, ...]:
    (indptr,), (weights, items, _) = shard.indptrs, shard.data
    found: tuple[Float64Array, ...] = strict_sums(shard.bounds, indptr, items, worths, weights, longest)
    return found


def _ranking_sums(item_scores: Float64Array, ties: int, shard: Shard) -> tuple[Float64Array, ...]:
    (indptr,), (weights, items, levels) = shard.indptrs, shard.data
    return ranking_sums(shard.bounds, indptr, items, levels, item_scores, weights, ties)
