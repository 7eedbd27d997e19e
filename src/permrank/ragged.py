"""Ragged arrays: lists of different lengths, one after the other, with the index at which each begins.

List r has the entries ``indptr[r]:indptr[r + 1]``; every array of this library that holds lists is laid out so.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from permrank.types import Array, BoolArray, Int32Array, Int64Array

Scalar = TypeVar("Scalar", bound=np.generic)


def indptr_of(lengths: ArrayLike) -> Int64Array:
    """Where lists of these lengths begin, and where the last one ends: (n + 1,).

    Examples
    --------
    >>> indptr_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    counts = np.asarray(lengths, np.int64)
    indptr = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def owners(indptr: Int64Array, dtype: DTypeLike = np.int64) -> Array:
    """The list that each entry belongs to.

    Examples
    --------
    >>> owners(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(indptr.size - 1, dtype=dtype), np.diff(indptr))


def positions(indptr: Int64Array) -> Int64Array:
    """The position of each entry in its list, from 0.

    Examples
    --------
    >>> positions(np.array([0, 2, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.asarray(np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr)))


def first_entries(indptr: Int64Array) -> BoolArray:
    """Whether each entry is the first of its list.

    Examples
    --------
    >>> first_entries(np.array([0, 2, 2, 5])).tolist()
    [True, False, True, False, False]
    """
    first = np.zeros(indptr[-1], bool)
    first[indptr[:-1][np.diff(indptr) > 0]] = True
    return first


def new_blocks(levels: Array, indptr: Int64Array) -> BoolArray:
    """Whether a tie block begins at each entry: a list begins there, or the level is another than before.

    Examples
    --------
    >>> new_blocks(np.array([0, 0, 1, 1, 2]), np.array([0, 3, 5])).tolist()
    [True, False, True, True, True]
    """
    new = first_entries(indptr)
    new[1:] |= levels[1:] != levels[:-1]
    return new


def ranges(first: Int64Array, last: Int64Array) -> Int64Array:
    """The numbers of all ranges [first, last), one range after the other.

    Examples
    --------
    >>> ranges(np.array([4, 0]), np.array([6, 3])).tolist()
    [4, 5, 0, 1, 2]
    """
    indptr = indptr_of(last - first)
    return np.asarray(np.repeat(first - indptr[:-1], last - first) + np.arange(indptr[-1]))


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


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The array, contiguous, so that it cannot be written."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def frozen(*arrays: Array) -> tuple[Array, ...]:
    """Arrays that cannot be written, as those of `Rankings`: Numba compiles every kernel once for each kind."""
    return tuple(read_only(array) for array in arrays)
