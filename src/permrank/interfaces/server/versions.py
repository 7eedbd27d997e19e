"""Versions of the model that is served: the file that was given, and what was fitted to it and people's lists.

A version belongs to the file that it was made from, its *base*: another file has versions and lists of its own. Its
row is there before its content (state ``making``), so that an erasure meanwhile finds it; then it is ``ready``, and in
the end ``removed``. Its file is named by its number; `remove_files` removes those of versions that are removed.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from permrank.files.container import read_bytes, read_header
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store

_KEPT = 2
"""Versions whose files are kept: so many of a base, and of all others together."""
_NAME = re.compile(r"\.?(\d{8})\.permrank\b.*")


class Made(NamedTuple):
    """A version that is ready, or to be made: its number, when it began, and the last list that it has learnt from."""

    number: int
    created: float
    seq: int


def base_of(path: str | Path) -> str:
    """What tells a model file from all others: its checksum."""
    path = Path(path)
    about = path.stat()
    return _base(path.absolute(), about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=8)
def _base(path: Path, changed: int, size: int) -> str:
    return str(read_header(read_bytes(path), path)["sha256"])


def file_of(store: Store, number: int) -> Path:
    """Where a version is kept."""
    return _folder(store) / f"{number:08d}.permrank"


def _folder(store: Store) -> Path:
    return Path(f"{store.path}.models")


def newest(store: Store, base: str) -> Made | None:
    """The newest version of a base that is ready."""
    query = "SELECT version, created, seq FROM model_versions WHERE base = ? AND state = 'ready' ORDER BY version DESC"
    found = store.row(query, base)
    return None if found is None else Made(*found)


def begin(db: sqlite3.Connection, base: str) -> Made:
    """A row for a version that is to be made of all lists that are there; one that was never ended is given up."""
    db.execute("DELETE FROM model_versions WHERE state = 'removed' OR (base = ? AND state = 'making')", (base,))
    (seq,) = db.execute("SELECT max(seq) FROM lists WHERE base = ?", (base,)).fetchone()
    seq, now = int(seq or 0), time.time()
    made = db.execute(
        "INSERT INTO model_versions (base, created, seq, state) VALUES (?, ?, ?, 'making')", (base, now, seq)
    )
    return Made(int(made.lastrowid or 0), now, seq)


def is_wanted(store: Store, number: int) -> bool:
    """Whether nobody was erased since a version was begun whose list it may hold."""
    return store.row("SELECT 1 FROM model_versions WHERE version = ? AND state = 'making'", number) is not None


def end(db: sqlite3.Connection, base: str, number: int) -> bool:
    """Have a version served, and remove older ones; False if somebody was erased meanwhile whose list it may hold."""
    ready = db.execute(
        "UPDATE model_versions SET state = 'ready', created = ? WHERE version = ? AND state = 'making'",
        (time.time(), number),
    ).rowcount
    for mine in ("=", "!="):
        known = f"SELECT version FROM model_versions WHERE base {mine} ? AND state = 'ready' ORDER BY version DESC"
        for old in db.execute(known, (base,)).fetchall()[_KEPT:]:
            db.execute("UPDATE model_versions SET state = 'removed' WHERE version = ?", (old[0],))
    return bool(ready)


def remove_files(store: Store) -> None:
    """Remove the files of all versions that are removed, and what a writer of one that was killed has left."""
    try:
        there = list(_folder(store).iterdir())
    except FileNotFoundError:
        return
    kept = {int(row[0]) for row in store.rows("SELECT version FROM model_versions WHERE state != 'removed'")}
    for path in there:
        found = _NAME.fullmatch(path.name)
        if found is not None and int(found[1]) not in kept:
            path.unlink(missing_ok=True)


FEWEST = 20
"""From so many rankings on tastes are looked for."""


def model_is_due(store: Store, settings: Settings) -> bool:
    """Whether there are enough new lists for the model that is served, and the last attempt is old enough."""
    if settings.model is None or not settings.refit_answers:
        return False
    base = base_of(settings.model)
    last = newest(store, base)
    count = "SELECT count(DISTINCT person) FROM lists WHERE base = ? AND seq > ?"
    new = store.rows(count, base, 0 if last is None else last.seq)[0][0]
    began = store.rows("SELECT max(created) FROM model_versions WHERE base = ?", base)[0][0] or 0.0
    return int(new) >= settings.refit_answers and time.time() - float(began) >= settings.refit_seconds


def changed_polls(store: Store) -> list[str]:
    """Polls with rankings of enough people for tastes, that have changed since tastes were looked for."""
    rows = store.rows(
        "SELECT p.id FROM polls p LEFT JOIN communities c ON c.poll = p.id "
        "WHERE (SELECT max(seq) FROM answers WHERE poll = p.id) > coalesce(c.seq, 0) "
        "AND (SELECT count(DISTINCT person) FROM answers WHERE poll = p.id AND kind IN ('list', 'tiers')) >= ?",
        FEWEST,
    )
    return [row[0] for row in rows]
