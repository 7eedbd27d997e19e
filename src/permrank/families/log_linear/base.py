"""What the two log-linear models share: learning, new users, chains, likelihoods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from permrank.checks import require_above, require_choice, require_int, require_memory
from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person, require_drawable
from permrank.core.ranker import Ranker
from permrank.core.settings import (
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_SWEEPS,
    checked,
    choice,
    integer,
    number,
    random_seed,
)
from permrank.errors import InputError
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.factors import draw_factors, modes_of, usual_scale
from permrank.families.log_linear.kernels.arguments import Pairs
from permrank.families.log_linear.kernels.moves import MOVES
from permrank.families.log_linear.kernels.swaps import MOST_DISTANCES
from permrank.families.log_linear.law import LogLinear, Question, chain_summary, tie_means
from permrank.families.log_linear.learning import (
    CONTRASTS,
    STRUCTURES,
    Parameters,
    Task,
    choose_pair_scale,
    learner_of,
    precision_of,
)
from permrank.families.log_linear.likelihood import LONGEST_EXACT, log_likelihoods
from permrank.families.log_linear.lists import no_pairs, position_table
from permrank.learning.learner import Learner, State, in_turn, mapped
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Array, Float64Array, Int32Array, Int64Array, Named

_MOST_CHAINS = 1_000
# Sweeps of the draws by default: this many swaps are visited in all, within the bounds.
_SWAPS_VISITED, _FEWEST_SWEEPS, _MOST_SWEEPS = 100_000_000, 60, 300
_MOST_RELOCATED = 1_000_000_000
_FACTORS = ("items", "users", "personal")  # names of what the draws give
METHODS = (*STRUCTURES, *CONTRASTS)


def check_position(position: object) -> None:
    """Raise unless it is a known word, or two or more numbers that decrease."""
    if isinstance(position, str) or not isinstance(position, Iterable):
        require_choice("position", position, ("centred", "linear"))
        return
    numbers = list(position)
    for value in numbers:
        require_above("position", value, -float("inf"))
    if len(numbers) < 2 or any(b > a for a, b in itertools.pairwise(numbers)) or numbers[0] == numbers[-1]:
        raise InputError(f"position={position!r}, expected two or more numbers that decrease")


class LogLinearRanker(Ranker):
    """A log-linear model: items have coefficients, under some draws of them, users may have factors, and pairs λ."""

    needs_order = True
    _paired: ClassVar[bool] = False  # whether pairs may have λ
    estimate_type: ClassVar[type[Estimate]] = LogLinearEstimate
    knows_nobody = True
    resumable = True
    item_draws_ = Learnt[Array]()
    user_modes_ = Learnt[Array]()
    personal_weight_ = Learnt[float]()
    pair_indptr_ = Learnt[Int64Array]()
    pair_items_ = Learnt[Int32Array]()
    pair_values_ = Learnt[Float64Array]()
    pair_scale_ = Learnt[float]()

    n_factors: int = integer(
        default=16,
        minimum=0,
        maximum=MOST_FACTORS,
        tune=(2, 32),
        kw_only=False,
        help="K; 0 leaves them out: everybody has the same s.",
    )
    factor_scale: Any = number(
        default="auto",
        above=0.0,
        also=("auto",),
        tune=(0.3, 3.0),
        tune_also=("auto",),
        help=(
            'Standard deviation of the score that the factors make, a priori. "auto": 2 for strict rankings; '
            "where there are ties sqrt(mean entries of a user / 25), at most 2."
        ),
    )
    item_scale: float | None = number(
        default=2.0,
        above=0.0,
        also=(None,),
        tune=(0.3, 10.0),
        help="Standard deviation of b or γ a priori, where they are not drawn; None for no prior.",
    )
    position: str | Sequence[float] = checked(
        default="centred",
        function=check_position,
        words="centred, linear, list of numbers",
        help=(
            "g(i): (1 + n - 2 i) / n, or 1 - i / n, or a function given by its values from the first position to "
            "the last. Tied items share the mean of g over their positions."
        ),
    )
    window: int = integer(
        default=5,
        minimum=2,
        maximum=LONGEST_EXACT,
        help="Length of the sublists of ``windows``, and of the moves of sublists.",
    )
    n_relocations: int | Literal["all"] = integer(
        default=32,
        minimum=1,
        maximum=_MOST_RELOCATED,
        also=("all",),
        when=("method", "relocation"),
        help=(
            'Items of a list that ``method="relocation"`` moves, at most: of a longer list so many from positions '
            'that are evenly spread stand for all, so that a sweep is linear in the entries. "all" is the '
            "published sum."
        ),
    )
    move: str = choice(default="swap", values=MOVES, help="Of the chains of contrastive learning; see `sample`.")
    n_steps: int = integer(
        default=0,
        minimum=0,
        maximum=10_000,
        help="Moves of a chain in a sweep of contrastive learning; 0 for as many as the list has items (the paper).",
    )
    max_iter: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_SWEEPS,
        also=(None,),
        help=(
            "The most sweeps, of each part where factors and then pairs are learnt. If not given: 60 to 300 for draws "
            "of factors and 200 for pairs; for point estimates of `PositionwiseLogLinear` 200 by contrastive learning "
            "and 500 otherwise. Contrastive learning makes all of them."
        ),
    )
    n_draws: int = integer(default=32, minimum=1, maximum=MOST_DRAWS, help="Draws of the factors that are kept.")
    tol: float = number(
        default=1e-07,
        above=0.0,
        help="Learning ends when the objective rises by less than this part of itself; draws do not go by it.",
    )
    seed: int = random_seed(default=0, help="Of the draws and the chains.")

    # What one of the two lets people set

    method: Any = None
    degree: Any = 1
    intercepts: Any = True
    pair_scale: Any = None

    def _check(self, fitted: Fitted[LogLinearEstimate]) -> None:
        super()._check(fitted)
        estimate = fitted.estimate
        if len(estimate.item_draws) > self.n_draws:
            raise InputError(f"item_draws_ has {len(estimate.item_draws)} draws, more than n_draws={self.n_draws}")
        if estimate.n_factors != self.n_factors or estimate.degree != self.degree:
            shape = np.shape(estimate.item_draws)
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the parameters")

    def _draw_sweeps(self, rankings: Rankings) -> int:
        if self.max_iter is not None:
            return self.max_iter
        half = np.diff(rankings.indptr) // 2
        swaps = 2.0 * float(np.sum(half * np.minimum(half, MOST_DISTANCES)))
        return int(np.clip(_SWAPS_VISITED / max(swaps, 1.0), _FEWEST_SWEEPS, _MOST_SWEEPS))

    @property
    def _drawn(self) -> bool:
        """Whether factors are drawn."""
        return self.method == "posterior" or (self._paired and self.n_factors > 0)

    def _sweeps(self, rankings: Rankings) -> int:
        points = self.max_iter or (200 if self._paired or self.method in CONTRASTS else 500)
        n_draws = self._draw_sweeps(rankings) if self._drawn else 0
        return n_draws if self.method == "posterior" else n_draws + points

    def _pairs(self, rankings: Rankings) -> Pairs:
        """Pairs that have a parameter."""
        return no_pairs(rankings.n_items)

    def _learn(self, rankings: Rankings) -> Learner[LogLinearEstimate]:
        self._check_lengths(rankings)
        task = Task(
            rankings, position_table(rankings.lengths, self.position, self.degree), self._pairs(rankings),
            precision_of(self.item_scale), 1.0, self.window,
            _MOST_RELOCATED if self.n_relocations == "all" else self.n_relocations, self.n_steps, self.tol, self.seed,
            move=MOVES[self.move], n_factors=self.n_factors, intercepts=self.intercepts,
            factor_scale=usual_scale(rankings) if self.factor_scale == "auto" else self.factor_scale,
        )  # fmt: skip
        if self._drawn:
            return self._draws_then_pairs(rankings, task)
        learner, scale = self._points(task, self._sweeps(rankings))

        def learned(point: Parameters) -> LogLinearEstimate:
            kind = np.float32 if self.n_factors else np.float64
            items = np.concatenate((point.factors, point.items), axis=1)[None].astype(kind)
            return LogLinearEstimate(items, point.users[None].astype(kind), *task.pairs, point.pairs, 1.0, scale)

        return mapped(learner, learned)

    def _points(self, task: Task, n_sweeps: int, first: int = 0) -> tuple[Learner[Parameters], float]:
        """Learner of points, and the standard deviation of the prior of λ; 0 stands for none."""
        scale = choose_pair_scale(self.method, task) if self.pair_scale == "auto" else self.pair_scale
        task = task._replace(pair_precision=precision_of(scale))
        return learner_of(self.method, task, n_sweeps, first), float(scale or 0.0)

    def _draws_then_pairs(self, rankings: Rankings, task: Task) -> Learner[LogLinearEstimate]:
        """Factors by draws, then λ, if there are pairs, with the factors as they are."""
        pairs, n_sweeps = task.pairs, self._draw_sweeps(rankings)
        draws = draw_factors(
            rankings, self.position, self.n_factors, float(task.factor_scale or 0.0), self.n_draws, self.seed, n_sweeps,
            bool(self.intercepts),
        )  # fmt: skip
        named = mapped(draws, lambda drawn: dict(zip(_FACTORS, drawn, strict=True)))

        def unpaired(drawn: State) -> LogLinearEstimate:
            items, users, personal = (drawn[name] for name in _FACTORS)
            if not self.n_factors:  # the posterior of the items alone is narrow: its mean will do
                items, users = items.mean(axis=0, keepdims=True), users[:1]
            return LogLinearEstimate(items, users, *pairs, np.zeros(pairs.items.size), float(personal))

        def pairs_given(drawn: State) -> Learner[LogLinearEstimate]:
            without = unpaired(drawn)
            items, users, personal = without.item_draws, without.user_modes, without.personal_weight

            def mean_scores(who: Array, what: Array) -> Float64Array:
                total = np.zeros(len(what))
                for theta, modes in zip(items, users, strict=True):
                    total += personal * np.einsum("ek,ek->e", theta[what, :-1], modes[who]) + theta[what, -1]
                return total[:, None] / len(items)

            given = task._replace(scores=mean_scores, n_factors=0)
            learner, scale = self._points(given, self._sweeps(rankings), n_sweeps)
            return mapped(learner, lambda point: replace(without, pair_values=point.pairs, pair_scale=scale))

        return in_turn(named, pairs_given, unpaired) if pairs.items.size else mapped(named, unpaired)

    def _check_lengths(self, rankings: Rankings) -> None:
        longest = int(np.diff(rankings.indptr).max(initial=0))
        if self.method == "exact" and longest > LONGEST_EXACT:
            raise InputError(
                f"method='exact' sums over all rankings of lists of up to {LONGEST_EXACT} items, and the longest has "
                f"{longest}; take another method, for example 'relocation'"
            )
        if self._paired and self.method != "relocation":
            require_memory(
                40.0 * longest**2, f"method={self.method!r} has tables of all pairs of a list, which of {longest:,} "
                "items", "take method='relocation', which has none",
            )  # fmt: skip

    # New users

    def _meet(self, fitted: Fitted[LogLinearEstimate], rankings: Rankings, **about: Any) -> Named:
        """The items stay as they are."""
        return {"modes": self._modes_of(fitted, rankings)[0]}

    def _modes_of(self, fitted: Fitted[LogLinearEstimate], rankings: Rankings) -> Float64Array:
        items, estimate = fitted.aligned(rankings), fitted.estimate
        if not estimate.n_factors:
            return np.zeros((rankings.n_users, len(estimate.item_draws), 0))
        modes = modes_of(rankings, items, estimate.item_draws, estimate.n_factors, self.position)
        return np.ascontiguousarray(modes.transpose(1, 0, 2))

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Factors of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        fitted = self.fitted_
        return self._learnt_with._modes_of(fitted, rankings)

    # Questions about some items beside the rest of the user's list

    def _questions(self, fitted: Fitted[LogLinearEstimate], person: Person, items: Int64Array) -> list[Question]:
        """One for each draw. A user with several lists, or none, is asked about the items alone."""
        lists = person.lists()
        listed, levels = lists[0] if len(lists) == 1 else (np.zeros(0, np.int64), np.zeros(0, np.int32))
        others = ~np.isin(listed, items)
        listed, levels = listed[others], levels[others]
        codes = np.concatenate((items, listed)).astype(np.int32)
        pair = fitted.estimate.potentials(codes)
        k, basis = items.size, fitted.estimate.basis(max(codes.size, 1), self.position)
        if pair.size:
            pair[k:, :k] = tie_means(pair[k:, :k], levels)
            pair[:k, k:] = -pair[k:, :k].T
        coefficients = fitted.estimate.coefficients(codes.astype(np.int64), person)
        return [Question(own[:k].copy(), tie_means(own[k:], levels), basis, pair) for own in coefficients]

    def _law(self, fitted: Fitted[LogLinearEstimate], person: Person, items: Int64Array) -> LogLinear:
        return LogLinear(self._questions(fitted, person, items), int(self.window))

    def sample(
        self,
        user: object,
        items: Iterable[object] | None = None,
        size: int = 1,
        seed: int = 0,
        *,
        move: str | None = None,
    ) -> np.ndarray:
        """Draw rankings of the items (all, if none are given); what else the user has listed keeps its order.

        Exact for about a dozen items; beyond that from chains of heat baths, each item over all its positions, with a
        burn-in of 50 sweeps and 4 sweeps between two draws. `diagnose` says whether that was enough.

        Parameters
        ----------
        user, items, size, seed
            As in `Ranker.sample`.
        move : {"relocation", "swap", "sublist", "insertion"}, optional
            Draw from a chain of this move, whatever the number of items; a sweep has as many moves as there are items.
            The first three are the paper's (§4.1), by Metropolis and Hastings; sublists have the length ``window``.
            ``insertion`` is a heat bath over the positions of an item. Only where every item may move: if the items are
            all that the user has listed or more, or for somebody of whom nothing is known (None).

        Returns
        -------
        array (size, n)
            Ids, best first in every row. The same seed gives the same rows.
        """
        fitted = self.fitted_
        person, chosen = fitted.person(user), fitted.items(items)
        require_drawable(size, seed, len(fitted.item_ids))
        ids = np.asarray(fitted.item_ids.take(chosen).to_list())
        law = self._learnt_with._law(fitted, person, chosen)
        return np.asarray(ids[law.sample(int(size), int(seed), move=move)])

    def diagnose(
        self,
        user: object,
        items: Iterable[object] | None = None,
        n_chains: int = 4,
        size: int = 500,
        seed: int = 0,
        *,
        move: str | None = None,
    ) -> pl.DataFrame:
        """Whether chains that `sample` would use have converged; needs ArviZ (``pip install 'permrank[mcmc]'``).

        ``move`` is that of `sample`.

        Returns
        -------
        polars.DataFrame
            ``quantity`` ("energy", then the items by their ids: their positions), ``mean``, ``r_hat`` (near 1),
            ``ess_bulk`` and ``ess_tail``: effective numbers of draws out of n_chains * size.
        """
        orders, energies, names = self.chains(user, items, n_chains, size, seed, move=move)
        positions = np.argsort(orders, axis=2)[:, :, : len(names)]
        return chain_summary({"energy": energies} | {name: positions[:, :, a] for a, name in enumerate(names)})

    def chains(
        self,
        user: object,
        items: Iterable[object] | None = None,
        n_chains: int = 4,
        size: int = 500,
        seed: int = 0,
        *,
        move: str | None = None,
    ) -> tuple[Array, Float64Array, list[Any]]:
        """Chains for `diagnose`: orders (n_chains, size, n), energies (n_chains, size), names of the free items."""
        fitted = self.fitted_
        person = fitted.person(user)
        require_int("n_chains", n_chains, 1, _MOST_CHAINS)
        require_int("size", size, 1)
        indices = fitted.items(items)
        require_drawable(int(n_chains) * int(size), seed, len(fitted.item_ids))
        if indices.size < 2:
            raise InputError(f"{indices.size} items cannot be ranked in several ways; give two or more")
        law = self._learnt_with._law(fitted, person, indices)
        orders, energies = law.chains(law.questions[-1], int(n_chains), int(size), seed, move)
        return orders, energies, fitted.item_ids.take(indices).to_list()

    # Likelihood

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking, weights left out, as if given by somebody new.

        A tie says nothing about the order inside it: all its orders are summed over. See `log_likelihood_with_error`.
        """
        return self.log_likelihood_with_error(rankings)[0]

    def log_likelihood_with_error(self, rankings: Rankings) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities and their standard errors, as if every ranking were given by somebody new.

        The normaliser is exact for lists of up to 16 items and estimated by annealed importance sampling, forwards and
        backwards, beyond that, which takes seconds for each list. With factors the user is integrated out by importance
        sampling from the posterior of swaps, with 64 vectors for each list; without them the error of a list of up to
        16 items is 0.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        fitted: Fitted[LogLinearEstimate] = self.fitted_
        settings, rankings = self._learnt_with, require_rankings(rankings)
        given = rankings, fitted.aligned(rankings), settings.position, settings.seed
        return log_likelihoods(fitted.estimate, *given)
