"""Pairwise log-linear model (§4.5.2): the order of every two items that are often ranked together has a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.settings import choice, integer, number
from permrank.errors import InputError
from permrank.families.log_linear.base import METHODS, LogLinearRanker, coefficients_of
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.kernels.arguments import Candidates, Listed, Pairs
from permrank.families.log_linear.kernels.insertion import EXPECTED, MODE, PUBLISHED, insertion_scores
from permrank.families.log_linear.learning import Parameters, Task, choose_pair_scale, learner_of, precision_of
from permrank.families.log_linear.lists import pairs_of, position_table, usual_cooccurrence
from permrank.families.log_linear.normaliser import MOVES
from permrank.learning.learner import Learner, State, in_turn, mapped
from permrank.ragged import frozen, indptr_of, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

_PAIR_SWEEPS = 200
_FACTORS = ("items", "users", "personal")  # names of what the draws give
RULES = {"expected": EXPECTED, "mode": MODE, "published": PUBLISHED}


@dataclass(frozen=True, eq=False)
class PairwiseEstimate(LogLinearEstimate):
    """A `LogLinearEstimate` with the scale of the pairs' prior."""

    pair_scale: float


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
    _tabulates = True
    estimate_type = PairwiseEstimate
    pair_scale_ = Learnt[float]()

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

    @property
    def _degree(self) -> int:
        return int(self.degree)

    def _sweeps(self, rankings: Rankings) -> int:
        return (self._draw_sweeps(rankings) if self.n_factors else 0) + (self.max_iter or _PAIR_SWEEPS)

    def _learn(self, rankings: Rankings) -> Learner[PairwiseEstimate]:
        self._check_lengths(rankings, self.method)
        pairs = pairs_of(rankings, self._least(rankings))
        task = Task(
            rankings, position_table(rankings.lengths, self.position, self.degree), pairs,
            precision_of(self.item_scale), 1.0, int(self.window), self._most_relocated, int(self.n_steps),
            float(self.tol), int(self.seed), move=MOVES[self.move],
        )  # fmt: skip
        if self.n_factors:
            return self._factors_then_pairs(rankings, task)
        nobody = np.zeros((1, rankings.n_users, 0))
        learner, scale = self._pairs_learner(task, self._sweeps(rankings))

        def learned(point: Parameters) -> PairwiseEstimate:
            return PairwiseEstimate(point.items[None].copy(), nobody, *pairs, point.pairs, 1.0, scale)

        return mapped(learner, learned)

    def _least(self, rankings: Rankings) -> float:
        """How often two items must be ranked together to have a parameter."""
        if self.cooccurrence_above is not None:
            return float(np.nextafter(self.cooccurrence_above, np.inf))
        return usual_cooccurrence(rankings) if self.min_cooccurrence == "auto" else self.min_cooccurrence

    def _pairs_learner(self, task: Task, n_sweeps: int, first: int = 0) -> tuple[Learner[Parameters], float]:
        """Learner of the coefficients of pairs, and the standard deviation of their prior; 0 stands for none."""
        scale = choose_pair_scale(self.method, task) if self.pair_scale == "auto" else self.pair_scale
        task = task._replace(pair_precision=precision_of(scale))
        return learner_of(self.method, task, n_sweeps, first), float(scale or 0.0)

    def _factors_then_pairs(self, rankings: Rankings, task: Task) -> Learner[PairwiseEstimate]:
        """Two stages: factors by draws, then pairs with the factors as they are."""
        pairs, n_sweeps, in_all = task.pairs, self._draw_sweeps(rankings), self._sweeps(rankings)
        draws = mapped(self._draws(rankings, n_sweeps), lambda found: dict(zip(_FACTORS, found, strict=True)))

        def unpaired(found: State) -> PairwiseEstimate:
            values, personal = np.zeros(pairs.items.size), float(found["personal"])
            return PairwiseEstimate(found["items"], found["users"], *pairs, values, personal, 0.0)

        def pairs_given(found: State) -> Learner[PairwiseEstimate]:
            items, users, personal = (found[name] for name in _FACTORS)
            personal = float(personal)
            given = task._replace(scores=_mean_scores(items, users, personal))
            learner, scale = self._pairs_learner(given, in_all, n_sweeps)

            def learned(point: Parameters) -> PairwiseEstimate:
                return PairwiseEstimate(items, users, *pairs, point.pairs, personal, scale)

            return mapped(learner, learned)

        return in_turn(draws, pairs_given, unpaired) if pairs.items.size else mapped(draws, unpaired)

    # Scores: where items enter the user's lists

    def _scores(self, fitted: Fitted[PairwiseEstimate], person: Person, items: Int64Array) -> Float64Array:
        lists = [each for each in person.lists() if each[0].size]
        own = coefficients_of(fitted.estimate, person, items).mean(axis=0)
        if not lists:
            return self._against_the_average(fitted, own, items)
        listed = np.concatenate([codes for codes, _ in lists])
        unary = coefficients_of(fitted.estimate, person, listed).mean(axis=0)
        users, indptr, levels, codes = frozen(
            np.array([0, len(lists)]), indptr_of([codes.size for codes, _ in lists]),
            np.concatenate([level for _, level in lists]), listed.astype(np.int32),
        )  # fmt: skip
        bounds = np.array([0, items.size])
        return self._inserted(fitted, Listed(users, indptr, codes, levels, unary), bounds, items, own)

    def _score_pairs(self, fitted: Fitted[PairwiseEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        data, mean = fitted.rankings, fitted.estimate.mean_pairs
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(data.n_users + 1))
        own = mean(who[order], what[order])
        found = np.empty(who.size)
        listed = Listed(data.user_indptr, data.indptr, data.items, data.levels, mean(data.entry_users(), data.items))
        found[order] = self._inserted(fitted, listed, bounds, what[order], own)
        return found

    def _inserted(
        self, fitted: Fitted[PairwiseEstimate], listed: Listed, bounds: Array, items: Int64Array, own: Float64Array
    ) -> Float64Array:
        """Where items enter lists; users without another item on theirs are asked against the average instead."""
        estimate, lengths = fitted.estimate, np.diff(listed.indptr)
        table = position_table(np.concatenate((lengths, lengths + 1)), self.position, estimate.degree)
        indptr, partners, values = frozen(estimate.pair_indptr, estimate.pair_items, estimate.pair_values)
        candidates = Candidates(bounds, items.astype(np.int64), np.ascontiguousarray(own))
        rule = RULES[self.insertion]
        found: Float64Array = insertion_scores(listed, candidates, table, Pairs(indptr, partners), values, rule)
        missing = np.isnan(found)
        if missing.any():
            found[missing] = self._against_the_average(fitted, own[missing], items[missing])
        return found

    def _against_the_average(
        self, fitted: Fitted[PairwiseEstimate], own: Float64Array, items: Int64Array
    ) -> Float64Array:
        """Without a list: the chance to come before an item of average coefficients and λ, in a list of two."""
        estimate, n_items = fitted.estimate, len(fitted.item_ids)
        values, row = estimate.pair_values, owners(estimate.pair_indptr)
        net = np.bincount(row, values, n_items) - np.bincount(estimate.pair_items, values, n_items)
        basis = estimate.basis(2, self.position)
        average = estimate.coefficients(np.arange(n_items), None).mean(axis=(0, 1))
        d = (own - average) @ (basis[0] - basis[1]) + 2.0 * net[items] / n_items
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(d, -700.0, 700.0))))


def _mean_scores(items: Array, users: Array, personal: float) -> Any:
    """(users, items) to scores averaged over the draws, as coefficients (n, 1)."""

    def scores(who: Array, what: Array) -> Float64Array:
        total = np.zeros(len(what))
        for theta, modes in zip(items, users, strict=True):
            total += personal * np.einsum("ek,ek->e", theta[what, :-1], modes[who]) + theta[what, -1]
        return total[:, None] / len(items)

    return scores
