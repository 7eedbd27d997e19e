"""Models whose rankings of any items, given the user, are Plackett-Luce distributed."""

from __future__ import annotations

from typing import Any

from permrank.core.fitted import Fitted
from permrank.core.luce import LuceMixture
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.types import Int64Array


class LuceChoiceRanker(Ranker):
    """A `Ranker` whose scores are the log-worths of a Plackett-Luce distribution.

    P(ranking | user) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j}   (§3, eq. 1), with s = ``_scores(fitted, person, items)``.
    """

    def _knows_ranks(self, fitted: Fitted[Any]) -> bool:
        return True

    def _law(self, fitted: Fitted[Any], person: Person, items: Int64Array) -> LuceMixture:
        return LuceMixture(self._scores(fitted, person, items)[None])
