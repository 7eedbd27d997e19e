"""The frame that `rank` and `recommend` answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.models.users import UserReference
from permrank.types import Int64Array

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
