"""The two log-linear models: position-wise (§4.5.1) and pairwise (§4.5.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.settings import choice, flag, integer, number
from permrank.errors import InputError
from permrank.families.log_linear.base import METHODS, LogLinearRanker
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.kernels.arguments import Candidates, Pairs
from permrank.families.log_linear.kernels.insertion import EXPECTED, MODE, PUBLISHED, insertion_scores
from permrank.families.log_linear.lists import pairs_of, position_table, usual_cooccurrence
from permrank.kernels.lists import Lists
from permrank.ragged import frozen, indptr_of, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

RULES = {"expected": EXPECTED, "mode": MODE, "published": PUBLISHED}


class PositionwiseLogLinear(LogLinearRanker):
    """Position-wise log-linear model of rankings with factors of users (§4.5.1).

    P(ranking | u) ∝ exp Σ_i s_{π_i}^u g(i), with s_y^u = b_y + Σ_k W_uk H_ky and g decreasing: a Spearman model around
    every user's own order. Prediction is sorting by s.

    Attributes
    ----------
    item_draws_ : (n_kept, n_items, n_factors + 1)
        Factors and intercept of every item, one slice a draw.
    user_modes_ : (n_kept, n_users, n_factors)
    personal_weight_ : float
        Weight of the factors' part of a score: what suits pairs of items best that were held out of the lists while the
        draws began. 1 for point estimates.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.PositionwiseLogLinear(n_factors=2, max_iter=30).fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "an item's position depends on a score from a few factors"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 4.5.1"

    factor_scale: float | Literal["auto"] | None = number(
        default="auto",
        above=0.0,
        also=("auto", None),
        tune=(0.3, 3.0),
        tune_also=("auto",),
        help=(
            'Standard deviation of the score that the factors make, a priori. "auto": 2 for strict rankings; '
            "where there are ties sqrt(mean entries of a user / 25), at most 2. None, for point estimates: no "
            "prior of users and items."
        ),
    )
    method: str = choice(
        default="posterior",
        values=("posterior", *METHODS),
        help=(
            "``posterior``: users and items are drawn in turn, with the pseudo-likelihood of swaps, and answers "
            "are averages. The others give point estimates, which overfit short lists: a pseudo-likelihood "
            "(§4.3), exact maximum likelihood for lists of up to 16 items, or contrastive divergence (§4.2)."
        ),
    )
    intercepts: bool = flag(default=True, help="Whether items have an intercept b_y; False is the paper's form.")

    def _validate(self) -> None:
        super()._validate()
        if not self.intercepts and not self.n_factors:
            raise InputError("intercepts=False with n_factors=0 leaves nothing to learn; give factors or intercepts")
        if self.factor_scale is None and self.method == "posterior":
            raise InputError("factor_scale=None is for point estimates; method='posterior' needs a prior")

    def _scores(self, fitted: Fitted[LogLinearEstimate], person: Person, items: Int64Array) -> Float64Array:
        return np.asarray(fitted.estimate.coefficients(items, person)[:, :, 0].mean(axis=0))

    def _score_pairs(self, fitted: Fitted[LogLinearEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        return fitted.estimate.mean_pairs(who, what)[:, 0]


class PairwiseLogLinear(LogLinearRanker):
    """Pairwise log-linear model of rankings (§4.5.2), with or without factors of users.

    P(ranking | u) ∝ exp{ Σ_i s_{π_i}^u g(i) + Σ_{i<j} λ_{π_i π_j} }, where s_y^u = γ_y + Σ_k W_uk H_ky. Pairs that are
    ranked together at least ``min_cooccurrence`` times have a parameter λ (with λ_yz = -λ_zy, as only their difference
    counts). Without factors it is the paper's model. With factors, first the scores s are learnt as in
    `PositionwiseLogLinear`, then λ given them: λ alone can hardly tell people apart, as whether an item comes before or
    after *all* of a list does not depend on how the list is ordered.

    The score of an item is the share of the user's listed items that it comes before when it enters the list (§4.4).

    Attributes
    ----------
    item_draws_ : (n_kept, n_items, n_factors + degree)
        Factors of items, and coefficients γ.
    user_modes_ : (n_kept, n_users, n_factors)
    personal_weight_ : float
        As in `PositionwiseLogLinear`.
    pair_indptr_, pair_items_, pair_values_ : arrays
        λ of item a before ``pair_items_[j]`` is ``pair_values_[j]``, for j from ``pair_indptr_[a]`` to
        ``pair_indptr_[a + 1]``.
    pair_scale_ : float
        The scale that was used; 0 without a prior.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "a", "c"], "cat": ["a", "c", "b"]})
    >>> model = pr.PairwiseLogLinear(n_factors=0, min_cooccurrence=1).fit(rankings)
    >>> model.rank("cat", ["c", "b", "a"])["item"].to_list()
    ['a', 'b', 'c']
    """

    assumes = "two items have an order that does not depend on the others"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 4.5.2"
    _paired = True

    method: str = choice(
        default="relocation",
        values=METHODS,
        help=(
            "For λ (and γ without factors): a pseudo-likelihood (§4.3), exact maximum likelihood for lists of up "
            "to 16 items, or contrastive divergence (§4.2) with chains from the lists or persistent ones."
        ),
    )
    min_cooccurrence: int | Literal["auto"] = integer(
        default="auto",
        minimum=1,
        maximum=1000000000,
        also=("auto",),
        help=(
            'How often two items must be ranked together to have a parameter. "auto": 5 times, or more often '
            "where there were more pairs than entries of rankings otherwise (but 262,144 are allowed anyway, and "
            "4,194,304 at the most)."
        ),
    )
    cooccurrence_above: float | None = number(
        default=None,
        also=(None,),
        help=(
            'The paper\'s "larger than a certain threshold", in place of ``min_cooccurrence``: two items have a '
            "parameter if they are ranked together more often than this. Both count lists by their weights."
        ),
    )
    degree: int = integer(
        default=1,
        minimum=1,
        maximum=64,
        help=(
            "γ_y is a polynomial of so high a degree in g. With as many as a list has items less one, and lists "
            "of one length, every item has a free parameter at every position. Only without factors."
        ),
    )
    insertion: Literal["expected", "mode", "published"] = choice(
        default="expected",
        values=RULES,
        help=(
            "Position of an item that enters a list: the expected one, or the likeliest. Of items with the same "
            "likeliest position the more likely one there is the better: everywhere, as the paper has it, or in "
            "the upper half of the list and the worse in the lower (``mode``)."
        ),
    )
    pair_scale: float | Literal["auto"] | None = number(
        default="auto",
        above=0.0,
        also=("auto", None),
        help='Standard deviation of λ a priori; "auto" takes what suits held-out lists best, None is no prior.',
    )

    def _validate(self) -> None:
        super()._validate()
        if self.degree > 1 and self.n_factors:
            raise InputError(f"degree={self.degree} with n_factors={self.n_factors}; take n_factors=0, or degree=1")

    def _pairs(self, rankings: Rankings) -> Pairs:
        """Those of items that are ranked together often enough."""
        least: float = self.min_cooccurrence if self.min_cooccurrence != "auto" else usual_cooccurrence(rankings)
        if self.cooccurrence_above is not None:
            least = float(np.nextafter(self.cooccurrence_above, np.inf))
        return pairs_of(rankings, least)

    # Scores: where items enter the user's lists

    def _scores(self, fitted: Fitted[LogLinearEstimate], person: Person, items: Int64Array) -> Float64Array:
        lists = [each for each in person.lists() if each[0].size]
        own = fitted.estimate.coefficients(items, person).mean(axis=0)
        if not lists:
            return self._against_the_average(fitted, own, items)
        listed = np.concatenate([codes for codes, _ in lists])
        unary = fitted.estimate.coefficients(listed, person).mean(axis=0)
        indptr, levels = indptr_of([codes.size for codes, _ in lists]), np.concatenate([level for _, level in lists])
        arrays = np.array([0, len(lists)]), indptr, listed.astype(np.int32), levels, np.ones(len(lists))
        return self._inserted(fitted, Lists(*frozen(*arrays)), unary, np.array([0, items.size]), items, own)

    def _score_pairs(self, fitted: Fitted[LogLinearEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        data, mean = fitted.rankings, fitted.estimate.mean_pairs
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(data.n_users + 1))
        own = mean(who[order], what[order])
        scores, unary = np.empty(who.size), mean(data.entry_users(), data.items)
        lists = Lists(data.user_indptr, data.indptr, data.items, data.levels, data.weights)
        scores[order] = self._inserted(fitted, lists, unary, bounds, what[order], own)
        return scores

    def _inserted(
        self, fitted: Fitted[LogLinearEstimate], lists: Lists, unary: Float64Array, bounds: Array, items: Int64Array,
        own: Float64Array,
    ) -> Float64Array:  # fmt: skip
        """Where items enter lists; users without another item on theirs are asked against the average instead."""
        estimate, lengths = fitted.estimate, np.diff(lists.indptr)
        table = position_table(np.concatenate((lengths, lengths + 1)), self.position, estimate.degree)
        indptr, partners, values = frozen(estimate.pair_indptr, estimate.pair_items, estimate.pair_values)
        candidates = Candidates(bounds, items.astype(np.int32), np.ascontiguousarray(own))
        given = lists, unary, candidates, table, Pairs(indptr, partners), values
        scores: Float64Array = insertion_scores(*given, RULES[self.insertion])
        missing = np.isnan(scores)
        if missing.any():
            scores[missing] = self._against_the_average(fitted, own[missing], items[missing])
        return scores

    def _against_the_average(
        self, fitted: Fitted[LogLinearEstimate], own: Float64Array, items: Int64Array
    ) -> Float64Array:
        """Without a list: the chance to come before an item of average coefficients and λ, in a list of two."""
        estimate, n_items = fitted.estimate, len(fitted.item_ids)
        values, row = estimate.pair_values, owners(estimate.pair_indptr)
        net = np.bincount(row, values, n_items) - np.bincount(estimate.pair_items, values, n_items)
        basis = estimate.basis(2, self.position)
        average = estimate.coefficients(np.arange(n_items)).mean(axis=(0, 1))
        d = (own - average) @ (basis[0] - basis[1]) + 2.0 * net[items] / n_items
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(d, -700.0, 700.0))))
