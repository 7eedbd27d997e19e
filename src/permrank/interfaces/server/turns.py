"""The one thread that works with numbers, shared out: polls are served in turn, and each has a bounded queue.

A poll whose voters ask for much waits for itself: another poll waits for the job that is running and no more. Work for
which nobody waits any longer is not done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar

from starlette.types import Receive

from permrank.interfaces.server.problems import Problem

T = TypeVar("T")
# Jobs of one poll that wait.
_MOST = 128


class Asker:
    """Who waits for the answer to a request.

    receive: gives the messages of the connection (ASGI); the last one says that they have gone.
    pay: takes the processor seconds that were spent for them.
    """

    def __init__(self, receive: Receive, pay: Callable[[float], None]) -> None:
        self._receive, self.pay = receive, pay

    async def leave(self) -> None:
        """Wait until they have gone; the body of the request has been read, or is of no use."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""Who has sent the request that is being answered; None outside of requests."""


class _Job:
    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.waiting: dict[asyncio.Future[Any], Asker | None] = {}


class Turns:
    """Jobs of many in one thread, one of each in turn."""

    def __init__(self, numbers: ThreadPoolExecutor) -> None:
        self._numbers = numbers
        self._queues: dict[str, dict[Hashable, _Job]] = {}
        self._turns: deque[str] = deque()  # whose queues are not empty; who is being served comes back to the end
        self._serving: asyncio.Task[None] | None = None

    @property
    def n_waiting(self) -> int:
        """Jobs that wait."""
        return sum(map(len, self._queues.values()))

    async def run(self, whose: str, work: Callable[[], T], name: Hashable = None) -> T:
        """The result of a job; jobs of one name that wait are one, and begin after all who wait for them have asked."""
        queue = self._queues.get(whose)
        if queue is None:
            queue = self._queues[whose] = {}
            self._turns.append(whose)
        name = object() if name is None else name
        if name not in queue and len(queue) >= _MOST:
            raise Problem(503, "too much is asked of this at once", remedy="ask again in some seconds", retry=5.0)
        job = queue.setdefault(name, _Job(work))
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        try:
            found: T = await _waited(job)
            return found
        finally:
            if not job.waiting and queue.get(name) is job:
                del queue[name]

    async def _serve(self) -> None:
        try:
            while self._turns:
                whose = self._turns.popleft()
                queue = self._queues[whose]
                if queue:
                    await self._do(queue.pop(next(iter(queue))))
                if queue:
                    self._turns.append(whose)
                else:
                    del self._queues[whose]
        finally:
            self._serving = None

    async def _do(self, job: _Job) -> None:
        askers = list(job.waiting.values())  # who goes away meanwhile pays all the same
        found, error, seconds = await asyncio.get_running_loop().run_in_executor(self._numbers, _done, job.work)
        for asker in askers:
            if asker is not None:
                asker.pay(seconds / len(askers))
        for future in job.waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)


async def _waited(job: _Job) -> Any:
    """The result of a job, unless the asker goes away."""
    asker, future = ASKER.get(), asyncio.get_running_loop().create_future()
    job.waiting[future] = asker
    left = [] if asker is None else [asyncio.create_task(asker.leave())]
    try:
        await asyncio.wait([future, *left], return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise Problem(499, "the caller has gone")  # told to nobody, but counted
        return future.result()
    finally:
        del job.waiting[future]
        for task in left:
            task.cancel()


def _done(work: Callable[[], object]) -> tuple[object, Exception | None, float]:
    """Result or error of a job, and the processor seconds that it took."""
    began = time.thread_time()
    try:
        return work(), None, time.thread_time() - began
    except Exception as error:  # whatever a job raises is its askers'
        return None, error, time.thread_time() - began
