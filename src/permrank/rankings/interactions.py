"""Sets without order: what people took up, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np

from permrank.errors import InputError
from permrank.ragged import indptr_of
from permrank.rankings.build import check_sums
from permrank.rankings.frames import Locate, as_frame, id_column, row_number, weight_column
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary, encode
from permrank.types import Float64Array, Int32Array, Int64Array


def from_interactions(
    data: Any, user: str, item: str, weight: str | None = None, locate: Locate = row_number
) -> Rankings:
    """One set for each user, from rows of (user, item) or (user, item, weight)."""
    frame = as_frame(data)
    if frame.height == 0:
        raise InputError("the frame has no rows; expected rows of (user, item)")
    users, user_ids = encode(id_column(frame, user, "user", locate), "user")
    items, item_ids = encode(id_column(frame, item, "item", locate), "item")
    counts = np.ones(frame.height) if weight is None else weight_column(frame, weight, locate)
    return sets_of(users, items, counts, user_ids, item_ids)


def sets_of(
    users: Int32Array | Int64Array,
    items: Int32Array | Int64Array,
    counts: Float64Array,
    user_ids: Vocabulary,
    item_ids: Vocabulary,
) -> Rankings:
    """One tie block for each user who has a row; the counts of rows of the same user and item are added up."""
    n_items = max(len(item_ids), 1)
    pairs = users.astype(np.int64) * n_items + items
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    counts = np.add.reduceat(counts[order], first) if first.size else counts
    check_sums(counts, "rows with the same user and item")
    pairs = pairs[first]
    lengths = np.bincount(pairs // n_items, minlength=len(user_ids))
    return Rankings._trusted(
        indptr_of(lengths > 0),
        indptr_of(lengths[lengths > 0]),
        pairs % n_items,
        np.zeros(pairs.size, np.int32),
        np.ones(int((lengths > 0).sum())),
        user_ids,
        item_ids,
        counts=counts,
    )


def are_sets(rankings: Rankings) -> bool:
    """Whether these could come from `from_interactions`: at most one set for each user, without order or ratings."""
    return not (
        rankings.has_order
        or rankings.anonymous
        or rankings.ratings is not None
        or (np.diff(rankings.user_indptr) > 1).any()
        or (rankings.weights != 1).any()
    )
