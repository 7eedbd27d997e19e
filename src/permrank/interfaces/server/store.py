"""The one file: SQLite in WAL mode, one writing thread, and commits that several writers share.

What is handed to `Store.write` has been flushed to the disk when its future is done (``synchronous=FULL``): a writer
that is killed a moment later has lost nothing that was acknowledged. Jobs that wait together are committed together,
each in a savepoint of its own, so that one that fails takes nothing else with it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from permrank.errors import FormatError, InputError

# Every column of a foreign key is the beginning of an index: what belongs to a poll or a person goes with it.
VERSION = 2

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE polls (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, about TEXT NOT NULL, shows TEXT NOT NULL, state TEXT NOT NULL,
    created REAL NOT NULL, closed REAL
) WITHOUT ROWID;
CREATE TABLE items (
    poll TEXT NOT NULL REFERENCES polls ON DELETE CASCADE, id TEXT NOT NULL, title TEXT NOT NULL, about TEXT NOT NULL,
    picture TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (poll, id)
) WITHOUT ROWID;
CREATE TABLE people (
    poll TEXT NOT NULL REFERENCES polls ON DELETE CASCADE, id TEXT NOT NULL, name TEXT, created REAL NOT NULL,
    PRIMARY KEY (poll, id), UNIQUE (poll, name)
) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, role TEXT NOT NULL, poll TEXT REFERENCES polls ON DELETE CASCADE,
    person TEXT, label TEXT NOT NULL, created REAL NOT NULL, revoked REAL,
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX keys_of_poll ON keys (poll, id);
CREATE INDEX keys_of_person ON keys (poll, person);
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, poll TEXT NOT NULL, person TEXT NOT NULL, kind TEXT NOT NULL,
    said TEXT NOT NULL, shown TEXT NOT NULL, at REAL NOT NULL, client_key TEXT, UNIQUE (poll, person, client_key),
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
);
CREATE INDEX answers_of_poll ON answers (poll, seq);
CREATE TABLE requests (
    poll TEXT NOT NULL, sender TEXT NOT NULL, client_key TEXT NOT NULL, digest BLOB NOT NULL, person TEXT NOT NULL,
    PRIMARY KEY (poll, sender, client_key),
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX requests_of_person ON requests (poll, person);
CREATE TABLE communities (
    poll TEXT PRIMARY KEY REFERENCES polls ON DELETE CASCADE, seq INTEGER NOT NULL, found TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE lists (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, base TEXT NOT NULL, person TEXT NOT NULL, said TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX lists_of_person ON lists (person, base, seq);
CREATE INDEX lists_of_base ON lists (base, seq, person);
CREATE TABLE model_versions (
    version INTEGER PRIMARY KEY AUTOINCREMENT, base TEXT NOT NULL, created REAL NOT NULL, seq INTEGER NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE erasures (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, poll TEXT NOT NULL, at REAL NOT NULL, done INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX erasures_of_poll ON erasures (poll);
CREATE INDEX erasures_pending ON erasures (seq) WHERE NOT done;
CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER answers_are_kept BEFORE DELETE ON answers
    WHEN EXISTS (SELECT 1 FROM people WHERE poll = OLD.poll AND id = OLD.person)
    BEGIN SELECT RAISE(ABORT, 'answers are kept unless their person is erased'); END;
CREATE TRIGGER lists_stay BEFORE UPDATE ON lists BEGIN SELECT RAISE(ABORT, 'lists are never changed'); END;
"""


T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
_Waiting = tuple[Job[object], "Future[Any]"]
# Jobs in one commit; and how long a connection waits for another process's commit, in seconds.
_TOGETHER, _PATIENCE = 512, 20.0


