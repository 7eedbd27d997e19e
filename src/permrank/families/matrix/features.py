"""Features of items, or of users and items, from a frame to the tables that `ListNet` learns weights for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.families.matrix.relevance import standardised
from permrank.rankings.frames import Table
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int64Array


class Features:
    """A frame with a column ``item`` (and perhaps ``user``) and columns of numbers, aligned with a model's ids.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
        One row an item, or one row a user and item. Every other column is a feature.

    Attributes
    ----------
    names : list of str
        Of the features.
    of_pairs : bool
        Whether rows belong to users and items, and not to items alone.
    values : float64 (n_rows, n_features)
        With mean 0 and standard deviation 1 over the rows.
    """

    def __init__(self, frame: Any) -> None:
        table = Table.of(frame)
        self._items = table.ids("item", "item")
        self.of_pairs = "user" in table.frame.columns
        self._users = table.ids("user", "user") if self.of_pairs else None
        self.names = [name for name in table.frame.columns if name not in ("user", "item")]
        if not self.names:
            raise InputError("features has no column beside the ids; add columns of numbers")
        self.values = standardised(np.column_stack([table.numbers(name, "feature") for name in self.names]))
        keys = [column for column in (self._users, self._items) if column is not None]
        twice = pl.DataFrame({str(i): column for i, column in enumerate(keys)}).is_duplicated()
        if twice.any():
            row = int(twice.arg_max() or 0)
            raise InputError(f"row {row}: features of {self._named(row)} are given twice; keep one row")

    def _named(self, row: int) -> str:
        return f"item {self._items[row]!r}" + ("" if self._users is None else f" for user {self._users[row]!r}")

    def of_items(self, item_ids: Vocabulary) -> Float64Array:
        """Rows in the order of the items, (n_items, n_features); an item without one raises."""
        indices = _indices_of(item_ids, self._items)
        table = np.full((len(item_ids), len(self.names)), np.nan)
        table[indices[indices >= 0]] = self.values[indices >= 0]
        missing = np.isnan(table).any(axis=1)
        if missing.any():
            item = item_ids[int(missing.argmax())]
            raise InputError(f"features have no row for item {item!r}; add one, or drop the item from the rankings")
        return table

    def pairs(self, user_ids: Vocabulary, item_ids: Vocabulary) -> tuple[Int64Array, Float64Array]:
        """Keys user * n_items + item in rising order, and their rows; rows of unknown users and items are left out."""
        users, items = _indices_of(user_ids, self._users), _indices_of(item_ids, self._items)
        known = np.flatnonzero((users >= 0) & (items >= 0))
        keys = users[known] * len(item_ids) + items[known]
        order = np.argsort(keys, kind="stable")
        return keys[order], self.values[known[order]]


def looked_up(keys: Int64Array, rows: Float64Array, wanted: Int64Array) -> Float64Array:
    """Rows of the wanted keys, (n, n_features); zeros, which is the mean, where there is none."""
    out = np.zeros((wanted.size, rows.shape[1]))
    if keys.size:
        indices = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        found = keys[indices] == wanted
        out[found] = rows[indices[found]]
    return out


def _indices_of(vocabulary: Vocabulary, ids: Any) -> Int64Array:
    """Index of every id in a vocabulary, -1 for one that is not there."""
    if ids.dtype != vocabulary.ids.dtype:
        return np.full(len(ids), -1)
    table = pl.DataFrame({"id": vocabulary.ids, "index": np.arange(len(vocabulary))})
    return (
        pl.DataFrame({"id": ids})
        .join(table, on="id", how="left", maintain_order="left")["index"]
        .fill_null(-1)
        .to_numpy()
    )
