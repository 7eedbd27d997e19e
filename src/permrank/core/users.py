"""Who a question is about: a user of the training data, a new one, or nobody in particular."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory, require_seed
from permrank.errors import InputError
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.vocabulary import Vocabulary, encode_with
from permrank.types import Float64Array, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class NewUser:
    """A user who was not in the training data; made by ``model.fold_in`` and valid wherever a user is.

    Attributes
    ----------
    rankings : Rankings
        What the user said: one user, one ranking, over items of the model.
    state : dict of arrays
        What the model worked out about the user.
    """

    rankings: Rankings
    state: dict[str, Float64Array] = field(default_factory=dict)


# A scale of stars has at most so many values: a tenth from 0 to 10, or percent.
_STARS = 101
_SOMEBODY = Vocabulary(pl.Series("user", [0], dtype=pl.Int64), "user")
UserReference: TypeAlias = int | NewUser | None
"""Matrix index of a known user, a new user, or None for a model that treats everybody alike."""


def lists_of(user: UserReference, rankings: Rankings, items: Vocabulary) -> list[tuple[Int64Array, Int32Array]]:
    """Rankings of a user as (item indices of the model, levels), best first."""
    if user is None:
        return []
    source, index = (user.rankings, 0) if isinstance(user, NewUser) else (rankings, user)
    found = []
    for ranking in range(int(source.user_indptr[index]), int(source.user_indptr[index + 1])):
        part = slice(int(source.indptr[ranking]), int(source.indptr[ranking + 1]))
        codes = source.items[part].astype(np.int64)
        if source is not rankings:
            codes = items.indices(source.item_ids.take(codes).to_list())
        found.append((codes, source.levels[part]))
    return found


def _ratings(said: Mapping[Any, Any]) -> list[float]:
    try:
        return [float(value) for value in said.values()]
    except (TypeError, ValueError) as error:
        raise InputError(f"fold_in takes a dict of item to rating, and ratings are numbers: {error}") from error


def _require_on_scale(ratings: list[float], known: Rankings) -> None:
    """Raise if a rating cannot be on the scale of the training data: eleven of five stars.

    A scale of stars has few values, each given often; then nothing is above the highest, nor below the lowest by more
    than a step. Elsewhere a rating may lie beyond those of the training data, but not by more than their width.
    """
    if known.ratings is None or not known.n_entries:
        return
    values = known.__dict__.get("_rating_values")
    if values is None:
        values = known.__dict__["_rating_values"] = np.unique(known.ratings).astype(np.float64)
    low, high, few = values[0], values[-1], values.size <= _STARS and known.n_entries >= 10 * values.size
    width = high - low if values.size > 1 else np.inf
    below, above = (np.diff(values).min(initial=width), 0.0) if few else (width, width)
    for rating in ratings:
        if rating < low - below or rating > high + above:
            raise InputError(f"rating {rating:g} is not on the scale of the training data, {low:g} to {high:g}")


def _id_of(entry: Any, items: Vocabulary) -> Any:
    """The id of an item that may be given by its title; of each in a tie."""
    if items.titles is None:
        return entry
    if isinstance(entry, (set, frozenset, list, tuple)):
        return [items[items.find(name)] for name in entry]
    return items[items.find(entry)] if isinstance(entry, str) else entry


def _quick_user(said: object, known: Rankings) -> NewUser | None:
    """A new user who says nothing that has to be looked at twice, without frames; None if there is anything."""
    ids = known.item_ids
    if not isinstance(said, (dict, list)) or not said or not {type(name) for name in said} <= {str, int}:
        return None
    places = [ids.get(name) for name in said]
    if None in places or len(set(places)) < len(places):
        return None
    items = np.array(places, np.int32)
    levels, ratings = np.arange(items.size, dtype=np.int32), None
    if isinstance(said, dict):
        if not {type(value) for value in said.values()} <= {int, float}:
            return None
        values = np.array(list(said.values()), np.float64)
        if not np.isfinite(values).all():
            return None
        _require_on_scale(values.tolist(), known)
        order = np.lexsort((items, -values))
        items, values = items[order], values[order]
        levels = np.concatenate(([0], np.cumsum(values[1:] < values[:-1]))).astype(np.int32)
        ratings = values
    ends = np.array([0, 1]), np.array([0, items.size])
    return NewUser(Rankings._trusted(*ends, items, levels, np.ones(1), _SOMEBODY, known.item_ids, ratings=ratings))


def new_user(said: object, known: Rankings) -> NewUser:
    """A new user from a list (best first, sets are ties) or from a mapping of item to rating; empty, of nothing.

    known: the training data, whose items these are, and whose scale of ratings.
    """
    items = known.item_ids
    quick = _quick_user(said, known)
    if quick is not None:
        return quick
    if isinstance(said, Rankings):
        if said.n_users != 1:
            raise InputError(f"fold_in takes one user, got Rankings of {said.n_users}")
        rankings = said
    elif isinstance(said, Mapping) and said:
        said = {_id_of(name, items): rating for name, rating in said.items()}
        ratings = _ratings(said)
        _require_on_scale(ratings, known)
        rankings = Rankings.from_ratings({"user": [0] * len(said), "item": list(said), "rating": ratings})
    elif isinstance(said, Iterable) and not isinstance(said, str):
        ids = [] if isinstance(said, Mapping) else [_id_of(entry, items) for entry in said]
        rankings = Rankings.from_lists([ids], users=[0])
    else:
        raise InputError(f"fold_in takes a list of items, best first, or a dict of item to rating; got {said!r}")
    if rankings.n_entries == 0:  # ids of no item have no type; those of the model do
        rankings = Rankings.from_lists([[]], users=[0], items=items)
    items.indices(rankings.item_ids)  # an unknown item raises here and is named
    return NewUser(rankings)


def item_indices(items: Iterable[object] | None, ids: Vocabulary) -> Int64Array:
    """Indices of items by id or title, of all if None; an unknown one raises, and so does one that is given twice."""
    if items is None:
        return np.arange(len(ids))
    found = ids.find_all(items)
    if found.size and np.bincount(found).max() > 1:
        twice = ids[int(np.bincount(found).argmax())]
        raise InputError(f"item {twice!r} is given twice; give every item once")
    return found


def list_to_enter(
    user: UserReference, item: object, rankings: Rankings, ids: Vocabulary
) -> tuple[Int64Array, Int32Array, int]:
    """Items and levels of a user's only list, and the index of an item that is not in it."""
    index = ids.find(item)
    lists = lists_of(user, rankings, ids)
    if len(lists) != 1:
        raise InputError(f"the user has {len(lists)} rankings; a position is defined for a user with one")
    items, levels = lists[0]
    if index in items:
        raise InputError(f"item {item!r} is in the user's list already; ask for one that is not")
    return items, levels, index


def aligned_items(rankings: Rankings, ids: Vocabulary) -> Int32Array:
    """Item indices of other rankings in the numbering of these ids; an unknown item raises."""
    rankings = require_rankings(rankings)
    if rankings.item_ids == ids:
        return rankings.items
    ranked = np.unique(rankings.items)
    table = np.full(rankings.n_items, -1, np.int32)
    table[ranked] = encode_with(rankings.item_ids.take(ranked.astype(np.int64)), ids)
    return table[rankings.items]


def require_drawable(size: object, seed: object, n_items: int) -> None:
    """Raise unless so many rankings of so many items can be drawn at once."""
    require_int("size", size, 0)
    require_seed(seed)
    # Orders and ids, 8 bytes each or about so.
    n_bytes = 16 * int(size) * n_items  # type: ignore[call-overload]
    require_memory(n_bytes, f"size={size} rankings of {n_items} items", "draw them in parts")
