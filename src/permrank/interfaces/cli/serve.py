"""``permrank serve``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from permrank.errors import InputError

_POLL, _REACH, _LEARN = "A poll from here", "Who can reach it", "How it works"


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A .permrank file to answer questions from.")
    ] = None,
    db: Annotated[Path, typer.Option(help="The SQLite file of polls and answers; made if it is not there.")] = Path(
        "answers.sqlite"
    ),
    poll: Annotated[str | None, typer.Option(metavar="TITLE", help="Start a poll.", rich_help_panel=_POLL)] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Its items: one a line, or a table with a column 'title' (and 'about', 'picture').",
            rich_help_panel=_POLL,
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Pictures of items, at /pictures/ on this server.", rich_help_panel=_POLL),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="A poll in which simulated people have voted.", rich_help_panel=_POLL)
    ] = False,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            show_default="with --demo, at a terminal with a display",
            help="Open the first page when the server is ready.",
            rich_help_panel=_POLL,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen at; others than this machine's have a key made.", rich_help_panel=_REACH),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port.", rich_help_panel=_REACH)] = 8000,
    admin_key: Annotated[
        str | None,
        typer.Option(
            envvar="PERMRANK_ADMIN_KEY",
            metavar="KEY",
            help="Take this key for an admin's; 'new' makes one and prints it. Without a key only a server that "
            "nobody else reaches is administered.",
            rich_help_panel=_REACH,
        ),
    ] = None,
    is_open: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Everybody who reaches it may vote, read and ask; to administer needs a key.",
            rich_help_panel=_REACH,
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name under which browsers reach it; may be repeated.",
            rich_help_panel=_REACH,
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where people reach it, through a proxy perhaps: for links; https:// makes cookies secure.",
            rich_help_panel=_REACH,
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(min=0.0, max=1e6, help="Requests a second of one address; 0: no limit.", rich_help_panel=_REACH),
    ] = 50.0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Web processes.", rich_help_panel=_LEARN)] = 1,
    refit_after: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Fit the model again after lists of N more people; 0: never.",
            rich_help_panel=_LEARN,
        ),
    ] = 100,
    refit_every: Annotated[
        float,
        typer.Option(min=1.0, metavar="SECONDS", help="But not more often than this.", rich_help_panel=_LEARN),
    ] = 300.0,
) -> None:
    """Serve polls and a model: pages for people, an API for programs, from one process and one file.

    Example: permrank serve --poll "Where shall we eat?" --items dishes.csv

    Example: permrank serve m.permrank

    Example: permrank serve --demo
    """
    import importlib.util

    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"'permrank serve' needs {' and '.join(missing)}: pip install 'permrank[serve]'")
    if items is not None and poll is None:
        raise InputError("--items is for a poll; give it a title with --poll")
    if not host:
        raise InputError("--host is empty: expected an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all")
    for path in (model, items, pictures):
        if path is not None and not path.exists():
            raise InputError(f"there is no file {path}")
    if pictures is not None and not pictures.is_dir():
        raise InputError(f"--pictures {pictures} is a file: expected the folder that the pictures are in")
    from permrank.interfaces.server.connections import host_name, public_origin
    from permrank.interfaces.server.settings import Settings, one_blas_thread

    one_blas_thread()
    from permrank.interfaces.server.run import start

    settings = Settings(
        str(db.absolute()), None if model is None else str(model.absolute()), host.strip("[]"), port, is_open=is_open,
        public="" if public_url is None else public_origin(public_url), hosts=tuple(map(host_name, allow_host or ())),
        rate=rate, burst=max(math.ceil(4 * rate), 1), refit_answers=refit_after, refit_seconds=refit_every,
        workers=workers,
    )  # fmt: skip
    start(settings, poll=poll, items=items, demo=demo, admin_key=admin_key, pictures=pictures, browser=browser)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(serve)
