"""Models whose rankings of any items, given the user, are Plackett-Luce distributed."""

from __future__ import annotations

from permrank.core.luce import LuceMixture
from permrank.core.ranker import Ranker
from permrank.core.users import UserReference
from permrank.types import Int64Array


class LuceChoiceRanker(Ranker):
    """A `Ranker` whose scores are the log-worths of a Plackett-Luce distribution.

    P(ranking | user) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j}   (§3, eq. 1), with s = ``_scores(user, items)``.
    """

    @property
    def _knows_ranks(self) -> bool:
        return True

    def _distribution(self, user: UserReference, items: Int64Array) -> LuceMixture:
        return LuceMixture(self._scores(user, items)[None])
