"""What rankings from a file get beside their order: ratings, counts, and ids without a ranking."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.errors import InputError, shown
from permrank.rankings import constructors
from permrank.rankings.build import Duplicates, settle_duplicates
from permrank.rankings.constructors import Columns
from permrank.rankings.frames import Locate, id_column, value_column, weight_column
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import inverted_entries
from permrank.rankings.vocabulary import encode_with
from permrank.types import Float64Array, Int32Array, Int64Array


def with_ratings(
    rankings: Rankings,
    frame: pl.DataFrame,
    columns: Columns,
    rating: str,
    duplicates: Duplicates,
    locate: Locate,
) -> Rankings:
    """Keep the ratings of a file whose order is given by ranks; the two must not contradict each other."""
    owners, codes = _rows(rankings, frame, columns, locate)
    ratings = _of_entries(rankings, owners, codes, value_column(frame, rating, "rating", locate), duplicates)
    inverted = inverted_entries(rankings.indptr, rankings.levels, ratings)
    if inverted is not None:
        above, below = inverted
        row = int(np.argmax((owners == rankings.entry_rankings()[below]) & (codes == rankings.items[below])))
        first, second = (rankings.item_ids[rankings.items[entry]] for entry in inverted)
        raise InputError(
            f"{locate(row)}: {shown(second)} is ranked below {shown(first)} but rated higher, {ratings[below]:g} "
            f"against {ratings[above]:g}; correct one, or keep only the ranks or only the ratings"
        )
    return _with(rankings, ratings=ratings)


def with_counts(
    rankings: Rankings, frame: pl.DataFrame, columns: Columns, count: str, duplicates: Duplicates, locate: Locate
) -> Rankings:
    """Keep how often each entry was taken up, of a file that also has an order."""
    rows = _rows(rankings, frame, columns, locate)
    return _with(rankings, counts=_of_entries(rankings, *rows, weight_column(frame, count, locate), duplicates))


def _rows(rankings: Rankings, frame: pl.DataFrame, columns: Columns, locate: Locate) -> tuple[Int64Array, Int32Array]:
    """Ranking and item of every row."""
    items = encode_with(id_column(frame, columns.item, "item", locate), rankings.item_ids)
    return constructors._group(frame, columns, locate).rankings, items


def _of_entries(
    rankings: Rankings, owners: Int64Array, items: Int32Array, values: Float64Array, duplicates: Duplicates
) -> Float64Array:
    """Values of rows in the order of the entries."""
    if owners.size > rankings.n_entries:
        owners, items, values = settle_duplicates(owners, items, values, duplicates)
    by_row = np.argsort(owners * rankings.n_items + items)
    by_entry = np.argsort(rankings.entry_rankings() * rankings.n_items + rankings.items)
    ordered = np.empty(rankings.n_entries)
    ordered[by_entry] = values[by_row]
    return ordered


def _with(rankings: Rankings, **attached: Float64Array) -> Rankings:
    return Rankings._trusted(
        rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights,
        rankings.user_ids, rankings.item_ids, **(rankings._attached() | attached),
    )  # fmt: skip
