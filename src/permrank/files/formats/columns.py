"""Rankings from the columns of a table whose roles are known."""

from __future__ import annotations

from typing import Literal

import polars as pl

from permrank.errors import FormatError, InputError, shown
from permrank.files.formats.contents import Kind
from permrank.files.formats.roles import ROLES, TYPES, Roles, find_roles
from permrank.files.formats.tabular import Source
from permrank.rankings.build import Duplicates
from permrank.rankings.constructors import Columns, from_values
from permrank.rankings.frames import Locate, Table, as_frame
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
    source = Source(frame.columns, lambda wanted: Table(frame.select(wanted)), is_text=False)
    return rankings_of(source, find_roles(source.names, columns, where, kind), duplicates)


def rankings_of(source: Source, roles: Roles, duplicates: Duplicates) -> Rankings:
    """Read the columns and build the rankings."""
    table = source.load(roles.used)
    if roles.item is None:
        return _from_choices(table, roles, is_text=source.is_text)
    if source.is_text:
        ids = (roles.user, roles.item, roles.ranking)
        typed = [_typed(table.frame[name], table.locate) for name in ids if name is not None]
        table = table._replace(frame=table.frame.with_columns(typed))
    table, users, items = without_catalogue(table, roles)
    assert roles.user is not None
    if table.frame.height == 0:
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if users is not None else ''}")
    if not roles.sets:
        rankings = _from_entries(table, roles, duplicates)
    elif duplicates != "error":
        raise InputError("rows of interactions with the same user and item are added up; leave duplicates out")
    else:
        rankings = Rankings.from_interactions(table, user=roles.user, item=roles.item, weight=roles.weight)
    return rankings if users is None else with_catalogue(rankings, users, items)


def _from_entries(table: Table, roles: Roles, duplicates: Duplicates) -> Rankings:
    value, kept = (roles.rating, None) if roles.rank is None else (roles.rank, roles.rating)
    assert roles.user is not None
    assert roles.item is not None
    assert value is not None
    columns = Columns(roles.user, roles.item, value, roles.ranking, roles.weight, kept, roles.entry_count)
    role: Literal["rating", "rank"] = "rating" if roles.rank is None else "rank"
    return from_values(Rankings, table, columns, role, duplicates, anonymous=roles.anonymous)


def _from_choices(table: Table, roles: Roles, *, is_text: bool) -> Rankings:
    (frame, locate), winner, loser = table, roles.winner, roles.loser
    assert winner is not None
    assert loser is not None
    if is_text:
        items = _typed(pl.concat([frame[winner], frame[loser].rename(winner)]), locate)
        frame = frame.with_columns(items[: frame.height].alias(winner), items[frame.height :].alias(loser))
        if roles.user is not None:
            frame = frame.with_columns(_typed(frame[roles.user], locate))
    return Rankings.from_pairs(
        Table(frame, locate), user=None if roles.anonymous else roles.user, winner=winner, loser=loser,
        draw=roles.draw, weight=roles.weight,
    )  # fmt: skip


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


def without_catalogue(table: Table, roles: Roles) -> tuple[Table, pl.Series | None, pl.Series | None]:
    """Set rows aside that hold only a user or only an item: they say that it exists, nothing else."""
    assert roles.user is not None
    assert roles.item is not None
    frame = table.frame
    no_user, no_item = frame[roles.user].is_null(), frame[roles.item].is_null()
    if not (no_user.any() or no_item.any()):
        return table, None, None
    lone = no_user ^ no_item
    for name in roles.used:
        if name not in (roles.user, roles.item):
            lone &= frame[name].is_null()
    users, items = _rows_of(table, lone & no_item), _rows_of(table, lone & no_user)
    return _rows_of(table, ~lone), users.ids(roles.user, "user"), items.ids(roles.item, "item")


def _rows_of(table: Table, chosen: pl.Series) -> Table:
    rows = chosen.arg_true().to_numpy()
    return Table(table.frame.filter(chosen), lambda row: table.locate(int(rows[row])))
