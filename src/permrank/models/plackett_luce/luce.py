"""Answers of models whose rankings of any items, given the user, are Plackett-Luce distributed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from permrank.checks import whole_from
from permrank.kernels.plackett_luce.insertion import insertion_probabilities
from permrank.kernels.plackett_luce.race import gumbel_rankings, top_probabilities
from permrank.kernels.plackett_luce.ranks import rank_quantiles
from permrank.models.ranker import Ranker
from permrank.models.users import UserReference
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int64Array


class LuceChoiceRanker(Ranker):
    """A `Ranker` whose scores are the log-worths of a Plackett-Luce distribution.

    P(ranking | user) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j}   (§3, eq. 1), with s = ``_scores(user, items)``.
    """

    def prefers(self, user: object, item: object, other: object) -> float:
        """Return the probability that ``item`` is ranked before ``other``: 1 / (1 + e^{s_other - s_item})."""
        reference = self._reference(user)
        first, second = self._scores(reference, self.item_ids.indices([item, other]))
        return float(1.0 / (1.0 + np.exp(np.clip(second - first, -700.0, 700.0))))

    def top_probability(self, user: object, items: Iterable[object], k: int = 1) -> Float64Array:
        """Return the probability of each item to be among the first ``k`` of the given items."""
        reference = self._reference(user)
        whole_from("k", k, 1)
        scores = self._scores(reference, self._item_indices(items))
        probabilities: Float64Array = top_probabilities(scores, min(int(k), scores.size))
        return probabilities

    def position_probabilities(self, user: object, item: object) -> Float64Array:
        """Return the probabilities of the places where an item would enter the user's list (§3.2.2).

        The order of the list stays as it is. Place 0 is before everything, place n after the last of n;
        place j has j listed items before it. A tie says nothing about the order inside it: all its orders
        are summed over, each with its probability.
        """
        reference = self._reference(user)
        items, levels, place = self._list_to_enter(reference, item)
        scores = self._scores(reference, np.append(items, place))
        probabilities: Float64Array = insertion_probabilities(levels, scores[:-1], scores[-1])
        return probabilities

    def sample(self, user: object, items: Iterable[object] | None = None, size: int = 1, seed: int = 0) -> np.ndarray:
        """Draw rankings of the items (all, if none are given) from P(. | user), exactly.

        Returns
        -------
        array (size, n)
            Ids, best first in every row. The same seed gives the same rows.
        """
        reference = self._reference(user)
        places = self._item_indices(items)
        self._check_draws(size, seed, places.size)
        orders = gumbel_rankings(self._scores(reference, places), stream_key(seed), int(size))
        ids = np.asarray(self.item_ids.take(places).to_list())
        return np.asarray(ids[orders])

    def _rank_interval(
        self, user: UserReference, items: Int64Array, scores: Float64Array, chosen: Int64Array
    ) -> tuple[Int64Array, Int64Array] | None:
        if chosen.size == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        quantiles = rank_quantiles(scores, chosen.astype(np.int64), np.array([0.05, 0.95]))
        return quantiles[:, 0], quantiles[:, 1]
