"""CofiRank (Weimer, Karatzoglou, Le, Smola 2007): maximum-margin matrix factorisation for ranking."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from permrank.core.settings import choice, flag, integer, number
from permrank.families.matrix.base import NOISE_SHARE, OnePenaltyRanker, pair_weights
from permrank.families.matrix.kernels.listwise_losses import ndcg_bound, squared_errors
from permrank.families.matrix.kernels.pairwise_losses import hinge_pairs
from permrank.families.matrix.learning import Arrays, Loss
from permrank.families.matrix.relevance import relevance
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

# The bound on NDCG leans on the few best items of a list and needs more of a penalty; set as `NOISE_SHARE`.
_NDCG_SHARE = 0.75
# Ratings of a user that pull its offset half-way from the overall mean (a usual choice).
_HALF_MEAN = 5.0
_LONGEST = 2**31 - 1


class CofiRank(OnePenaltyRanker):
    """Maximum-margin matrix factorisation with the NDCG, ordinal and squared losses (Weimer et al. 2007).

    The NDCG loss of a list is max over orders π of 1 - NDCG(π) + <c, s_π - s>: convex, and a bound on what the order
    by s loses. The assignment in it is solved by sorting, because c are the discounts of NDCG themselves. The published
    learner is a bundle method for users and items in turn; here the maximum is rounded by ``smoothing``, which
    makes it one projection in O(n log n), and all variables descend together.

    Attributes
    ----------
    user_factors_ : float64 (n_users, n_factors)
    item_factors_ : float64 (n_items, n_factors)
    item_intercepts_ : float64 (n_items,)
    user_penalty_, item_penalty_ : float
        Penalties that were used.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.CofiRank(n_factors=4, loss="squared").fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "scores from a few factors order each list with a margin"
    takes = "ratings, or rankings taken for evenly spread ratings; ties, weights"
    reference = "Weimer, Karatzoglou, Le and Smola (2007)"

    intercepts: bool = flag(
        default=True, help="Whether items have intercepts and users offsets; False is the published form."
    )
    loss: Literal["ndcg", "ordinal", "squared"] = choice(
        default="ndcg",
        values=("ndcg", "ordinal", "squared"),
        tune=("ndcg", "ordinal", "squared"),
        help=(
            "The bound above; the hinge over all ordered pairs; squared error of the ratings, with an offset a "
            "list. Ratings are put on a scale from 1 to 5; where there are none, the positions in a list are "
            "spread over it."
        ),
    )
    smoothing: float = number(
        default=1.0, above=0.0, tune=(0.1, 10.0), help="How far the maximum (for ``ordinal``, the hinge) is rounded."
    )
    truncation: int | None = integer(
        default=None, minimum=1, maximum=1000000000, also=(None,), help="Places that NDCG counts; all if None."
    )

    def _noise_share(self) -> float:
        return _NDCG_SHARE if self.loss == "ndcg" else NOISE_SHARE

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        weights, stars = rankings.weights.copy(), relevance(rankings, training)
        if self.loss == "ordinal":
            weights *= pair_weights(rankings.indptr)
        ridge = _HALF_MEAN if self.intercepts else np.inf
        centred = stars - (_mean_relevance(training) if self.intercepts else 0.0)
        wanted = centred if self.loss == "squared" else np.exp2(stars) - 1.0
        settings = ridge, float(self.smoothing), _LONGEST if self.truncation is None else int(self.truncation)
        return Loss(partial(_losses, self.loss, *settings), rankings.indptr, (weights,), (rankings.levels, wanted))


def _losses(
    loss: str, ridge: float, smoothing: float, truncation: int, indptr: Int64Array, of_lists: Arrays,
    of_entries: Arrays, before: int, scores: Float64Array,
) -> tuple[Float64Array, Float64Array]:  # fmt: skip
    (weights,), (levels, wanted), gradient = of_lists, of_entries, np.empty_like(scores)
    if loss == "squared":
        values = squared_errors(indptr, wanted, weights, ridge, scores, gradient)
    elif loss == "ordinal":
        values = hinge_pairs(indptr, levels, weights, smoothing, scores, gradient)
    else:
        values = ndcg_bound(indptr, levels, wanted, weights, truncation, smoothing, scores, gradient)
    return values, gradient


def _mean_relevance(training: Rankings) -> float:
    return float(np.average(relevance(training, training), weights=training.entry_weights()))
