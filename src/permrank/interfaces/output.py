"""Tables for people and JSON for programs, from the same frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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


def table(frame: pl.DataFrame, title: str = "") -> Table:
    """Build a Rich table: numbers to the right, four digits."""
    from rich.markup import escape
    from rich.table import Table

    built = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for name, kind in frame.schema.items():
        built.add_column(name.replace("_", " "), justify="right" if kind.is_numeric() else "left")
    for row in frame.iter_rows():
        built.add_row(*(escape(_text(value)) for value in row))
    return built


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
