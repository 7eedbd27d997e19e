"""Weights from item to item: ridge regression in closed form where the catalogue is small, a linear filter beyond.

**Closed form** (Steck 2019, EASE). Every item is regressed on all the others over the users' graded entries X. With
P = (XᵀX + Λ)⁻¹ the weights are B_ij = -P_ij / P_jj and B_jj = 0. Λ_j = λ + γ (XᵀX)_jj: a ridge, and what dropping
entries at random would add (Steck 2020). Both are set by the error of leaving out one user at a time, which needs no
refit: with a = x P and q = x P xᵀ for a user's row x, the residual of item j is a_j / P_jj, and without that user it is

    (a_j / P_jj) / (1 - q + a_j² / P_jj).

**Filter** (as Turbo-CF, Park and others 2024). P = (RᵀR)^power, elementwise, with R = D_u^-½ X D_i^-s: cosine
similarity with s = ½, which many small overlaps do not drown; a smaller s leans to popular items. The largest weights
of each item are kept.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from permrank.families.catalogue.entries import Entries
from permrank.families.catalogue.kernels.neighbours import nearest_neighbours
from permrank.families.catalogue.kernels.rows import dense_rows, neighbour_rows
from permrank.learning.held_out import Step, descend
from permrank.learning.shards import Shard, blocks_by_entries, map_shards, n_blocks_of, shards_of
from permrank.ragged import frozen, indptr_of, positions
from permrank.types import Array, Float64Array

# The largest catalogue that is regressed: 8,192² numbers of 8 bytes are 512 MiB, three times at most.
MOST_DENSE = 8192
# Neighbours are kept up to 8 bytes times this: 512 MiB; and at least so many of each item.
_MOST_KEPT, _FEWEST = 1 << 26, 50
# Elementwise power of the filter: alone 0.5 is a little better, beside factors 0.7 is (Gowalla, LastFM; decision 14).
_POWER = 0.7
# The exponent s of the items, and what else is tried where people's held-out entries can tell (decision 24).
USUAL_EXPONENT, OTHER_EXPONENT = 0.5, 0.4
# Where the search for the penalties begins, and the factor between two that are tried: the error is flat in both.
_FIRST_RIDGE, _FIRST_SHARE, _FACTOR, _MOST_TRIED = 100.0, 0.5, 3.0, 9
# A block of users has about so many entries, where a catalogue that is regressed has at most 67 million weights.
_ENTRIES_OF_A_BLOCK = 1 << 22
# Users by whom penalties are judged, at most.
_JUDGES = 2048


class Penalties(NamedTuple):
    """λ and γ of the regression."""

    ridge: float
    share: float


class ItemWeights(NamedTuple):
    """What an item that was taken up says about every other one: a matrix, or the neighbours of each item.

    Attributes
    ----------
    matrix : float16 (n_items, n_items), or (0, 0)
    indptr, neighbours, weights : int64 (n_items + 1,), int32 and float32 (n_neighbours,)
    """

    matrix: Array
    indptr: Array
    neighbours: Array
    weights: Array

    @property
    def n_items(self) -> int:
        """Items of the catalogue."""
        return len(self.matrix) or self.indptr.size - 1


class ItemScores:
    """Rows of scores by item weights; holds them in the precision that products want."""

    def __init__(self, weights: ItemWeights) -> None:
        self._n_items, self._dense = weights.n_items, bool(len(weights.matrix))
        if self._dense:
            (self._matrix,) = frozen(weights.matrix.astype(np.float32))
        else:
            self._neighbours = frozen(weights.indptr, weights.neighbours, weights.weights)

    def __deepcopy__(self, memo: object) -> ItemScores:
        return self  # nothing in it changes; copies of its arrays could be written, and kernels be compiled for those

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        if self._dense:
            return np.asarray(dense_rows(tuple(entries), self._matrix))
        return np.asarray(neighbour_rows(tuple(entries), self._neighbours, self._n_items))

    def contributions(self, entries: Entries, item: int) -> tuple[Float64Array, Float64Array]:
        """What each entry of one user adds to the score of an item, and to the mean score of all: (n_entries,) each."""
        n = entries.items.size
        own, mean = np.zeros(n), np.zeros(n)
        for place in range(n):  # one at a time: a row of a large catalogue is large
            alone = Entries(
                *frozen(np.array([0, 1]), entries.items[place : place + 1], entries.grades[place : place + 1])
            )
            row = self.rows(alone)[0]
            own[place], mean[place] = row[item], row.mean(dtype=np.float64)
        return own, mean

    def usual(self, entries: Entries, shares: Float64Array, item: int) -> float:
        """What an entry of grade 1 adds to an item beyond the mean of all, on average over all people's entries."""
        n = shares.size
        everybody = Entries(*frozen(np.array([0, n]), np.arange(n, dtype=np.int32), shares.astype(np.float32)))
        row = self.rows(everybody)[0]
        return float(row[item]) - float(row.mean(dtype=np.float64))


def regression_matrix(entries: Entries, n_items: int, penalties: Penalties) -> Float64Array:
    """B_ij of the closed form, (n_items, n_items): column j is the regression of item j on all the others."""
    inverse = penalised_inverse(gram_of(entries, n_items), penalties)
    matrix = -inverse / np.diag(inverse)
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(matrix)


