"""Ragged arrays: lists of different lengths, one after the other, with the place where each begins.

List r has the entries ``indptr[r]:indptr[r + 1]``; every array of this library that holds lists is laid out so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permrank.types import Int64Array


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


def owners(indptr: Int64Array) -> Int64Array:
    """The list that each entry belongs to.

    Examples
    --------
    >>> owners(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(indptr.size - 1), np.diff(indptr))


def ranges(first: Int64Array, last: Int64Array) -> Int64Array:
    """The numbers of all ranges [first, last), one range after the other.

    Examples
    --------
    >>> ranges(np.array([4, 0]), np.array([6, 3])).tolist()
    [4, 5, 0, 1, 2]
    """
    indptr = indptr_of(last - first)
    return np.asarray(np.repeat(first - indptr[:-1], last - first) + np.arange(indptr[-1]))


def frozen(*arrays: Any) -> tuple[Any, ...]:
    """Arrays that cannot be written, as those of `Rankings`: Numba compiles every kernel once for each kind."""
    found = []
    for array in arrays:
        view = np.ascontiguousarray(array).view()
        view.flags.writeable = False
        found.append(view)
    return tuple(found)
