"""A poll from a title and a file of items."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from permrank.errors import InputError
from permrank.interfaces.server.bodies import Item, NewPoll

_TABLES = {".csv": ",", ".tsv": "\t"}
_TITLES = ("title", "item", "name", "dish")


def poll_of(title: str, items: Path | None) -> NewPoll:
    """A poll from a title and a file of items: one a line, or a table with a column of titles."""
    if items is None:
        raise InputError("--poll needs --items FILE: one item a line, or a table with a column 'title' or 'item'")
    found = read_items(items)
    try:
        return NewPoll(title=title, items=found)
    except ValidationError as error:
        field, wrong = _first(error)
        raise InputError(f"{'--poll' if field == 'title' else items}: {field}: {wrong}") from error


def read_items(path: Path) -> list[Item]:
    """Items of a file: lines of text, or CSV, TSV with columns title (or item), about, picture, id."""
    text, delimiter = _text(path), _TABLES.get(path.suffix.lower())
    if delimiter is None:
        return [_item(path, line, found) for line, found in _of_lines(text)]
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError(f"{path}: not a table of comma or tab separated values: {error}") from error
    if not rows:
        raise InputError(f"{path} is empty; write one item a line")
    header = [cell.lower() for cell in rows[0][1]]
    named = next((name for name in _TITLES if name in header), None)
    if named is None:
        return [_item(path, line, {"title": row[0]}) for line, row in rows]
    found = []
    for line, row in rows[1:]:
        cells = dict(zip(header, row, strict=False))
        known = {name: cells[name] for name in ("id", "about", "picture") if cells.get(name)}
        found.append(_item(path, line, {"title": cells.get(named, ""), **known}))
    return found


def _text(path: Path) -> str:
    content = path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line}: is not UTF-8; save the file in that encoding ('CSV UTF-8' in spreadsheets)"
        ) from error


def _of_lines(text: str) -> list[tuple[int, dict[str, Any]]]:
    """A line is a title, or title and description with a tab or a semicolon between."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        title, _, about = line.partition("\t") if "\t" in line else line.partition(";")
        if line.strip():
            found.append((number, {"title": title.strip(), "about": about.strip()}))
    return found


def _item(path: Path, line: int, values: dict[str, Any]) -> Item:
    try:
        return Item(**values)
    except ValidationError as error:
        field, wrong = _first(error)
        raise InputError(f"{path}, line {line}: {field}: {wrong}") from error


def _first(error: ValidationError) -> tuple[str, str]:
    """Where the first thing is wrong, and what."""
    first = error.errors()[0]
    return ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
