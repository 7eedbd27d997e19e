"""The entries that mention each item: the other way round of reading rankings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    # Sorting the packed (item, entry) in place is quicker than a stable argsort, and takes half the memory.
    packed = items.astype(np.int64)
    packed <<= 40
    packed |= np.arange(items.size)
    packed.sort()
    packed &= (1 << 40) - 1
    return ItemView(indptr, packed.astype(np.int32) if items.size < 2**31 else packed)
