"""A digest of everything that rankings hold."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from permrank.types import Array

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings

_PIECE = 2**20


def fingerprint(rankings: Rankings) -> str:
    """SHA-256 over ids and arrays."""
    digest = hashlib.sha256()
    for vocabulary in (rankings.user_ids, rankings.item_ids):
        digest.update(repr((vocabulary.is_integer, len(vocabulary))).encode())
        if vocabulary.is_integer:
            digest.update(vocabulary.ids.to_numpy().tobytes())
        else:
            digest.update(vocabulary.ids.str.len_bytes().cast(int).to_numpy().tobytes())
            digest.update("".join(vocabulary.ids.to_list()).encode())
    for array in (rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights):
        _update(digest, array)
    if rankings.ratings is not None:
        _update(digest, rankings.ratings, np.float64)
    if rankings.counts is not None:
        digest.update(b"counts")
        _update(digest, rankings.counts, np.float64)
    digest.update(str(rankings.anonymous).encode())
    return digest.hexdigest()


def _update(digest: hashlib._Hash, array: Array, dtype: DTypeLike | None = None) -> None:
    """Add the bytes of an array, in a wider type if one is given, a piece at a time: it may be large."""
    for first in range(0, array.size, _PIECE):
        digest.update(np.ascontiguousarray(array[first : first + _PIECE], dtype).data)
