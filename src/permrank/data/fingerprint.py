"""A digest of everything that rankings hold."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from permrank.data.rankings import Rankings


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
        digest.update(np.ascontiguousarray(array).tobytes())
    if rankings.ratings is not None:
        digest.update(rankings.ratings.astype(np.float64).tobytes())
    if rankings.counts is not None:
        digest.update(b"counts" + rankings.counts.astype(np.float64).tobytes())
    digest.update(str(rankings.anonymous).encode())
    return digest.hexdigest()
