"""From a command to a running server: settings, the first poll, links, processes."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
import sqlite3
import sys
import webbrowser
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError

from permrank.errors import InputError
from permrank.interfaces.output import say
from permrank.interfaces.server import polls
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.keys import keep_key, make_key
from permrank.interfaces.server.learner import Learner
from permrank.interfaces.server.settings import ENVIRONMENT, Settings, require_reachable
from permrank.interfaces.server.store import Store
from permrank.storage.container import read_bytes, read_header


def start(
    settings: Settings, *, poll: str | None, items: Path | None, demo: bool, admin_key: str | None, is_open: bool,
    pictures: Path | None, public: str | None, browser: bool | None,
) -> None:  # fmt: skip
    """Prepare the file, say where everything is, and serve until Ctrl-C."""
    asked = None if poll is None else poll_of(poll, items)
    if settings.model is not None:
        read_header(read_bytes(Path(settings.model)), Path(settings.model))  # a damaged one is refused here
    store = Store(settings.db)
    admin, settings = _with_keys(store, settings, admin_key, is_open=is_open)
    base = (
        public or f"http://{'127.0.0.1' if settings.host == '0.0.0.0' else _bracketed(settings.host)}:{settings.port}"
    )
    say(f"permrank serves at {base}, answers in {settings.db}")
    first = f"{base}/"
    if asked is not None:
        first = _announce(store, base, settings, asked)
    if demo:
        from permrank.interfaces.server.demo import simulate

        made, is_new = simulate(store)
        first = _announce(store, base, settings, made, is_new=is_new)
    if admin is not None:
        say(f"all polls:   {base}/join/{admin}   (the key is shown this once)")
    elif not settings.keys and settings.on_loopback:
        say(f"make polls:  {base}/admin   (open to this machine; --admin-key new asks for keys)")
    if settings.model is not None:
        say(f"the model:   {base}/recommend")
        if settings.keys:
            key = store.write(lambda db: make_key(db, "model", label="at start")).result()
            say(f"its key:     {key}   (shown this once)")
    say(f"for programs: {base}/v1/openapi.json. Ctrl-C ends it.")
    store.close()
    os.environ[ENVIRONMENT] = settings.to_json()

    def ready(seconds: float) -> None:
        say(f"ready after {seconds:.1f} s")
        if has_browser() if browser is None and demo else browser:
            webbrowser.open(first)

    with Learner(settings, ready):
        _serve(settings, pictures)


def _with_keys(
    store: Store, settings: Settings, admin_key: str | None, *, is_open: bool
) -> tuple[str | None, Settings]:
    """Keep the admin's key, if one is given or made; settings say whether keys are asked for."""
    import dataclasses

    known = store.row("SELECT 1 FROM keys WHERE role = 'admin' AND poll IS NULL AND revoked IS NULL") is not None
    require_reachable(settings.host, has_key=admin_key is not None or known, is_open=is_open)
    require_free(settings.host, settings.port)
    made = None
    if admin_key == "new" or (is_open and not settings.on_loopback and not known and admin_key is None):
        admin_key = made = f"pr_{secrets.token_hex(6)}_{secrets.token_urlsafe(24)}"
    if admin_key is not None:
        key = admin_key
        store.write(lambda db: keep_key(db, key, "admin", label="at start")).result()
    asks = not is_open and (admin_key is not None or known)
    return made, dataclasses.replace(settings, keys=asks)


def poll_of(title: str, items: Path | None) -> NewPoll:
    """A poll from a title and a file of items: one a line, or a table with a column of titles."""
    if items is None:
        raise InputError("--poll needs --items FILE: one item a line, or a table with a column 'title' or 'item'")
    try:
        return NewPoll(title=title, items=read_items(items))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{items}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def read_items(path: Path) -> list[Item]:
    """Items of a file: lines of text, or CSV, TSV with columns title (or item), about, picture, id."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return polls.items_from_text(path.read_text(encoding="utf-8"))
    import csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise InputError(f"{path} is empty; write one item a line")
    header = [cell.lower() for cell in rows[0]]
    named = next((name for name in ("title", "item", "name", "dish") if name in header), None)
    if named is None:
        return [Item(title=row[0]) for row in rows]
    found = []
    for row in rows[1:]:
        cells = dict(zip(header, row, strict=False))
        known: dict[str, Any] = {name: cells[name] for name in ("id", "about", "picture") if cells.get(name)}
        found.append(Item(title=cells[named], **known))
    return found


def _announce(store: Store, base: str, settings: Settings, poll: NewPoll, *, is_new: bool = False) -> str:
    """Make a poll unless one of this title is open already, and say its links; gives the one to vote."""
    row = store.row("SELECT id FROM polls WHERE title = ? AND state = 'open'", poll.title)

    def job(db: sqlite3.Connection) -> tuple[str, dict[str, str]]:
        made = polls.create_poll(db, poll) if row is None else str(row["id"])
        return made, {role: make_key(db, role, made) for role in ("vote", "read", "admin")} if settings.keys else {}

    made, keys = store.write(job).result()
    say(
        f"{poll.title}: {len(poll.items)} items"
        + ("" if row is None or is_new else " (the poll is there already, and goes on)")
    )
    links = {
        "vote": f"/join/{keys['vote']}" if keys else f"/p/{made}",
        "result": f"/join/{keys['read']}" if keys else f"/p/{made}/result",
        "administer": f"/join/{keys['admin']}" if keys else f"/admin/{made}",
    }
    for what, path in links.items():
        say(f"  {what + ':':12} {base}{path}")
    return f"{base}{links['vote']}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def require_free(host: str, port: int) -> None:
    """Refuse a port that is taken, or an address that is not this machine's, before anything is made."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise InputError(f"port {port} is taken by another program; name another with --port") from error
            raise InputError(f"--host {host} --port {port}: {error.strerror or error}") from error


def has_browser() -> bool:
    """Whether a page would open in a window that somebody sees: a terminal, and a display."""
    shows = sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shows and sys.stdout.isatty()


def _serve(settings: Settings, pictures: Path | None) -> None:
    if pictures is not None:
        os.environ["PERMRANK_PICTURES"] = str(pictures)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    uvicorn.run(
        "permrank.interfaces.server.app:from_environment", factory=True, host=settings.host, port=settings.port,
        workers=settings.workers, access_log=False, log_level="warning", server_header=False, date_header=True,
        proxy_headers=settings.secure, timeout_graceful_shutdown=5, timeout_keep_alive=30, limit_concurrency=2_000,
    )  # fmt: skip
