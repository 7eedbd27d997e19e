"""Tables for people and JSON for programs, from the same frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def show(frame: pl.DataFrame, *, as_json: bool, title: str = "", most: int | None = None) -> None:
    """Print a frame as a table, or as JSON: a list of one object a row."""
    if as_json:
        print_json(frame.to_dicts())
        return
    from rich.console import Console

    console = Console()
    shown = frame if most is None else frame.head(most)
    console.print(table(shown, title))
    if shown.height < frame.height:
        console.print(f"... and {frame.height - shown.height:,} more (--json prints all)", style="dim")


def show_values(values: dict[str, Any], *, as_json: bool, title: str = "") -> None:
    """Print named values as a table of two columns, or as one JSON object with numbers, truth values and nulls."""
    if as_json:
        print_json(values)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    built = Table(
        "quantity", "value", title=title or None, title_justify="left", title_style="bold", header_style="bold"
    )
    for name, value in values.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in inner:
            text = f"{one:,}" if type(one) is int else _text(one)
            built.add_row(escape(f"{name} {key}".rstrip().replace("_", " ")), escape(text))
    Console().print(built)


def table(frame: pl.DataFrame, title: str = "") -> Table:
    """Build a Rich table: numbers to the right, four digits."""
    from rich.markup import escape
    from rich.table import Table

    built = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for name, kind in frame.schema.items():
        # Ids may be long, but they are never cut: the first column, usually the one that names the row, stays whole.
        whole = name == frame.columns[0]
        side: Literal["left", "right"] = "right" if kind.is_numeric() else "left"
        built.add_column(name.replace("_", " "), justify=side, overflow="fold", no_wrap=whole)
    for row in frame.iter_rows():
        built.add_row(*(escape(_text(value)) for value in row))
    return built


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


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
