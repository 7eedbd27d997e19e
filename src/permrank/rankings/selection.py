"""Rankings made from other rankings: parts, merged ballots, completed lists, broken ties."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from permrank.errors import InputError, argument
from permrank.ragged import indptr_of, positions
from permrank.randomness import generator
from permrank.rankings.build import check_sums, renumbered
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import BoolArray

# 2^27 entries are 1 GiB of items and levels, and a few more while they are made.
_MOST_ENTRIES = 2**27


def select(rankings: Rankings, users: Iterable[object] | None, items: Iterable[object] | None) -> Rankings:
    """Only these users, only these items."""
    keep_user = _mask(rankings.user_ids, users)
    keep_item = _mask(rankings.item_ids, items)
    return _forget(restrict(rankings, keep_user, keep_item), rankings, keep_user, keep_item)


def drop(rankings: Rankings, users: Iterable[object], items: Iterable[object]) -> Rankings:
    """All but these users and items."""
    keep_user, keep_item = ~_mask(rankings.user_ids, users), ~_mask(rankings.item_ids, items)
    return _forget(restrict(rankings, keep_user, keep_item), rankings, keep_user, keep_item)


def _forget(left: Rankings, before: Rankings, keep_user: BoolArray, keep_item: BoolArray) -> Rankings:
    """Nothing is known any more of who and what was left out; of those that have no ranking at all, still."""
    for kept, keep, had in ((left.user_ids, keep_user, before.user_ids), (left.item_ids, keep_item, before.item_ids)):
        if kept.attributes is not None and not keep.all():
            kept.attributes = kept.attributes.without(had.ids.filter(~keep))
    return left


def _mask(vocabulary: Vocabulary, chosen: Iterable[object] | None) -> BoolArray:
    if chosen is None:
        return np.ones(len(vocabulary), bool)
    mask = np.zeros(len(vocabulary), bool)
    mask[vocabulary.indices(chosen)] = True
    return mask


def restrict(rankings: Rankings, keep_user: BoolArray, keep_item: BoolArray) -> Rankings:
    """Only the users and items that are marked; what is known of the others is kept."""
    user_of_ranking = rankings.ranking_users
    keep_entry = np.repeat(keep_user[user_of_ranking], rankings.lengths) & keep_item[rankings.items]
    left = np.bincount(rankings.entry_rankings()[keep_entry], minlength=rankings.n_rankings)
    keep_ranking = left > 0
    indptr = indptr_of(left[keep_ranking])
    new_user = np.cumsum(keep_user) - 1
    counts = np.bincount(new_user[user_of_ranking[keep_ranking]], minlength=int(keep_user.sum()))
    new_item = np.cumsum(keep_item) - 1
    return Rankings._trusted(
        indptr_of(counts),
        indptr,
        new_item[rankings.items[keep_entry]],
        renumbered(rankings.levels[keep_entry], indptr),
        rankings.weights[keep_ranking],
        Vocabulary(rankings.user_ids.ids.filter(keep_user), "user", rankings.user_ids.attributes),
        Vocabulary(rankings.item_ids.ids.filter(keep_item), "item", rankings.item_ids.attributes),
        **rankings._attached(keep_entry),
    )


def merged(rankings: Rankings) -> Rankings:
    """Equal rankings once, in the order in which they first come, with summed weights; equal are also their counts."""
    groups: dict[bytes, int] = {}
    group = np.empty(rankings.n_rankings, np.int64)
    for ranking in range(rankings.n_rankings):
        part = slice(rankings.indptr[ranking], rankings.indptr[ranking + 1])
        content = rankings.items[part].tobytes() + rankings.levels[part].tobytes()
        if rankings.counts is not None:
            content += rankings.counts[part].tobytes()
        group[ranking] = groups.setdefault(content, len(groups))
    n = len(groups)
    weights = np.bincount(group, weights=rankings.weights, minlength=n).astype(np.float64)
    check_sums(weights)
    _, first = np.unique(group, return_index=True)
    keep = np.zeros(rankings.n_rankings, bool)
    keep[first] = True
    keep_entry = np.repeat(keep, rankings.lengths)
    return Rankings._trusted(
        np.arange(n + 1),
        indptr_of(rankings.lengths[first]),
        rankings.items[keep_entry],
        rankings.levels[keep_entry],
        weights,
        Vocabulary(pl.Series("user", np.arange(n), dtype=pl.Int64), "user"),
        rankings.item_ids,
        counts=None if rankings.counts is None else rankings.counts[keep_entry],
        anonymous=True,
    )


def with_unlisted_last(rankings: Rankings) -> Rankings:
    """Complete every ranking by a last tie block of all items that it does not list; counts are left out."""
    n, m = rankings.n_rankings, rankings.n_items
    if n * m > _MOST_ENTRIES:
        raise InputError(
            f"{n} rankings over {m} items would make {n * m} entries; "
            f"{argument('unlisted', 'last')} is for choice sets that a person could look through"
        )
    unlisted = np.ones(n * m, bool)
    unlisted[rankings.entry_rankings() * m + rankings.items] = False
    rest = np.flatnonzero(unlisted)
    # Each ranking's own entries come first, then the rest in the order of the items.
    is_rest = np.arange(m) >= rankings.lengths[:, None]
    items, levels = np.empty((n, m), np.int32), np.empty((n, m), np.int32)
    items[~is_rest], levels[~is_rest] = rankings.items, rankings.levels
    items[is_rest], levels[is_rest] = rest % m, np.repeat(rankings.last_levels + 1, m - rankings.lengths)
    completed = Rankings._trusted(
        rankings.user_indptr,
        np.arange(n + 1) * m,
        items.ravel(),
        levels.ravel(),
        rankings.weights,
        rankings.user_ids,
        rankings.item_ids,
        anonymous=rankings.anonymous,
    )
    # Ballots that differed only in whether they name the last item are now equal.
    return merged(completed) if rankings.anonymous else completed


def shuffled_ties(rankings: Rankings, seed: int | None) -> Rankings:
    """Draw the order inside every tie block at random."""
    shuffled = generator(seed).random(rankings.n_entries)
    order = np.lexsort((shuffled, rankings.levels, rankings.entry_rankings()))
    return Rankings._trusted(
        rankings.user_indptr,
        rankings.indptr,
        rankings.items[order],
        positions(rankings.indptr),
        rankings.weights,
        rankings.user_ids,
        rankings.item_ids,
        **rankings._attached(order),
    )


def to_frame(rankings: Rankings) -> pl.DataFrame:
    """One row per entry."""
    columns: dict[str, object] = {
        "ballot" if rankings.anonymous else "user": rankings.user_ids.take(rankings.entry_users())
    }
    if np.diff(rankings.user_indptr).max(initial=0) > 1:
        columns["ranking"] = np.repeat(positions(rankings.user_indptr), rankings.lengths)
    columns["item"] = rankings.item_ids.take(rankings.items.astype(np.int64))
    columns["rank"] = rankings.levels + 1
    if rankings.ratings is not None:
        columns["rating"] = rankings.ratings
    if rankings.counts is not None:
        columns["count"] = rankings.counts
    if (rankings.weights != 1).any():
        columns["weight"] = rankings.entry_weights()
    return pl.DataFrame(columns)


def to_lists(rankings: Rankings, user: object = None) -> list[list[Any]]:
    """Python lists of ids, ties as sets; of one user or of all."""
    chosen = range(rankings.n_rankings)
    if user is not None:
        index = rankings.user_index(user)
        chosen = range(int(rankings.user_indptr[index]), int(rankings.user_indptr[index + 1]))
    return [_to_list(rankings, ranking) for ranking in chosen]


def _to_list(rankings: Rankings, ranking: int) -> list[Any]:
    part = slice(int(rankings.indptr[ranking]), int(rankings.indptr[ranking + 1]))
    ids = rankings.item_ids.take(rankings.items[part].astype(np.int64)).to_list()
    blocks: list[list[Any]] = [[] for _ in range(int(rankings.levels[part][-1]) + 1)]
    for name, level in zip(ids, rankings.levels[part], strict=True):
        blocks[level].append(name)
    return [block[0] if len(block) == 1 else set(block) for block in blocks]
