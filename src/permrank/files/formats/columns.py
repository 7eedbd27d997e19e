"""Rankings from the columns of a table whose roles are known."""

from __future__ import annotations

from typing import Literal

import polars as pl

from permrank.errors import FormatError, InputError, shown
from permrank.files.formats.contents import Kind
from permrank.files.formats.roles import ROLES, TYPES, Roles, find_roles
from permrank.files.formats.tabular import Source, Table
from permrank.rankings.build import Duplicates
from permrank.rankings.constructors import Columns, from_values, interactions_of, pairs_of
from permrank.rankings.frames import Locate, as_frame, id_column, row_number
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue


def rankings_from_frame(
    data: object, *, duplicates: Duplicates = "error", kind: Kind | None = None, **columns: str
) -> Rankings:
    """Rankings of a frame, whose columns are recognised as those of a file are; ``columns`` names some of them."""
    for role in columns:
        if role not in ROLES:
            raise InputError(f"{role}= is no column of a frame; expected {', '.join(ROLES)}, kind or duplicates")
    frame, where = as_frame(data), "the frame"
    source = Source(frame.columns, lambda wanted: Table(frame.select(wanted), row_number), is_text=False)
    return rankings_of(source, find_roles(source.names, columns, where, kind), duplicates)


def rankings_of(source: Source, roles: Roles, duplicates: Duplicates) -> Rankings:
    """Read the columns and build the rankings."""
    frame, locate = source.load(roles.used)
    if roles.item is None:
        return _from_choices(source, roles, frame, locate)
    if source.is_text:
        frame = frame.with_columns(
            _typed(frame[name], locate) for name in (roles.user, roles.item, roles.ranking) if name is not None
        )
    (frame, locate), users, items = without_catalogue(frame, roles, locate)
    assert roles.user is not None
    if frame.height == 0:
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if users is not None else ''}")
    if roles.sets:
        if duplicates != "error":
            raise InputError("rows of interactions with the same user and item are added up; leave duplicates out")
        rankings = interactions_of(Rankings, frame, roles.user, roles.item, roles.weight, locate)
    else:
        rankings = _from_entries(frame, roles, duplicates, locate)
    return rankings if users is None else with_catalogue(rankings, users, items)


def _from_entries(frame: pl.DataFrame, roles: Roles, duplicates: Duplicates, locate: Locate) -> Rankings:
    assert roles.user is not None
    assert roles.item is not None
    value, kept = (roles.rating, None) if roles.rank is None else (roles.rank, roles.rating)
    assert value is not None
    columns = Columns(roles.user, roles.item, value, roles.ranking, roles.weight, kept, roles.entry_count)
    role: Literal["rating", "rank"] = "rating" if roles.rank is None else "rank"
    return from_values(Rankings, frame, columns, role, duplicates, anonymous=roles.anonymous, locate=locate)


def _from_choices(source: Source, roles: Roles, frame: pl.DataFrame, locate: Locate) -> Rankings:
    assert roles.winner is not None
    assert roles.loser is not None
    if source.is_text:
        items = _typed(pl.concat([frame[roles.winner], frame[roles.loser].rename(roles.winner)]), locate)
        frame = frame.with_columns(items[: frame.height].alias(roles.winner), items[frame.height :].alias(roles.loser))
        if roles.user is not None:
            frame = frame.with_columns(_typed(frame[roles.user], locate))
    user = None if roles.anonymous else roles.user
    return pairs_of(Rankings, frame, user, roles.winner, roles.loser, roles.draw, roles.weight, locate)


def _typed(ids: pl.Series, locate: Locate) -> pl.Series:
    """Ids of a text file: integers if every one is written as an integer would be, otherwise text."""
    _, colon, kind = ids.name.rpartition(":")
    wanted = TYPES.get(kind) if colon else None
    first = ids.first(ignore_nulls=True)
    if wanted == pl.String or (wanted is None and first is not None and not _is_integer(str(first))):
        return ids
    numbers = ids.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == ids).fill_null(value=False) | ids.is_null()
    if same.all():
        return numbers
    if wanted is None:
        return ids
    row = int((~same).arg_max() or 0)
    raise FormatError(f"{locate(row)}: {shown(ids[row])} in column {shown(ids.name)} is not an integer of 64 bits")


def _is_integer(text: str) -> bool:
    # int() takes '007', '+7' and ' 7 ', which are other strings than '7'.
    return len(text) <= 20 and text.removeprefix("-").isdecimal() and str(int(text)) == text


def without_catalogue(
    frame: pl.DataFrame, roles: Roles, locate: Locate
) -> tuple[Table, pl.Series | None, pl.Series | None]:
    """Set rows aside that hold only a user or only an item: they say that it exists, nothing else."""
    assert roles.user is not None
    assert roles.item is not None
    no_user, no_item = frame[roles.user].is_null(), frame[roles.item].is_null()
    if not (no_user.any() or no_item.any()):
        return Table(frame, locate), None, None
    lone = no_user ^ no_item
    for name in roles.used:
        if name not in (roles.user, roles.item):
            lone &= frame[name].is_null()
    kept = (~lone).arg_true().to_numpy()
    table = Table(frame.filter(~lone), lambda row: locate(int(kept[row])))
    return (
        table,
        _lone_ids(frame, roles.user, "user", lone & no_item, locate),
        _lone_ids(frame, roles.item, "item", lone & no_user, locate),
    )


def _lone_ids(frame: pl.DataFrame, name: str, kind: str, lone: pl.Series, locate: Locate) -> pl.Series:
    rows = lone.arg_true().to_numpy()
    return id_column(frame.filter(lone), name, kind, lambda row: locate(int(rows[row])))