class Store:
    """A database that is read from any thread and written by one; its file is made for its owner alone."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _prepare(self.path)
        self._local = threading.local()
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._write_all, name="permrank-writer", daemon=True)
        self._thread.start()

    # Reading

    @property
    def reader(self) -> sqlite3.Connection:
        """A connection of the calling thread that cannot write."""
        found: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if found is None:
            found = self._local.reader = connected(self.path)
            found.execute("PRAGMA query_only = ON")
        return found

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """All rows of a query."""
        return self.reader.execute(query, values).fetchall()  # read to the end: no reading goes on

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        with contextlib.closing(self.reader.execute(query, values)) as cursor:
            found: sqlite3.Row | None = cursor.fetchone()
        return found

    def changes(self) -> int:
        """A number that differs when any process has changed the file since this thread asked last."""
        return int(self.rows("PRAGMA data_version")[0][0])

    def secret(self, name: str) -> bytes:
        """A random secret of this file, the same for all processes."""
        found = self.row("SELECT value FROM meta WHERE name = ?", name)
        if found is not None:
            return bytes(found[0])
        made = secrets.token_bytes(32)
        self.write(lambda db: db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, made))).result()
        return self.secret(name)

    # Writing

    def write(self, job: Job[T]) -> Future[T]:
        """Run a job in the writing thread; the future has its result once that is on the disk."""
        if self._closed:
            raise RuntimeError("the store is closed")
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Write what waits, and end."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join(timeout=_PATIENCE)

    def _write_all(self) -> None:
        db = connected(self.path)
        ended = False
        while not ended:
            batch = [self._jobs.get()]
            with contextlib.suppress(queue.Empty):
                while batch[-1] is not None and len(batch) < _TOGETHER:
                    batch.append(self._jobs.get_nowait())
            ended = batch[-1] is None
            _commit(db, [waiting for waiting in batch if waiting is not None])
        db.close()


def _commit(db: sqlite3.Connection, batch: list[_Waiting]) -> None:
    """Do jobs in one transaction, and tell each how it went after the commit."""
    told: list[tuple[Future[Any], object, BaseException | None]] = []
    try:
        db.execute("BEGIN IMMEDIATE")
        for job, future in batch:
            db.execute("SAVEPOINT job")
            try:
                told.append((future, job(db), None))
            except Exception as error:  # whatever a job raises is its caller's
                if not db.in_transaction:  # a full disk, for one, undoes the whole transaction
                    raise
                db.execute("ROLLBACK TO job")
                told.append((future, None, error))
            db.execute("RELEASE job")
        db.execute("COMMIT")
    except Exception as error:  # a full disk, a lock that is never given up: nobody was acknowledged
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        told = [(future, None, error) for _, future in batch]
    for future, result, problem in told:
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)


class _Connection(sqlite3.Connection):
    """A connection that is closed with the thread that reads by it; Python 3.13 warns of others."""

    def __del__(self) -> None:
        self.close()


def connected(path: Path, patience: float = _PATIENCE) -> sqlite3.Connection:
    """A connection that waits so many seconds for a lock."""
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False, factory=_Connection)
    db.row_factory = sqlite3.Row
    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "foreign_keys = ON"):
        db.execute(f"PRAGMA {setting}")
    db.execute("PRAGMA trusted_schema = OFF")
    return db


def _prepare(path: Path) -> None:
    """Make the file and its tables, or check that they are ours."""
    if not path.parent.is_dir():
        raise InputError(f"--db {path}: there is no folder {path.parent}; make it first")
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise InputError(f"--db {path}: {error.strerror or error}; name a file that can be written") from error
    if not path.is_file():
        raise InputError(f"--db {path} is not a regular file; name one, or a new one")
    try:
        _require_ours(path)
        for part in ("", "-wal", "-shm"):  # a copy of a backup, or what a killed server has left
            with contextlib.suppress(FileNotFoundError, PermissionError):
                Path(f"{path}{part}").chmod(0o600)
        db = connected(path)
        with contextlib.closing(db):
            db.execute("BEGIN IMMEDIATE")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version == 0 and tables == 0:
                for statement in _statements(TABLES):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise FormatError(f"{path} cannot be used as a file of answers: {error}; name another with --db") from error


def _require_ours(path: Path) -> None:
    """Refuse a database of another version, or with other tables, before anything is changed in it."""
    tables = "SELECT name, sql FROM sqlite_master"
    with contextlib.closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as db:
        db.execute("BEGIN")  # another process may be making the tables
        version, there = db.execute("PRAGMA user_version").fetchone()[0], set(db.execute(tables))
    if version != VERSION and (version or there):
        raise FormatError(
            f"{path} is a database of version {version}, and this permrank knows version {VERSION}; "
            "name another file with --db"
        )
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        if version and not there >= set(db.execute(tables)):
            raise FormatError(f"{path} is a database of another program; name another file with --db")


def _statements(script: str) -> list[str]:
    """Statements of a script; those of a trigger hold semicolons of their own."""
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
