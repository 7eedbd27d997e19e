"""Attributes of users and items, by id: a title, and columns of any kind.

One store serves titles, filters and features. It may know ids that no ranking has (films that nobody has rated yet),
and it need not know all that the rankings have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError, shown
from permrank.rankings.columns import column_of_ids, matching, plain_words
from permrank.rankings.frames import Table, ids_like
from permrank.rankings.links import Links
from permrank.types import Named

AttributeKind: TypeAlias = Literal["user", "item"]
# What a column may be, by the names that files use.
_TYPES: dict[str, Any] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
    "str": pl.String,
    "list": pl.List(pl.String),
    "date": pl.Date,
    "datetime": pl.Datetime("us"),
}
_TIMES = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%d %H:%M:%S%.6f"}
_SEPARATOR = "|"
# Titles that end in a year, such as "Heat (1995)", make a column of years if so many do.
_YEAR, _SHARE = r"\((\d{4})\)\s*$", 0.8
_NOTHING = ("(no genres listed)",)  # MovieLens' word for an empty list


@dataclass(frozen=True, eq=False)
class Attributes:
    """Columns by id.

    Attributes
    ----------
    frame : polars.DataFrame
        First the ids, in a column called ``user`` or ``item``, sorted and different; then whole numbers, numbers, truth
        values, text, lists of text, dates and times. Null is not known.
    title : str or None
        The column of what people call it.
    features : tuple of str, optional
        Columns that models learn from (rankings/features.py); None if they are there for people alone.
    links : Links, optional
        Of users: who is linked with whom.
    """

    frame: pl.DataFrame
    title: str | None
    features: tuple[str, ...] | None = None
    links: Links | None = None

    @property
    def kind(self) -> str:
        """What the ids stand for: "user" or "item"."""
        return self.frame.columns[0]

    def of(self, ids: pl.Series) -> pl.DataFrame:
        """The rows of some ids, in their order, null for ids without a row."""
        asked = pl.DataFrame({self.kind: ids})
        if ids.dtype != self.frame[self.kind].dtype:  # there are no ids
            asked = asked.with_columns(pl.col(self.kind).cast(self.frame[self.kind].dtype))
        return asked.join(self.frame, on=self.kind, how="left", maintain_order="left")

    def without(self, ids: pl.Series) -> Attributes:
        """All but some ids."""
        left = self.frame.join(ids.to_frame(self.kind), on=self.kind, how="anti")
        return replace(self, frame=left, links=None if self.links is None else self.links.without(ids))

    def joined(self, newer: Attributes | None) -> Attributes:
        """All ids and columns of both; where both know a value, the newer one counts."""
        if newer is None:
            return self
        own, new = self.frame, newer.frame
        for name in set(own.columns) & set(new.columns):
            if own[name].dtype != new[name].dtype:  # text tells all that numbers do, but not in reverse
                wider = _wider(own[name].dtype, new[name].dtype)
                own, new = own.with_columns(_as(own[name], wider)), new.with_columns(_as(new[name], wider))
        added = [pl.lit(None, new[name].dtype).alias(name) for name in new.columns if name not in own.columns]
        both = own.with_columns(added).update(new, on=self.kind, how="full")
        links = newer.links if self.links is None else self.links.joined(newer.links)
        named = (*(self.features or ()), *(newer.features or ()))
        features = None if self.features is newer.features is None else tuple(dict.fromkeys(named))
        return Attributes(both.sort(self.kind), newer.title or self.title, features, links)

    # Files

    def to_json(self) -> str:
        """All of it as text."""
        columns = []
        for series in self.frame:
            kind = next(name for name, dtype in _TYPES.items() if dtype == series.dtype)
            column: Named = {"name": series.name, "type": kind}
            if kind == "list":  # flat, since lists in lists take long to read
                lengths = series.list.len().cast(pl.Int64).fill_null(-1)
                column["lengths"], series = lengths.to_list(), series.filter(lengths > 0).explode()
            values = series.dt.strftime(_TIMES[kind]) if kind in _TIMES else series
            columns.append(column | {"values": values.to_list()})
        whole: Named = {"title": self.title, "columns": columns}
        if self.features is not None:
            whole["features"] = list(self.features)
        if self.links is not None:
            whole["links"] = self.links.to_dict()
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes, kind: AttributeKind) -> Attributes:
        """What `to_json` gave; anything else raises a `FormatError`."""
        try:
            return cls._decoded(json.loads(text), kind)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise FormatError(f"attributes of {kind}s are damaged ({str(error)[:100]})") from error
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise FormatError(f"attributes of {kind}s are damaged ({str(error)[:100]})") from error

    @classmethod
    def _decoded(cls, decoded: Named, kind: AttributeKind) -> Attributes:
        columns = [_decoded_column(column) for column in decoded["columns"]]
        frame = pl.DataFrame(columns)
        title, ids = decoded["title"], frame.to_series(0)
        if ids.name != kind or ids.dtype not in (pl.Int64, pl.String) or ids.null_count():
            raise ValueError("the first column has no ids")
        if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
            raise ValueError("ids are not sorted")
        if title is not None and frame[title].dtype != pl.String:
            raise ValueError("titles are no text")
        features, links = decoded.get("features"), decoded.get("links")
        if features is not None and not set(features) <= set(frame.columns[1:]):
            raise ValueError("features are not among the columns")
        linked = None if links is None else Links.from_dict(links, ids.dtype)
        return cls(frame, title, None if features is None else tuple(features), linked)


def _decoded_column(column: Named) -> pl.Series:
    name, kind, values = column["name"], column["type"], column["values"]
    if not isinstance(name, str) or not isinstance(values, list):
        raise ValueError("a column is no list with a name")
    if kind in _TIMES:
        return pl.Series(name, values, dtype=pl.String, strict=True).str.strptime(_TYPES[kind], _TIMES[kind])
    if kind != "list":
        return pl.Series(name, values, dtype=_TYPES[kind], strict=True)
    lengths, flat = np.array(column["lengths"], dtype=np.int64), pl.Series(values, dtype=pl.String, strict=True)
    if lengths.ndim != 1 or lengths.min(initial=-1) < -1 or np.maximum(lengths, 0).sum() != len(flat):
        raise ValueError("lengths of lists do not fit what they hold")
    owners = np.repeat(np.arange(lengths.size), np.maximum(lengths, 0))
    lists = pl.DataFrame({"row": owners, "list": flat}).group_by("row", maintain_order=True).agg("list")
    rows = pl.DataFrame({"row": np.arange(lengths.size), "length": lengths})
    joined = rows.join(lists, on="row", how="left", maintain_order="left")
    empty = pl.lit(pl.Series([[]], dtype=pl.List(pl.String))).first()
    return joined.select(pl.when(pl.col("length") == 0).then(empty).otherwise("list")).to_series().rename(name)


def attributes_of(
    data: object,
    kind: AttributeKind,
    *,
    column: str | None = None,
    title: str | None = None,
    like: pl.Series | None = None,
    where: str | None = None,
) -> Attributes:
    """Attributes from a frame with a row for each id.

    ``column`` and ``title`` name columns; left out, they are recognised. ``like`` are ids of the type that is wanted.
    """
    table = Table.of(data)
    frame = table.frame
    where = where or f"the frame of {kind}s"
    name = column_of_ids(kind, column, frame.columns, where)
    ids = ids_like(table.ids(name, kind), like)
    rest = frame.drop(name)
    called = _title_of(rest, title, where)
    columns = [_plain(series, where, is_title=series.name == called) for series in rest]
    if kind in rest.columns:  # a column of another meaning: movie beside movieId
        columns = [series.rename(f"{kind} name") if series.name == kind else series for series in columns]
        called = f"{kind} name" if called == kind else called
    made = pl.DataFrame([ids.rename(kind), *columns]).unique(maintain_order=True)
    again = made[kind].is_duplicated()
    if again.any():
        twice = made[kind].filter(again)[0]
        raise InputError(f"{where}: {kind} {shown(twice)} has two rows that differ; give every {kind} one")
    if called is not None and "year" not in plain_words(made.columns).values():
        made = _with_years(made, called)
    return Attributes(made.sort(kind), called)


def _title_of(frame: pl.DataFrame, given: str | None, where: str) -> str | None:
    if given is not None and given not in frame.columns:
        raise InputError(f"{where} has no column {given!r} (passed as title=); it has {', '.join(frame.columns)}")
    texts = [name for name in frame.columns if frame[name].dtype in (pl.String, pl.Categorical, pl.Enum, pl.Object)]
    if given is not None and given not in texts:
        raise InputError(f"{where}: column {given!r} (passed as title=) is {frame[given].dtype}, expected text")
    return given or next(iter(matching("title", plain_words(texts))), None)


def _plain(series: pl.Series, where: str, *, is_title: bool) -> pl.Series:
    """A column in one of the types that are kept; nothing is null."""
    dtype = series.dtype
    if dtype == pl.Object:
        series = pl.Series(series.name, series.to_list(), strict=False)
        dtype = series.dtype
    if dtype.is_integer():
        return series.cast(pl.Int64, strict=False)
    if dtype.is_float() or dtype.is_decimal():
        return series.cast(pl.Float64).fill_nan(None)
    if isinstance(dtype, pl.List | pl.Array) and not dtype.inner.is_nested():
        return series.cast(pl.List(pl.String))
    if isinstance(dtype, pl.Datetime):
        return series.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    if dtype in (pl.Boolean, pl.Date):
        return series
    if dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise InputError(
            f"{where}: column {series.name!r} is {dtype}; expected numbers, text, truth values, dates or lists of "
            "text: cast it or leave it out"
        )
    text = series.cast(pl.String).str.strip_chars()
    text = text.to_frame().select(pl.when(pl.first() != "").then(pl.first())).to_series()
    return text if is_title else _lists(text)


def _lists(text: pl.Series) -> pl.Series:
    """Text such as Comedy|Drama as lists of words, if any word comes again: words of a kind do, and other text not."""
    if not text.str.contains(_SEPARATOR, literal=True).any():
        return text
    filled = text.to_frame().select(pl.when(~pl.first().is_in(_NOTHING)).then(pl.first())).to_series()
    lists = filled.str.split(_SEPARATOR).list.eval(pl.element().str.strip_chars())
    parts = lists.explode().drop_nulls()
    return lists if len(parts) > parts.n_unique() else text


def _with_years(frame: pl.DataFrame, title: str) -> pl.DataFrame:
    years = frame[title].str.extract(_YEAR).cast(pl.Int64)
    n_titles, n_years = (len(series.drop_nulls()) for series in (frame[title], years))
    return frame.with_columns(years.alias("year")) if n_titles and n_years >= _SHARE * n_titles else frame


def _wider(one: pl.DataType, other: pl.DataType) -> Any:
    """A type that holds the values of both."""
    if {one, other} <= {pl.Int64(), pl.Float64()}:
        return pl.Float64()
    return pl.List(pl.String) if pl.List(pl.String) in (one, other) else pl.String()


def _as(series: pl.Series, dtype: Any) -> pl.Series:
    if dtype == pl.List(pl.String) and series.dtype != dtype:
        text = series.cast(pl.String).to_frame()
        return text.select(pl.when(pl.first().is_not_null()).then(pl.concat_list(pl.first()))).to_series()
    return series.cast(dtype)
