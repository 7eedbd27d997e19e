"""What all requests of an application share: the store, the model, and results of polls that follow the answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from fastapi import Request

from permrank.interfaces.server.access import Door
from permrank.interfaces.server.asking import Common, next_question
from permrank.interfaces.server.erasing import Eraser
from permrank.interfaces.server.limits import Buckets, Metrics, Recent
from permrank.interfaces.server.polls import items_of, n_erasures
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import Ballots, GroupResult, Person
from permrank.interfaces.server.serving import Serving
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Job, Store, T
from permrank.interfaces.server.turns import Turns
from permrank.types import Named

# Polls whose results are kept; how often the file is looked at for what other processes wrote; a sign of life.
_KEPT, _LOOK, _SIGN = 64, 0.25, 15.0
# Of a poll, processor seconds a second that may go into its results, and as much again into what its questions need;
# and how many are saved up. A result that takes .4 s is at most 2 s old when it is worked out again.
_SHARE, _SAVED = 0.2, 1.0
# Streams that one person may have open: a few pages on a few devices.
_MOST_OF_A_PERSON = 8


class Holders(NamedTuple):
    """Whose a stream is: nobody may hold all of them."""

    poll: str
    address: str
    person: str | None


class Kept(NamedTuple):
    """A result, what it is of (see `Polls.state`), and what counts of its poll by now."""

    state: tuple[int, int]
    ballots: Ballots
    group: GroupResult


class Polls:
    """Results of polls by the number of their last answer. All numbers are worked out in one thread."""

    def __init__(self, store: Store, turns: Turns, most_streams: int) -> None:
        self.store, self.turns = store, turns
        self._kept: Recent[str, Kept] = Recent(_KEPT)  # changed in the thread of numbers alone
        self._ballots: Recent[str, tuple[int, Ballots]] = Recent(_KEPT)
        self._budget = Buckets(_SHARE, _SAVED)
        self._common = Common(Buckets(_SHARE, _SAVED))
        self._streams: dict[asyncio.Event, Holders] = {}
        self._most = most_streams
        self._watch: asyncio.Task[None] | None = None

    def state(self, poll: str) -> tuple[int, int]:
        """What a result depends on: the number of the last answer, and how many people were erased."""
        last = self.store.rows("SELECT max(seq) FROM answers WHERE poll = ?", poll)[0][0]
        return int(last or 0), n_erasures(self.store.reader, poll)

    async def result(self, poll: str) -> Kept:
        """The result of a poll as of now, or of some seconds ago while more is answered than can be worked out."""

        def work() -> Kept:
            return self._recent(poll) or self._made(poll)

        found = self._recent(poll)
        return await self.turns.run(poll, work, "result") if found is None else found

    def _recent(self, poll: str) -> Kept | None:
        """The result that is kept, if nothing was said since, or if the poll has used up its share; none of erased."""
        kept = self._kept.get(poll)
        if kept is None:
            return None
        state = self.state(poll)
        is_late = kept.state[1] == state[1] and self._budget.left(poll) <= 0.0
        return kept if kept.state == state or is_late else None

    def _made(self, poll: str) -> Kept:
        began = time.thread_time()
        ballots = self.ballots(poll)
        kept = Kept((ballots.seq, self._ballots[poll][0]), ballots, GroupResult(items_of(self.store, poll), ballots))
        self._budget.pay(poll, time.thread_time() - began)
        self._kept[poll] = kept
        return kept

    def ballots(self, poll: str) -> Ballots:
        """What counts of a poll as of now; only new answers are read. Called in the thread of numbers alone."""
        gone = self.state(poll)[1]
        kept = self._ballots.get(poll)
        ballots = kept[1] if kept is not None and kept[0] == gone else Ballots({}, {})
        rows = self.store.rows("SELECT * FROM answers WHERE poll = ? AND seq > ? ORDER BY seq", poll, ballots.seq)
        ballots = ballots.added(rows)
        self._ballots[poll] = (gone, ballots)
        return ballots

    async def question(self, poll: str, who: str | None, kind: str, *, hidden: bool) -> Named:
        """The next question to a person; where the result is hidden, what others think plays no part in it."""

        def work() -> Named:
            ballots, ids = self.ballots(poll), [item["id"] for item in items_of(self.store, poll)]
            common = np.zeros(len(ids)) if hidden else self._common.scores(poll, ids, ballots, who)
            return next_question(ids, ballots.people.get(who or "", Person()), common, kind)

        return await self.turns.run(poll, work, ("question", who, kind, hidden))

    # Streams

    @property
    def n_streams(self) -> int:
        """Open streams."""
        return len(self._streams)

    def has_room(self, holders: Holders) -> bool:
        """Whether one stream more may be opened: of all, of a poll, from an address, to a person."""
        most = (self._most // 2, self._most // 5, _MOST_OF_A_PERSON)
        counts = [sum(one == other[at] for other in self._streams.values()) for at, one in enumerate(holders)]
        full = [count >= limit for count, limit, one in zip(counts, most, holders, strict=True) if one is not None]
        return self.n_streams < self._most and not any(full)

    def require_room(self, holders: Holders) -> None:
        """Refuse one stream more than are allowed."""
        if not self.has_room(holders):
            raise Problem(429, "too many pages are listening", remedy="ask for the result every few seconds", retry=5.0)

    async def events(self, holders: Holders) -> AsyncIterator[str]:
        """Server-sent events: the number of the last answer whenever it changes."""
        if not self.has_room(holders):  # many may have been let in at the same time
            return
        poll, changed = holders.poll, asyncio.Event()
        self._streams[changed] = holders
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        told = None
        try:
            while True:
                now = json.dumps({"as_of": self.state(poll)[0], "state": self.poll_state(poll)})
                yield f"event: change\ndata: {now}\n\n" if now != told else ": here\n\n"
                told = now
                changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _SIGN)
        finally:
            del self._streams[changed]

    def poll_state(self, poll: str) -> str:
        """Open, closed or gone."""
        row = self.store.row("SELECT state FROM polls WHERE id = ?", poll)
        return "gone" if row is None else str(row[0])

    async def _look(self) -> None:
        """Wake the streams when the file has changed, whoever changed it."""
        seen = self.store.changes()
        while self.n_streams:
            await asyncio.sleep(_LOOK)
            now = self.store.changes()
            if now != seen:
                seen = now
                for event in self._streams:
                    event.set()


class State:
    """The store, the door, results, the model; and the one thread that works with numbers."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.store = Store(settings.db)
        self.numbers = ThreadPoolExecutor(1, "permrank-numbers")
        self.door = Door(self.store, settings)
        self.turns = Turns(self.numbers)
        self.polls = Polls(self.store, self.turns, settings.streams)
        self.serving = Serving(self.store, self.turns, settings.model)
        self.eraser = Eraser(self.store)
        self._ids: Recent[str, set[str]] = Recent(4 * _KEPT)

    async def written(self, job: Job[T]) -> T:
        """The result of a job once it is on the disk."""
        return await asyncio.wrap_future(self.store.write(job))

    def item_ids(self, poll: str) -> set[str]:
        """Ids of a poll's items, which never change."""
        found = self._ids.get(poll)
        if found is None:
            found = self._ids[poll] = {item["id"] for item in items_of(self.store, poll)}
        return found

    def close(self) -> None:
        """Write what waits, and end."""
        self.store.close()
        self.numbers.shutdown(wait=False, cancel_futures=True)


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    found: State = request.app.state.all
    return found
