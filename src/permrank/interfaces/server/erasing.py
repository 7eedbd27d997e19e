"""What was erased leaves the files as well: a rebuilt database, an empty journal, no model that was fitted to it.

To delete rows is not enough. Rows that SQLite has moved between pages leave copies in the unused part of a page, which
``secure_delete`` does not overwrite: of 3,000 people who were erased from a poll of 6,000 about ten left a name or an
id. So the file is rebuilt (``VACUUM``). The journal can be emptied only while nobody reads an older state of the file:
until then an erasure is *pending*. It is noted in the file by the transaction that erases, and tried again, after a
restart too, until it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time

from permrank.interfaces.server.store import Store, connected
from permrank.interfaces.server.versions import remove_files

_log = logging.getLogger("permrank.serve")
# How long a caller waits for the end, and how often the file is looked at for what others have erased, in seconds.
_WAIT, _LOOK = 2.0, 5.0
# Between two attempts: a tenth of a second, and four times as long as the last one took, so that writers have the rest.
_PAUSE, _TIMES = 0.1, 4.0
# How long a lock is waited for, in seconds: writers wait as long at most.
_PATIENCE = 0.05


class Eraser:
    """A task of a web process that carries out what is pending, for all callers at the same time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._asked, self._ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Work while the server does."""
        while True:
            self._asked.clear()
            began, pause = time.monotonic(), _PAUSE
            try:
                done = await asyncio.to_thread(forget, self.store)
            except Exception:  # a full disk, a file that cannot be removed: told, and tried again
                _log.exception("what was erased is still in the files; it is tried again")
                done, pause = False, _LOOK
            self._ended.set()
            self._ended = asyncio.Event()
            await asyncio.sleep(pause + _TIMES * (time.monotonic() - began))
            if done:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), _LOOK)

    async def is_done(self, seq: int) -> bool:
        """Whether an erasure is carried out, once it is or a moment has passed."""
        until = time.monotonic() + _WAIT
        self._asked.set()
        while self.store.row("SELECT 1 FROM erasures WHERE seq = ? AND NOT done", seq) is not None:
            left = until - time.monotonic()
            if left <= 0.0:
                return False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), left)
        return True


def n_pending(store: Store) -> int:
    """How many erasures are not carried out yet."""
    return int(store.rows("SELECT count(*) FROM erasures WHERE NOT done")[0][0])


def forget(store: Store) -> bool:
    """Try once to carry out all erasures that are noted by now; whether they are.

    Writers wait for a rebuild. So there is none while somebody reads an older state, who would keep the journal.
    """
    upto = store.rows("SELECT max(seq) FROM erasures WHERE NOT done")[0][0]
    remove_files(store)  # always: one that was being written during an erasure may be of a process that was killed
    if upto is None:
        return True
    with contextlib.closing(connected(store.path, _PATIENCE)) as db:
        if not (_is_empty(db) and _is_rebuilt(db) and _is_empty(db)):
            return False

    def tell(db: sqlite3.Connection) -> None:
        db.execute("UPDATE erasures SET done = 1 WHERE seq <= ? AND NOT done", (upto,))
        db.execute("DELETE FROM erasures WHERE poll = '' AND done")  # nobody counts those of deleted polls

    store.write(tell).result()
    return True


def _is_empty(db: sqlite3.Connection) -> bool:
    """Empty the journal, and say whether that was possible; most is done first, while others write."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]


def _is_rebuilt(db: sqlite3.Connection) -> bool:
    try:
        db.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return False
        raise
    return True
