"""Delimited text as columns whose rows can be named in a message.

Text with a row in every line goes through Polars. Text with blank lines, fields of several lines, stray
carriage returns or doubtful quotes goes through Python's own parser: slower, but it knows its lines.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from permrank.errors import FormatError
from permrank.files.formats.contents import check_text
from permrank.rankings.frames import Table
from permrank.types import Int64Array

_PIECE = 2**24
_ROWS = 2**16


class Source(NamedTuple):
    """A file of columns: their names, and a way to read some of them.

    Attributes
    ----------
    names : list of str
        All columns, in order; repeated and blank names have been made different.
    load : callable
        Reads the columns of the given names. Those of text files are strings, blank is null.
    is_text : bool
        Whether types have to be guessed from the text.
    """

    names: list[str]
    load: Callable[[Sequence[str]], Table]
    is_text: bool


def delimited(data: bytes, separator: str, where: str, header: Sequence[str] | None = None) -> Source:
    """Columns of delimited text.

    Parameters
    ----------
    data : bytes
        Content of the file.
    separator : str
        One character.
    where : str
        Name of the file for messages.
    header : sequence of str, optional
        Names of the columns if the file does not begin with them.
    """
    check_text(data, where)
    if data.count(b"\r") == data.count(b"\r\n"):
        n_lines = _count_lines(data, separator, where, header)
        if n_lines is not None:
            return _line_by_line(data, separator, where, header, n_lines)
    return _parse_with_csv_module(data, separator, where, header)


def _line_by_line(data: bytes, separator: str, where: str, header: Sequence[str] | None, n_lines: int) -> Source:
    first = data[: data.find(b"\n") + 1 or len(data)].decode().rstrip("\r\n")
    try:
        names = _header(next(csv.reader([first], delimiter=separator)), header)
    except csv.Error as error:
        raise _bad_quotes(where, 1, error) from error
    n_above = 1 if header is None else 0
    has_quotes = b'"' in data

    def load(wanted: Sequence[str]) -> Table:
        indices = _indices(names, wanted)
        try:
            frame = pl.read_csv(
                data, separator=separator, has_header=header is None, columns=indices, infer_schema=False,
                quote_char='"' if has_quotes else None,
            )  # fmt: skip
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return _parse_with_csv_module(data, separator, where, header).load(wanted)
        if frame.height != n_lines - n_above:
            # Two ways of counting disagree: let the parser decide that knows its lines.
            return _parse_with_csv_module(data, separator, where, header).load(wanted)
        frame.columns = [names[index] for index in indices]
        if has_quotes:  # "" is as blank as nothing
            frame = frame.with_columns(pl.when(pl.all() != "").then(pl.all()))
        return Table(frame, lambda row: f"{where}, line {row + 1 + n_above}")

    return Source(names, load, is_text=True)


def _count_lines(data: bytes, separator: str, where: str, header: Sequence[str] | None) -> int | None:
    """Count lines and check that all have the same number of fields; None if lines are not rows."""
    n_fields = None if header is None else len(header)
    n_lines, start = 0, 0
    while start < len(data):
        end = len(data) if start + _PIECE >= len(data) else data.rfind(b"\n", start, start + _PIECE) + 1
        if end <= start:
            return None
        piece = np.frombuffer(data, np.uint8, end - start, start)
        ends = np.flatnonzero(piece == ord("\n"))
        if piece[-1] != ord("\n"):
            ends = np.append(ends, piece.size)
        widths = np.diff(ends, prepend=-1) - 1
        if (widths == 0).any() or (piece[ends[widths == 1] - 1] == ord("\r")).any():
            return None
        separators = np.flatnonzero(piece == ord(separator))
        quotes = np.flatnonzero(piece == ord('"'))
        if quotes.size:
            if not _quotes_are_simple(piece, quotes, ends, ord(separator)):
                return None
            separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
        fields = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
        n_fields = n_fields or int(fields[0])
        if (fields != n_fields).any():
            first = int(np.argmax(fields != n_fields))
            raise _wrong_fields(where, n_lines + first + 1, int(fields[first]), n_fields)
        n_lines, start = n_lines + ends.size, end
    return n_lines


def _quotes_are_simple(piece: NDArray[np.uint8], quotes: Int64Array, ends: Int64Array, separator: int) -> bool:
    """Whether every quote opens or closes a field (or is doubled inside one) and all are closed in their line."""
    if quotes.size % 2 or (np.searchsorted(quotes, ends) % 2).any():
        return False
    padded = np.concatenate(([ord("\n")], piece, [ord("\n")]))
    before, after = padded[quotes[::2]], padded[quotes[1::2] + 2]
    around = [separator, ord("\n"), ord('"')]
    return bool(np.isin(before, around).all() and np.isin(after, [*around, ord("\r")]).all())


def _parse_with_csv_module(data: bytes, separator: str, where: str, header: Sequence[str] | None) -> Source:
    def rows() -> Any:
        text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
        return csv.reader(text, delimiter=separator, strict=True)

    def load(wanted: Sequence[str]) -> Table:
        indices = _indices(names, wanted)
        pieces: list[list[pl.Series]] = [[] for _ in indices]
        kept: list[list[str]] = []
        lines = array("q")
        reader = rows()
        after = 0

        def flush() -> None:
            columns = list(zip(*kept, strict=True)) or [()] * len(names)
            for piece, index in zip(pieces, indices, strict=True):
                piece.append(pl.Series([text or None for text in columns[index]], dtype=pl.String))
            kept.clear()

        try:
            for row in reader:
                line, after = after + 1, reader.line_num
                if not row:
                    continue
                if len(row) != len(names):
                    raise _wrong_fields(where, line, len(row), len(names))
                kept.append(row)
                lines.append(line)
                if len(kept) == _ROWS:
                    flush()
        except csv.Error as error:
            raise _bad_quotes(where, after + 1, error) from error
        flush()
        frame = pl.DataFrame(
            [pl.concat(piece).rename(names[index]) for piece, index in zip(pieces, indices, strict=True)]
        )
        n_above = 0
        if header is None:
            frame, n_above = frame.slice(1), 1
        return Table(frame, lambda row: f"{where}, line {lines[row + n_above]}")

    if header is not None:
        names = _header([], header)
    else:
        try:
            names = _header(next((row for row in rows() if row), []), None)
        except csv.Error as error:
            raise _bad_quotes(where, 1, error) from error
    return Source(names, load, is_text=True)


def _header(first: list[str], given: Sequence[str] | None) -> list[str]:
    """Names of the columns, without spaces around them, made different where they repeat."""
    names: dict[str, None] = {}  # in order; a list would make wide headers quadratic
    for index, text in enumerate(first if given is None else given):
        name = text.strip() or f"column {index + 1}"
        while name in names:
            name = f"{name} (column {index + 1})"
        names[name] = None
    return list(names)


def _indices(names: list[str], wanted: Sequence[str]) -> list[int]:
    chosen = set(wanted)
    return [index for index, name in enumerate(names) if name in chosen]


def _wrong_fields(where: str, line: int, n_found: int, n_expected: int) -> FormatError:
    return FormatError(
        f"{where}, line {line}: {n_found} fields, expected {n_expected} as in the first line; "
        "put quotes around a field that holds the separator"
    )


def _bad_quotes(where: str, line: int, error: csv.Error) -> FormatError:
    if "field limit" in str(error):
        return FormatError(f"{where}, line {line}: a field of more than {csv.field_size_limit():,} letters is no id")
    return FormatError(
        f"{where}, line {line}: {error}; inside a quoted field a quote is written twice, and every field "
        "that begins with a quote ends with one"
    )
