"""Answers of log-linear models: an item enters the user's list, whose order stays (§4.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from permrank.checks import whole_from
from permrank.data.rankings import Rankings, require_rankings
from permrank.distributions.log_linear import LogLinear, Question, tie_means
from permrank.distributions.normaliser import log_normaliser
from permrank.errors import InputError
from permrank.kernels.log_linear.energy import energy, potentials_of
from permrank.kernels.log_linear.insertion import EXPECTED, MODE, PUBLISHED
from permrank.models.estimates import RULE, Estimate
from permrank.models.log_linear.lists import position_functions
from permrank.models.ranker import Ranker
from permrank.models.users import NewUser, UserReference, lists_of
from permrank.ragged import frozen
from permrank.types import Float64Array, Int32Array, Int64Array

RULES = {"expected": EXPECTED, "mode": MODE, "published": PUBLISHED}


@dataclass(frozen=True, eq=False)
class LogLinearEstimate(Estimate):
    """Coefficients of items under some draws, factors of users, and pairs with their λ; see the attributes."""

    item_draws: Any
    user_modes: Any
    pair_indptr: Int64Array
    pair_items: Int32Array
    pair_values: Float64Array
    position: str | Sequence[float] = field(metadata=RULE, kw_only=True)
    window: int = field(metadata=RULE, kw_only=True)


class LogLinearRanker(Ranker):
    """A log-linear model whose items have coefficients, under some draws of them, and whose pairs may have λ.

    Models supply ``item_draws_`` (n_draws, n_items, K + B), K factors and B coefficients of position functions, the
    users' factors ``user_modes_`` (n_draws, n_users, K), and the pairs.
    """

    estimate_type: ClassVar[type[Estimate]] = LogLinearEstimate
    estimate_: LogLinearEstimate
    item_draws_: Any
    user_modes_: Any
    pair_indptr_: Any
    pair_items_: Any
    pair_values_: Any
    position: str | Sequence[float]
    window: int

    def _rules(self) -> dict[str, Any]:
        position = self.position if isinstance(self.position, str) else tuple(self.position)
        return {"position": position, "window": int(self.window)}

    # Coefficients

    @property
    def _pair_arrays(self) -> Any:
        return frozen(self.pair_indptr_, self.pair_items_, self.pair_values_)

    def _potentials(self, items: Any) -> Float64Array:
        """Table of λ of some items, (n, n); (0, 0) if there are no pairs."""
        order = np.argsort(items)
        return np.asarray(potentials_of(*frozen(items[order].astype(np.int32)), order, *self._pair_arrays))

    @property
    def _n_factors(self) -> int:
        return int(self.user_modes_.shape[2])

    def _degree(self) -> int:
        return int(self.item_draws_.shape[2]) - self._n_factors

    def _basis(self, n: int) -> Float64Array:
        return position_functions(n, self.estimate_.position, self._degree())

    def _modes(self, user: UserReference) -> Float64Array:
        """The user's factors under every draw, (n_draws, K); zeros for nobody in particular."""
        if isinstance(user, NewUser):
            return user.state["modes"]
        if user is None:
            return np.zeros((len(self.user_modes_), self._n_factors))
        return np.asarray(self.user_modes_[:, user], np.float64)

    def _coefficients(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Coefficients of items for a user under every draw: (n_draws, n, B); factors add to the first of them."""
        chosen = np.asarray(self.item_draws_[:, items], np.float64)
        k = self._n_factors
        found = chosen[:, :, k:].copy()
        found[:, :, 0] += np.einsum("dik,dk->di", chosen[:, :, :k], self._modes(user))
        return found

    def _reference(self, user: object) -> UserReference:
        """None stands for somebody of whom nothing is known."""
        self._require_fitted()
        return None if user is None else super()._reference(user)

    # Questions about some items beside the rest of the user's list

    def _questions(self, user: UserReference, items: Int64Array) -> list[Question]:
        """One for each draw. A user with several lists, or none, is asked about the items alone."""
        lists = lists_of(user, self.rankings_, self.item_ids)
        listed, levels = lists[0] if len(lists) == 1 else (np.zeros(0, np.int64), np.zeros(0, np.int32))
        others = ~np.isin(listed, items)
        listed, levels = listed[others], levels[others]
        codes = np.concatenate((items, listed)).astype(np.int32)
        pair = self._potentials(codes)
        mean = tie_means(levels)
        k, basis = items.size, self._basis(max(codes.size, 1))
        if pair.size:
            pair[:k, k:] = pair[:k, k:] @ mean.T
            pair[k:, :k] = -pair[:k, k:].T
        coefficients = self._coefficients(user, codes.astype(np.int64))
        return [Question(own[:k].copy(), mean @ own[k:], basis, pair) for own in coefficients]

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

        Exact for about a dozen items; beyond that from chains of heat baths, each item over all its places, with a
        burn-in of 50 sweeps and 4 sweeps between two draws. `diagnose` says whether that was enough.

        Parameters
        ----------
        user, items, size, seed
            As in `Ranker.sample`.
        move : {"relocation", "swap", "sublist", "window", "insertion", "informed"}, optional
            Draw from a chain of this move, whatever the number of items; a sweep has as many moves as there are items.
            The first three are the paper's (§4.1), by Metropolis and Hastings; sublists have the length ``window``.
            ``window`` and ``insertion`` are heat baths over the orders of a sublist and the places of an item,
            ``informed`` swaps are locally balanced. Only where every item may move: if the items are all that the
            user has listed or more, or for somebody of whom nothing is known (None).

        Returns
        -------
        array (size, n)
            Ids, best first in every row. The same seed gives the same rows.
        """
        reference = self._reference(user)
        chosen = self._item_indices(items)
        self._check_draws(size, seed, len(self.item_ids))
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
        from permrank.models.log_linear.diagnostics import chain_summary

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
    ) -> tuple[Any, Float64Array, list[Any]]:
        """Chains for `diagnose`: orders (n_chains, size, n), energies (n_chains, size), names of the free items."""
        reference = self._reference(user)
        for name, value in {"n_chains": n_chains, "size": size}.items():
            whole_from(name, value, 1)
        places = self._item_indices(items)
        self._check_draws(int(n_chains) * int(size), seed, len(self.item_ids))
        if places.size < 2:
            raise InputError(f"{places.size} items cannot be ranked in several ways; give two or more")
        distribution = self._distribution(reference, places)
        orders, energies = distribution.chains(distribution.questions[-1], int(n_chains), int(size), seed, move)
        return orders, energies, self.item_ids.take(places).to_list()

    # Likelihood

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking, weights left out, as if given by somebody new.

        A tie says nothing about the order inside it: all its orders are summed over. See `log_likelihood_with_error`.
        """
        return self.log_likelihood_with_error(rankings)[0]

    def log_likelihood_with_error(self, rankings: Rankings) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities and their standard errors.

        The normaliser is exact for lists of up to 16 items (the error is 0) and estimated by annealed importance
        sampling, forwards and backwards, beyond that.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        self._require_fitted()
        rankings = require_rankings(rankings)
        items = self._aligned_items(rankings).astype(np.int64)
        known: dict[bytes, tuple[float, float]] = {}
        values, errors = np.zeros(rankings.n_rankings), np.zeros(rankings.n_rankings)
        for r in range(rankings.n_rankings):
            part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
            own, levels = items[part], rankings.levels[part]
            unary = self._coefficients(None, own)[0]
            pair = self._potentials(own)
            name = np.sort(own).tobytes()
            if name not in known:
                found = log_normaliser(unary, self._basis(own.size), pair)
                known[name] = found.value, found.error
            above, error = log_weight(levels, unary, self._basis(own.size), pair)
            values[r] = above - known[name][0]
            errors[r] = np.hypot(error, known[name][1])
        return values, errors

    def _check_learned(self) -> None:
        super()._check_learned()
        n_draws, n_items, n_users = len(self.item_draws_), self.rankings_.n_items, self.rankings_.n_users
        shape, modes = np.shape(self.item_draws_), np.shape(self.user_modes_)
        if len(shape) != 3 or n_draws < 1 or shape[1] != n_items:
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the items")
        if len(modes) != 3 or modes[:2] != (n_draws, n_users) or not modes[2] < shape[2]:
            raise InputError(f"user_modes_ has shape {modes}, which does not fit the users")
        indptr, partners, values = self.pair_indptr_, self.pair_items_, self.pair_values_
        fits = (
            np.shape(indptr) == (n_items + 1,)
            and indptr.dtype == np.int64
            and partners.dtype == np.int32
            and values.dtype == np.float64
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and np.shape(partners) == np.shape(values) == (int(indptr[-1]),)
        )
        row = np.repeat(np.arange(n_items), np.diff(indptr)) if fits else np.zeros(0, np.int64)
        # Rows ascend, and a pair has its smaller item first.
        if not fits or not ((partners > row) & (partners < n_items)).all():
            raise InputError("pair_indptr_, pair_items_ and pair_values_ do not fit the items")
        if ((np.diff(partners) <= 0) & (np.diff(row) == 0)).any():
            raise InputError("pair_items_ do not ascend")


def log_weight(levels: Any, unary: Float64Array, basis: Float64Array, pair: Float64Array) -> tuple[float, float]:
    """Log of the summed e^{-E} of all orders that agree with the ties, and its error.

    What stands in a tie takes its positions in some order, and pairs across ties are fixed: a product over ties.
    """
    if int(levels[-1]) == len(levels) - 1:
        return -float(energy(np.arange(len(levels)), unary, basis, pair)), 0.0
    value, error, start = 0.0, 0.0, 0
    for size in np.bincount(levels):
        stop = start + int(size)
        own = pair[start:stop, start:stop].copy() if pair.size else pair
        found = log_normaliser(unary[start:stop].copy(), basis[start:stop].copy(), own)
        value += found.value + (float(pair[start:stop, stop:].sum()) if pair.size else 0.0)
        error = float(np.hypot(error, found.error))
        start = stop
    return value, error
