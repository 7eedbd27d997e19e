"""Who takes up what, and how much: one graded entry for each user and item, the order inside lists left out.

A grade is between 0 and 1. Of ratings it is (r - lowest + step) / (highest - lowest + step), so that five stars are .2
to 1: an item that was taken up and disliked still counts, but little. Of counts c it is c / (c + median): what was
taken up once tells less than what was taken up often. Otherwise it is 1: a list without ratings has no level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from permrank.errors import InputError
from permrank.ragged import entries_by_item, frozen, indptr_of, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array, Int64Array


@dataclass(frozen=True)
class Scale:
    """How ratings and counts become grades: the lowest and highest rating, the step between them, a median count."""

    lowest: float = 0.0
    highest: float = 0.0
    step: float = 0.0
    median: float = 0.0

    @classmethod
    def of(cls, rankings: Rankings) -> Self:
        """The scale of the training data."""
        counts = rankings.counts
        median = float(np.median(counts)) if counts is not None else 0.0
        if rankings.ratings is None:
            return cls(median=median)
        values = np.unique(rankings.ratings).astype(np.float64)
        step = float(np.diff(values).min()) if values.size > 1 else 0.0
        return cls(float(values[0]), float(values[-1]), step, median)

    def grades(self, rankings: Rankings) -> Float64Array:
        """Grade of every entry, (n_entries,); a rating outside the scale counts as its end."""
        grades = np.ones(rankings.n_entries)
        width = self.highest - self.lowest + self.step
        if rankings.ratings is not None and width > 0.0:
            rated = (rankings.ratings.astype(np.float64) - self.lowest + self.step) / width
            grades = np.clip(rated, self.step / width, 1.0)
        counts = rankings.counts
        if counts is not None and self.median > 0.0:
            grades = grades * (counts / (counts + self.median))
        return grades

    def as_array(self) -> Float64Array:
        """The four numbers, for a file."""
        return np.array([self.lowest, self.highest, self.step, self.median])

    @classmethod
    def from_array(cls, values: Array) -> Self:
        """The scale that `as_array` gave; other numbers raise."""
        lowest, highest, step, median = (float(value) for value in np.asarray(values, np.float64).reshape(4))
        if not (highest >= lowest and step >= 0.0 and median >= 0.0):
            raise InputError(f"scale_ is {[lowest, highest, step, median]}, which is no scale of ratings or counts")
        return cls(lowest, highest, step, median)


class Entries(NamedTuple):
    """Graded entries by user; an item that a user lists several times counts once, with its mean grade.

    Attributes
    ----------
    indptr : int64 (n_users + 1,)
    items : int32 (n_entries,)
    grades : float32 (n_entries,)
    """

    indptr: Int64Array
    items: Int32Array
    grades: Array

    @classmethod
    def of(cls, rankings: Rankings, scale: Scale, items: Int32Array | None = None) -> Self:
        """Entries of rankings; ``items``: their items in the numbering of a model."""
        items = rankings.items if items is None else items
        grades = scale.grades(rankings)
        bounds = rankings.user_bounds
        several = np.diff(rankings.user_indptr).max(initial=0) > 1
        if several and items.size:
            n_items = int(items.max()) + 1
            pair, inverse, count = np.unique(owners(bounds) * n_items + items, return_inverse=True, return_counts=True)
            grades = np.bincount(inverse, grades) / count
            user, item = np.divmod(pair, n_items)
            bounds = indptr_of(np.bincount(user, minlength=rankings.n_users))
            items = item.astype(np.int32)
        return cls(*frozen(bounds, items, grades.astype(np.float32)))

    @property
    def n_users(self) -> int:
        """Users."""
        return self.indptr.size - 1

    def take(self, users: Int64Array) -> Entries:
        """The entries of some users."""
        lengths = self.indptr[users + 1] - self.indptr[users]
        indptr = indptr_of(lengths)
        index = np.repeat(self.indptr[users] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Entries(*frozen(indptr, self.items[index], self.grades[index]))

    def keep(self, kept: Array) -> Entries:
        """Only the entries that are marked."""
        lengths = np.bincount(owners(self.indptr)[kept], minlength=self.n_users)
        return Entries(*frozen(indptr_of(lengths), self.items[kept], self.grades[kept]))

    def scaled(self, factors: Float64Array) -> Entries:
        """The grades of every user times a factor."""
        return self._replace(
            grades=frozen((self.grades * np.repeat(factors, np.diff(self.indptr))).astype(np.float32))[0]
        )

    def by_item(self, n_items: int) -> Entries:
        """The same entries by item: the role of users and items exchanged."""
        view = entries_by_item(self.items, n_items)
        users = owners(self.indptr, np.int32)[view.entries]
        return Entries(*frozen(view.indptr, users, self.grades[view.entries]))


def user_weights(rankings: Rankings) -> Float64Array:
    """How many people each user stands for: the mean weight of the user's rankings, 1 for a user without one."""
    counts = np.diff(rankings.user_indptr)
    total = np.bincount(rankings.ranking_users, rankings.weights, minlength=rankings.n_users)
    return np.where(counts > 0, total / np.maximum(counts, 1), 1.0)
