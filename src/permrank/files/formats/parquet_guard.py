"""A look at the page headers of a Parquet file before it is read.

Polars believes the counts in them: a damaged one makes it ask for more memory than there is, which ends
the whole process and cannot be caught (seen with Polars 2.1). So the counts are compared with each other
first. The headers are Thrift structs in the compact protocol; only what is needed here is understood.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

_MAGIC = b"PAR1"
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
# Old writers left the header of the dictionary page out of the size of a chunk.
_SLACK = 100
_MOST_DEPTH = 20


class CorruptParquet(Exception):  # noqa: N818 (never leaves this package)
    """The counts of a Parquet file contradict each other."""


Fields: TypeAlias = dict[int, object]
"""Of a Thrift structure, by number."""


def check_pages(file: Path | bytes, names: Collection[str]) -> None:
    """Raise `CorruptParquet` if the pages of the named columns cannot be what their headers say."""
    if isinstance(file, bytes):
        _check(file, len(file), names)
        return
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        if size < 12:
            raise CorruptParquet("too short")
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(data, size, names)


def _check(data: mmap.mmap | bytes, size: int, names: Collection[str]) -> None:
    if size < 12:
        raise CorruptParquet("too short")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise CorruptParquet("it does not begin and end with PAR1; the file may be cut short")
    (length,) = struct.unpack("<I", data[-8:-4])
    end = size - 8 - length
    if end < 4:
        raise CorruptParquet("the footer is longer than the file")
    footer = _Reader(data, end, size - 8).struct()
    groups = footer.get(4, [])
    if not isinstance(groups, list):
        raise CorruptParquet("no row groups")
    n_rows = 0
    for group in groups:
        n_rows += _number(group, 3)
        for chunk in _fields(group, 1):
            column = _member(chunk, 3)
            where = [bytes(part).decode("utf-8", "replace") for part in _fields(column, 3)]
            if where and where[0] in names:
                if len(where) == 1 and _number(column, 5) != _number(group, 3):
                    raise CorruptParquet(f"column {where[0]!r} has another number of values than rows")
                _check_chunk(data, end, column, where[0])
    if n_rows != _number(footer, 3):
        raise CorruptParquet("the row groups do not add up to the rows of the file")


def _check_chunk(data: mmap.mmap | bytes, end: int, column: Fields, name: str) -> None:
    starts = [_number(column, field) for field in (9, 11) if column.get(field)]
    position, n_values = min(starts, default=0), _number(column, 5)
    stop = position + _number(column, 7) + _SLACK
    n_seen = 0
    while n_seen < n_values:
        if not 4 <= position < min(end, stop):
            raise CorruptParquet(f"a page of column {name!r} lies outside of it")
        reader = _Reader(data, position, end)
        header = reader.struct()
        position = reader.position + _number(header, 3)
        if _number(header, 2) > max(_number(column, 6), _number(header, 3)):
            raise CorruptParquet(f"a page of column {name!r} is larger than the column")
        kind = _number(header, 1)
        if kind in (_DATA_PAGE, _DATA_PAGE_V2):
            page = _member(header, 5 if kind == _DATA_PAGE else 8)
            n_seen += _number(page, 1)
            if kind == _DATA_PAGE_V2 and max(_number(page, 2), _number(page, 3)) > _number(page, 1):
                raise CorruptParquet(f"a page of column {name!r} has more rows than values")
        elif kind == _DICTIONARY_PAGE and _number(_member(header, 7), 1) > n_values:
            raise CorruptParquet(f"the dictionary of column {name!r} has more entries than the column")
    if n_seen != n_values:
        raise CorruptParquet(f"the pages of column {name!r} do not add up to its values")


def _number(fields: object, key: int) -> int:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise CorruptParquet("a count is missing or negative")
    return value


def _member(fields: object, key: int) -> Fields:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, dict):
        raise CorruptParquet("a header is missing")
    return value


def _fields(fields: object, key: int) -> list[Any]:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, list):
        raise CorruptParquet("a list is missing")
    return value


class _Reader:
    """Thrift's compact protocol: structs as dicts from field number to value."""

    def __init__(self, data: mmap.mmap | bytes, position: int, end: int) -> None:
        self.data, self.position, self.end = data, position, end

    def byte(self) -> int:
        if self.position >= self.end:
            raise CorruptParquet("a header runs past the end")
        self.position += 1
        return self.data[self.position - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise CorruptParquet("a number is too long")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, n: int) -> bytes:
        if n > self.end - self.position:
            raise CorruptParquet("a text runs past the end")
        self.position += n
        return self.data[self.position - n : self.position]

    def struct(self, depth: int = 0) -> Fields:
        fields: Fields = {}
        number = 0
        while (head := self.byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            # In a field a truth value is its own type; in a list it takes a byte.
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> object:
        if depth > _MOST_DEPTH:
            raise CorruptParquet("headers are nested too deeply")
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            return self.take(8)
        if kind == 8:
            return self.take(self.varint())
        if kind in (9, 10):
            head = self.byte()
            n = head >> 4 if head >> 4 < 15 else self.varint()
            if n > self.end - self.position:
                raise CorruptParquet("a list runs past the end")
            return [self.value(head & 15, depth + 1) for _ in range(n)]
        if kind == 11:
            n = self.varint()
            kinds = self.byte() if n else 0
            if n > self.end - self.position:
                raise CorruptParquet("a map runs past the end")
            return [(self.value(kinds >> 4, depth + 1), self.value(kinds & 15, depth + 1)) for _ in range(n)]
        if kind == 12:
            return self.struct(depth + 1)
        raise CorruptParquet("an unknown kind of field")