def regression_weights(entries: Entries, n_items: int, penalties: Penalties) -> ItemWeights:
    """The closed form with these penalties."""
    # Half precision saves memory, and mostly hides that BLAS rounds otherwise with another number of threads.
    matrix = regression_matrix(entries, n_items, penalties).astype(np.float16)
    return ItemWeights(matrix, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def choose_penalties(entries: Entries, n_items: int) -> tuple[Penalties, Float64Array]:
    """The penalties with the least error, by steps along one of them at a time; and all that were tried, with errors.

    Returns the penalties, and rows of (ridge, share, error).
    """
    gram = gram_of(entries, n_items)
    judges = entries.take(np.unique(np.linspace(0, entries.n_users - 1, _JUDGES).astype(np.int64)))
    best, errors = descend(lambda step: leave_one_out_error(judges, penalised_inverse(gram, _at(step))), _MOST_TRIED)
    return _at(best), np.array([(*_at(step), value) for step, value in errors.items()])


def _at(step: Step) -> Penalties:
    return Penalties(_FIRST_RIDGE * _FACTOR ** step[0], _FIRST_SHARE * _FACTOR ** step[1])


def leave_one_out_error(entries: Entries, inverse: Float64Array) -> float:
    """Mean over users of the squared errors of all items, each user left out of the regression in turn."""
    diagonal, total = np.diag(inverse), 0.0
    matrix = _sparse(entries, len(inverse))
    for first in range(0, entries.n_users, 256):
        rows = matrix[first : first + 256]
        products = rows @ inverse
        leverage = np.asarray(rows.multiply(products).sum(axis=1))
        squares = products**2 / diagonal
        total += float(((products / diagonal / (1.0 - leverage + squares)) ** 2).sum())
    return total / max(entries.n_users, 1)


def _sparse(entries: Entries, n_items: int) -> sp.csr_matrix:
    grades = entries.grades.astype(np.float64)
    return sp.csr_matrix((grades, entries.items, entries.indptr), shape=(entries.n_users, n_items))


def gram_of(entries: Entries, n_items: int) -> Float64Array:
    """XᵀX of the grades, (n_items, n_items), by blocks of users whose sums are added up in their order."""
    n_blocks = n_blocks_of(entries.n_users, entries.items.size // _ENTRIES_OF_A_BLOCK)
    bounds = blocks_by_entries(entries.indptr, n_blocks)
    shards = shards_of(bounds, (entries.indptr,), ((), (entries.items, entries.grades)))
    first, *others = chain.from_iterable(map_shards(partial(_block_grams, n_items), shards))
    gram = np.asarray(first.toarray(), np.float64)
    for block in others:
        gram += block.toarray()
    return gram


def _block_grams(n_items: int, shard: Shard) -> list[sp.csr_matrix]:
    """XᵀX of every block."""
    (indptr,), (items, grades), found = shard.indptrs, shard.data, []
    for first, last in pairwise(shard.bounds.tolist()):
        part = slice(int(indptr[first]), int(indptr[last]))
        rows = Entries(indptr[first : last + 1] - indptr[first], items[part], grades[part])
        matrix = _sparse(rows, n_items)
        found.append(matrix.T @ matrix)
    return found


def penalised_inverse(gram: Float64Array, penalties: Penalties) -> Float64Array:
    """(gram + Λ)⁻¹ by Cholesky's method."""
    matrix = gram.copy(order="F")
    matrix[np.diag_indices_from(matrix)] += penalties.ridge + penalties.share * np.diag(gram)
    factor, _ = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    half, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    for first in range(0, len(half), 512):  # the upper half is the lower one's; in place, for it is large
        last = min(first + 512, len(half))
        half[first:last, last:] = half[last:, first:last].T
        block = np.tril(half[first:last, first:last])
        half[first:last, first:last] = block + np.tril(block, -1).T
    return np.asarray(half)


def filter_weights(
    entries: Entries,
    n_items: int,
    weights: Float64Array,
    n_neighbours: int | None = None,
    exponent: float = USUAL_EXPONENT,
) -> ItemWeights:
    """The filter; ``weights`` say how many people each user stands for, ``exponent`` is s."""
    by_item = entries.by_item(n_items)
    of_users = np.add.reduceat(np.append(entries.grades, 0.0), entries.indptr[:-1]) * (np.diff(entries.indptr) > 0)
    of_items = np.bincount(entries.items, np.repeat(weights, np.diff(entries.indptr)) * entries.grades, n_items)
    user_scale = np.where(of_users > 0.0, weights / np.where(of_users > 0.0, of_users, 1.0), 0.0)
    item_scale = np.where(of_items > 0.0, np.where(of_items > 0.0, of_items, 1.0) ** -exponent, 0.0)
    most = n_neighbours or max(_FEWEST, _MOST_KEPT // n_items)
    most = max(1, min(most, n_items - 1))
    counts, index, weight = nearest_neighbours(
        tuple(entries), tuple(by_item), *frozen(user_scale, item_scale), _POWER, most
    )
    indptr = indptr_of(np.maximum(counts, 0))
    where = np.repeat(np.arange(n_items), np.diff(indptr)), positions(indptr)
    return ItemWeights(np.zeros((0, 0), np.float16), indptr, index[where], weight[where])
