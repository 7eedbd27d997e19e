"""Pairwise log-linear model (§4.5.2): the order of every two items that are often ranked together has a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from permrank.core.estimates import RULE, Learnt
from permrank.core.settings import MOST_DRAWS, MOST_FACTORS, MOST_SWEEPS, checked, choice, integer, number, random_seed
from permrank.core.users import UserReference, lists_of
from permrank.errors import InputError
from permrank.families.log_linear.base import LogLinearRanker
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.kernels.arguments import Candidates, Listed, Pairs
from permrank.families.log_linear.kernels.insertion import EXPECTED, MODE, PUBLISHED, insertion_scores
from permrank.families.log_linear.learning import Parameters, Task, choose_pair_scale, learner_of, precision_of
from permrank.families.log_linear.lists import pairs_of, position_table, usual_cooccurrence
from permrank.families.log_linear.normaliser import MOVES
from permrank.learning.learner import Learner, State, in_turn, mapped
from permrank.ragged import frozen, indptr_of, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array, Named

_PAIR_SWEEPS = 200
_FACTORS = ("items", "users", "personal")  # names of what the draws give
RULES = {"expected": EXPECTED, "mode": MODE, "published": PUBLISHED}


@dataclass(frozen=True, eq=False)
class PairwiseEstimate(LogLinearEstimate):
    """A `LogLinearEstimate` with the scale of the pairs' prior, and the rule by which items enter a list."""

    pair_scale: float
    insertion: int = field(metadata=RULE, kw_only=True)


