"""Baseline: the share of its comparisons that an item wins."""

from __future__ import annotations

import numpy as np

from permrank.core.ranker import OneOrderRanker
from permrank.core.settings import number
from permrank.ragged import new_blocks
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array


class Borda(OneOrderRanker):
    """Baseline: Borda's count, as the share of comparisons that an item wins.

    score = (λ/2 + Σ w (items below + half of those tied)) / (λ + Σ w (other items in the list)), over the rankings
    that list the item. Where everybody ranks everything this orders as Borda's points do.

    Attributes
    ----------
    scores_ : float64 (n_items,)
        From 0 to 1; 1/2 for an item that was never compared.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"]])
    >>> pr.Borda(prior_strength=0.0).fit(ballots).score(None, ["a", "b", "c"]).round(3).tolist()
    [0.833, 0.5, 0.167]
    """

    needs_order = True
    assumes = "an item is as good as the share of its comparisons that it wins"
    takes = "rankings and ratings, ties, weights"
    reference = "de Borda (1781)"

    prior_strength: float = number(
        default=5.0, tune=(0.1, 100.0), help="λ: imaginary comparisons of every item, half of them won."
    )

    def _count(self, rankings: Rankings) -> Float64Array:
        beaten, others = shares_below(rankings)
        weights = rankings.entry_weights()
        won = np.bincount(rankings.items, weights * beaten, rankings.n_items) + self.prior_strength / 2.0
        compared = np.bincount(rankings.items, weights * others, rankings.n_items) + self.prior_strength
        return np.where(compared > 0, won / np.where(compared > 0, compared, 1.0), 0.5)


def shares_below(rankings: Rankings) -> tuple[Float64Array, Float64Array]:
    """Of each entry, how many entries of its ranking it beats (a tie counts one half), and how many others it has."""
    owner = rankings.entry_rankings()
    first = np.flatnonzero(new_blocks(rankings.levels, rankings.indptr))
    sizes = np.diff(first, append=rankings.n_entries)
    begin, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
    beaten = rankings.indptr[1:][owner] - begin - size + (size - 1) / 2.0
    return beaten, (rankings.lengths[owner] - 1).astype(np.float64)
