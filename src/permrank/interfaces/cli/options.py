"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataSource = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (.csv .tsv .parquet .jsonl .soc .soi .toc .toi or a data set's .zip), a folder of Parquet files, "
        "a pattern in quotes, a .rankings folder, or the name of a data set.",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .permrank file that 'fit' has written.")]
OwnClass = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODULE:CLASS", help="Class of the file, if it is yours and not installed."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter, see 'permrank info MODEL'; may be repeated."),
]
NumberOfItems = Annotated[int, typer.Option("--k", "-k", min=1, help="How many items.")]

_COLUMNS = {
    "user": "Users.",
    "item": "Items.",
    "rating": "Ratings, higher is better.",
    "rank": "Ranks, 1 is best.",
    "ranking": "What tells several rankings of a user apart.",
    "weight": "How often a ranking was given, or of interactions, how often the item was taken up.",
    "winner": "The better of two, for choices.",
    "loser": "The other of two.",
    "draw": "Whether neither won: 1 or 0, true or false, draw or win, or a score.",
}
_column = functools.partial(
    typer.Option, metavar="COLUMN", rich_help_panel="Columns, where their headers are not recognised"
)
_file = functools.partial(typer.Option, metavar="FILE")
# Parameters of `permrank.read`, whose signature would be slow to import.
_READING: dict[str, tuple[Any, Any]] = {
    "unlisted": (
        None,
        typer.Option(
            show_default="ignore, with a warning if lists look like ballots",
            help="Items that a ranking does not list: 'ignore', or 'last' (below all listed ones).",
        ),
    ),
    "duplicates": ("error", typer.Option(help="An item twice in a ranking: error, first, last or mean.")),
    "kind": (
        None,
        typer.Option(help="'interactions': read a table of users and items as sets without order, such as clicks."),
    ),
    "items": (
        None,
        _file(help="What items are, a row each: title, genres ... (.csv .tsv .parquet, movies.dat, u.item)."),
    ),
    "users": (None, _file(help="What is known of users, a row each.")),
    "links": (
        None,
        typer.Option(
            metavar="FILE|N",
            help="Who is whose friend, a row each: user, friend, weight; or N nearest by the users' attributes.",
        ),
    ),
    "features": (
        False,
        typer.Option("--features", help="Learn from what is known of items and users, and not only show it."),
    ),
    **{name: (None, _column(f"--{name}", help=about)) for name, about in _COLUMNS.items()},
}


def reads_data(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of all commands that read data; they arrive as its dict ``reading``."""
    signature = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != "reading"]
    for name, (default, option) in _READING.items():
        kind = Annotated[str | None if default is None else type(default), option]
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=kind))

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        reading = {name: given.pop(name) for name in _READING}
        return command(**given, reading=reading)

    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped
