"""Connections that say nothing are closed, and neither one address nor many hold all of them.

Uvicorn closes connections that are idle after an answer, but waits without end for the first request of one, and for
the rest of a head that came in part.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from permrank.interfaces.server.reach import network_of


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Uvicorn's protocol, h11 or httptools, with a time for the head of a request and a share for each address.

    Attributes
    ----------
    head_seconds : float
        How long the head of a request may take from its first byte, and its first byte from the beginning.
    most : int
        Connections of one address; of those without a request the oldest makes room, a new one is closed otherwise.
    most_of_all : int
        The same for all: the address with the most connections without a request makes room.
    """

    head_seconds: ClassVar[float] = 5.0
    most: ClassVar[int] = 400
    most_of_all: ClassVar[int] = 1_500  # so many more may be closing, or open with a request, below uvicorn's limit
    _waiting: ClassVar[dict[str, dict[Connection, None]]] = {}
    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a head, if the address has room."""
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._address = network_of(self.client[0] if self.client else "")
        waiting = self._waiting.setdefault(self._address, {})
        self._open[self._address] += 1
        if self._open[self._address] > self.most:
            self._make_room(waiting)
        elif self._open.total() > self.most_of_all:
            self._make_room(max(self._waiting.values(), key=len))
        waiting[self] = None
        self._wait()

    def _make_room(self, waiting: dict[Connection, None]) -> None:
        oldest = next(iter(waiting), self)
        waiting.pop(oldest, None)
        oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._wait_no_more()
        self._waiting[self._address].pop(self, None)
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address], self._waiting[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that is whole by now stops the clock, and part of one starts it."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._wait_no_more()
            self._waiting[self._address].pop(self, None)

    def on_response_complete(self) -> None:
        """Be idle until the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._waiting[self._address][self] = None

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def http_options() -> dict[str, Any]:
    """What uvicorn is told about connections: their protocol, and how many and how long."""
    return {"http": Connection, "ws": "none", "limit_concurrency": 2_000, "timeout_keep_alive": 30}
