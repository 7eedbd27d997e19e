"""Rankings from Parquet files that are larger than memory: three walks over batches of rows, nothing kept but the end.

The first walk checks every value and finds the ids, sorted, and how many rows each user has. So it is plan where the
entries of every user will lie. The second puts each row there, in the order of the files. Then blocks of users are put
in order as a small table would be, by the same functions: the rankings are the same to the last bit. In memory are the
arrays of the rankings themselves and one batch. What repeats is found in the blocks, and a third walk names its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError, UnknownIdError
from permrank.files.formats.parquet import ParquetFiles
from permrank.ragged import indptr_of, owners
from permrank.rankings.build import (
    Duplicates,
    added_up,
    are_single,
    blocks,
    keys_of,
    lay_out,
    repeated_entry,
    repeated_rows,
)
from permrank.rankings.columns import Roles
from permrank.rankings.frames import Locate, Table
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import INT32_MAX, Vocabulary
from permrank.types import Array, Int32Array, Int64Array

_ROW = "\0row"  # no column of a file is called so


def can_stream(roles: Roles) -> bool:
    """Whether rows are entries of one ranking for each user, with one value at most: all but rare tables."""
    if roles.item is None or roles.user is None or roles.ranking is not None or roles.entry_count is not None:
        return False
    return roles.sets or (roles.weight is None and (roles.rank is None or roles.rating is None))


def stream(files: ParquetFiles, roles: Roles, duplicates: Duplicates) -> Rankings | None:
    """Rankings of files, as `rankings_of` makes them of a table in memory; None if duplicates are to be settled."""
    if roles.sets and duplicates != "error":
        raise InputError("rows of interactions with the same user and item are added up; leave duplicates out")
    plan = _first_walk(files, roles)
    items, values = _second_walk(files, roles, plan)
    if roles.sets:
        return _sets(plan, items, values)
    rankings = _ordered(roles, plan, items, values)
    if rankings is None and duplicates == "error":
        raise _repeated(files, roles, plan, items)
    return rankings


def _walk(files: ParquetFiles, roles: Roles) -> Iterator[tuple[Table, pl.Series | None, pl.Series | None]]:
    """Batches of entries, their rows numbered among all, and ids of users and items that only exist."""
    for (frame, locate), first in files.batches(roles.used):
        numbers = pl.int_range(first, first + frame.height, dtype=pl.Int64, eager=True).alias(_ROW)
        yield Table(frame.with_columns(numbers), locate).without_catalogue(roles)


def _ids(table: Table, roles: Roles) -> tuple[pl.Series, pl.Series]:
    """The user and the item of every row."""
    user, item = roles.entry
    return table.ids(user, "user"), table.ids(item, "item")


def _values(table: Table, roles: Roles) -> Any:
    """The number of every row: rating, rank or count; None if there is none."""
    if roles.sets:
        return None if roles.weight is None else table.weights(roles.weight)
    return table.numbers(*roles.order)


# The first walk


class _Ids:
    """Different ids of one kind, and how often each was met: kept small while they come in."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: list[pl.DataFrame] = []
        self._n_gathered = 0

    def add(self, ids: pl.Series | None, locate: Locate, *, entries: bool) -> None:
        """Ids of entries, or of what only exists."""
        if ids is None or not len(ids):
            return
        if self._parts and ids.dtype != self._parts[0]["id"].dtype:
            raise FormatError(
                f"{locate(0)}: {self.kind} ids are {ids.dtype}, and {self._parts[0]['id'].dtype} in the files before; "
                "give the column one type"
            )
        counted = pl.DataFrame({"id": ids}).group_by("id").agg(pl.len().cast(pl.Int64).alias("n"))
        self._parts.append(counted if entries else counted.with_columns(pl.lit(0, pl.Int64).alias("n")))
        if sum(part.height for part in self._parts[1:]) > max(self._n_gathered, 2**16):
            self._gather()

    def _gather(self) -> None:
        self._parts = [pl.concat(self._parts).group_by("id").agg(pl.col("n").sum())]
        self._n_gathered = self._parts[0].height

    def result(self) -> tuple[Vocabulary, Int64Array]:
        """All ids, sorted, and how many entries each has."""
        self._gather()
        table = self._parts[0].sort("id")
        if table.height > INT32_MAX:
            raise InputError(f"{table.height} {self.kind}s are more than the {INT32_MAX} that fit 32 bits")
        return Vocabulary(table["id"].rename(self.kind).rechunk(), self.kind), table["n"].to_numpy()


