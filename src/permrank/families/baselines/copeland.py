"""Baseline: how many others a majority ranks an item above."""

from __future__ import annotations

from permrank.core.comparisons import majorities
from permrank.core.ranker import OneOrderRanker
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array


class Copeland(OneOrderRanker):
    """Baseline: Copeland's count of majorities.

    score = (number of items that a majority ranks below - number that a majority ranks above) / (n_items - 1), a
    majority being one of those rankings, by weight, that list both items and do not tie them. Items that never met
    count as level. An item that beats every other, a Condorcet winner, has the score 1 and comes first.

    Attributes
    ----------
    scores_ : float64 (n_items,)
        From -1 to 1.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"]])
    >>> pr.Copeland().fit(ballots).score(None, ["a", "b", "c"]).tolist()
    [1.0, 0.0, -1.0]
    """

    needs_order = True
    assumes = "an item is as good as the number of items that a majority puts below it"
    takes = "rankings and ratings, ties, weights"
    reference = "Copeland (1951)"

    def _count(self, rankings: Rankings) -> Float64Array:
        return majorities(rankings) / max(rankings.n_items - 1, 1)
