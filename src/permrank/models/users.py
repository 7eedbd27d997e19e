"""Who a question is about: a user of the training data, a new one, or nobody in particular."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from permrank.data.rankings import Rankings
from permrank.data.vocabulary import Vocabulary
from permrank.errors import InputError
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


UserReference: TypeAlias = int | NewUser | None
"""Matrix index of a known user, a new user, or None for a model that treats everybody alike."""


def lists_of(user: UserReference, rankings: Rankings, items: Vocabulary) -> list[tuple[Int64Array, Int32Array]]:
    """Rankings of a user as (item indices of the model, levels), best first."""
    if user is None:
        return []
    source, place = (user.rankings, 0) if isinstance(user, NewUser) else (rankings, user)
    found = []
    for ranking in range(int(source.user_indptr[place]), int(source.user_indptr[place + 1])):
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


def new_user(said: Any, items: Vocabulary) -> NewUser:
    """A new user from a list (best first, sets are ties) or from a mapping of item to rating; empty, of nothing."""
    if isinstance(said, Rankings):
        if said.n_users != 1:
            raise InputError(f"fold_in takes one user, got Rankings of {said.n_users}")
        rankings = said
    elif isinstance(said, Mapping) and said:
        rankings = Rankings.from_ratings({"user": [0] * len(said), "item": list(said), "rating": _ratings(said)})
    elif isinstance(said, Iterable) and not isinstance(said, str):
        rankings = Rankings.from_lists([[] if isinstance(said, Mapping) else said], users=[0])
    else:
        raise InputError(f"fold_in takes a list of items, best first, or a dict of item to rating; got {said!r}")
    if rankings.n_entries == 0:  # ids of no item have no type; those of the model do
        rankings = Rankings.from_lists([[]], users=[0], items=items)
    items.indices(rankings.item_ids)  # an unknown item raises here and is named
    return NewUser(rankings)
