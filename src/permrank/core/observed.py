"""What somebody new has listed: one parser from a list, ratings or rankings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary

# A scale of stars has at most so many values: a tenth from 0 to 10, or percent.
_STARS = 101
SOMEBODY = Vocabulary(pl.Series("user", [0], dtype=pl.Int64), "user")


def _ratings(said: Mapping[object, Any]) -> list[float]:
    try:
        return [float(value) for value in said.values()]
    except (TypeError, ValueError) as error:
        raise InputError(f"fold_in takes a dict of item to rating, and ratings are numbers: {error}") from error


def _require_on_scale(ratings: list[float], training: Rankings) -> None:
    """Raise if a rating cannot be on the scale of the training data: eleven of five stars.

    A scale of stars has few values, each given often; then nothing is above the highest, nor below the lowest by more
    than a step. Elsewhere a rating may lie beyond those of the training data, but not by more than their width.
    """
    if training.ratings is None or not training.n_entries:
        return
    values = training.rating_values
    low, high, few = values[0], values[-1], values.size <= _STARS and training.n_entries >= 10 * values.size
    width = high - low if values.size > 1 else np.inf
    below, above = (np.diff(values).min(initial=width), 0.0) if few else (width, width)
    for rating in ratings:
        if rating < low - below or rating > high + above:
            raise InputError(f"rating {rating:g} is not on the scale of the training data, {low:g} to {high:g}")


def _id_of(entry: object, items: Vocabulary) -> object:
    """The id of an item that may be given by its title; of each in a tie."""
    if items.titles is None:
        return entry
    if isinstance(entry, (set, frozenset, list, tuple)):
        return [items[items.find(name)] for name in entry]
    return items[items.find(entry)] if isinstance(entry, str) else entry


def _plain(said: object, training: Rankings) -> Rankings | None:
    """Fast path, without frames: known ids, no ties, no duplicates, finite ratings; None for anything else."""
    ids = training.item_ids
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
        _require_on_scale(values.tolist(), training)
        order = np.lexsort((items, -values))
        items, values = items[order], values[order]
        levels = np.concatenate(([0], np.cumsum(values[1:] < values[:-1]))).astype(np.int32)
        ratings = values
    ends = np.array([0, 1]), np.array([0, items.size])
    return Rankings._trusted(*ends, items, levels, np.ones(1), SOMEBODY, training.item_ids, ratings=ratings)


def observed(said: object, training: Rankings) -> Rankings:
    """Rankings of one user from a list (best first, sets are ties), a mapping of item to rating, or rankings.

    training: the training data, whose items these are, and whose scale of ratings.
    """
    items = training.item_ids
    plain = _plain(said, training)
    if plain is not None:
        return plain
    if isinstance(said, Rankings):
        if said.n_users != 1:
            raise InputError(f"fold_in takes one user, got Rankings of {said.n_users}")
        rankings = said
    elif isinstance(said, Mapping) and said:
        said = {_id_of(name, items): rating for name, rating in said.items()}
        ratings = _ratings(said)
        _require_on_scale(ratings, training)
        rankings = Rankings.from_ratings({"user": [0] * len(said), "item": list(said), "rating": ratings})
    elif isinstance(said, Iterable) and not isinstance(said, str):
        ids = [] if isinstance(said, Mapping) else [_id_of(entry, items) for entry in said]
        rankings = Rankings.from_lists([ids], users=[0])
    else:
        raise InputError(f"fold_in takes a list of items, best first, or a dict of item to rating; got {said!r}")
    if rankings.n_entries == 0:  # ids of no item have no type; those of the model do
        rankings = Rankings.from_lists([[]], users=[0], items=items)
    items.indices(rankings.item_ids)  # an unknown item raises here and is named
    return rankings
