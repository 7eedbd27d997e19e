"""What the two log-linear models share: checks, factors by draws, new users."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from permrank.checks import require_above, require_choice, require_int, require_memory
from permrank.core.declared import (
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_SWEEPS,
    Categorical,
    Checked,
    Declared,
    Float,
    Integer,
    Seed,
)
from permrank.core.estimates import Estimate
from permrank.core.ranker import Ranker
from permrank.core.users import NewUser, UserReference, lists_of, new_user, require_drawable
from permrank.errors import InputError
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.factors import draw_factors, modes_of, usual_scale
from permrank.families.log_linear.kernels.arguments import Pairs
from permrank.families.log_linear.kernels.swaps import MOST_DISTANCES
from permrank.families.log_linear.law import LogLinear, Question, tie_means
from permrank.families.log_linear.learning import CONTRASTS, STRUCTURES
from permrank.families.log_linear.likelihood import with_factors, without_factors
from permrank.families.log_linear.normaliser import LONGEST_EXACT, MOVES
from permrank.learning.learner import Learner
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Array, Float64Array, Int64Array, Named

_MOST_CHAINS = 1_000
# Sweeps of the draws by default: this many swaps are visited in all, within the bounds.
_SWAPS_VISITED, _FEWEST_SWEEPS, _MOST_SWEEPS = 100_000_000, 60, 300
MOST_RELOCATED = 1_000_000_000
METHODS = (*STRUCTURES, *CONTRASTS)


def check_position(position: object) -> None:
    """Raise unless it is a known word, or two or more numbers that decrease."""
    if isinstance(position, str) or not isinstance(position, Iterable):
        require_choice("position", position, ("centred", "linear"))
        return
    numbers = list(position)
    for number in numbers:
        require_above("position", number, -float("inf"))
    if len(numbers) < 2 or any(b > a for a, b in itertools.pairwise(numbers)) or numbers[0] == numbers[-1]:
        raise InputError(f"position={position!r}, expected two or more numbers that decrease")


FACTOR_SCALE = Float(
    above=0.0,
    also=("auto",),
    tune=(0.3, 3.0),
    tune_also=("auto",),
    help="Prior standard deviation of the score that the factors make.",
)
COMMON = Declared(
    n_factors=Integer(0, MOST_FACTORS, tune=(2, 32), help="Factors of every user and item; 0 leaves them out."),
    factor_scale=FACTOR_SCALE,
    item_scale=Float(
        above=0.0,
        also=(None,),
        tune=(0.3, 10.0),
        help="Prior standard deviation of an item's coefficients; None for no prior.",
    ),
    position=Checked(
        check_position, "centred, linear, list of numbers", help="How much each position of a list counts."
    ),
    window=Integer(2, LONGEST_EXACT, help="Length of the sublists that are summed over, or moved."),
    n_relocations=Integer(
        1,
        MOST_RELOCATED,
        also=("all",),
        when=("method", "relocation"),
        help="Items of a list that are relocated, at most; all is the published sum.",
    ),
    move=Categorical(tuple(MOVES), help="Of the chains of contrastive learning."),
    n_steps=Integer(0, 10_000, help="Moves of a chain in a sweep; 0 for as many as the list has items."),
    max_iter=Integer(1, MOST_SWEEPS, also=(None,), help="The most sweeps; None for what is usual."),
    n_draws=Integer(1, MOST_DRAWS, help="Draws of the factors that are kept."),
    tol=Float(above=0.0, help="Ends when the objective rises by less than this part of itself."),
    seed=Seed(help="Of the draws and the chains."),
)
"""Parameters that both models have."""


class LogLinearRanker(Ranker):
    """A log-linear model whose items have coefficients, under some draws of them, and whose pairs may have λ.

    Users may have factors, drawn from a posterior.
    """

    needs_order = True
    _tabulates: ClassVar[bool] = False
    estimate_type: ClassVar[type[Estimate]] = LogLinearEstimate
    parameters: ClassVar[Declared] = COMMON
    knows_nobody = True
    resumable = True
    estimate_: LogLinearEstimate
    item_draws_: Array
    user_modes_: Array
    personal_weight_: float
    n_factors: int
    n_draws: int
    seed: int
    factor_scale: Any
    max_iter: int | None
    position: str | Sequence[float]
    window: int
    n_relocations: int | Literal["all"]

    def _rules(self) -> Named:
        position = self.position if isinstance(self.position, str) else tuple(self.position)
        return {"position": position, "window": int(self.window), "seed": int(self.seed)}

    def _check_learned(self) -> None:
        super()._check_learned()
        if len(self.item_draws_) > self.n_draws:
            raise InputError(f"item_draws_ has {len(self.item_draws_)} draws, more than n_draws={self.n_draws}")

    def _draw_sweeps(self, rankings: Rankings) -> int:
        """The most sweeps of the draws."""
        if self.max_iter is not None:
            return self.max_iter
        half = np.diff(rankings.indptr) // 2
        swaps = 2.0 * float(np.sum(half * np.minimum(half, MOST_DISTANCES)))
        return int(np.clip(_SWAPS_VISITED / max(swaps, 1.0), _FEWEST_SWEEPS, _MOST_SWEEPS))

    def _draws(self, rankings: Rankings, n_sweeps: int, intercepts: bool = True) -> Learner[tuple[Array, Array, float]]:
        scale = usual_scale(rankings) if self.factor_scale == "auto" else float(self.factor_scale)
        return draw_factors(
            rankings, self.position, self.n_factors, scale, self.n_draws, self.seed, n_sweeps, intercepts
        )

    @property
    def _most_relocated(self) -> int:
        return MOST_RELOCATED if self.n_relocations == "all" else int(self.n_relocations)

    def _check_lengths(self, rankings: Rankings, method: str) -> None:
        longest = int(np.diff(rankings.indptr).max(initial=0))
        if method == "exact" and longest > LONGEST_EXACT:
            raise InputError(
                f"method='exact' sums over all rankings of lists of up to {LONGEST_EXACT} items, and the longest has "
                f"{longest}; take another method, for example 'relocation'"
            )
        if self._tabulates and method != "relocation":
            require_memory(
                40.0 * longest**2, f"method={method!r} has tables of all pairs of a list, which of {longest:,} items",
                "take method='relocation', which has none",
            )  # fmt: skip

    def _estimate(
        self, items: Array, users: Array, pairs: Pairs, values: Float64Array, personal: float = 1.0, **more: float
    ) -> Any:
        parts = items, users, pairs.indptr, pairs.items, values, float(personal)
        made: Any = self.estimate_type
        return made(*parts, *more.values(), **self._rules())

    # Coefficients

    def _modes(self, user: UserReference) -> Float64Array | None:
        """The user's factors under every draw, (n_draws, K); None for nobody in particular."""
        if user is None:
            return None
        return user.state["modes"] if isinstance(user, NewUser) else np.asarray(self.user_modes_[:, user], np.float64)

    def _coefficients(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Coefficients of items for a user under every draw: (n_draws, n, B)."""
        return self.estimate_.coefficients(items, self._modes(user))

    # New users

    def fold_in(self, said: object) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating: the items stay as they are."""
        self._require_fitted()
        made = new_user(said, self.rankings_)
        return NewUser(made.rankings, {"modes": self.fold_in_many(made.rankings)[0]})

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Factors of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        items = self._aligned_items(rankings)
        if not self.estimate_.n_factors:
            return np.zeros((rankings.n_users, len(self.item_draws_), 0))
        found = modes_of(rankings, items, self.item_draws_, self.estimate_.n_factors, self.estimate_.position)
        return np.ascontiguousarray(found.transpose(1, 0, 2))

    # Questions about some items beside the rest of the user's list

    def _questions(self, user: UserReference, items: Int64Array) -> list[Question]:
        """One for each draw. A user with several lists, or none, is asked about the items alone."""
        lists = lists_of(user, self.rankings_, self.item_ids)
        listed, levels = lists[0] if len(lists) == 1 else (np.zeros(0, np.int64), np.zeros(0, np.int32))
        others = ~np.isin(listed, items)
        listed, levels = listed[others], levels[others]
        codes = np.concatenate((items, listed)).astype(np.int32)
        pair = self.estimate_.potentials(codes)
        k, basis = items.size, self.estimate_.basis(max(codes.size, 1))
        if pair.size:
            pair[k:, :k] = tie_means(pair[k:, :k], levels)
            pair[:k, k:] = -pair[k:, :k].T
        coefficients = self._coefficients(user, codes.astype(np.int64))
        return [Question(own[:k].copy(), tie_means(own[k:], levels), basis, pair) for own in coefficients]

    def _distribution(self, user: UserReference, items: Int64Array) -> LogLinear:
        return LogLinear(self._questions(user, items), self.estimate_.window)

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
        move : {"relocation", "swap", "sublist", "window", "insertion", "informed"}, optional
            Draw from a chain of this move, whatever the number of items; a sweep has as many moves as there are items.
            The first three are the paper's (§4.1), by Metropolis and Hastings; sublists have the length ``window``.
            ``window`` and ``insertion`` are heat baths over the orders of a sublist and the positions of an item,
            ``informed`` swaps are locally balanced. Only where every item may move: if the items are all that the
            user has listed or more, or for somebody of whom nothing is known (None).

        Returns
        -------
        array (size, n)
            Ids, best first in every row. The same seed gives the same rows.
        """
        reference = self._reference(user)
        chosen = self._item_indices(items)
        require_drawable(size, seed, len(self.item_ids))
        ids = np.asarray(self.item_ids.take(chosen).to_list())
        drawn = self._distribution(reference, chosen).sample(int(size), int(seed), move=move)
        return np.asarray(ids[drawn])

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
        from permrank.families.log_linear.diagnostics import chain_summary

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
        reference = self._reference(user)
        require_int("n_chains", n_chains, 1, _MOST_CHAINS)
        require_int("size", size, 1)
        indices = self._item_indices(items)
        require_drawable(int(n_chains) * int(size), seed, len(self.item_ids))
        if indices.size < 2:
            raise InputError(f"{indices.size} items cannot be ranked in several ways; give two or more")
        distribution = self._distribution(reference, indices)
        orders, energies = distribution.chains(distribution.questions[-1], int(n_chains), int(size), seed, move)
        return orders, energies, self.item_ids.take(indices).to_list()

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
        self._require_fitted()
        rankings = require_rankings(rankings)
        items = self._aligned_items(rankings)
        if self.estimate_.n_factors:
            return with_factors(self.estimate_, rankings, items)
        return without_factors(self.estimate_, rankings, items.astype(np.int64))
