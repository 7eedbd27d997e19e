"""Rankings as tables: what CSV, TSV and Parquet files hold."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import polars as pl

from permrank.files.formats.columns import rankings_of
from permrank.files.formats.contents import Contents, Put
from permrank.files.formats.parquet import ParquetFiles
from permrank.files.formats.roles import find_roles
from permrank.files.formats.streaming import can_stream, stream
from permrank.files.formats.tabular import delimited
from permrank.ragged import first_entries
from permrank.rankings.attributes import AttributeKind, Attributes
from permrank.rankings.constructors import are_sets
from permrank.rankings.rankings import Rankings
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
    if can_stream(roles):
        rankings = stream(files, roles, contents.duplicates)
    else:
        rankings = rankings_of(files.source(), roles, contents.duplicates)
    kinds: tuple[AttributeKind, ...] = ("item", "user")
    found = {
        f"{kind}s": Attributes.from_json(files.metadata[f"{_METADATA}{kind}s"], kind)
        for kind in kinds
        if f"{_METADATA}{kind}s" in files.metadata
    }
    return attached(rankings, **found) if found else rankings


def write_delimited(rankings: Rankings, separator: str) -> Put:
    """Text with a header that reads back the same."""
    table = _marked(table_of(rankings))
    return lambda file: table.write_csv(file, separator=separator)


def write_parquet(rankings: Rankings) -> Put:
    """A Parquet file that reads back the same; what is known of users and items goes to its metadata."""
    table = table_of(rankings)
    about = {"items": rankings.item_ids.attributes, "users": rankings.user_ids.attributes}
    metadata = {f"{_METADATA}{name}": known.to_json() for name, known in about.items() if known is not None}

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
