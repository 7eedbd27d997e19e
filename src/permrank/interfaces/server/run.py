"""From a command to a running server: settings, the first poll, links, processes."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import logging
import os
import socket
import sqlite3
import sys
import webbrowser
from pathlib import Path

import uvicorn
from pydantic import ValidationError

import permrank as pr
from permrank.errors import InputError
from permrank.interfaces.output import say
from permrank.interfaces.server import polls
from permrank.interfaces.server.access import Role, make_key
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.connections import bracketed, http_options
from permrank.interfaces.server.learning import Learner
from permrank.interfaces.server.settings import ENVIRONMENT, Settings
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.versions import base_of

# Polls from files, and a simulated one
_TABLES = {".csv": ",", ".tsv": "\t"}
_TITLES = ("title", "item", "name", "dish")


def poll_of(title: str, items: Path | None) -> NewPoll:
    """A poll from a title and a file of items: one a line, or a table with a column of titles."""
    if items is None:
        raise InputError("--poll needs --items FILE: one item a line, or a table with a column 'title' or 'item'")
    rows = _rows(items)
    try:
        return NewPoll.model_validate({"title": title, "items": [values for _, values in rows]})
    except ValidationError as error:
        first = error.errors()[0]
        where, wrong = first["loc"], first["msg"].removeprefix("Value error, ")
        place = "--poll" if where[0] == "title" else items
        if len(where) > 1:
            place, where = f"{items}, line {rows[int(where[1])][0]}", where[2:]
        raise InputError(f"{place}: {'.'.join(map(str, where))}: {wrong}") from error


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Lines and items of a file: lines of text, or CSV, TSV with columns title (or item), about, picture, id."""
    text, delimiter = _text(path), _TABLES.get(path.suffix.lower())
    if delimiter is None:
        return _of_lines(text)
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
        return [(line, {"title": row[0]}) for line, row in rows]
    found = []
    for line, row in rows[1:]:
        cells = dict(zip(header, row, strict=False))
        known = {name: cells[name] for name in ("id", "about", "picture") if cells.get(name)}
        found.append((line, {"title": cells.get(named, ""), **known}))
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


