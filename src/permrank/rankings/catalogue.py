"""Rankings over more users and items than those that have a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.ragged import indptr_of
from permrank.rankings.vocabulary import Vocabulary, encode, encode_with

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings


def with_catalogue(rankings: Rankings, users: pl.Series | None, items: pl.Series | None) -> Rankings:
    """Add users without rankings and items that nobody ranked."""
    user_ids, user_indices = _enlarged(rankings.user_ids, users)
    item_ids, item_indices = _enlarged(rankings.item_ids, items)
    counts = np.zeros(len(user_ids), np.int64)
    counts[user_indices] = np.diff(rankings.user_indptr)
    return type(rankings)._trusted(
        indptr_of(counts), rankings.indptr, item_indices[rankings.items],
        rankings.levels, rankings.weights, user_ids, item_ids,
        **rankings._attached(),
    )  # fmt: skip


def _enlarged(vocabulary: Vocabulary, extra: pl.Series | None) -> tuple[Vocabulary, np.ndarray]:
    if extra is None or len(extra) == 0:
        return vocabulary, np.arange(len(vocabulary))
    known = vocabulary.ids
    _, larger = encode(pl.concat([known, extra.rename(known.name)]), vocabulary.kind)
    return larger.with_attributes(vocabulary.attributes), encode_with(known, larger)