class _Plan(NamedTuple):
    """What the first walk tells: the ids, where the entries of every user will lie, and whether float32 holds all."""

    user_ids: Vocabulary
    item_ids: Vocabulary
    indptr: Int64Array
    single: bool

    @property
    def n_entries(self) -> int:
        return int(self.indptr[-1])


def _first_walk(files: ParquetFiles, roles: Roles) -> _Plan:
    users, items, single, listed = _Ids("user"), _Ids("item"), True, False
    for table, lone_users, lone_items in _walk(files, roles):
        users.add(lone_users, table.locate, entries=False)
        items.add(lone_items, table.locate, entries=False)
        listed |= lone_users is not None
        if table.frame.height:
            values = _values(table, roles)
            single = single and (values is None or are_single(values))
            for gathered, ids in zip((users, items), _ids(table, roles), strict=True):
                gathered.add(ids, table.locate, entries=True)
    user_ids, counts = users.result() if users._parts else (None, np.zeros(0, np.int64))
    if user_ids is None or not counts.any():
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if listed else ''}")
    return _Plan(user_ids, items.result()[0], indptr_of(counts), single)


# The second walk


def _second_walk(files: ParquetFiles, roles: Roles, plan: _Plan) -> tuple[Int32Array, Any]:
    """Items and values of the entries in the order of the users, and of one user in the order of the rows."""
    valued = not roles.sets or roles.weight is not None
    items = np.empty(plan.n_entries, np.int32)
    values = np.empty(plan.n_entries, np.float32 if plan.single else np.float64) if valued else None
    after, ends = plan.indptr[:-1].copy(), plan.indptr[1:]
    for table, users, named in _coded(files, roles, plan):
        order, targets = _targets(users, after)
        if (after > ends).any():
            raise _changed(files)
        items[targets] = named[order]
        if values is not None:
            values[targets] = _values(table, roles)[order]
    if (after != ends).any():
        raise _changed(files)
    return items, values


def _coded(files: ParquetFiles, roles: Roles, plan: _Plan) -> Iterator[tuple[Table, Int32Array, Int32Array]]:
    """Batches, and the indices of the users and items of their rows."""
    for table, *_ in _walk(files, roles):
        if table.frame.height:
            users, items = _ids(table, roles)
            try:
                codes = plan.user_ids.codes(users), plan.item_ids.codes(items)
            except UnknownIdError as error:
                raise _changed(files) from error
            yield table, *codes


def _changed(files: ParquetFiles) -> FormatError:
    return FormatError(f"{files.where} has changed while it was read; read it again")


