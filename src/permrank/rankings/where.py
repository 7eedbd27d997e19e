"""Filters: which items (or users) a condition on their attributes lets pass.

A condition is a Polars expression, or text such as ``genres contains Comedy and year > 1990``. The text is read by a
small parser of its own; nothing is evaluated.

    condition  = one {"or" one};  one = simple {"and" simple}
    simple     = "not" simple | "(" condition ")" | column [test]
    test       = ("=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "contains" value
               | ["not"] "in" "(" value {"," value} ")" | "is" ["not"] "missing"

A column of truth values is a condition by itself. Names of columns and values may be of several words; quotes
(', " or `) keep words apart that would mean something.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from permrank.errors import InputError, UnknownIdError, argument, shown
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import BoolArray

_TOKEN = re.compile(
    r"""\s*(?:(<=|>=|!=|==|=|<|>|\(|\)|,)|'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s()<>=!,'"`][^\s()<>=!,]*))"""
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda one, other: one == other,
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
_AND, _OR, _NOT, _IN, _IS, _CONTAINS = "and", "or", "not", "in", "is", "contains"
_WORDS = (_AND, _OR, _NOT, _IN, _IS, _CONTAINS)
_EXAMPLE = "for example: genres contains Comedy and year > 1990"
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def passing(ids: Vocabulary, where: object) -> BoolArray:
    """Which ids satisfy a condition: (n_ids,); those of which it is not known do not.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.rankings.where import passing
    >>> films = {"item": ["a", "b"], "genres": [["Comedy"], ["Drama"]], "year": [1995, 1980]}
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b"]}).with_items(films)
    >>> passing(rankings.item_ids, "genres contains comedy or year < 1990").tolist()
    [True, True]
    """
    table = ids.table
    if isinstance(where, str):
        where = parse_where(where, table)
    if not isinstance(where, pl.Expr):
        raise InputError(f"where={shown(where)}, expected a Polars expression or text, {_EXAMPLE}")
    for name in where.meta.root_names():
        if name not in table.columns:
            raise _unknown_column(name, table)
    try:
        passes = table.select(where.alias("passes"))["passes"]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"where cannot be computed from the attributes: {str(error).splitlines()[0]}") from error
    if passes.dtype != pl.Boolean or len(passes) != len(ids):
        raise InputError(
            f"where gives {passes.dtype} of length {len(passes)}, expected true or false of each {ids.kind}"
        )
    return np.asarray(passes.fill_null(value=False).to_numpy(), bool)


def parse_where(text: str, table: pl.DataFrame) -> pl.Expr:
    """The expression of a condition in text, about the columns of a table."""
    parser = _Parser(_tokens(text), table, text)
    condition = parser.any_of()
    if parser.next is not None:
        raise parser.error(f"{shown(parser.next.text)} is not expected there")
    return condition


