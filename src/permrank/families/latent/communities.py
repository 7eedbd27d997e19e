"""Communities in words: how large they are, what sets them apart, who is typical."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array


def communities_frame(
    scores: Float64Array,
    memberships: Float64Array,
    pooled: Float64Array,
    seen: Float64Array,
    people: Float64Array,
    items: Vocabulary,
    users: Vocabulary,
    n_items: int,
    n_users: int,
) -> pl.DataFrame:
    """One row a community, largest first; with titles of its items where there are any.

    Parameters
    ----------
    scores : float64 (n_items, K)
    memberships : float64 (n_users, K)
    pooled : float64 (n_items,)
        Scores of everybody.
    seen : float64 (n_items,)
        How often each item is listed; items that nobody lists are not shown.
    people : float64 (n_users,)
        How many people each user stands for.
    items, users : Vocabulary
    n_items, n_users : int
        How many of each to show.
    """
    lift = scores - pooled[:, None]
    lift = np.where(seen[:, None] > 0, lift - np.mean(lift, axis=0), -np.inf)
    sizes = np.sum(people[:, None] * memberships, axis=0) / people.sum()
    rows = []
    for z in range(scores.shape[1]):
        best = np.lexsort((np.arange(pooled.size), -lift[:, z]))[:n_items]
        best = best[np.isfinite(lift[best, z])]
        typical = np.lexsort((np.arange(len(memberships)), -memberships[:, z]))[:n_users]
        rows.append(
            {
                "community": z + 1,
                "size": float(sizes[z]),
                "items": items.take(best).to_list(),
                **({} if items.titles is None else {"titles": [items.called(int(index)) for index in best]}),
                "lifts": np.exp(lift[best, z]).tolist(),
                "users": users.take(typical).to_list(),
                "memberships": memberships[typical, z].tolist(),
            }
        )
    return pl.DataFrame(rows)
