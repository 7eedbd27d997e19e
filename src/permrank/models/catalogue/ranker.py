"""Models of what people take up: a row of scores over the catalogue follows from a user's graded entries alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from permrank.data.rankings import Rankings
from permrank.data.with_attributes import KINDS, with_warm
from permrank.models.answers import nearest
from permrank.models.catalogue.entries import Entries, Scale
from permrank.models.estimates import Estimate
from permrank.models.priors.by_features import ByFeatures
from permrank.models.ranker import Ranker
from permrank.models.users import NewUser, UserReference
from permrank.ragged import frozen, indptr_of
from permrank.types import Array, Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class CatalogueEstimate(Estimate):
    """What every such model knows: the scale of the grades (4,), and how much of each item was taken up, (n_items,)."""

    scale: Float64Array
    popularity: Float64Array

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        raise NotImplementedError

    def known(self, rankings: Rankings) -> Entries:
        """Graded entries of the training data, worked out once."""
        found: Entries | None = self.__dict__.get("_known")
        if found is None:
            found = Entries.of(rankings, Scale.from_array(self.scale))
            object.__setattr__(self, "_known", found)  # the class is frozen, and this follows from what it holds
        return found

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless the parts fit the items."""
        super().check(n_users, n_items)
        self.check_shapes(scale=(4,), popularity=(n_items,))
        Scale.from_array(self.scale)


# Users whose scores say how much features are worth.
_SOME_USERS = 512


class CatalogueRanker(Ranker):
    """Base of the models of what is taken up; one supplies how it learns, and an estimate with `rows`.

    The score of somebody of whom nothing is known is how much an item was taken up.
    """

    finds = True
    estimate_: CatalogueEstimate
    scale_: Float64Array
    popularity_: Float64Array

    @property
    def _finds_by_order(self) -> bool:
        return False

    def _entries(self, users: Sequence[UserReference]) -> Entries:
        """Graded entries of users: known by index, new, or nobody in particular, who has none."""
        known = self.estimate_.known(self.rankings_)
        if all(isinstance(user, int) for user in users):
            return known.take(np.array(users, np.int64))
        scale, nothing = Scale.from_array(self.estimate_.scale), np.zeros(0, np.int64)
        parts = []
        for user in users:
            if isinstance(user, NewUser):
                parts.append(Entries.of(user.rankings, scale, self._aligned_items(user.rankings)))
            else:
                parts.append(known.take(nothing if user is None else np.array([user])))
        indptr = indptr_of([part.items.size for part in parts])
        return Entries(*frozen(indptr, *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:])))

    def _score_rows(self, users: Sequence[UserReference]) -> Array:
        rows = scored_rows(self.estimate_, self._entries(users))
        warm = self._warm_items()
        return rows if not warm.size else self._by_features(warm).fill(rows)

    # Items that are known by their features alone

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS[:1])

    def _prepared(self, rankings: Rankings) -> Rankings:
        return with_warm(rankings)

    def _warm_items(self) -> Int64Array:
        if self.rankings_.features("item") is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(self.rankings_.items, minlength=self.rankings_.n_items) == 0)

    def _by_features(self, warm: Int64Array) -> ByFeatures:
        """How scores depend on features, worked out once, by some of the users."""
        found: ByFeatures | None = self.estimate_.__dict__.get("_by_features")
        features = self.rankings_.features("item")
        if found is None and features is not None:
            listed = np.flatnonzero(np.diff(self.rankings_.user_bounds))
            some = listed[np.linspace(0, listed.size - 1, min(listed.size, _SOME_USERS)).astype(np.int64)]
            rows = scored_rows(self.estimate_, self._entries(some.tolist()))
            known = np.setdiff1d(np.arange(self.rankings_.n_items), warm)
            found = ByFeatures.of(features.of(self.rankings_.item_ids.ids), known, warm, rows)
            object.__setattr__(self.estimate_, "_by_features", found)
        assert found is not None
        return found

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        return np.asarray(self._score_rows([user])[0, items], np.float64)

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that are taken up by those who take up this one, more than they are by everybody.

        These are the scores of somebody who has only this item, less those of somebody who has a little of everything,
        as people have it on average.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``similarity``, best first, without the item itself.
        """
        self._require_fitted()
        index = self.item_ids.find(item)
        alone = Entries(*frozen(np.array([0, 1]), np.array([index], np.int32), np.ones(1, np.float32)))
        shares = (self.popularity_ / self.popularity_.sum()).astype(np.float32)
        average = Entries(*frozen(np.array([0, shares.size]), np.arange(shares.size, dtype=np.int32), shares))
        own, usual = (scored_rows(self.estimate_, each)[0].astype(np.float64) for each in (alone, average))
        return nearest(own - usual, index, k, self.item_ids)


def scored_rows(estimate: CatalogueEstimate, entries: Entries) -> Array:
    """Rows of scores, by popularity for users without entries."""
    rows = np.array(estimate.rows(entries))
    rows[np.diff(entries.indptr) == 0] = np.log1p(estimate.popularity)
    return rows


def popularity_of(entries: Entries, n_items: int, weights: Float64Array) -> Float64Array:
    """Sum of the grades of every item, (n_items,)."""
    counted = np.bincount(entries.items, np.repeat(weights, np.diff(entries.indptr)) * entries.grades, n_items)
    return counted.astype(np.float64)
