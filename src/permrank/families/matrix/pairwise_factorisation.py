"""Factors that put pairs right (§2): squared, hinge and logistic losses over the ordered pairs of every list."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.settings import MOST_SWEEPS, choice, integer, number
from permrank.families.matrix.base import MatrixRanker, Pair, Penalty, pair_weights
from permrank.families.matrix.kernels.pairwise_losses import hinge_pairs, logistic_pairs, squared_pairs
from permrank.families.matrix.learning import Arrays, Loss
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array, Key


class PairwiseFactorisation(MatrixRanker):
    """Matrix factorisation with a loss over all ordered pairs of a list (§2).

    Minimise Σ_u Σ_{i before j} L(d_ij) + Ω(W, H), d_ij = s_i - s_j, s_y^u = b_y + Σ_k W_uk H_ky; ties say nothing.

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
    >>> model = pr.PairwiseFactorisation(n_factors=4, loss="squared").fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "scores from a few factors put the pairs of a list right"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 2"

    loss: Literal["logistic", "hinge", "squared"] = choice(
        default="logistic",
        values=("logistic", "hinge", "squared"),
        tune=("logistic", "hinge", "squared"),
        help="log(1 + e^-d), max(0, 1 - d), (1 - d)².",
    )
    smoothing: float = number(
        default=1.0,
        tune=(0.1, 10.0),
        help=(
            "The hinge is rounded over this width, below which it is quadratic; learning needs a slope that is "
            "continuous. 0 is the hinge as published, whose descent along subgradients may end before the least "
            "value."
        ),
    )
    weighting: Literal["entries", "published"] = choice(
        default="entries",
        values=("entries", "published"),
        help=(
            "``entries``: a list of n counts n times the mean over its pairs, and penalties are multiplied by the "
            "number of entries of a user or item, so that one penalty suits short and long lists. ``published``: "
            "every pair counts 1 / N with N users, and Ω = user_penalty Σ W² + item_penalty Σ H² (the objective "
            "that is traced, and the penalties ``user_penalty_`` and ``item_penalty_``, are N times that)."
        ),
    )
    user_penalty: Penalty = number(
        default="auto",
        above=0.0,
        also=("auto",),
        help=(
            'Of the factors of users. "auto": what keeps most of the noise out, from the residuals of a fit without '
            "factors. Only the product of both penalties matters to the scores."
        ),
    )
    item_penalty: Penalty = number(default="auto", above=0.0, also=("auto",), help="The same for items.")
    n_partners: int = integer(
        default=32,
        minimum=1,
        maximum=MOST_SWEEPS,
        help=(
            "The logistic loss sums over all pairs of lists of up to twice this length; in a longer one every "
            "entry is compared with this many others, drawn once for the whole fit."
        ),
    )

    def _penalties(self, rankings: Rankings) -> tuple[Pair, bool]:
        by_entries = self.weighting == "entries"
        times = 1.0 if by_entries else float(rankings.n_users)
        given = self.user_penalty, self.item_penalty
        users, items = (None if value == "auto" else times * float(value) for value in given)
        return (users, items), by_entries

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        weights = rankings.weights.copy()
        if self.weighting == "entries":
            weights *= pair_weights(rankings.indptr)
        settings = float(self.smoothing), int(self.n_partners), stream_key(self.seed)
        return Loss(partial(_losses, self.loss, *settings), rankings.indptr, (weights,), (rankings.levels,))

    def _has_pairs(self, fitted: Fitted[Any]) -> bool:
        return self.loss == "logistic"

    def _prefers(self, fitted: Fitted[Any], person: Person, first: Int64Array, second: Int64Array) -> Float64Array:
        """1 / (1 + e^-d), which the logistic loss alone says."""
        behind = self._scores(fitted, person, second) - self._scores(fitted, person, first)
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(behind, -700.0, 700.0))))


def _losses(
    loss: str, smoothing: float, n_partners: int, key: Key, indptr: Int64Array, of_lists: Arrays,
    of_entries: Arrays, before: int, scores: Float64Array,
) -> tuple[Float64Array, Float64Array]:  # fmt: skip
    (weights,), (levels,), gradient = of_lists, of_entries, np.empty_like(scores)
    if loss == "squared":
        values = squared_pairs(indptr, levels, weights, scores, gradient)
    elif loss == "hinge":
        values = hinge_pairs(indptr, levels, weights, smoothing, scores, gradient)
    else:
        values = logistic_pairs(indptr, levels, weights, n_partners, key, before, scores, gradient)
    return values, gradient
