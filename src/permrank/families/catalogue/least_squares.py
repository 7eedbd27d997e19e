"""Factors that minimise squared errors, with a small weight for everything that is missing (kernels/catalogue/factors).

Alternating least squares, every side by a few steps of conjugate gradients from where it was. Only the factors of the
items are kept: those of a user follow exactly from the user's entries, for known and new users alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from permrank.families.catalogue.entries import Entries
from permrank.families.catalogue.kernels.factors import improve_rows, listed_losses, solve_rows
from permrank.families.catalogue.kernels.products import gram_matrix
from permrank.families.catalogue.kernels.rows import factor_rows
from permrank.ragged import frozen
from permrank.types import Array, Float64Array

# Steps of conjugate gradients for a row in a sweep: with a start from the last sweep three are as good as a solution
# (Takacs, Pilaszy and Tikk 2011).
_STEPS = 3
# Deviation of the factors' start, times the square root of their number.
_START = 0.1


class Weighting(NamedTuple):
    """Weight of an entry that is missing, where one that is there has 1, and the penalty of the factors."""

    missing: float
    penalty: float


class Factors(NamedTuple):
    """Factors of all items, and how they were learnt: float32 (n_items, K)."""

    items: Array
    weighting: Weighting


class FactorScores:
    """Rows of scores by factors."""

    def __init__(self, factors: Factors) -> None:
        (self._items,) = frozen(np.ascontiguousarray(factors.items, np.float32))
        self._gram = gram_matrix(self._items)
        self._settings = _settings(factors.weighting, len(self._items))

    def __deepcopy__(self, memo: object) -> FactorScores:
        return self  # nothing in it changes; copies of its arrays could be written, and kernels be compiled for those

    def users(self, entries: Entries) -> Float64Array:
        """Factors of users with these entries: (n_users, K)."""
        return np.asarray(solve_rows(tuple(entries), self._items, self._gram, self._settings.astype(np.float64)))

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        return np.asarray(factor_rows(self.users(entries).astype(np.float32), self._items))

    def contributions(self, entries: Entries, item: int) -> tuple[Float64Array, Float64Array]:
        """What each entry of one user adds to the score of an item, and to the mean score of all: (n_entries,) each.

        The user's factors are A⁻¹ Σ t_e V_e, so that a score is a sum over what was taken up.
        """
        rows, matrix = self._system(entries)
        each = entries.grades[:, None] * np.linalg.solve(matrix, rows.T).T
        return each @ self._items[item].astype(np.float64), each @ self._items.mean(axis=0, dtype=np.float64)

    def usual(self, entries: Entries, shares: Float64Array, item: int) -> float:
        """What an entry of grade 1 adds to an item beyond the mean of all, on average over all people's entries."""
        matrix = self._system(entries)[1]
        beyond = self._items[item].astype(np.float64) - self._items.mean(axis=0, dtype=np.float64)
        return float(np.linalg.solve(matrix, shares @ self._items) @ beyond)

    def _system(self, entries: Entries) -> tuple[Float64Array, Float64Array]:
        """Factors of what one user has taken up, and the matrix A of the equations of the user's own."""
        missing, penalty = float(self._settings[0]), float(self._settings[1])
        rows = self._items[entries.items].astype(np.float64)
        matrix = missing * self._gram + (1.0 - missing) * rows.T @ rows
        matrix[np.diag_indices_from(matrix)] += penalty * (len(rows) + missing * len(self._items))
        return rows, matrix


class Sweeps:
    """Alternating least squares: `items` and `users` are the present factors, which `sweep` improves.

    weights: how many people each user stands for. start: factors of the items to begin with, as many or fewer.
    """

    def __init__(
        self,
        entries: Entries,
        n_items: int,
        weights: Float64Array,
        n_factors: int,
        weighting: Weighting,
        seed: int,
        start: Array | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        scale = _START / np.sqrt(n_factors)
        self.weighting = weighting
        self.items = (scale * rng.normal(size=(n_items, n_factors))).astype(np.float32)
        self.users = np.zeros((entries.n_users, n_factors), np.float32)
        if start is not None:
            self.items[:, : start.shape[1]] = start
        self._entries, self._root = entries, np.sqrt(weights).astype(np.float32)
        # A user who stands for w people adds w times to the sums over users: rows and targets times √w do that.
        self._by_item = entries.scaled(np.sqrt(weights)).by_item(n_items)
        self._total, self._people = n_items, float(weights.sum())

    def sweep(self) -> float:
        """Improve users and items; returns minus the loss."""
        (items,) = frozen(self.items)
        settings = _settings(self.weighting, self._total)
        improve_rows(tuple(self._entries), items, gram_matrix(items).astype(np.float32), settings, _STEPS, self.users)
        (users,) = frozen(self.users * self._root[:, None])
        gram = gram_matrix(users)
        settings = _settings(self.weighting, self._people)
        improve_rows(tuple(self._by_item), users, gram.astype(np.float32), settings, _STEPS, self.items)
        return -self._loss(users, gram)

    def loss(self) -> float:
        """Squared errors, of what is missing by its weight, and the penalty."""
        (users,) = frozen(self.users * self._root[:, None])
        return self._loss(users, gram_matrix(users))

    def _loss(self, users: Array, gram: Float64Array) -> float:
        omega, penalty = self.weighting
        (items,) = frozen(self.items)
        listed = listed_losses(tuple(self._by_item), items, users, omega)
        missing = omega * float((gram * gram_matrix(items)).sum())
        of_users = np.diff(self._entries.indptr) + omega * self._total
        of_items = np.diff(self._by_item.indptr) + omega * self._people
        ridge = of_users @ (users.astype(np.float64) ** 2).sum(axis=1)
        ridge += of_items @ (items.astype(np.float64) ** 2).sum(axis=1)
        return float(listed.sum() + missing + penalty * ridge)

    @property
    def factors(self) -> Factors:
        """What was learnt so far."""
        return Factors(self.items.copy(), self.weighting)


def improvements(sweeps: Sweeps, n_sweeps: int, tol: float, last: float = np.inf) -> Iterator[tuple[float, bool]]:
    """Sweep until the loss falls by less than a part of itself: minus the loss, and whether it did so."""
    for _ in range(n_sweeps):
        loss = -sweeps.sweep()
        settled = last - loss <= tol * abs(loss)
        last = loss
        yield -loss, bool(settled)
        if settled:
            return


def _settings(weighting: Weighting, total: float) -> Array:
    return np.array([weighting.missing, weighting.penalty, total], np.float32)
