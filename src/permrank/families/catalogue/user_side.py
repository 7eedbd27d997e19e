"""The closed form of `item_weights`, solved among the users: for catalogues with more items than people.

With Y = X Λ^-½, X the graded entries, a row times the root of the user's weight, and K = (I + Y Yᵀ)⁻¹, users x users,

    P = (XᵀX + Λ)⁻¹ = Λ^-½ (I - Yᵀ K Y) Λ^-½

by Woodbury's identity. A row of scores, x - x P / diag P, needs products with Y and K only, and for user u of the data
x P = K_u Y Λ^-½ and x P xᵀ = 1 - K_uu: so the error of leaving out one user needs no matrix of items x items either.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from permrank.families.catalogue.entries import Data, Entries
from permrank.families.catalogue.item_weights import MOST_TRIED, ItemWeights, Penalties, inverse_in_place, penalties_at
from permrank.families.catalogue.kernels.rows import factor_rows, neighbour_rows
from permrank.families.catalogue.kernels.user_side import quadratic_forms
from permrank.learning.held_out import descend
from permrank.ragged import frozen
from permrank.types import Array, Float64Array

# Users by whom penalties are judged, at most; and the users and products of a block of them.
_JUDGES, _PRODUCTS, _BLOCK = 2048, 1 << 28, 64


class Closed(NamedTuple):
    """The closed form: Y (n_users, n_items), Λ^-½ and P_jj (n_items,), K (n_users, n_users)."""

    rows: sp.csr_matrix
    scales: Float64Array
    diagonal: Float64Array
    kernel: Float64Array


def scales_of(data: Data, penalties: Penalties) -> Float64Array:
    """Λ^-½, (n_items,)."""
    weights = np.repeat(data.weights, np.diff(data.entries.indptr))
    squares = np.bincount(data.entries.items, weights * data.entries.grades.astype(np.float64) ** 2, data.n_items)
    return np.asarray(1.0 / np.sqrt(penalties.ridge + penalties.share * squares))


def scaled_rows(data: Data, scales: Float64Array) -> sp.csr_matrix:
    """Y, (n_users, n_items)."""
    entries = data.entries
    values = entries.grades * np.repeat(np.sqrt(data.weights), np.diff(entries.indptr)) * scales[entries.items]
    return sp.csr_matrix((values, entries.items, entries.indptr), shape=(entries.n_users, data.n_items))


def solved(data: Data, penalties: Penalties) -> Closed:
    """The closed form with these penalties."""
    scales = scales_of(data, penalties)
    rows = scaled_rows(data, scales)
    matrix = np.asfortranarray((rows @ rows.T).toarray())
    matrix[np.diag_indices_from(matrix)] += 1.0
    kernel = inverse_in_place(matrix)
    columns = rows.tocsc()
    columns.sort_indices()
    explained = quadratic_forms(columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data, kernel)
    return Closed(rows, scales, (1.0 - explained) * scales**2, kernel)


def user_side_weights(data: Data, penalties: Penalties) -> ItemWeights:
    """What is kept of the closed form with these penalties: the lower half of K, and P_jj."""
    closed = solved(data, penalties)
    half = np.concatenate([row[: u + 1].astype(np.float32) for u, row in enumerate(closed.kernel)])
    return ItemWeights(kernel=half, diagonal=closed.diagonal.astype(np.float32))


def _whole(half: Array, n_users: int) -> Array:
    """A symmetric matrix from its lower half, row by row."""
    matrix, first = np.empty((n_users, n_users), np.float32), 0
    for u in range(n_users):
        matrix[u, : u + 1] = matrix[: u + 1, u] = half[first : first + u + 1]
        first += u + 1
    return matrix


def leave_one_out_error(closed: Closed, judges: Array) -> float:
    """Mean over some users of the squared errors of all items, each user left out of the regression in turn."""
    total = 0.0
    for first in range(0, judges.size, _BLOCK):
        block = judges[first : first + _BLOCK]
        residuals = (closed.kernel[block] @ closed.rows) * (closed.scales / closed.diagonal)
        # Without the user, x P xᵀ being 1 - K_uu: the residual over 1 - x P xᵀ + (x P)_j² / P_jj.
        left = closed.kernel[block, block][:, None] + residuals**2 * closed.diagonal
        total += float(((residuals / left) ** 2).sum())
    return total / max(judges.size, 1)


def choose_penalties(data: Data) -> tuple[Penalties, Float64Array]:
    """The penalties with the least error of leaving out one user; and all that were tried, (ridge, share, error)."""
    n_users = data.entries.n_users
    if n_users > _JUDGES:
        chosen = np.unique(np.linspace(0, n_users - 1, _JUDGES).astype(np.int64))
        data = data.take(chosen)
    n_judges = int(np.clip(_PRODUCTS // max(data.entries.items.size, 1), 1, data.entries.n_users))
    judges = np.unique(np.linspace(0, data.entries.n_users - 1, n_judges).astype(np.int64))
    best, errors = descend(lambda step: leave_one_out_error(solved(data, penalties_at(step)), judges), MOST_TRIED)
    return penalties_at(best), np.array([(*penalties_at(step)[:2], value) for step, value in errors.items()])


class UserSideScores:
    """Rows of scores by the closed form on the users' side."""

    def __init__(self, weights: ItemWeights, penalties: Penalties, data: Data) -> None:
        diagonal = weights.diagonal.astype(np.float64)
        there = diagonal > 0.0
        popular = data.item_scales(penalties.item_exponent)
        self._scales = np.where(there, scales_of(data, penalties), 0.0)
        self._inputs = self._scales * popular  # Λ_i^-½ d_i^a
        self._gains = self._scales / np.where(there, diagonal, 1.0) / popular  # Λ_j^-½ / (P_jj d_j^a)
        self._rows = scaled_rows(data, self._scales)
        (self._kernel,) = frozen(_whole(weights.kernel, data.entries.n_users))
        self._columns = self._rows.T.tocsr().astype(np.float32)
        self._lists = frozen(
            self._rows.indptr.astype(np.int64), self._rows.indices.astype(np.int32), self._rows.data.astype(np.float32)
        )

    def __deepcopy__(self, memo: object) -> UserSideScores:
        return self  # nothing in it changes; copies of its arrays could be written, and kernels be compiled for those

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        n_users, n_items = self._rows.shape
        grades = entries.grades.astype(np.float64)
        values = (grades * self._inputs[entries.items]).astype(np.float32)
        scaled = sp.csr_matrix((values, entries.items, entries.indptr), shape=(entries.n_users, n_items))
        (likeness,) = frozen(np.ascontiguousarray((scaled @ self._columns).toarray()))
        weights = factor_rows(likeness, self._kernel)
        of_users = frozen(
            np.arange(entries.n_users + 1) * n_users,
            np.tile(np.arange(n_users, dtype=np.int32), entries.n_users),
            weights.ravel(),
        )
        out = np.asarray(neighbour_rows(of_users, self._lists, n_items))
        out *= self._gains.astype(np.float32)
        own = np.repeat(np.arange(entries.n_users), np.diff(entries.indptr))
        out[own, entries.items] += (grades - values * self._gains[entries.items]).astype(np.float32)
        return out

    @cached_property
    def _of_all(self) -> Float64Array:
        """K Y g, with g_j = Λ_j^-½ / (P_jj d_j^a): what the sum of the scores of all items is made of, (n_users,)."""
        return np.asarray(self._kernel @ (self._rows @ self._gains))

    def contributions(self, entries: Entries, item: int) -> tuple[Float64Array, Float64Array]:
        """What each entry of one user adds to the score of an item, and to the mean score of all: (n_entries,) each.

        An entry x_i adds x_i d_i^a B_ij d_j^-a, with B_ij = -P_ij / P_jj = Λ_i^-½ Λ_j^-½ Y_iᵀ K Y_j / P_jj for j != i.
        """
        columns, n_items = self._columns, self._rows.shape[1]
        with_item = self._kernel @ np.asarray(columns[[item]].toarray(), np.float64)[0]
        listed = columns[entries.items].astype(np.float64)
        scaled = entries.grades * self._inputs[entries.items]
        own = np.where(entries.items == item, 0.0, scaled * self._gains[item] * (listed @ with_item))
        with_themselves = np.asarray(listed.multiply(listed @ self._kernel).sum(axis=1)).ravel()
        mean = scaled * (listed @ self._of_all - self._gains[entries.items] * with_themselves) / n_items
        return own, mean

    def usual(self, entries: Entries, shares: Float64Array, item: int) -> float:
        """What an entry of grade 1 adds to an item beyond the mean of all, on average over all people's entries."""
        n = shares.size
        everybody = Entries(*frozen(np.array([0, n]), np.arange(n, dtype=np.int32), shares.astype(np.float32)))
        row = self.rows(everybody)[0]
        return float(row[item]) - float(row.mean(dtype=np.float64))
