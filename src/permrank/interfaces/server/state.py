"""What all requests of an application share."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import Request

from permrank.interfaces.server.access import Door
from permrank.interfaces.server.erasing import Eraser
from permrank.interfaces.server.live import Polls
from permrank.interfaces.server.metrics import Metrics
from permrank.interfaces.server.polls import items_of
from permrank.interfaces.server.serving import Serving
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Job, Store
from permrank.interfaces.server.turns import Turns

_KEPT = 256


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
        self._ids: OrderedDict[str, set[str]] = OrderedDict()

    async def written(self, job: Job) -> Any:
        """The result of a job once it is on the disk."""
        return await asyncio.wrap_future(self.store.write(job))

    def item_ids(self, poll: str) -> set[str]:
        """Ids of a poll's items, which never change."""
        found = self._ids.get(poll)
        if found is None:
            found = self._ids[poll] = {item["id"] for item in items_of(self.store, poll)}
            if len(self._ids) > _KEPT:
                self._ids.popitem(last=False)
        return found

    def close(self) -> None:
        """Write what waits, and end."""
        self.store.close()
        self.numbers.shutdown(wait=False, cancel_futures=True)


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    found: State = request.app.state.all
    return found
