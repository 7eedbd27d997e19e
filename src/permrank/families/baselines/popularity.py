"""Baseline: how many list an item, or like it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from permrank.core.ranker import OneOrderRanker
from permrank.core.settings import choice
from permrank.families.baselines.borda import shares_below
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array


class Popularity(OneOrderRanker):
    """Baseline: an item scores the number of rankings that have it in their upper half, or that list it at all.

    Attributes
    ----------
    scores_ : float64 (n_items,)

    Examples
    --------
    >>> import permrank as pr
    >>> lists = {"ann": ["ebi", "uni"], "bob": ["ika", "uni"], "cat": ["toro"], "dan": ["ika"]}
    >>> rankings = pr.Rankings.from_lists(lists)
    >>> pr.Popularity().fit(rankings).recommend("cat", k=1)["item"].to_list()
    ['ika']
    >>> pr.Popularity(count="listed").fit(rankings).score(None, ["ebi", "uni"]).tolist()
    [1.0, 2.0]
    """

    assumes = "what more people like, or come across, is better"
    takes = "rankings and ratings, ties, weights"
    finds = True
    reference = "Cremonesi, Koren and Turrin (2010), top popular"

    count: Literal["liked", "listed"] = choice(
        default="liked",
        values=("liked", "listed"),
        tune=("liked", "listed"),
        help=(
            "Rankings in which the item comes before at least half of the others (a tie counts one half), or all "
            "that list it. Every ranking counts by its weight, and once for an item however often it was taken "
            "up: people are counted, not plays or purchases, of which a few people may have very many."
        ),
    )

    def _count(self, rankings: Rankings) -> Float64Array:
        weights = rankings.entry_weights()
        if self.count == "liked":
            beaten, others = shares_below(rankings)
            weights = weights * (beaten >= others / 2.0)
        return np.bincount(rankings.items, weights, rankings.n_items).astype(np.float64)
