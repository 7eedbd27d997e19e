"""Models with one score for each item, the same for everybody: what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.ragged import new_blocks
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class ItemScores(Estimate):
    """One score for each item, the same for everybody: float64 (n_items,)."""

    scores: Float64Array

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is a finite score for each item."""
        super().check(n_users, n_items)
        if np.shape(self.scores) != (n_items,) or self.scores.dtype != np.float64:
            raise InputError(f"scores_ has shape {np.shape(self.scores)}, expected a float64 for each item")


class OneOrderRanker(Ranker):
    """A `Ranker` with ``scores_`` (n_items,), whoever asks; one that counts them in one pass supplies `_count`."""

    knows_nobody = True
    personal = False
    estimate_type: ClassVar[type[Estimate]] = ItemScores
    scores_ = Learnt[Float64Array]()

    def _count(self, rankings: Rankings) -> Float64Array:
        raise NotImplementedError

    def _learn(self, rankings: Rankings) -> Any:
        return ItemScores(self._count(rankings))

    def _scores(self, fitted: Fitted[Any], person: Person, items: Int64Array) -> Float64Array:
        scores: Float64Array = fitted.estimate.scores
        return scores[items]


def shares_below(rankings: Rankings) -> tuple[Float64Array, Float64Array]:
    """Of each entry, how many entries of its ranking it beats (a tie counts one half), and how many others it has."""
    owner = rankings.entry_rankings()
    first = np.flatnonzero(new_blocks(rankings.levels, rankings.indptr))
    sizes = np.diff(first, append=rankings.n_entries)
    begin, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
    beaten = rankings.indptr[1:][owner] - begin - size + (size - 1) / 2.0
    return beaten, (rankings.lengths[owner] - 1).astype(np.float64)
