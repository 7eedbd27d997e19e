"""Results that follow the answers: what was worked out is kept, for some seconds in a busy poll; streams are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from permrank.interfaces.server.asking import Common, next_question
from permrank.interfaces.server.ballots import Ballots, Person
from permrank.interfaces.server.limits import Buckets
from permrank.interfaces.server.polls import items_of
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import GroupResult
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.turns import Turns

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
        self._kept: OrderedDict[str, Kept] = OrderedDict()  # changed in the thread of numbers alone
        self._ballots: OrderedDict[str, tuple[int, Ballots]] = OrderedDict()
        self._budget = Buckets(_SHARE, _SAVED)
        self._common = Common(Buckets(_SHARE, _SAVED))
        self._streams: dict[asyncio.Event, Holders] = {}
        self._most = most_streams
        self._watch: asyncio.Task[None] | None = None

    def state(self, poll: str) -> tuple[int, int]:
        """What a result depends on: the number of the last answer, and how many people were erased."""
        row = self.store.row("SELECT max(seq) FROM answers WHERE poll = ?", poll)
        gone = self.store.row("SELECT count(*) FROM erasures WHERE poll = ?", poll)
        assert row is not None
        assert gone is not None
        return int(row[0] or 0), int(gone[0])

    async def result(self, poll: str) -> Kept:
        """The result of a poll as of now, or of some seconds ago while more is answered than can be worked out."""
        found = self._recent(poll)
        return found or await self.run(lambda: self._recent(poll) or self._made(poll), poll, "result")

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
        self._kept.move_to_end(poll)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept

    def ballots(self, poll: str) -> Ballots:
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
            ballots, ids = self.ballots(poll), [item["id"] for item in items_of(self.store, poll)]
            common = np.zeros(len(ids)) if hidden else self._common.scores(poll, ids, ballots, who)
            return next_question(ids, ballots.people.get(who or "", Person()), common, kind)

        found: dict[str, Any] = await self.run(work, poll, ("question", who, kind, hidden))
        return found

    async def run(self, work: Callable[[], Any], poll: str = "", name: Hashable = None) -> Any:
        """Work with numbers, in their thread, when it is the poll's turn (see `Turns`)."""
        return await self.turns.run(poll, work, name)

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
