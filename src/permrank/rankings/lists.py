"""Python lists to `Rankings`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from permrank.errors import InputError, shown
from permrank.ragged import indptr_of
from permrank.rankings.build import check_weights, lay_out
from permrank.rankings.choice_sets import Unlisted, check_unlisted, warn_of_choice_set
from permrank.rankings.vocabulary import Vocabulary, encode, id_series
from permrank.types import Float64Array, Int32Array, UserId

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings

Id: TypeAlias = Any
"""What callers give as an id: checked when it is encoded."""


def from_lists(
    cls: type[Rankings],
    lists: Mapping[Any, Iterable[object]] | Iterable[Iterable[object]],
    *,
    users: Iterable[UserId] | None = None,
    weights: Iterable[float] | None = None,
    items: Iterable[str | int] | None = None,
    unlisted: Unlisted | None = None,
) -> Rankings:
    """Rankings from Python lists of items, best first; a set (or a list) inside is a tie.

    Parameters
    ----------
    lists : mapping of user to ranking, or sequence of rankings
        A sequence without ``users`` holds ballots without a voter; equal ones are merged.
    users : sequence, optional
        User of each ranking; a user who comes several times has several rankings.
    weights : sequence, optional
        How often each ranking was given (1).
    items : sequence, optional
        Items that exist beside those that are ranked: the choice set.
    unlisted : {"ignore", "last"}, optional
        What is known of items that a ranking does not list: nothing, or that they are all
        below the listed ones (a top-k list over a known choice set). Left out, nothing; a
        `permrank.errors.ChoiceSetWarning` then says if the lists look like such tops.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b"], ["b"], ["a", "b"]], unlisted="last")
    >>> ballots.lists(), ballots.weights.tolist()
    ([['a', 'b'], ['b', 'a']], [2.0, 1.0])
    """
    check_unlisted(unlisted)
    if isinstance(lists, Mapping):
        if users is not None:
            raise InputError("users= goes with a sequence of rankings; a mapping names its users itself")
        users, rows = list(lists), list(lists.values())
    elif isinstance(lists, Iterable) and not isinstance(lists, str):
        rows = list(lists)
        users = None if users is None else list(users)
    else:
        raise InputError(f"expected a mapping of user to ranking or a sequence of rankings, got {lists!r}")
    anonymous = users is None
    names = range(len(rows)) if users is None else users
    if len(names) != len(rows):
        raise InputError(f"{len(names)} users for {len(rows)} rankings; give one user for each ranking")
    if not rows:
        raise InputError("no rankings were given")
    flat, levels, lengths = _flatten(rows)
    extra = [] if items is None else list(items)
    item_ids = Vocabulary.of([*flat, *extra], "item")
    codes = item_ids.codes(id_series(flat, "item"))
    given = _list_weights(weights, len(rows))
    arrays = _order_by_user(list(names), lengths, codes, levels, given, len(item_ids))
    rankings = cls._trusted(*arrays, item_ids, anonymous=False)
    if unlisted == "last":
        rankings = rankings.with_unlisted_last()
    rankings = rankings.merged() if anonymous else rankings
    if unlisted is None:
        warn_of_choice_set(rankings, stacklevel=2)
    return rankings


def _flatten(rows: list[Id]) -> tuple[list[Id], list[int], list[int]]:
    flat: list[Id] = []
    levels: list[int] = []
    lengths: list[int] = []
    for index, row in enumerate(rows):
        if isinstance(row, (str, bytes, set, frozenset, Mapping)) or not isinstance(row, Iterable):
            raise InputError(f"ranking {index} is {shown(row)}, expected a list of items, best first")
        seen: set[Id] = set()
        before = len(flat)
        level = 0
        for entry in row:
            block = list(entry) if isinstance(entry, (set, frozenset, list, tuple)) else [entry]
            for name in block:
                if isinstance(name, np.generic):
                    name = name.item()
                if not isinstance(name, (str, int)) or isinstance(name, bool):
                    raise InputError(
                        f"ranking {index} holds {shown(name)}, expected the id of an item: string or integer"
                    )
                if isinstance(name, str) and not name.strip():
                    raise InputError(f"ranking {index}: an item id is empty")
                if name in seen:
                    raise InputError(f"ranking {index}: item {shown(name)} comes twice; drop one")
                seen.add(name)
                flat.append(name)
                levels.append(level)
            level += bool(block)
        lengths.append(len(flat) - before)
    return flat, levels, lengths


def _list_weights(weights: Iterable[float] | None, n: int) -> Float64Array:
    if weights is None:
        return np.ones(n)
    try:
        given = np.array(list(weights), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"weights must be numbers: {error}") from error
    if given.shape != (n,):
        raise InputError(f"{given.size} weights for {n} rankings; give one weight for each ranking")
    check_weights(given, "ranking")
    return given


def _order_by_user(
    names: list[Id],
    lengths: list[int],
    items: Int32Array,
    levels: list[int],
    weights: Float64Array,
    n_items: int,
) -> tuple[Any, ...]:
    """Sort rankings by user; an empty list leaves a user without a ranking."""
    series = id_series(names, "user")
    if series.dtype == pl.String and (series.str.strip_chars() == "").any():
        raise InputError("a user id is empty; give every ranking a user")
    users, user_ids = encode(series, "user")
    sizes = np.array(lengths, np.int64)
    kept = np.flatnonzero(sizes)
    order = kept[np.argsort(users[kept], kind="stable")]
    index = np.empty(sizes.size, np.int64)
    index[order] = np.arange(order.size)
    layout = lay_out(np.repeat(index, sizes), np.array(levels, np.int64), items, order.size, max(n_items, 1))
    user_indptr = indptr_of(np.bincount(users[order], minlength=len(user_ids)))
    return user_indptr, *layout[:3], weights[order], user_ids


def to_lists(self: Rankings, user: object = None) -> list[list[Any]]:
    """Rankings as Python lists of ids, ties as sets; of one user or of all."""
    chosen = range(self.n_rankings)
    if user is not None:
        index = self.user_index(user)
        chosen = range(int(self.user_indptr[index]), int(self.user_indptr[index + 1]))
    lists = []
    for ranking in chosen:
        part = slice(int(self.indptr[ranking]), int(self.indptr[ranking + 1]))
        ids = self.item_ids.take(self.items[part].astype(np.int64)).to_list()
        blocks = tie_blocks(ids, self.levels[part].tolist())
        lists.append([block[0] if len(block) == 1 else set(block) for block in blocks])
    return lists


def tie_blocks(entries: list[Any], levels: list[int]) -> list[list[Any]]:
    """Entries of one ranking by tie block."""
    blocks: list[list[Any]] = [[] for _ in range(levels[-1] + 1)]
    for entry, level in zip(entries, levels, strict=True):
        blocks[level].append(entry)
    return blocks
