"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

_ENGINE = "Engine: where it is computed"
EngineName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="ray: learn by workers of Ray, on one machine or several; the model is the same.",
        rich_help_panel=_ENGINE,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of a cluster: auto, host:6379, ray://host:10001; without it, workers on this machine.",
        metavar="ADDRESS",
        rich_help_panel=_ENGINE,
    ),
]
NumberOfWorkers = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="one for each processor, or machine of several",
        help="How many there are.",
        rich_help_panel=_ENGINE,
    ),
]
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
MODEL_HELP = "Name of the model, see 'permrank info --models'; or module:Class, for one of your own."
OwnClass = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODULE:CLASS", help="Class of the file, if it is yours and not installed."),
]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="CONDITION", help="Only items such as 'genres contains Comedy and year > 1990'."),
]
NewList = Annotated[
    str | None,
    typer.Option("--list", help="A new person's list, best first, of ids or titles: 'a > b = c > d' (= is a tie)."),
]
Probability = Annotated[
    bool, typer.Option("--probability", help="Add the probability to be among the best K, where the order says so.")
]
Interval = Annotated[
    bool, typer.Option("--interval", help="Add a 90 % interval of each rank, where the order says so.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter, see 'permrank info MODEL'; may be repeated."),
]

_COLUMNS = "Columns, where their headers are not recognised"
_COLUMN_HELP = {
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
_READING: dict[str, tuple[Any, Any]] = {
    "unlisted": (
        Annotated[
            str | None,
            typer.Option(
                show_default="ignore, with a warning if lists look like ballots",
                help="Items that a ranking does not list: 'ignore', or 'last' (below all listed ones).",
            ),
        ],
        None,
    ),
    "duplicates": (
        Annotated[str, typer.Option(help="An item twice in a ranking: error, first, last or mean.")],
        "error",
    ),
    "kind": (
        Annotated[
            str | None,
            typer.Option(help="'interactions': read a table of users and items as sets without order, such as clicks."),
        ],
        None,
    ),
    "items": (
        Annotated[
            Path | None,
            typer.Option(
                "--items",
                metavar="FILE",
                help="What items are, a row each: title, genres ... (.csv .tsv .parquet, movies.dat, u.item).",
            ),
        ],
        None,
    ),
    "users": (
        Annotated[Path | None, typer.Option("--users", metavar="FILE", help="What is known of users, a row each.")],
        None,
    ),
    "links": (
        Annotated[
            Path | None,
            typer.Option(
                "--links",
                metavar="FILE|N",
                help="Who is whose friend, a row each: user, friend, weight; or N nearest by the users' attributes.",
            ),
        ],
        None,
    ),
    "features": (
        Annotated[
            bool,
            typer.Option("--features", help="Learn from what is known of items and users, and not only show it."),
        ],
        False,
    ),
    **{
        name: (
            Annotated[str | None, typer.Option(f"--{name}", metavar="COLUMN", help=about, rich_help_panel=_COLUMNS)],
            None,
        )
        for name, about in _COLUMN_HELP.items()
    },
}


def reads_data(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of all commands that read data; they arrive as its dict ``reading``."""
    signature = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != "reading"]
    added = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in _READING.items()
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        reading = {name: given.pop(name) for name in _READING}
        return command(**given, reading=reading)

    wrapped.__signature__ = signature.replace(parameters=own + added)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in own + added}
    return wrapped
