"""The ``from_`` constructors of `Rankings`, one function each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from permrank.errors import InputError, argument, shown
from permrank.ragged import indptr_of
from permrank.rankings.build import (
    DUPLICATES,
    Duplicates,
    bad_weights,
    check_sums,
    keys_of,
    lay_out,
    repeated_rows,
    settle_duplicates,
    weight_problem,
)
from permrank.rankings.frames import (
    Locate,
    as_frame,
    draw_column,
    id_column,
    row_number,
    value_column,
    weight_column,
)
from permrank.rankings.named_constructors import Unlisted
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import merged, with_unlisted_last
from permrank.rankings.tops import check_unlisted
from permrank.rankings.vocabulary import Vocabulary, encode, encode_with, id_series
from permrank.types import Float64Array, Int32Array, Int64Array


class Columns(NamedTuple):
    """Names of the columns of a frame with one row per entry."""

    user: str
    item: str
    value: str
    ranking: str | None = None
    weight: str | None = None


class Groups(NamedTuple):
    """Rows gathered into rankings: the ranking of each row, and the rankings of each user."""

    rankings: Int64Array
    user_indptr: Int64Array
    users: Vocabulary


Id: TypeAlias = Any
"""What callers give as an id: checked when it is encoded."""
Frame: TypeAlias = Any
"""Whatever Polars can read."""


def from_values(
    data: Frame,
    columns: Columns,
    role: Literal["rating", "rank"],
    duplicates: Duplicates = "error",
    *,
    anonymous: bool = False,
    locate: Locate = row_number,
) -> Rankings:
    """Rankings from rows of (user, item, rating or rank)."""
    if duplicates not in DUPLICATES:
        raise InputError(f"duplicates={duplicates!r}, expected one of {', '.join(DUPLICATES)}")
    frame = as_frame(data)
    if frame.height == 0:
        raise InputError(f"the frame has no rows; expected rows of (user, item, {role})")
    values = value_column(frame, columns.value, role, locate)
    groups = _group(frame, columns, locate)
    items, item_ids = encode(id_column(frame, columns.item, "item", locate), "item")
    n_rankings = int(groups.user_indptr[-1])
    weights = _weights(frame, columns.weight, groups.rankings, n_rankings, locate)
    rankings = groups.rankings
    repeat = repeated_rows(rankings, items, len(item_ids))
    if repeat is not None:
        if duplicates == "error":
            first, again = repeat
            user = frame[columns.user][again]
            raise InputError(
                f"{locate(again)}: user {shown(user)} has item {shown(item_ids[items[again]])} a second time "
                f"(first in {locate(first)}); drop one, or pass {argument('duplicates', 'first', 'last', 'mean')}"
            )
        rankings, items, values = settle_duplicates(rankings, items, values, duplicates)
    keys = keys_of(values, descending=role == "rating")
    layout = lay_out(rankings, keys.codes, items, n_rankings, len(item_ids))
    ratings = keys.decode(layout.codes) if role == "rating" else None
    return Rankings._trusted(
        groups.user_indptr,
        *layout[:3],
        weights,
        groups.users,
        item_ids,
        ratings=ratings,
        anonymous=anonymous,
    )


def _group(frame: pl.DataFrame, columns: Columns, locate: Locate) -> Groups:
    users, user_ids = encode(id_column(frame, columns.user, "user", locate), "user")
    if columns.ranking is None:
        return Groups(users.astype(np.int64), np.arange(len(user_ids) + 1), user_ids)
    numbers, names = encode(id_column(frame, columns.ranking, "ranking", locate), "ranking")
    packed = users.astype(np.int64) * len(names) + numbers
    distinct, rankings = np.unique(packed, return_inverse=True)
    counts = np.bincount(distinct // len(names), minlength=len(user_ids))
    return Groups(rankings.astype(np.int64), indptr_of(counts), user_ids)


def _weights(
    frame: pl.DataFrame, name: str | None, rankings: Int64Array, n_rankings: int, locate: Locate
) -> Float64Array:
    weights = np.ones(n_rankings)
    if name is None:
        return weights
    of_rows = weight_column(frame, name, locate)
    weights[rankings[::-1]] = of_rows[::-1]  # the first row of a ranking wins
    differs = of_rows != weights[rankings]
    if differs.any():
        row = int(np.argmax(differs))
        raise InputError(
            f"{locate(row)}: weight {of_rows[row]:g} differs from {weights[rankings[row]]:g} in an earlier row "
            "of the same ranking; a weight belongs to the whole ranking"
        )
    return weights


def from_pairs(
    data: Frame,
    user: str | None,
    winner: str,
    loser: str,
    draw: str | None,
    weight: str | None,
    locate: Locate = row_number,
) -> Rankings:
    """Rankings of two, equal ones merged."""
    frame = as_frame(data)
    if frame.height == 0:
        raise InputError("the frame has no rows; expected rows of (winner, loser)")
    wins, losses = id_column(frame, winner, "item", locate), id_column(frame, loser, "item", locate)
    if wins.dtype != losses.dtype:
        raise InputError(f"columns {winner!r} ({wins.dtype}) and {loser!r} ({losses.dtype}) must have one type")
    both, item_ids = encode(pl.concat([wins, losses.rename(wins.name)]), "item")
    best, worst = both[: frame.height].astype(np.int64), both[frame.height :].astype(np.int64)
    if (best == worst).any():
        row = int(np.argmax(best == worst))
        raise InputError(f"{locate(row)}: item {shown(wins[row])} is both winner and loser; drop the row")
    drawn = np.zeros(frame.height, bool) if draw is None else draw_column(frame, draw, locate)
    # A draw of the two is the same in either order.
    best, worst = np.where(drawn & (best > worst), (worst, best), (best, worst))
    counted = np.ones(frame.height) if weight is None else weight_column(frame, weight, locate)
    if user is None:
        users, user_ids = np.zeros(frame.height, np.int32), None
    else:
        users, user_ids = encode(id_column(frame, user, "user", locate), "user")
    kept = (
        pl.DataFrame({"user": users, "best": best, "worst": worst, "drawn": drawn, "weight": counted})
        .group_by("user", "best", "worst", "drawn")
        .agg(pl.col("weight").sum())
        .sort("user", "best", "worst", "drawn")
    )
    n = kept.height
    check_sums(kept["weight"].to_numpy())
    items = np.column_stack([kept["best"].to_numpy(), kept["worst"].to_numpy()]).ravel()
    if user_ids is None:
        user_ids = Vocabulary(pl.Series("user", np.arange(n), dtype=pl.Int64), "user")
        user_indptr = np.arange(n + 1)
    else:
        user_indptr = indptr_of(np.bincount(kept["user"].to_numpy(), minlength=len(user_ids)))
    levels = np.column_stack([np.zeros(n, np.int32), ~kept["drawn"].to_numpy()]).ravel()
    return Rankings._trusted(
        user_indptr,
        np.arange(0, 2 * n + 1, 2),
        items,
        levels,
        kept["weight"].to_numpy(),
        user_ids,
        item_ids,
        anonymous=user is None,
    )


def from_lists(
    lists: Mapping[Id, Iterable[Id]] | Iterable[Iterable[Id]],
    users: Iterable[Id] | None,
    weights: Iterable[float] | None,
    items: Iterable[Id] | None,
    unlisted: Unlisted | None,
) -> Rankings:
    """Rankings from Python lists."""
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
    codes = encode_with(id_series(flat, "item"), item_ids) if flat else np.zeros(0, np.int32)
    given = _list_weights(weights, len(rows))
    arrays = _order_by_user(list(names), lengths, codes, levels, given, len(item_ids))
    rankings = Rankings._trusted(*arrays, item_ids, anonymous=False)
    if unlisted == "last":
        rankings = with_unlisted_last(rankings)
    return merged(rankings) if anonymous else rankings


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
    bad = bad_weights(given)
    if bad.any():
        index = int(np.argmax(bad))
        raise InputError(f"ranking {index}: {weight_problem(given[index])}")
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
