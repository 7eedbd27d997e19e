"""Tables for people and JSON for programs, from the same frame; and nothing in an id that a terminal would obey.

Ids, names of files and messages come from elsewhere. All that is printed passes through `printable` (or, as JSON,
through `print_json`), and is never read as Rich's markup.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from permrank.markup import UNSAFE
from permrank.markup import printable as printable

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table
    from rich.text import Text

    from permrank.types import Named

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def plain(value: object, style: str = "") -> Text:
    """Something printable for Rich that is not read as markup."""
    from rich.text import Text

    return Text(printable(value), style)


def say(text: object, *, err: bool = False) -> None:
    """Print text of one or several lines."""
    typer.echo(printable(text, keep="\n"), err=err)


def message_of(error: BaseException) -> str:
    """What an error says, in one line; one of the system begins with the file that it is about."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        # Whatever is read or written has a name, but for what is being printed.
        text = f"{'standard output' if error.filename is None else os.fsdecode(error.filename)}: {error.strerror}"
    return printable(" ".join(text.split()))


def apart_from(output: Path) -> contextlib.AbstractContextManager[object]:
    """What is printed in the block goes to standard error if ``output`` is standard output: the two must not mix."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.samestat(output.expanduser().stat(), os.fstat(sys.stdout.fileno())):
            return contextlib.redirect_stdout(sys.stderr)
    return contextlib.nullcontext()


def show(frame: pl.DataFrame, *, as_json: bool, title: str = "", most: int | None = None) -> None:
    """Print a frame as a table, or as JSON: a list with one object per row."""
    if as_json:
        print_json(frame.to_dicts())
        return
    from rich.console import Console

    console = Console()
    shown = frame if most is None else frame.head(most)
    console.print(table(shown, title))
    if shown.height < frame.height:
        console.print(f"... and {frame.height - shown.height:,} more (--json prints all)", style="dim")


def show_values(values: Named, *, as_json: bool, title: str = "") -> None:
    """Print named values as a table of two columns, or as one JSON object with numbers, truth values and nulls."""
    if as_json:
        print_json(values)
        return
    from rich.console import Console

    built = _empty_table(title)
    built.add_column("quantity")
    built.add_column("value")
    for name, value in values.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in inner:
            text = f"{one:,}" if type(one) is int else _text(one)
            built.add_row(plain(f"{name} {key}".rstrip().replace("_", " ")), plain(text))
    Console().print(built)


def table(frame: pl.DataFrame, title: str = "") -> Table:
    """Build a Rich table: numbers to the right, four digits."""
    built = _empty_table(title)
    for name, kind in frame.schema.items():
        # Ids may be long, but they are never cut: the first column, usually the one that names the row, stays whole.
        whole = name == frame.columns[0]
        side: Literal["left", "right"] = "right" if kind.is_numeric() else "left"
        built.add_column(plain(name.replace("_", " ")), justify=side, overflow="fold", no_wrap=whole)
    for row in frame.iter_rows():
        built.add_row(*(plain(_text(value)) for value in row))
    return built


def _empty_table(title: str) -> Table:
    from rich.table import Table

    return Table(title=plain(title) if title else None, title_justify="left", title_style="bold", header_style="bold")


def print_json(value: object) -> None:
    """Print JSON on standard output; what a terminal would obey is escaped, which changes no value."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False, default=str)
    typer.echo(UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        if value.is_integer():
            return f"{value:,.0f}"
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.1f}"
    return str(value)
