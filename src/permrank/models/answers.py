"""The frames that models answer with: the best items, and similar items and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.models.users import UserReference
from permrank.types import Array, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.models.ranker import Ranker

# An item's rank lies between these quantiles with probability 0.9.
_INTERVAL = np.array([0.05, 0.95])


def ranked(model: Ranker, user: UserReference, items: Int64Array, k: int) -> pl.DataFrame:
    """The best k of some items: ``rank``, ``item``, ``score``, and if they are known ``rank_low`` and ``rank_high``."""
    scores = model._scores(user, items)
    # Equal scores keep the order of the ids, so that the answer does not depend on the caller's.
    order = np.lexsort((items, -scores))[:k]
    ids = model.item_ids.take(items[order])
    frame = pl.DataFrame({"rank": np.arange(1, order.size + 1), "item": ids, "score": scores[order]})
    if not model._knows_ranks:
        return frame
    low, high = model._distribution(user, items).rank_quantiles(order, _INTERVAL).T
    return frame.with_columns(rank_low=pl.Series(low + 1), rank_high=pl.Series(high + 1))


def mean_cosine(rows: Array, target: Array) -> Float64Array:
    """Cosine of every row with the target, (n_draws, n, K) and (n_draws, K), averaged over the draws."""
    total = np.zeros(rows.shape[1])
    for each, wanted in zip(rows, target, strict=True):
        lengths = np.linalg.norm(each, axis=1) * np.linalg.norm(wanted)
        total += (each @ wanted) / np.where(lengths > 0, lengths, 1.0)
    return total / len(rows)


def nearest(similarity: Float64Array, own: int, k: int, take: Any, kind: str) -> pl.DataFrame:
    """The k most similar rows but one's own, as a frame."""
    require_int("k", k, 1)
    order = np.lexsort((np.arange(similarity.size), -similarity))
    order = order[order != own][: int(k)]
    return pl.DataFrame({"rank": np.arange(1, order.size + 1), kind: take(order), "similarity": similarity[order]})
