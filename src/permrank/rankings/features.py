"""Attributes as numbers that models can learn from.

Numbers, dates and truth values become one column of mean 0 and deviation 1. Numbers with many values have more columns
for what is no straight line, since what is worth most is often in the middle, or between two years: cosines of the
rank, cos(jπ rank) / j for j = 1, 2, ..., less the straight line, so that fast ones are small and smooth curves cost
least. A category becomes a column for each
value that at least three rows have, and a list of categories one for each word; both are 1 or 0 less their mean, so
that 0 stands for the average everywhere. What is missing is average too, and a column of its own says so. Text,
identifiers and what is the same for all are left out. Everything is a function of the rows of the attributes, whoever
is asked about: so a new row is encoded like the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from permrank.errors import InputError, UnknownIdError
from permrank.rankings.columns import plain_word
from permrank.types import Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.rankings.attributes import Attributes

# A value that fewer rows have gets no column, and of an attribute at most so many values do: the most frequent ones.
FEWEST_OF_A_VALUE, MOST_VALUES = 3, 200
# Text of which more than this part is different is free text, or names, or codes.
_MOST_DIFFERENT = 0.5
# A number with so many different values or more has curves: as many as the square root of that, and at most so many.
# Ranks are kept at so many values.
_FEWEST_TO_CURVE, _MOST_CURVES, _MOST_KNOTS = 10, 8, 129
_SEPARATOR = ": "


class Column(NamedTuple):
    """One column of numbers: its name, such as ``genres: Comedy``, and the attribute that it comes from."""

    name: str
    attribute: str
    value: str | None = None


class Curves(NamedTuple):
    """Cosines of the ranks of a standardised number.

    Attributes
    ----------
    values, ranks : float64 (n_knots,)
        Some of the values, ascending, and the part of the rows that is below each.
    lines : float64 (2, n_curves)
        Mean and slope of each cosine, which are taken out of it.
    """

    values: Float64Array
    ranks: Float64Array
    lines: Float64Array

    @classmethod
    def learnt_from(cls, standardised: Float64Array) -> Curves | None:
        """Those of known values of mean 0 and deviation 1; None if there are too few different ones."""
        values, counts = np.unique(standardised, return_counts=True)
        if values.size < _FEWEST_TO_CURVE:
            return None
        ranks = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        if values.size > _MOST_KNOTS:
            kept = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], _MOST_KNOTS)))
            values, ranks = values[kept], ranks[kept]
        n_curves = min(int(np.sqrt(values.size)), _MOST_CURVES)
        waves = cls(values, ranks, np.zeros((2, n_curves))).of(standardised)
        return cls(values, ranks, np.stack((waves.mean(axis=0), standardised @ waves / standardised.size)))

    def of(self, standardised: Float64Array) -> Float64Array:
        """The curves at some values: (n, n_curves)."""
        number = np.arange(1, self.lines.shape[1] + 1)
        ranks = np.interp(standardised, self.values, self.ranks)
        waves = np.sqrt(2.0) * np.cos(np.pi * np.multiply.outer(ranks, number)) / number
        return np.asarray(waves - self.lines[0] - np.multiply.outer(standardised, self.lines[1]))


@dataclass(frozen=True, eq=False)
class Encoding:
    """How one attribute becomes columns.

    Attributes
    ----------
    attribute : str
    kind : {"number", "category", "list", "left out"}
    values : tuple of str
        Of a category or list: those that have a column.
    means : float64
        What is taken from each column.
    scale : float
        What a number is divided by.
    curves : Curves, optional
        Of a number with many values.
    missing : float or None
        Part of the rows where the attribute is missing, if that has a column.
    note : str
        What a person should know.
    """

    attribute: str
    kind: str
    values: tuple[str, ...] = ()
    means: Float64Array = field(default_factory=lambda: np.zeros(0))
    scale: float = 1.0
    missing: float | None = None
    note: str = ""
    curves: Curves | None = None

    @property
    def columns(self) -> list[Column]:
        """Names of the columns, that of missing values last."""
        if self.kind == "left out":
            return []
        names = [Column(self.attribute, self.attribute)]
        if self.curves is not None:
            numbers = range(1, self.curves.lines.shape[1] + 1)
            names += [Column(f"{self.attribute}, curve {number}", f"{self.attribute}, curve") for number in numbers]
        if self.kind != "number":
            names = [Column(f"{self.attribute}{_SEPARATOR}{value}", self.attribute, value) for value in self.values]
        gone = Column(f"{self.attribute}{_SEPARATOR}missing", f"{self.attribute}{_SEPARATOR}missing")
        return names if self.missing is None else [*names, gone]

    def encode(self, series: pl.Series) -> Float64Array:
        """The columns of some rows: (n_rows, n_columns)."""
        unknown = series.is_null().to_numpy()
        if self.kind == "number":
            values = _numbers(series).fill_null(float(self.means[0])).to_numpy()
            table = ((values - self.means) / self.scale)[:, None]
            if self.curves is not None:
                table = np.hstack((table, np.where(unknown[:, None], 0.0, self.curves.of(table[:, 0]))))
        else:
            table = _indicators(series, self.values) - self.means
            table[unknown] = 0.0
        return table if self.missing is None else np.column_stack((table, unknown - self.missing))


@dataclass(frozen=True, eq=False)
class Features:
    """The features of users or items: how each attribute is encoded.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": [1, 2, 3, 4]})
    >>> films = {"item": [1, 2, 3, 4, 5, 6], "year": [1990, 1992, 1994, 1996, 1998, 2000], "kind": list("ababab")}
    >>> features = rankings.with_features(items=films).features("item")
    >>> features.names
    ['year', 'kind: b']
    >>> features.of([2, 5]).round(2).tolist()
    [[-0.88, 0.5], [0.88, -0.5]]
    """

    attributes: Attributes
    encodings: tuple[Encoding, ...]

    @classmethod
    def learnt_from(cls, attributes: Attributes | None) -> Features | None:
        """Those of the columns that models learn from; None if there are none."""
        if attributes is None or attributes.features is None:
            return None
        encodings, missing = [], set()
        for name in attributes.features:
            made = _encoding(attributes.frame[name], is_title=name == attributes.title)
            pattern = attributes.frame[name].is_null().to_numpy().tobytes()
            if made.missing is not None and pattern in missing:  # missing together: once is enough
                made = replace(made, missing=None)
            missing.add(pattern)
            encodings.append(made)
        return cls(attributes, tuple(encodings))

    @property
    def kind(self) -> str:
        """What they are of: "user" or "item"."""
        return self.attributes.kind

    @cached_property
    def columns(self) -> list[Column]:
        """All columns, attribute by attribute."""
        return [column for encoding in self.encodings for column in encoding.columns]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def groups(self) -> Int64Array:
        """Number of the attribute of each column; curves and missing values are attributes of their own."""
        of = {name: number for number, name in enumerate(dict.fromkeys(column.attribute for column in self.columns))}
        return np.array([of[column.attribute] for column in self.columns], np.int64)

    def of(self, ids: object) -> Float64Array:
        """The columns of some ids, in their order, (n_ids, n_columns); 0 for ids without attributes."""
        dtype = self.attributes.frame[self.kind].dtype
        asked = ids if isinstance(ids, pl.Series) else pl.Series(self.kind, ids, dtype=dtype)  # type: ignore[arg-type]
        rows = self.attributes.of(asked)
        table = self._encoded(rows)
        table[~asked.is_in(self.attributes.frame[self.kind].implode()).to_numpy()] = 0.0
        return table

    def of_row(self, row: Mapping[str, Any]) -> Float64Array:
        """The columns of somebody or something new, by attribute; what is not given is missing: (n_columns,)."""
        attributes = self.attributes.frame.columns[1:]
        for name in row:
            if name not in attributes:
                raise UnknownIdError("attribute", name, attributes)
        frame = self.attributes.frame
        series = []
        for encoding in self.encodings:
            name, value = encoding.attribute, row.get(encoding.attribute)
            if frame[name].dtype == pl.List(pl.String) and isinstance(value, str):
                value = [part.strip() for part in value.split("|")]
            try:
                series.append(pl.Series(name, [value], dtype=frame[name].dtype, strict=False))
            except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
                raise InputError(f"{name}={value!r}, expected {frame[name].dtype} as in the data") from error
            if value is not None and series[-1].null_count():
                raise InputError(f"{name}={value!r}, expected {frame[name].dtype} as in the data")
        return np.asarray(self._encoded(pl.DataFrame(series))[0])

    def _encoded(self, frame: pl.DataFrame) -> Float64Array:
        tables = [each.encode(frame[each.attribute]) for each in self.encodings if each.columns]
        return np.ascontiguousarray(np.hstack([np.zeros((frame.height, 0)), *tables]), np.float64)

    def describe(self) -> pl.DataFrame:
        """One row per attribute: ``attribute``, ``encoding``, ``columns`` (their number) and ``note``."""
        rows = [
            {"attribute": each.attribute, "encoding": each.kind, "columns": len(each.columns), "note": each.note}
            for each in self.encodings
        ]
        words = dict.fromkeys(("attribute", "encoding", "note"), pl.String)
        return pl.DataFrame(rows, schema=words | {"columns": pl.Int64}).select(
            "attribute", "encoding", "columns", "note"
        )

    def __repr__(self) -> str:
        more = " ..." if len(self.names) > 6 else ""
        return f"Features({len(self.columns)} columns of {self.kind}s: {', '.join(self.names[:6])}{more})"


def _encoding(series: pl.Series, *, is_title: bool) -> Encoding:
    """How a column is encoded, by its type and its values."""
    name, present = series.name, series.drop_nulls()
    if is_title:
        return Encoding(name, "left out", note="title")
    if not len(present):
        return Encoding(name, "left out", note="nothing is known")
    missing = series.null_count() / len(series)
    told = missing if min(series.null_count(), len(present)) >= FEWEST_OF_A_VALUE else None
    words = f"missing for {series.null_count():,} of {len(series):,}" if missing else ""
    if series.dtype not in (pl.String, pl.List(pl.String)):
        values = _numbers(present)
        if _is_identifier(present):
            return Encoding(name, "left out", note="identifier: whole numbers, all different")
        mean, spread = float(values.mean()), float(values.std(ddof=0))  # type: ignore[arg-type]
        if not spread > 1e-12 * (abs(mean) + 1e-300):
            if told is None:
                return Encoding(name, "left out", note="the same for all")
            spread = 1.0
        curves = Curves.learnt_from((values.to_numpy() - mean) / spread)
        return Encoding(name, "number", (), np.array([mean]), spread, told, words, curves)
    lists = series.dtype == pl.List(pl.String)
    flat = present.list.unique().explode().drop_nulls() if lists else present
    counts = flat.value_counts(sort=True).rename({flat.name: "value"}) if len(flat) else None
    if counts is None:
        return Encoding(name, "left out", note="all lists are empty")
    if counts.height > _MOST_DIFFERENT * len(flat):
        return Encoding(name, "left out", note=f"free text or names: {counts.height:,} values of {len(flat):,} differ")
    often = counts.filter((pl.col("count") >= FEWEST_OF_A_VALUE) & (pl.col("count") < len(present)))
    kept = often.sort(["count", "value"], descending=[True, False]).head(MOST_VALUES)["value"].sort().to_list()
    if not kept:
        why = "the same for all" if counts.height == 1 else f"no value has {FEWEST_OF_A_VALUE} rows"
        return Encoding(name, "left out", note=why)
    rare = counts.height - len(kept)
    if not lists and len(kept) == 2 and not rare:  # the one is what the other is not
        kept = kept[1:]
    words = ", ".join(part for part in (words, f"{rare:,} rare values have no column" if rare else "") if part)
    means = _indicators(present, tuple(kept)).mean(axis=0)
    return Encoding(name, "list" if lists else "category", tuple(kept), means, 1.0, told, words)


def _numbers(series: pl.Series) -> pl.Series:
    if series.dtype in (pl.Date, pl.Datetime("us")):
        return series.cast(pl.Datetime("us")).dt.epoch("s").cast(pl.Float64) / 86400.0  # days
    return series.cast(pl.Float64)


def _is_identifier(values: pl.Series) -> bool:
    """Whole numbers, all different, that are called an id or are numbered through."""
    if values.dtype != pl.Int64 or values.n_unique() < len(values) or len(values) < FEWEST_OF_A_VALUE:
        return False
    if plain_word(values.name).endswith(("id", "number", "code", "key", "index")):
        return True
    return int(values.max() - values.min()) == len(values) - 1  # type: ignore[operator,arg-type]


def _indicators(series: pl.Series, values: tuple[str, ...]) -> Float64Array:
    """1 where a row has a value: (n_rows, n_values)."""
    table = np.zeros((len(series), len(values)))
    rows = pl.DataFrame({"row": np.arange(len(series)), "value": series})
    rows = rows.explode("value") if series.dtype == pl.List(pl.String) else rows
    columns = pl.DataFrame({"value": pl.Series(values, dtype=pl.String), "column": np.arange(len(values))})
    cells = rows.join(columns, on="value", how="inner")
    table[cells["row"].to_numpy(), cells["column"].to_numpy()] = 1.0
    return table
