"""Two sets of rankings in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.ragged import indptr_of, ranges
from permrank.rankings.build import keys_of, lay_out
from permrank.rankings.constructors import are_sets, sets_of
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int32Array, Int64Array

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings


def joined(first: Rankings, second: Rankings) -> Rankings:
    """All users, items and rankings of both.

    Ratings of a user who is in both become one list, and a newer rating of an item replaces the older one. Lists
    without ratings stay apart, as several rankings of the same user. Sets without order become one set, and the counts
    of an item that is in both are added up. Ballots without voters are never the same person:
    those of the first keep their ids, and those of the second get new ones that come after them.

    Examples
    --------
    >>> import permrank as pr
    >>> both = pr.Rankings.from_lists({"ann": ["a", "b"]}).joined(pr.Rankings.from_lists({"bob": ["c", "a"]}))
    >>> both.n_users, both.n_items, both.n_entries
    (2, 3, 4)
    """
    if (first.ratings is None) != (second.ratings is None):
        raise InputError("one of the two has ratings and the other has not; give both as ratings or both as lists")
    if first.anonymous != second.anonymous:
        raise InputError("one of the two has users and the other has ballots without voters; they cannot be joined")
    if first.anonymous:
        second = _numbered_on(first, second)
    users = _union(first.user_ids, second.user_ids, "user")
    items = _union(first.item_ids, second.item_ids, "item")
    if first.ratings is not None and _one_each(first) and _one_each(second):
        return _joined_ratings(first, second, users, items)
    if _are_interactions(first, second):
        return _joined_sets(first, second, users, items)
    owner = np.concatenate([_owners(part, users) for part in (first, second)])
    order = np.argsort(owner, kind="stable")
    lengths = np.concatenate((first.lengths, second.lengths))
    begins = np.concatenate((first.indptr[:-1], second.indptr[:-1] + first.n_entries))
    entries = ranges(begins[order], begins[order] + lengths[order])
    codes = np.concatenate([items.codes(part.item_ids.ids)[part.items] for part in (first, second)])
    ratings = None if first.ratings is None else np.concatenate((first.ratings, second.ratings))[entries]
    counts = np.concatenate((_counts(first), _counts(second)))[entries]
    return type(first)(
        indptr_of(np.bincount(owner, minlength=len(users))),
        indptr_of(lengths[order]),
        codes[entries],
        np.concatenate((first.levels, second.levels))[entries],
        np.concatenate((first.weights, second.weights))[order],
        users,
        items,
        ratings=ratings,
        counts=counts,
        anonymous=first.anonymous,
    )


def _joined_ratings(first: Rankings, second: Rankings, users: Vocabulary, items: Vocabulary) -> Rankings:
    """One list per user: entries of the first that the second rates anew are left out."""
    rows = []
    for part in (first, second):
        rows.append((*_rows(part, users, items), part.ratings.astype(np.float64), _counts(part)))
    keys = [owner * len(items) + item for owner, item, *_ in rows]
    kept = ~np.isin(keys[0], keys[1])
    owners, codes, ratings, counts = (np.concatenate((old[kept], new)) for old, new in zip(*rows, strict=True))
    better = keys_of(ratings, descending=True)
    layout = lay_out(owners, better.codes, codes.astype(np.int32), len(users), len(items))
    order = np.lexsort((codes, better.codes, owners)) if (counts != 1).any() else slice(None)
    return type(first)(
        np.arange(len(users) + 1),
        layout.indptr,
        layout.items,
        layout.levels,
        np.ones(len(users)),
        users,
        items,
        ratings=better.decode(layout.codes),
        counts=counts[order],
        anonymous=first.anonymous,
    )


def _are_interactions(first: Rankings, second: Rankings) -> bool:
    """Whether both are sets without order; lists of one item each may be ballots as well, and stay apart."""
    evident = any(part.has_ties or part.counts is not None for part in (first, second))
    return evident and are_sets(first) and are_sets(second)


def _joined_sets(first: Rankings, second: Rankings, users: Vocabulary, items: Vocabulary) -> Rankings:
    rows = [(*_rows(part, users, items), _counts(part)) for part in (first, second)]
    owners, codes, counts = (np.concatenate(pair) for pair in zip(*rows, strict=True))
    return sets_of(type(first), owners, codes, counts, users, items)


def _rows(rankings: Rankings, users: Vocabulary, items: Vocabulary) -> tuple[Int64Array, Int32Array]:
    """User and item of each entry, among all."""
    owner = np.repeat(_owners(rankings, users), rankings.lengths)
    return owner, items.codes(rankings.item_ids.ids)[rankings.items]


def _counts(rankings: Rankings) -> Float64Array:
    return np.ones(rankings.n_entries) if rankings.counts is None else rankings.counts.astype(np.float64)


def _numbered_on(first: Rankings, second: Rankings) -> Rankings:
    """The second with ids that come after all of the first."""
    old, new = first.user_ids, second.user_ids
    if not len(old) or old.ids.dtype != new.ids.dtype:
        return second
    last = old[len(old) - 1]
    ids = pl.Series("user", np.arange(len(new)) + last + 1) if isinstance(last, int) else f"{last}+" + new.ids
    return second._with(user_ids=Vocabulary(ids, "user"))


def _one_each(rankings: Rankings) -> bool:
    return bool((np.diff(rankings.user_indptr) == 1).all() and (rankings.weights == 1).all())


def _union(first: Vocabulary, second: Vocabulary, kind: str) -> Vocabulary:
    if first.ids.dtype != second.ids.dtype and len(first) and len(second):
        raise InputError(f"{kind} ids are strings on one side and whole numbers on the other; give both in one form")
    ids = pl.concat([first.ids, second.ids]).unique().sort()
    return Vocabulary(ids, kind, first.attributes).with_attributes(second.attributes)


def _owners(rankings: Rankings, users: Vocabulary) -> Int64Array:
    return np.asarray(users.codes(rankings.user_ids.ids)[rankings.ranking_users].astype(np.int64))