def _of_lines(text: str) -> list[tuple[int, dict[str, str]]]:
    """A line is a title, or title and description with a tab or a semicolon between."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        title, _, about = line.partition("\t") if "\t" in line else line.partition(";")
        if line.strip():
            found.append((number, {"title": title.strip(), "about": about.strip()}))
    return found


_TITLE = "What shall we cook?"
_PEOPLE, _DISHES = 40, 10


def simulate(store: Store, seed: int = 0) -> tuple[NewPoll, bool]:
    """A poll of ten dishes in which forty simulated people of two tastes have voted; and whether it is new."""
    rankings, _ = pr.datasets.simulated(
        _PEOPLE, _DISHES, n_communities=2, separation=2.5, list_length=(6, 10), seed=seed
    )
    poll = NewPoll(title=_TITLE, about="Simulated people have voted; add your own ranking.",
                   items=[Item(title=str(name)) for name in rankings.item_ids])  # fmt: skip
    if store.row("SELECT 1 FROM polls WHERE title = ? AND state = 'open'", _TITLE) is not None:
        return poll, False

    def job(db: sqlite3.Connection) -> None:
        made = polls.create_poll(db, poll)
        for user in rankings.user_ids:
            (ballot,) = rankings.lists(user)
            said = [sorted(map(str, tier)) if isinstance(tier, set) else [str(tier)] for tier in ballot]
            person = polls.person_named(db, made, str(user))
            polls.add_answers(db, made, person, [("tiers", json.dumps(said), "[]", None)])

    store.write(job).result()
    return poll, True


def start(
    settings: Settings, *, poll: str | None, items: Path | None, demo: bool, admin_key: str | None,
    pictures: Path | None, browser: bool | None,
) -> None:  # fmt: skip
    """Prepare the file, say where everything is, and serve until Ctrl-C."""
    asked = None if poll is None else poll_of(poll, items)
    if settings.model is not None:
        pr.load(settings.model)  # a file that cannot be read is told here, and not by a web process
    require_free(settings.host, settings.port)
    store = Store(settings.db)
    admin, settings = with_keys(store, settings, admin_key)
    near = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, bracketed(settings.host))
    base = settings.public or f"http://{near}:{settings.port}"
    say(f"permrank serves at {base}, answers in {settings.db}")
    first = f"{base}/"
    if asked is not None:
        first = _announce(store, base, settings, asked)
    if demo:
        made, is_new = simulate(store)
        first = _announce(store, base, settings, made, is_new=is_new)
    if admin is not None:
        say(f"all polls:   {base}/join/{admin}   (the key is shown this once)")
    elif settings.is_private:
        say(f"make polls:  {base}/admin   (open to this machine; behind a proxy start it with --public-url)")
    if settings.model is not None:
        say(f"the model:   {base}/recommend")
        others = store.rows("SELECT count(DISTINCT person) FROM lists WHERE base != ?", base_of(settings.model))[0][0]
        if others:
            say(f"  lists of {others} people were sent for another model file; they are kept, not used")
        if not settings.is_private:
            _announce_model(store, settings)
    say(f"for programs: {base}/v1/openapi.json. Ctrl-C ends it.")
    store.close()
    os.environ[ENVIRONMENT] = settings.to_json()

    def ready(seconds: float) -> None:
        say(f"ready after {seconds:.1f} s")
        if has_browser() if browser is None and demo else browser:
            webbrowser.open(first)

    with Learner(settings, ready):
        _serve(settings, pictures)


def with_keys(store: Store, settings: Settings, admin_key: str | None) -> tuple[str | None, Settings]:
    """Keep the admin's key that is given; make one if it shall be new, or if others reach the server and none is known.

    Gives the key that was made, and the settings, which say whether there is a key.
    """
    known = store.row("SELECT 1 FROM keys WHERE role = 'admin' AND poll IS NULL AND revoked IS NULL") is not None
    is_new = admin_key == "new" or (admin_key is None and not known and not settings.is_private)
    if admin_key is None and not is_new:
        return None, dataclasses.replace(settings, keys=known)
    text = None if is_new else admin_key
    kept = store.write(lambda db: make_key(db, "admin", label="at start", text=text)).result()
    return kept if is_new else None, dataclasses.replace(settings, keys=True)


def _announce(store: Store, base: str, settings: Settings, poll: NewPoll, *, is_new: bool = False) -> str:
    """Make a poll unless one of this title is open already, and say its links; gives the one to vote."""
    row = store.row("SELECT id FROM polls WHERE title = ? AND state = 'open'", poll.title)
    made = store.write(lambda db: polls.create_poll(db, poll) if row is None else str(row["id"])).result()
    say(
        f"{poll.title}: {len(poll.items)} items"
        + ("" if row is None or is_new else " (the poll is there already, and goes on)")
    )
    pages: dict[str, tuple[Role, str]] = {
        "vote": ("vote", f"/p/{made}"), "result": ("read", f"/p/{made}/result"),
        "administer": ("admin", f"/admin/{made}"),
    }  # fmt: skip
    links = {what: f"{base}{_link(store, settings, role, made, page)}" for what, (role, page) in pages.items()}
    for what, link in links.items():
        say(f"  {what + ':':12} {link}")
    return links["vote"]


def _link(store: Store, settings: Settings, role: Role, poll: str, page: str) -> str:
    """The way to a page of a poll, with a new key where one is needed."""
    if settings.is_private or (settings.is_open and role != "admin"):
        return page
    return f"/join/{store.write(lambda db: make_key(db, role, poll)).result()}"


def _announce_model(store: Store, settings: Settings) -> None:
    """Make the keys to a model that others reach, and say them."""
    uses: dict[Role, str] = {"model": "to ask it", "lists": "to ask it, and to keep lists of people"}
    if settings.is_open:
        del uses["model"]
    for role, use in uses.items():
        key = store.write(lambda db, role=role: make_key(db, role, label="at start")).result()  # type: ignore[misc]
        say(f"  {role + ':':12} {key}   ({use}; shown this once)")


def require_free(host: str, port: int) -> None:
    """Refuse a port that is taken, or an address that is not this machine's, before anything is made."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
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
        proxy_headers=bool(settings.public), forwarded_allow_ips=["127.0.0.1", "::1"], timeout_graceful_shutdown=5,
        **http_options(),
    )  # fmt: skip
