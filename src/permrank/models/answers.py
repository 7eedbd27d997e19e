"""The frames that models answer with: the best items, and similar items and users."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.errors import CatalogueWarning
from permrank.models.estimates import Estimate
from permrank.models.users import NewUser, UserReference
from permrank.types import Array, BoolArray, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.models.ranker import Ranker

# Probability with which an item's rank lies in its interval.
_INTERVAL = 0.9
# Rows of scores that are held at a time: so many numbers of at most 8 bytes.
_BLOCK = 1 << 23
# A catalogue, as against a list of candidates: so many items, and so many times as many as the user has listed.
_CATALOGUE, _TIMES = 100, 10
_said: weakref.WeakSet[Estimate] = weakref.WeakSet()


def ranked(model: Ranker, user: UserReference, items: Int64Array) -> pl.DataFrame:
    """All of some items: ``rank``, ``item``, ``score``, and if they are known ``rank_low`` and ``rank_high``."""
    scores = model._scores(user, items)
    # Equal scores keep the order of the ids, so that the answer does not depend on the caller's.
    order = np.lexsort((items, -scores))
    return _with_interval(model, user, items, order, _frame(model, items[order], scores[order]))


def recommend(
    self: Ranker,
    users: object,
    k: int = 10,
    *,
    items: Iterable[object] | None = None,
    exclude: Iterable[object] = (),
    interval: bool = False,
) -> pl.DataFrame:
    """Return the best ``k`` items that a user has not listed, or each of several users; fewer if there are fewer.

    Parameters
    ----------
    users : id, new user, list of these, or None
        None is everybody, or nobody in particular where a model treats all alike.
    k : int
    items : ids, optional
        Only these are recommended.
    exclude : ids
        These are not.
    interval : bool
        Add ``rank_low`` and ``rank_high``, if the model gives a distribution: with probability 0.9 the item's rank
        among all that could be recommended lies between.

    Returns
    -------
    polars.DataFrame
        Columns ``rank`` (from 1), ``item``, ``score``; before them ``user`` if several are asked about.

    Examples
    --------
    >>> import permrank as pr
    >>> lists = {"ann": ["a", "b"], "bob": ["b", "c", "d"], "cat": ["c", "a", "b"]}
    >>> model = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists))
    >>> model.recommend("ann", k=2)["item"].to_list()
    ['c', 'd']
    >>> model.recommend(["ann", "cat"], k=1).rows()
    [('ann', 1, 'c', 2.0), ('cat', 1, 'd', 1.0)]
    >>> model.recommend("ann", exclude=["c"])["item"].to_list()
    ['d']
    """
    self._require_fitted()
    require_int("k", k, 1)
    if users is None and not self.knows_nobody:
        users = self.user_ids
    allowed = np.zeros(len(self.item_ids), bool)
    allowed[self._item_indices(items)] = True
    allowed[self._item_indices(list(exclude))] = False
    return _recommended(self, users, allowed, int(k), interval=interval)


def _recommended(model: Ranker, users: object, allowed: BoolArray, k: int, *, interval: bool) -> pl.DataFrame:
    """The best k items of the allowed ones that a user, or each of several, has not listed."""
    several = isinstance(users, Iterable) and not isinstance(users, str)
    asked = list(users) if several else [users]  # type: ignore[call-overload]
    references = [model._reference(user) for user in asked]
    _notice_catalogue(model, references)
    frames = []
    size = max(1, _BLOCK // max(len(model.item_ids), 1))
    for first in range(0, len(references), size):
        block = references[first : first + size]
        for user, row in zip(block, model._score_rows(block), strict=True):
            items = np.flatnonzero(allowed & unlisted(model, user))
            best = first_of(row[items], k)
            frame = _frame(model, items[best], row[items[best]].astype(np.float64))
            if interval and model._finds_by_order:
                frame = _with_interval(model, user, items, best, frame)
            frames.append(frame)
    return _together(model, asked, frames) if several else frames[0]


def first_of(scores: Array, k: int) -> Int64Array:
    """Indices of the k largest scores, best first; of equal ones the lower index."""
    if scores.size > k:
        edge = np.partition(scores, scores.size - k)[scores.size - k]
        candidates = np.flatnonzero(scores >= edge)
    else:
        candidates = np.arange(scores.size)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:k]


def unlisted(model: Ranker, user: UserReference) -> BoolArray:
    """Which items a user has not listed."""
    free = np.ones(len(model.item_ids), bool)
    if isinstance(user, NewUser):
        free[model._aligned_items(user.rankings)] = False
    elif user is not None:
        free[model.rankings_.items_of(user)] = False
    return free


def _together(model: Ranker, users: Sequence[object], frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames of several users as one, with ``user`` first; somebody new has none."""
    dtype = model.user_ids.ids.dtype
    named = [
        frame.select(pl.lit(None if isinstance(user, NewUser) else user, dtype).alias("user"), pl.all())
        for user, frame in zip(users, frames, strict=True)
    ]
    if named:
        return pl.concat(named)
    return pl.DataFrame(schema={"user": dtype, "rank": pl.Int64, "item": model.item_ids.ids.dtype, "score": pl.Float64})


def _frame(model: Ranker, items: Int64Array, scores: Float64Array) -> pl.DataFrame:
    ids = model.item_ids.take(items)
    return pl.DataFrame({"rank": np.arange(1, items.size + 1), "item": ids, "score": scores})


def _with_interval(
    model: Ranker, user: UserReference, items: Int64Array, order: Int64Array, frame: pl.DataFrame
) -> pl.DataFrame:
    if not model._knows_ranks:
        return frame
    # Draws of rankings belong to positions: in the order of the items' numbers, whatever the order of the question.
    numbered = np.argsort(items, kind="stable")
    place = np.empty(items.size, np.int64)
    place[numbered] = np.arange(items.size)
    low, high = model._distribution(user, items[numbered]).rank_interval(place[order], _INTERVAL).T
    return frame.with_columns(rank_low=pl.Series(low + 1), rank_high=pl.Series(high + 1))


def _notice_catalogue(model: Ranker, users: Sequence[UserReference]) -> None:
    """Say once for each fitted model that only orders what is listed that a catalogue asks for more."""
    n_items = len(model.item_ids)
    if model.finds or n_items < _CATALOGUE or model.estimate_ in _said:
        return
    if any(n_items >= _TIMES * max(n_items - int(unlisted(model, user).sum()), 1) for user in users[:1]):
        _said.add(model.estimate_)
        warnings.warn(
            f"{type(model).__name__} has learnt how people order what they list, not what they would choose: of "
            f"{n_items} items it may recommend some that nobody takes up. permrank.Recommender() learns both",
            CatalogueWarning,
            stacklevel=5,
        )


def mean_cosine(rows: Array, target: Array) -> Float64Array:
    """Cosine of every row with the target, (n_draws, n, K) and (n_draws, K), averaged over the draws."""
    total = np.zeros(rows.shape[1])
    for each, wanted in zip(rows, target, strict=True):
        lengths = np.linalg.norm(each, axis=1) * np.linalg.norm(wanted)
        total += (each @ wanted) / np.where(lengths > 0, lengths, 1.0)
    return total / len(rows)


def nearest(similarity: Float64Array, own: int, k: int, take: Any, kind: str) -> pl.DataFrame:
    """The k most similar rows but one's own, as a frame."""
    require_int("k", k, 1)
    order = np.lexsort((np.arange(similarity.size), -similarity))
    order = order[order != own][: int(k)]
    return pl.DataFrame({"rank": np.arange(1, order.size + 1), kind: take(order), "similarity": similarity[order]})