def _targets(users: Int32Array, after: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Rows by user, in their order, and the index that each goes to; moves the first free index of every user on."""
    n = users.size
    bits = max(n - 1, 1).bit_length()
    packed = users.astype(np.int64) << bits | np.arange(n)
    packed.sort()  # stable, and several times as fast as a stable sort
    order, ordered = packed & ((1 << bits) - 1), packed >> bits
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(starts, append=n)
    targets = np.arange(n) + np.repeat(after[ordered[starts]] - starts, lengths)
    after[ordered[starts]] += lengths
    return order, targets


# Blocks of users


def _ordered(roles: Roles, plan: _Plan, items: Int32Array, values: Any) -> Rankings | None:
    """Rankings of ratings or ranks; None if a user has an item twice."""
    by_rating, n_items = roles.rank is None, len(plan.item_ids)
    # What ranks were becomes levels in the same memory; ratings are kept.
    in_place = not by_rating and values.dtype == np.float32
    levels = values.view(np.int32) if in_place else np.empty(items.size, np.int32)
    for first, last, part, indptr in blocks(plan.indptr):
        owner = owners(indptr)
        if repeated_rows(owner, items[part], n_items) is not None:
            return None
        keys = keys_of(values[part].astype(np.float64), descending=by_rating)
        layout = lay_out(owner, keys.codes, items[part], last - first, n_items)
        items[part], levels[part] = layout.items, layout.levels
        if by_rating:
            values[part] = keys.decode(layout.codes)
    return _rankings(plan, np.diff(plan.indptr), items, levels, roles, ratings=values if by_rating else None)


def _sets(plan: _Plan, items: Int32Array, counts: Any) -> Rankings:
    """Sets without order: counts of rows of the same user and item are added up, so that entries move to the front."""
    n_items, lengths, end = len(plan.item_ids), np.zeros(plan.indptr.size - 1, np.int64), 0
    for first, last, part, indptr in blocks(plan.indptr):
        rows = owners(indptr) * np.int64(max(n_items, 1)) + items[part]
        pairs, sums = added_up(rows, np.ones(rows.size) if counts is None else counts[part].astype(np.float64))
        here = slice(end, end + pairs.size)
        if counts is None and pairs.size < rows.size:
            counts = np.ones(items.size, np.float32)
        if counts is not None:
            counts = counts if are_single(sums) else counts.astype(np.float64, copy=False)
            counts[here] = sums
        items[here] = pairs % max(n_items, 1)
        lengths[first:last] = np.bincount(pairs // max(n_items, 1), minlength=last - first)
        end = here.stop
    items.resize(end, refcheck=False)
    if counts is not None:
        counts.resize(end, refcheck=False)
    return _rankings(plan, lengths, items, np.zeros(end, np.int32), None, counts=counts)


def _rankings(
    plan: _Plan, lengths: Int64Array, items: Int32Array, levels: Int32Array, roles: Roles | None, **attached: Any
) -> Rankings:
    listed = lengths > 0
    return Rankings._trusted(
        indptr_of(listed), indptr_of(lengths[listed]), items, levels, np.ones(int(listed.sum())), plan.user_ids,
        plan.item_ids, anonymous=roles is not None and roles.anonymous, **attached,
    )  # fmt: skip


# What comes twice


def _repeated(files: ParquetFiles, roles: Roles, plan: _Plan, items: Int32Array) -> InputError:
    """The error for the first row that repeats the user and item of an earlier one."""
    repeated, n_items = _repeated_pairs(plan, items), len(plan.item_ids)
    pairs, numbers = [], []
    for table, users, named in _coded(files, roles, plan):
        own = users.astype(np.int64) * n_items + named
        here = np.isin(own, repeated)
        pairs.append(own[here])
        numbers.append(table.frame[_ROW].to_numpy()[here])
    coded, rows = np.concatenate(pairs), np.concatenate(numbers)
    repeat = repeated_rows(coded, np.zeros(coded.size, np.int32), 1)
    if repeat is None:
        return _changed(files)
    first, again = (files.locate(int(rows[row])) for row in repeat)
    user, item = divmod(int(coded[repeat[1]]), n_items)
    return repeated_entry(again, plan.user_ids[user], plan.item_ids[item], first)


def _repeated_pairs(plan: _Plan, items: Int32Array) -> Array:
    """All (user, item) that come more than once, sorted; blocks that are in order already count alike."""
    n_items, repeated = len(plan.item_ids), []
    for first, _, part, indptr in blocks(plan.indptr):
        pairs = np.sort((owners(indptr) + first) * n_items + items[part])
        repeated.append(np.unique(pairs[1:][pairs[1:] == pairs[:-1]]))
    return np.concatenate(repeated)
