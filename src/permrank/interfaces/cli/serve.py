"""``permrank serve``."""

from __future__ import annotations

import functools
import importlib.util
import math
from pathlib import Path
from typing import Annotated

import typer

from permrank.errors import InputError

_poll = functools.partial(typer.Option, rich_help_panel="A poll from here")
_reach = functools.partial(typer.Option, rich_help_panel="Who can reach it")
_works = functools.partial(typer.Option, rich_help_panel="How it works")


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A .permrank file to answer questions from.")
    ] = None,
    db: Annotated[Path, typer.Option(help="The SQLite file of polls and answers; made if it is not there.")] = Path(
        "answers.sqlite"
    ),
    poll: Annotated[str | None, _poll(metavar="TITLE", help="Start a poll.")] = None,
    items: Annotated[
        Path | None,
        _poll(metavar="FILE", help="Its items: one a line, or a table with a column 'title' (and 'about', 'picture')."),
    ] = None,
    pictures: Annotated[
        Path | None, _poll(metavar="FOLDER", help="Pictures of items, at /pictures/ on this server.")
    ] = None,
    demo: Annotated[bool, _poll("--demo", help="A poll in which simulated people have voted.")] = False,
    browser: Annotated[
        bool | None,
        _poll(
            "--browser/--no-browser",
            show_default="with --demo, at a terminal with a display",
            help="Open the first page when the server is ready.",
        ),
    ] = None,
    host: Annotated[
        str, _reach(help="Address to listen at; others than this machine's have a key made.")
    ] = "127.0.0.1",
    port: Annotated[int, _reach(min=1, max=65535, help="Port.")] = 8000,
    admin_key: Annotated[
        str | None,
        _reach(
            envvar="PERMRANK_ADMIN_KEY",
            metavar="KEY",
            help="Take this key for an admin's; 'new' makes one and prints it. Without a key only a server that "
            "nobody else reaches is administered.",
        ),
    ] = None,
    is_open: Annotated[
        bool, _reach("--open", help="Everybody who reaches it may vote, read and ask; to administer needs a key.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, _reach(metavar="NAME", help="A further name under which browsers reach it; may be repeated.")
    ] = None,
    public_url: Annotated[
        str | None,
        _reach(
            metavar="URL",
            help="Where people reach it, through a proxy perhaps: for links; https:// makes cookies secure.",
        ),
    ] = None,
    rate: Annotated[float, _reach(min=0.0, max=1e6, help="Requests a second of one address; 0: no limit.")] = 50.0,
    workers: Annotated[int, _works(min=1, max=64, help="Web processes.")] = 1,
    refit_after: Annotated[
        int, _works(min=0, metavar="N", help="Fit the model again after lists of N more people; 0: never.")
    ] = 100,
    refit_every: Annotated[float, _works(min=1.0, metavar="SECONDS", help="But not more often than this.")] = 300.0,
) -> None:
    """Serve polls and a model: pages for people, an API for programs, from one process and one file.

    Example: permrank serve --poll "Where shall we eat?" --items dishes.csv

    Example: permrank serve m.permrank

    Example: permrank serve --demo
    """
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
        workers=workers
    )  # fmt: skip
    start(settings, poll=poll, items=items, demo=demo, admin_key=admin_key, pictures=pictures, browser=browser)
