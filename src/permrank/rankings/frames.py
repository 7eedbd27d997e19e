"""Columns of any Arrow-speaking frame, checked, with errors that name the row and the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from permrank.errors import InputError, UnknownIdError, shown
from permrank.processes import refuse_after_fork
from permrank.rankings.build import MOST_RATING, bad_weights, rating_problem, weight_problem
from permrank.rankings.columns import Roles, column_of, matching, plain_words
from permrank.rankings.vocabulary import id_series
from permrank.types import Array, BoolArray, Float64Array

_DRAWS, _WINS = ("draw", "drawn", "d", "tie", "tied", "0.5", "1/2", "½"), ("win", "won")
_FLAGS = ("1", "1.0", "true", "yes", "0", "0.0", "false", "no")
_NO_FLAGS = ("", "0", "0.0", "false", "no")  # 0.0: a flag with blanks, as pandas writes it

Locate: TypeAlias = Callable[[int], str]
"""Turns a 0-based row into its name in a message."""


def row_number(row: int) -> str:
    """Rows of a frame are named from 0, as Polars and pandas show them."""
    return f"row {row}"


class Table(NamedTuple):
    """A frame and the names of its rows: columns are checked, and errors name the row and the value."""

    frame: pl.DataFrame
    locate: Locate = row_number

    @classmethod
    def of(cls, data: Any) -> Table:
        """Whatever `as_frame` takes, or a table."""
        return data if isinstance(data, Table) else cls(as_frame(data))

    def columns_of(self, **roles: str | None) -> list[str]:
        """The column of each role: the one that is given, or the one called by a synonym."""
        return [column_of(role, given, self.frame.columns) for role, given in roles.items()]

    def require_rows(self, *expected: str) -> None:
        """Raise if there are none."""
        if not self.frame.height:
            raise InputError(f"the frame has no rows; expected rows of ({', '.join(expected)})")

    def ids(self, name: str, kind: str) -> pl.Series:
        """A column of ids as String or Int64, without nulls and without empty strings."""
        series = self._column(name, kind)
        if series.dtype == pl.Object:
            series = id_series(series, kind)
        if isinstance(series.dtype, (pl.Categorical, pl.Enum)) or series.dtype == pl.Null:
            series = series.cast(pl.String)
        empty = series.is_null()
        if series.dtype == pl.String:
            empty |= series.str.strip_chars().str.len_bytes() == 0
        self._refuse_first(
            empty.fill_null(value=True).to_numpy(),
            lambda row: f"the {kind} id is empty; give every row one or drop the row",
        )
        if series.dtype == pl.String:
            return series
        if series.dtype.is_integer():
            try:
                return series.cast(pl.Int64)
            except pl.exceptions.PolarsError as error:
                raise InputError(f"a {kind} id in column {name!r} does not fit 64 bits; cast it to strings") from error
        raise InputError(
            f"{kind} ids in column {name!r} are {series.dtype}, expected strings or integers; cast the column first"
        )

    def numbers(self, name: str, role: str) -> Float64Array:
        """A column of finite numbers as float64."""
        series = self._column(name, role)
        if series.dtype == pl.String:
            numbers = series.str.strip_chars().cast(pl.Float64, strict=False)
        elif series.dtype.is_numeric() or series.dtype == pl.Null:
            numbers = series.cast(pl.Float64)
        else:
            raise InputError(f"column {name!r} ({role}) is {series.dtype}, expected numbers")
        self._refuse_first(
            (numbers.is_null() | ~numbers.is_finite().fill_null(value=False)).to_numpy(),
            lambda row: f"{role} {shown(series[row])} is not a finite number; correct it or drop the row",
        )
        values = numbers.to_numpy()
        if role == "rating":  # ranks are an order only
            far = np.abs(values) > MOST_RATING
            self._refuse_first(far, lambda row: f"{rating_problem(values[row])}, or drop the row")
        return values

    def weights(self, name: str | None, what: str = "weight") -> Float64Array:
        """A column of weights: positive, and not so large or small that sums of them would be wrong; ones without."""
        if name is None:
            return np.ones(self.frame.height)
        numbers = self.numbers(name, what)
        self._refuse_first(
            bad_weights(numbers), lambda row: f"{weight_problem(numbers[row], what)}; correct it or drop the row"
        )
        return numbers

    def draws(self, name: str | None) -> BoolArray:
        """Which rows are draws: by a flag (blank is no), or by a result in words, points or scores.

        A result may be given from the side of either, so that 0-1 is as good a win as 1-0, and may say how it was won.
        But a lone 1 in a column called result could be a flag or the winner's points, and is refused.
        """
        if name is None:
            return np.zeros(self.frame.height, bool)
        series = self._column(name, "draw")
        if series.dtype == pl.Boolean:
            return series.fill_null(value=False).to_numpy()
        if series.dtype.is_nested() or series.dtype == pl.Object:
            raise InputError(f"column {shown(name)} (draw) is {series.dtype}, expected true or false, numbers or text")
        words = plain_words([name])
        is_result = bool(matching("result", words))
        drawn, clear = _draws_of(series, is_result=is_result, is_score=words[name] == "score")
        wanted = "" if is_result else "1 or 0, true or false, blank, "
        self._refuse_first(
            (~clear).to_numpy(),
            lambda row: (
                f"{shown(series[row])} in column {shown(name)} does not say whether the two drew; expected "
                f"{wanted}'draw' or 'win', or a score like 2-1; name another column draw=, or drop this one"
            ),
        )
        return drawn.to_numpy()

    def without_catalogue(self, roles: Roles) -> tuple[Table, pl.Series | None, pl.Series | None]:
        """Set rows aside that hold only a user or only an item: they say that it exists, nothing else."""
        user, item = roles.entry
        no_user, no_item = self.frame[user].is_null(), self.frame[item].is_null()
        if not (no_user.any() or no_item.any()):
            return self, None, None
        lone = no_user ^ no_item
        for name in roles.used:
            if name not in (user, item):
                lone &= self.frame[name].is_null()
        users, items = self._rows(lone & no_item), self._rows(lone & no_user)
        return self._rows(~lone), users.ids(user, "user"), items.ids(item, "item")

    def _rows(self, chosen: pl.Series) -> Table:
        rows = chosen.arg_true().to_numpy()
        return Table(self.frame.filter(chosen), lambda row: self.locate(int(rows[row])))

    def error(self, row: int, complaint: str) -> InputError:
        """An error that names a row."""
        return InputError(f"{self.locate(row)}: {complaint}")

    def _column(self, name: str, role: str) -> pl.Series:
        if name not in self.frame.columns:
            raise UnknownIdError(f"column ({role})", name, self.frame.columns)
        return self.frame[name]

    def _refuse_first(self, bad: BoolArray, complaint: Callable[[int], str]) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise self.error(row, complaint(row))


def _draws_of(series: pl.Series, *, is_result: bool, is_score: bool) -> tuple[pl.Series, pl.Series]:
    """Which values say that there was a draw, and which say anything."""
    words = series.cast(pl.String, strict=False).fill_null("").str.strip_chars().str.to_lowercase()
    scores = words.str.extract_groups(r"^(\d+(?:\.\d+)?|1/2|½) ?[-:\u2013] ?(\d+(?:\.\d+)?|1/2|½)$")
    first, second = scores.struct.field("1"), scores.struct.field("2")
    yes = _DRAWS if is_result else (*_DRAWS, "1", "1.0", "true", "yes")
    drawn = words.is_in(yes) | (first == second).fill_null(value=False)
    if is_result:  # KO, checkmate, W/O, 6-4 6-3: whatever it is, it is no draw
        return drawn, words.is_not_null() if is_score else ~words.is_in(_FLAGS)
    return drawn, drawn | words.is_in((*_WINS, *_NO_FLAGS)) | first.is_not_null()


def as_frame(data: Any) -> pl.DataFrame:
    """Accept Polars, pandas, PyArrow, DuckDB, any Arrow stream, or a mapping of columns."""
    refuse_after_fork()
    if isinstance(data, pl.DataFrame):
        return data
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__") or isinstance(data, Mapping)):
        raise InputError(
            f"expected a frame (Polars, pandas, PyArrow, DuckDB or a dict of columns), got {type(data).__name__}"
        )
    try:
        return pl.DataFrame(
            {name: _column_of(values) for name, values in data.items()} if isinstance(data, Mapping) else data
        )
    except Exception as error:  # foreign frames fail in as many ways as there are libraries
        raise InputError(f"this {type(data).__name__} cannot be read as a frame: {error}") from error


def _column_of(values: Array) -> Any:
    """Whole and broken numbers may stand in one Python list; Polars takes its type from the first."""
    if isinstance(values, (list, tuple)) and any(isinstance(value, float) for value in values):
        return [float(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in values]
    return values


def ids_like(ids: pl.Series, like: pl.Series | None) -> pl.Series:
    """Ids in the type of those that they are compared with, where every one can be."""
    if like is None or ids.dtype == like.dtype or not len(like):
        return ids
    if like.dtype == pl.String:
        return ids.cast(pl.String)
    numbers = ids.cast(pl.Int64, strict=False)
    if (numbers.cast(pl.String) == ids).fill_null(value=False).all():
        return numbers
    raise InputError(
        f"{ids.name!r} holds text such as {shown(ids[0])}, but the ids of the rankings are whole numbers such as "
        f"{shown(like[0])}; give the column of these"
    )
