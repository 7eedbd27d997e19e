"""What the log-linear models have learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permrank.checks import require_memory
from permrank.core.estimates import Estimate
from permrank.core.person import Person
from permrank.errors import InputError
from permrank.families.log_linear.kernels.arguments import Pairs
from permrank.families.log_linear.kernels.energy import pair_indices, pair_table
from permrank.families.log_linear.lists import position_functions
from permrank.ragged import frozen, owners
from permrank.types import Array, Float64Array, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class LogLinearEstimate(Estimate):
    """Coefficients of items under some draws, factors of users, and pairs with their λ.

    item_draws: (n_draws, n_items, K + B), K factors and B coefficients of position functions. user_modes: (n_draws,
    n_users, K). Pairs: rows of items with larger ones. personal_weight: what the factors' part of a score counts, from
    pairs of items that were held out. pair_scale: of the pairs' prior, 0 without one.
    """

    item_draws: Array
    user_modes: Array
    pair_indptr: Int64Array
    pair_items: Int32Array
    pair_values: Float64Array
    personal_weight: float
    pair_scale: float = 0.0

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.user_modes.shape[2])

    @property
    def degree(self) -> int:
        """B."""
        return int(self.item_draws.shape[2]) - self.n_factors

    def basis(self, n: int, position: str | Sequence[float]) -> Float64Array:
        """Position functions of a list of n: (n, B)."""
        return position_functions(n, position, self.degree)

    def potentials(self, items: Array) -> Float64Array:
        """Table of λ of some items, (n, n); (0, 0) if there are no pairs."""
        if not self.pair_items.size:
            return np.zeros((0, 0))
        what = f"the pairs of {len(items):,} items, those of the list included,"
        require_memory(24.0 * len(items) ** 2, what, "ask about fewer items, or for somebody with a shorter list")
        order = np.argsort(items)
        ascending, *pairs = frozen(items[order].astype(np.int32), self.pair_indptr, self.pair_items)
        # A copy, as learners hand it over: the kernel is compiled for one kind of array.
        table = pair_table(pair_indices(ascending, Pairs(*pairs)), self.pair_values.copy())
        rank = np.argsort(order)
        return np.asarray(table[np.ix_(rank, rank)])

    def coefficients(self, items: Int64Array, person: Person | None = None) -> Float64Array:
        """Coefficients of items for a person, or for nobody in particular, under every draw: (n_draws, n, B)."""
        chosen, k = np.asarray(self.item_draws[:, items], np.float64), self.n_factors
        modes: Float64Array = np.zeros((len(self.item_draws), k))
        if person is not None and person.index is not None:
            modes = np.asarray(self.user_modes[:, person.index], np.float64)
        elif person is not None:
            modes = person.state.get("modes", modes)
        own = chosen[:, :, k:].copy()
        own[:, :, 0] += self.personal_weight * np.einsum("dik,dk->di", chosen[:, :, :k], modes)
        return own

    def mean_pairs(self, users: Array, items: Array) -> Float64Array:
        """Coefficients of (user, item) pairs averaged over the draws, (n, B)."""
        k = self.n_factors
        total = np.zeros((len(items), self.degree))
        for theta, modes in zip(self.item_draws, self.user_modes, strict=True):
            rows = theta[items]
            total += rows[:, k:]
            total[:, 0] += self.personal_weight * np.einsum("ek,ek->e", rows[:, :k], modes[users])
        return total / len(self.item_draws)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        n_draws = len(self.item_draws)
        shape, modes = np.shape(self.item_draws), np.shape(self.user_modes)
        if len(shape) != 3 or n_draws < 1 or shape[1] != n_items:
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the items")
        if len(modes) != 3 or modes[:2] != (n_draws, n_users) or not modes[2] < shape[2]:
            raise InputError(f"user_modes_ has shape {modes}, which does not fit the users")
        indptr, partners, values = self.pair_indptr, self.pair_items, self.pair_values
        fits = (
            np.shape(indptr) == (n_items + 1,)
            and indptr.dtype == np.int64
            and partners.dtype == np.int32
            and values.dtype == np.float64
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and np.shape(partners) == np.shape(values) == (int(indptr[-1]),)
        )
        row = owners(indptr) if fits else np.zeros(0, np.int64)
        # Rows ascend, and a pair has its smaller item first.
        if not fits or not ((partners > row) & (partners < n_items)).all():
            raise InputError("pair_indptr_, pair_items_ and pair_values_ do not fit the items")
        if ((np.diff(partners) <= 0) & (np.diff(row) == 0)).any():
            raise InputError("pair_items_ do not ascend")
