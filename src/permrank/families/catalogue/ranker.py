"""Models of what people take up: a row of scores over the catalogue follows from a user's graded entries alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.families.catalogue.entries import Entries, Scale
from permrank.posterior.by_features import ByFeatures
from permrank.ragged import frozen, indptr_of
from permrank.rankings.rankings import Rankings
from permrank.rankings.with_attributes import KINDS, with_featured
from permrank.types import Array, Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class CatalogueEstimate(Estimate):
    """What every such model knows: the scale of the grades (4,), and how much of each item was taken up, (n_items,)."""

    scale: Float64Array
    popularity: Float64Array

    @cached_property
    def scorer(self) -> Any:
        """What has ``rows(entries)``, made once."""
        raise NotImplementedError

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        return np.asarray(self.scorer.rows(entries))

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless the parts fit the items."""
        super().check(n_users, n_items)
        self.check_shapes(scale=(4,), popularity=(n_items,))
        Scale.from_array(self.scale)


# Users whose scores say how much features are worth.
_SOME_USERS = 512


class CatalogueRanker(Ranker):
    """Base of the models of what is taken up; one supplies how it learns, and an estimate with `rows`.

    The score of somebody of whom nothing is known is how much an item was taken up. Items are alike that are taken up
    by the same people, more than by everybody: the likeness of others to one is the scores of somebody who has this one
    only, less those of somebody who has a little of everything, as people have it on average.
    """

    finds = True
    scale_ = Learnt[Float64Array]()
    popularity_ = Learnt[Float64Array]()

    def _finds_by_order(self, fitted: Fitted) -> bool:
        return False

    def _rows(self, fitted: Fitted, people: Sequence[Person]) -> Array:
        rows = scored_rows(fitted.estimate, entries_of(fitted, people))
        if not self._featured_items(fitted).size:
            return rows
        by_features: ByFeatures = fitted.derived("by_features", lambda: self._by_features(fitted))
        return by_features.fill(rows)

    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        return np.asarray(self._rows(fitted, [person])[0, items], np.float64)

    def _item_likeness(self, fitted: Fitted, item: int) -> Float64Array:
        popularity = fitted.estimate.popularity
        alone = Entries(*frozen(np.array([0, 1]), np.array([item], np.int32), np.ones(1, np.float32)))
        shares = (popularity / popularity.sum()).astype(np.float32)
        average = Entries(*frozen(np.array([0, shares.size]), np.arange(shares.size, dtype=np.int32), shares))
        own, usual = (scored_rows(fitted.estimate, each)[0].astype(np.float64) for each in (alone, average))
        return np.asarray(own - usual)

    # Cold-start items, which are known by their features alone

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS[:1])

    def _prepared(self, rankings: Rankings) -> Rankings:
        return with_featured(rankings)

    def _by_features(self, fitted: Fitted) -> ByFeatures:
        """How scores depend on features, by some of the users."""
        rankings, features = fitted.rankings, fitted.rankings.features("item")
        assert features is not None
        listed = np.flatnonzero(np.diff(rankings.user_bounds))
        some = listed[np.linspace(0, listed.size - 1, min(listed.size, _SOME_USERS)).astype(np.int64)]
        rows = scored_rows(fitted.estimate, known_entries(fitted).take(some))
        cold = self._featured_items(fitted)
        known = np.setdiff1d(np.arange(rankings.n_items), cold)
        return ByFeatures.of(features.of(rankings.item_ids.ids), known, cold, rows)


def known_entries(fitted: Fitted) -> Entries:
    """Graded entries of the training data."""
    return fitted.derived("entries", lambda: Entries.of(fitted.rankings, Scale.from_array(fitted.estimate.scale)))


def entries_of(fitted: Fitted, people: Sequence[Person]) -> Entries:
    """Graded entries of people; nobody in particular has none."""
    known, indices = known_entries(fitted), [person.index for person in people]
    if None not in indices:
        return known.take(np.array(indices, np.int64))
    scale, parts = Scale.from_array(fitted.estimate.scale), []
    for person in people:
        if person.rankings is not None:
            parts.append(Entries.of(person.rankings, scale, fitted.aligned(person.rankings)))
        else:
            parts.append(known.take(np.array([] if person.index is None else [person.index], np.int64)))
    indptr = indptr_of([part.items.size for part in parts])
    return Entries(*frozen(indptr, *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:])))


def scored_rows(estimate: CatalogueEstimate, entries: Entries) -> Array:
    """Rows of scores, by popularity for users without entries."""
    rows = np.array(estimate.rows(entries))
    rows[np.diff(entries.indptr) == 0] = np.log1p(estimate.popularity)
    return rows


def popularity_of(entries: Entries, n_items: int, weights: Float64Array) -> Float64Array:
    """Sum of the grades of every item, (n_items,)."""
    counted = np.bincount(entries.items, np.repeat(weights, np.diff(entries.indptr)) * entries.grades, n_items)
    return counted.astype(np.float64)