class _Token(NamedTuple):
    text: str
    quoted: bool = False

    def means(self, *words: str) -> bool:
        return not self.quoted and self.text.lower() in words


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise InputError(f"where {shown(text)}: {shown(text[at:].strip()[:20])} cannot be read; {_EXAMPLE}")
        symbol, *quoted, bare = match.groups()
        inside = next((part for part in quoted if part is not None), None)
        tokens.append(_Token(symbol or bare) if inside is None else _Token(inside, quoted=True))
        at = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token], table: pl.DataFrame, text: str) -> None:
        self.tokens, self.table, self.text, self.at = tokens, table, text, 0

    def error(self, problem: str) -> InputError:
        return InputError(f"where {shown(self.text)}: {problem}; {_EXAMPLE}")

    @property
    def next(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *words: str) -> str | None:
        """Go past the next token if it is one of these."""
        if self.next is None or not self.next.means(*words):
            return None
        self.at += 1
        return self.tokens[self.at - 1].text.lower()

    def need(self, word: str) -> None:
        if self.take(word) is None:
            raise self.error(f"{word!r} is missing")

    def any_of(self) -> pl.Expr:
        condition = self.all_of()
        while self.take(_OR):
            condition = condition | self.all_of()
        return condition

    def all_of(self) -> pl.Expr:
        condition = self.simple()
        while self.take(_AND):
            condition = condition & self.simple()
        return condition

    def simple(self) -> pl.Expr:
        if self.take(_NOT):
            return ~self.simple()
        if self.take("("):
            condition = self.any_of()
            self.need(")")
            return condition
        return self.test(self.column())

    def column(self) -> pl.Series:
        words = self.words("a column")
        by_case = {each.lower(): each for each in self.table.columns}
        name = words if words in self.table.columns else by_case.get(words.lower())
        if name is None:
            raise _unknown_column(words, self.table)
        return self.table[name]

    def words(self, what: str) -> str:
        """What is quoted, or all words until one that means something."""
        if self.next is not None and self.next.quoted:
            self.at += 1
            return self.tokens[self.at - 1].text
        parts: list[str] = []
        while self.next is not None and not self.next.quoted and not self.next.means(*_WORDS, *_COMPARE, "(", ")", ","):
            parts.append(self.next.text)
            self.at += 1
        if not parts:
            raise self.error(
                f"{what} is missing" + (f" before {shown(self.next.text)}" if self.next else " at the end")
            )
        return " ".join(parts)

    def test(self, series: pl.Series) -> pl.Expr:
        column = pl.col(series.name)
        if self.take(_IS):
            negated = self.take(_NOT)
            self.need("missing")
            return column.is_not_null() if negated else column.is_null()
        negated = self.take(_NOT)
        if self.take(_CONTAINS):
            condition = self.contains(series, self.words("a value"))
        elif self.take(_IN):
            self.need("(")
            values = [self.value(series, self.words("a value"))]
            while self.take(","):
                values.append(self.value(series, self.words("a value")))
            self.need(")")
            condition = pl.any_horizontal([column == value for value in values])
        elif negated:
            raise self.error("after 'not' comes 'contains' or 'in'")
        else:
            return self.comparison(series)
        return ~condition if negated else condition

    def comparison(self, series: pl.Series) -> pl.Expr:
        operator = self.take(*_COMPARE)
        if operator is None:
            if series.dtype != pl.Boolean:
                raise self.error(f"what of the column {series.name!r}? It needs =, <, >, contains, in or is missing")
            return pl.col(series.name)
        value = self.value(series, self.words("a value"), existing=operator in ("=", "==", "!="))
        condition: pl.Expr = _COMPARE[operator](pl.col(series.name), value)
        return condition

    def value(self, series: pl.Series, text: str, *, existing: bool = True) -> Any:
        """The value that a text means in a column; one that the column never has raises."""
        kind = series.dtype
        if kind.is_numeric():
            try:
                return float(text)
            except ValueError:
                raise self.error(f"{series.name!r} holds numbers, and {shown(text)} is none") from None
        if kind == pl.Boolean:
            if text.lower() not in _TRUTH:
                raise self.error(f"{series.name!r} is true or false, and not {shown(text)}")
            return _TRUTH[text.lower()]
        if kind.is_temporal():
            try:
                return pl.Series([text]).str.to_date("%Y-%m-%d").cast(kind)[0]
            except pl.exceptions.PolarsError:
                raise self.error(f"{series.name!r} holds dates such as 1995-12-31, and not {shown(text)}") from None
        if kind == pl.List:
            raise self.error(f"{series.name!r} holds lists; ask whether it contains {shown(text)}")
        return _spelling(series, text) if existing else text

    def contains(self, series: pl.Series, text: str) -> pl.Expr:
        if series.dtype == pl.List:
            return pl.col(series.name).list.contains(_spelling(series.explode(), text, series.name))
        if series.dtype == pl.String:
            return pl.col(series.name).str.to_lowercase().str.contains(text.lower(), literal=True)
        raise self.error(f"{series.name!r} holds {series.dtype}, which contains nothing; compare it by =, < or >")


def _spelling(series: pl.Series, text: str, name: str | None = None) -> str:
    """A value of a column in its own spelling, case aside; one that is not there raises and names the nearest."""
    values = series.drop_nulls().unique().sort()
    if text in values:
        return text
    for value in values:
        if value.lower() == text.lower():
            return str(value)
    raise UnknownIdError(f"value of the column {name or series.name!r}", text, values)


def _unknown_column(name: str, table: pl.DataFrame) -> UnknownIdError | InputError:
    if table.width == 1:
        kind = table.columns[0]
        return InputError(
            f"where asks about {shown(name)}, but nothing is known of the {kind}s; give {argument(f'{kind}s')} with "
            f"a file when the model is fitted, or rankings.with_{kind}s(frame)"
        )
    return UnknownIdError("column", name, table.columns)
