"""Rankings as tables: what CSV, TSV and Parquet files hold."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError, shown
from permrank.files.formats.contents import Contents, Put
from permrank.files.formats.parquet import ParquetFiles
from permrank.files.formats.streaming import can_stream, stream
from permrank.files.formats.tabular import Source, delimited
from permrank.ragged import first_entries
from permrank.rankings.attributes import AttributeKind, Attributes
from permrank.rankings.build import Duplicates
from permrank.rankings.columns import ROLES, TYPES, Kind, Roles, find_roles
from permrank.rankings.constructors import are_sets, from_values
from permrank.rankings.frames import Locate, Table, as_frame
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue
from permrank.rankings.with_attributes import attached

_METADATA = "permrank."


def parse_delimited(contents: Contents, separator: str) -> Rankings:
    """Rankings of text with a header."""
    source = delimited(contents.data, separator, contents.where)
    roles = find_roles(source.names, contents.columns, contents.where, contents.kind)
    return rankings_of(source, roles, contents.duplicates)


def parse_parquet(contents: Contents) -> Rankings:
    """Rankings of Parquet files, with what their metadata say about users and items; files are read in batches."""
    content = contents.path if contents.content is None else contents.content
    files = ParquetFiles(contents.files or (content,), contents.where)
    roles = find_roles(files.names, contents.columns, contents.where, contents.kind)
    rankings = stream(files, roles, contents.duplicates) if can_stream(roles) else None
    if rankings is None:
        rankings = rankings_of(files.source(), roles, contents.duplicates)
    kinds: tuple[AttributeKind, ...] = ("item", "user")
    attributes = {
        f"{kind}s": Attributes.from_json(files.metadata[f"{_METADATA}{kind}s"], kind)
        for kind in kinds
        if f"{_METADATA}{kind}s" in files.metadata
    }
    return attached(rankings, **attributes) if attributes else rankings


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
    table, users, items = table.without_catalogue(roles)
    if table.frame.height == 0:
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if users is not None else ''}")
    if not roles.sets:
        rankings = from_values(Rankings, table, roles, duplicates)
    elif duplicates != "error":
        raise InputError("rows of interactions with the same user and item are added up; leave duplicates out")
    else:
        rankings = Rankings.from_interactions(table, user=roles.user, item=roles.item, weight=roles.weight)
    return rankings if users is None else with_catalogue(rankings, users, items)


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


def write_delimited(rankings: Rankings, separator: str) -> Put:
    """Text with a header that reads back the same."""
    table = _marked(table_of(rankings))
    return lambda file: table.write_csv(file, separator=separator)


def write_parquet(rankings: Rankings) -> Put:
    """A Parquet file that reads back the same; attributes of users and items go to its metadata."""
    table = table_of(rankings)
    about = {"items": rankings.item_ids.attributes, "users": rankings.user_ids.attributes}
    metadata = {f"{_METADATA}{name}": each.to_json() for name, each in about.items() if each is not None}

    def put(file: BinaryIO) -> None:
        try:
            table.write_parquet(file, metadata=metadata or None)
        except pl.exceptions.ComputeError as error:  # Polars' word for a full disk
            raise OSError(str(error)) from error

    return put


def table_of(rankings: Rankings) -> pl.DataFrame:
    """One row per entry; then one for every user without a ranking and every item that nobody ranked.

    Sets without order have no ranks if they have counts: these are read back as interactions. A count beside an order
    would be taken for the weight of a ranking, and is called otherwise.
    """
    table = rankings.to_frame()
    if rankings.counts is not None:
        table = table.drop("rank") if are_sets(rankings) else table.rename({"count": "entry_count"})
    if rankings.ratings is not None and _ratings_tell_the_order(rankings):
        table = table.drop("rank")
    owner = table.columns[0]
    idle = np.diff(rankings.user_indptr) == 0
    unranked = np.bincount(rankings.items, minlength=rankings.n_items) == 0
    parts = [table]
    if idle.any():
        parts.append(pl.DataFrame([rankings.user_ids.ids.filter(idle).alias(owner)]))
    if unranked.any():
        parts.append(pl.DataFrame([rankings.item_ids.ids.filter(unranked).alias("item")]))
    return table if len(parts) == 1 else pl.concat(parts, how="diagonal")


def _ratings_tell_the_order(rankings: Rankings) -> bool:
    """Whether ratings fall exactly where a new tie block begins: not so after `Rankings.shuffled_ties`."""
    inside = ~first_entries(rankings.indptr)[1:]
    step = np.diff(rankings.levels)[inside]
    fall = rankings.ratings[:-1][inside] > rankings.ratings[1:][inside]
    same = rankings.ratings[:-1][inside] == rankings.ratings[1:][inside]
    return bool((fall == (step > 0)).all() and (same == (step == 0)).all())


def _marked(table: pl.DataFrame) -> pl.DataFrame:
    """Text that reads back the same: ids that look like integers get a type, numbers all their digits."""
    names = {}
    for name in (table.columns[0], "item"):
        ids = table[name]
        if ids.dtype == pl.String:
            looks = ids.cast(pl.Int64, strict=False).cast(pl.String) == ids
            if (looks.fill_null(value=False) | ids.is_null()).all():
                names[name] = f"{name}:str"
    # A float32 would be written with the few digits that tell float32s apart.
    return table.with_columns(pl.col(pl.Float32).cast(pl.Float64)).rename(names)
