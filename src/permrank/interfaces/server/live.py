"""Results that follow the answers: what was worked out is kept until an answer arrives, and streams are told of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from permrank.interfaces.server.asking import Common, next_question
from permrank.interfaces.server.ballots import Ballots, Person
from permrank.interfaces.server.polls import items_of
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import GroupResult
from permrank.interfaces.server.store import Store

# Polls whose results are kept; how often the file is looked at for what other processes wrote; a sign of life.
_KEPT, _LOOK, _SIGN = 64, 0.25, 15.0
# Streams that one person may have open: a few pages on a few devices.
_MOST_OF_A_PERSON = 8


class Holders(NamedTuple):
    """Whose a stream is: nobody may hold all of them."""

    poll: str
    address: str
    person: str | None


class Polls:
    """Results of polls by the number of their last answer. All numbers are worked out in one thread."""

    def __init__(self, store: Store, numbers: ThreadPoolExecutor, most_streams: int) -> None:
        self.store, self.numbers = store, numbers
        self._kept: OrderedDict[str, tuple[tuple[int, ...], Ballots, GroupResult]] = OrderedDict()
        self._ballots: OrderedDict[str, tuple[int, Ballots]] = OrderedDict()
        self._common = Common()
        self._turns: dict[str, asyncio.Lock] = {}
        self._streams: dict[asyncio.Event, Holders] = {}
        self._most = most_streams
        self._watch: asyncio.Task[None] | None = None

    def state(self, poll: str) -> tuple[int, ...]:
        """What a result depends on: the number of the last answer, and how many people were erased."""
        row = self.store.row("SELECT max(seq) FROM answers WHERE poll = ?", poll)
        gone = self.store.row("SELECT count(*) FROM erasures WHERE poll = ?", poll)
        assert row is not None
        assert gone is not None
        return int(row[0] or 0), int(gone[0])

    async def result(self, poll: str) -> tuple[Ballots, GroupResult]:
        """What counts of a poll, and its result, as of now; worked out once for all who ask at the same time."""
        async with self._turns.setdefault(poll, asyncio.Lock()):
            state = self.state(poll)
            kept = self._kept.get(poll)
            if kept is None or kept[0] != state:
                made = await self.run(lambda: self._made(poll))
                kept = self._kept[poll] = (state, *made)
                while len(self._kept) > _KEPT:
                    self._turns.pop(self._kept.popitem(last=False)[0], None)
            self._kept.move_to_end(poll)
            return kept[1], kept[2]

    def _made(self, poll: str) -> tuple[Ballots, GroupResult]:
        ballots = self._collected(poll)
        return ballots, GroupResult(items_of(self.store, poll), ballots)

    def _collected(self, poll: str) -> Ballots:
        """What counts of a poll as of now; only new answers are read. Called in the thread of numbers alone."""
        gone = self.state(poll)[1]
        kept = self._ballots.get(poll)
        ballots = kept[1] if kept is not None and kept[0] == gone else Ballots({}, {})
        rows = self.store.rows("SELECT * FROM answers WHERE poll = ? AND seq > ? ORDER BY seq", poll, ballots.seq)
        ballots = ballots.added(rows)
        self._ballots[poll] = (gone, ballots)
        self._ballots.move_to_end(poll)
        while len(self._ballots) > _KEPT:
            self._ballots.popitem(last=False)
        return ballots

    async def question(self, poll: str, who: str | None, kind: str, *, hidden: bool) -> dict[str, Any]:
        """The next question to a person; where the result is hidden, what others think plays no part in it."""

        def work() -> dict[str, Any]:
            ballots, ids = self._collected(poll), [item["id"] for item in items_of(self.store, poll)]
            common = np.zeros(len(ids)) if hidden else self._common.scores(poll, ids, ballots, who)
            return next_question(ids, ballots.people.get(who or "", Person()), common, kind)

        found: dict[str, Any] = await self.run(work)
        return found

    async def run(self, work: Callable[[], Any]) -> Any:
        """Work with numbers, in their thread."""
        return await asyncio.get_running_loop().run_in_executor(self.numbers, work)

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
