"""The entries that mention each item: the other way round of reading rankings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.ragged import indptr_of
from permrank.types import Int32Array, Int64Array


class ItemView(NamedTuple):
    """Which entries mention an item: those of item ``y`` are ``entries[indptr[y]:indptr[y + 1]]``."""

    indptr: Int64Array
    entries: Int32Array | Int64Array


def entries_by_item(items: Int32Array, n_items: int) -> ItemView:
    """Entries of every item, in their order."""
    counts = np.bincount(items, minlength=n_items)
    indptr = indptr_of(counts)
    # A stable sort of the packed (item, entry) is quicker than argsort.
    packed = (items.astype(np.int64) << 40) | np.arange(items.size)
    entries = pl.Series(packed).sort().to_numpy() & ((1 << 40) - 1)
    return ItemView(indptr, entries.astype(np.int32) if items.size < 2**31 else entries)