class PairwiseLogLinear(LogLinearRanker):
    """Pairwise log-linear model of rankings (§4.5.2), with or without factors of users.

    P(ranking | u) ∝ exp{ Σ_i s_{π_i}^u g(i) + Σ_{i<j} λ_{π_i π_j} }, where s_y^u = γ_y + Σ_k W_uk H_ky. Pairs that are
    ranked together at least ``min_cooccurrence`` times have a parameter λ (with λ_yz = -λ_zy, as only their difference
    counts). Without factors it is the paper's model. λ alone can hardly tell people apart: whether an item
    comes before or after *all* of a list does not depend on how the list is ordered.

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

    n_factors: int = integer(
        16,
        0,
        MOST_FACTORS,
        tune=(2, 32),
        kw_only=False,
        help=(
            "K; 0 is the paper's model. With factors, first the scores s are learnt as in "
            "`PositionwiseLogLinear`, then λ given them."
        ),
    )
    factor_scale: float | Literal["auto"] = number(
        "auto", above=0.0, also=("auto",), tune=(0.3, 3.0), tune_also=("auto",), help="As in `PositionwiseLogLinear`."
    )
    item_scale: float | None = number(
        2.0, above=0.0, also=(None,), tune=(0.3, 10.0), help="Standard deviation of γ a priori; None for no prior."
    )
    position: str | Sequence[float] = checked(
        "centred",
        check_position,
        "centred, linear, list of numbers",
        help=(
            "g(i): (1 + n - 2 i) / n, or 1 - i / n, or a function given by its values from the first position to "
            "the last."
        ),
    )
    window: int = integer(5, 2, 16, help="Length of the sublists of ``windows``, and of the moves of sublists.")
    n_relocations: int | Literal["all"] = integer(
        32,
        1,
        1000000000,
        also=("all",),
        when=("method", "relocation"),
        help=(
            'Items of a list that ``method="relocation"`` moves, at most: of a longer list so many from positions '
            'that are evenly spread stand for all, so that a sweep is linear in the entries. "all" is the '
            "published sum."
        ),
    )
    move: str = choice(
        "swap",
        ("relocation", "swap", "sublist", "window", "insertion", "informed"),
        help="Of the chains of contrastive learning; see `sample`.",
    )
    n_steps: int = integer(
        0,
        0,
        10000,
        help=("Moves of a chain in a sweep of contrastive learning; 0 for as many as the list has items (the paper)."),
    )
    max_iter: int | None = integer(
        None,
        1,
        MOST_SWEEPS,
        also=(None,),
        help=(
            "The most sweeps of each of the two parts: if not given, 60 to 300 for the factors and 200 for the pairs."
        ),
    )
    n_draws: int = integer(32, 1, MOST_DRAWS, help="Draws of the factors that are kept.")
    tol: float = number(
        1e-07, above=0.0, help="Learning ends when the objective rises by less than this part of itself."
    )
    seed: int = random_seed("Of the draws and the chains.")
    method: str = choice(
        "relocation",
        ("relocation", "swaps", "windows", "exact", "contrastive", "persistent"),
        help=(
            "For λ (and γ without factors): a pseudo-likelihood (§4.3), exact maximum likelihood for lists of up "
            "to 16 items, or contrastive divergence (§4.2) with chains from the lists or persistent ones."
        ),
    )
    min_cooccurrence: int | Literal["auto"] = integer(
        "auto",
        1,
        1000000000,
        also=("auto",),
        help=(
            'How often two items must be ranked together to have a parameter. "auto": 5 times, or more often '
            "where there were more pairs than entries of rankings otherwise (but 262,144 are allowed anyway, and "
            "4,194,304 at the most)."
        ),
    )
    cooccurrence_above: float | None = number(
        None,
        also=(None,),
        help=(
            'The paper\'s "larger than a certain threshold", in place of ``min_cooccurrence``: two items have a '
            "parameter if they are ranked together more often than this. Both count lists by their weights."
        ),
    )
    degree: int = integer(
        1,
        1,
        64,
        help=(
            "γ_y is a polynomial of so high a degree in g. With as many as a list has items less one, and lists "
            "of one length, every item has a free parameter at every position. Only without factors."
        ),
    )
    insertion: Literal["expected", "mode", "published"] = choice(
        "expected",
        ("expected", "mode", "published"),
        help=(
            "Position of an item that enters a list: the expected one, or the likeliest. Of items with the same "
            "likeliest position the more likely one there is the better: everywhere, as the paper has it, or in "
            "the upper half of the list and the worse in the lower (``mode``)."
        ),
    )
    pair_scale: float | Literal["auto"] | None = number(
        "auto",
        above=0.0,
        also=("auto", None),
        help='Standard deviation of λ a priori; "auto" takes what suits held-out lists best, None is no prior.',
    )

    def _validate(self) -> None:
        super()._validate()
        if self.degree > 1 and self.n_factors:
            raise InputError(f"degree={self.degree} with n_factors={self.n_factors}; take n_factors=0, or degree=1")

    def _rules(self) -> Named:
        return super()._rules() | {"insertion": RULES[self.insertion]}

    def _sweeps(self, rankings: Rankings) -> int:
        return (self._draw_sweeps(rankings) if self.n_factors else 0) + (self.max_iter or _PAIR_SWEEPS)

    def _learner(self, rankings: Rankings) -> Learner[PairwiseEstimate]:
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

        def learned(point: Parameters) -> Any:
            return self._estimate(point.items[None].copy(), nobody, pairs, point.pairs, pair_scale=scale)

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

        def unpaired(found: State) -> Any:
            values = np.zeros(pairs.items.size)
            return self._estimate(found["items"], found["users"], pairs, values, found["personal"], pair_scale=0.0)

        def pairs_given(found: State) -> Learner[PairwiseEstimate]:
            items, users, personal = (found[name] for name in _FACTORS)
            given = task._replace(scores=_mean_scores(items, users, float(personal)))
            learner, scale = self._pairs_learner(given, in_all, n_sweeps)

            def learned(point: Parameters) -> Any:
                return self._estimate(items, users, pairs, point.pairs, personal, pair_scale=scale)

            return mapped(learner, learned)

        return in_turn(draws, pairs_given, unpaired) if pairs.items.size else mapped(draws, unpaired)

    # Scores: where items enter the user's lists

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        lists = [each for each in lists_of(user, self.rankings_, self.item_ids) if each[0].size]
        own = self._coefficients(user, items).mean(axis=0)
        if not lists:
            return self._against_the_average(own, items)
        listed = np.concatenate([codes for codes, _ in lists])
        unary = self._coefficients(user, listed).mean(axis=0)
        users, indptr, levels, codes = frozen(
            np.array([0, len(lists)]), indptr_of([codes.size for codes, _ in lists]),
            np.concatenate([level for _, level in lists]), listed.astype(np.int32),
        )  # fmt: skip
        found = self._inserted(Listed(users, indptr, codes, levels, unary), np.array([0, items.size]), items, own)
        return self._filled(found, own, items)

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        data, mean = self.rankings_, self.estimate_.mean_pairs
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(len(self.user_ids) + 1))
        own = mean(who[order], what[order])
        found = np.empty(who.size)
        listed = Listed(data.user_indptr, data.indptr, data.items, data.levels, mean(data.entry_users(), data.items))
        found[order] = self._filled(self._inserted(listed, bounds, what[order], own), own, what[order])
        return found

    def _inserted(self, listed: Listed, bounds: Array, items: Array, own: Array) -> Float64Array:
        lengths = np.diff(listed.indptr)
        table = position_table(np.concatenate((lengths, lengths + 1)), self.estimate_.position, self.estimate_.degree)
        indptr, partners, values = frozen(self.pair_indptr_, self.pair_items_, self.pair_values_)
        candidates = Candidates(bounds, items.astype(np.int64), np.ascontiguousarray(own))
        rule = self.estimate_.insertion
        return np.asarray(insertion_scores(listed, candidates, table, Pairs(indptr, partners), values, rule))

    def _filled(self, found: Float64Array, own: Float64Array, items: Int64Array) -> Float64Array:
        """Users without another item on their lists have no position to enter at: against the average instead."""
        missing = np.isnan(found)
        if missing.any():
            found[missing] = self._against_the_average(own[missing], items[missing])
        return found

    def _against_the_average(self, own: Float64Array, items: Int64Array) -> Float64Array:
        """Without a list: the chance to come before an item of average coefficients and λ, in a list of two."""
        n_items = len(self.item_ids)
        row = owners(self.pair_indptr_)
        net = np.bincount(row, self.pair_values_, n_items) - np.bincount(self.pair_items_, self.pair_values_, n_items)
        basis = self.estimate_.basis(2)
        average = self._coefficients(None, np.arange(n_items)).mean(axis=(0, 1))
        d = (own - average) @ (basis[0] - basis[1]) + 2.0 * net[items] / n_items
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(d, -700.0, 700.0))))

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.estimate_.n_factors != self.n_factors or self.estimate_.degree != self.degree:
            raise InputError(f"item_draws_ has shape {np.shape(self.item_draws_)}, which does not fit the parameters")


def _mean_scores(items: Array, users: Array, personal: float) -> Any:
    """(users, items) to scores averaged over the draws, as coefficients (n, 1)."""

    def scores(who: Array, what: Array) -> Float64Array:
        total = np.zeros(len(what))
        for theta, modes in zip(items, users, strict=True):
            total += personal * np.einsum("ek,ek->e", theta[what, :-1], modes[who]) + theta[what, -1]
        return total[:, None] / len(items)

    return scores
