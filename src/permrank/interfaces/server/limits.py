"""What no request gets past: names of the server, sizes of bodies, rates, and headers that every answer has.

Plain ASGI, so that a request is refused before anything is read or parsed.
"""

from __future__ import annotations

import asyncio
import bisect
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp as App
from starlette.types import Message, Receive, Scope, Send

from permrank.interfaces.server.connections import is_number, name_of, network_of_caller
from permrank.interfaces.server.problems import Problem, answer
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.turns import ASKER, Asker

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Requests by method, route and status, and how long they took by route."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        method = method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD") else "OTHER"
        self._requests[method, route, status] += 1
        self._times.setdefault(route, [0] * (len(_BOUNDS) + 1))[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it as text."""
        lines = ["# TYPE permrank_requests_total counter"]
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"permrank_requests_total{{{labels}}} {count}")
        lines.append("# TYPE permrank_request_seconds histogram")
        for route, counts in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f'permrank_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}')
            lines.append(f'permrank_request_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}')
            lines.append(f'permrank_request_seconds_count{{route="{route}"}} {total}')
        for name, value in gauges.items():
            lines += [f"# TYPE permrank_{name} gauge", f"permrank_{name} {value:g}"]
        return "\n".join(lines) + "\n"


K = TypeVar("K")
V = TypeVar("V")

# Callers that are remembered; and how long a body may take to arrive, in seconds.
_MOST_CALLERS, _BODY_SECONDS = 10_000, 30.0
# What costs as much as a page: so many bytes of a body, and so many processor seconds of the thread of numbers.
_BYTES, _SECONDS = 65_536, 0.02
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Recent(OrderedDict[K, V]):
    """The entries that were set last, up to so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Buckets:
    """Token buckets by caller: so many a second (0 is without limit), so many at once; old callers are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst, self.clock = rate, burst, time.monotonic
        self._left: Recent[str, tuple[float, float]] = Recent(_MOST_CALLERS)

    def left(self, who: str) -> float:
        """What a caller has; less than nothing after something that cost more."""
        if not self.rate:
            return math.inf
        left, at = self._left.get(who, (self.burst, 0.0))
        return min(self.burst, left + (self.clock() - at) * self.rate)

    def take(self, who: str, cost: float = 1.0) -> bool:
        """Take what something costs, if there is one at least; the rest is owed."""
        allowed = self.left(who) >= 1.0
        self.pay(who, cost if allowed else 0.0)
        return allowed

    def pay(self, who: str, cost: float) -> None:
        """Take what something has cost."""
        self._left[who] = self.left(who) - cost, self.clock()


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._buckets = Buckets(settings.rate, settings.burst)
        self._names = {"localhost", settings.host.lower(), urlsplit(settings.public).hostname, *settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on with a limit on the body and headers on the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = {name for name, _ in message.get("headers", [])}
                message["headers"] = [*message.get("headers", []), *(h for h in _HEADERS if h[0] not in named)]
                if b"cache-control" not in named:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        problem = self._problem(scope, scope["headers"])
        if problem is not None:
            await answer(problem)(scope, receive, sending)
        else:
            await self._limited(scope, receive, sending)
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.observe(scope["method"], route, status, time.perf_counter() - began)

    def _problem(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Problem | None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        # Numbers cannot be taken over by another site's names; of names only those that were given are known.
        if len(hosts) != 1 or not (name_of(hosts[0]) in self._names or is_number(name_of(hosts[0]))):
            return Problem(
                421, "this server is not called so", field="Host",
                remedy="use its number, or have its name added with --allow-host",
            )  # fmt: skip
        length = dict(headers).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.settings.body_bytes:
            return self._too_large()
        caller = network_of_caller(scope)
        if not self._buckets.take(caller, 1.0 + int(length) / _BYTES):
            wait = (1.0 - self._buckets.left(caller)) / self._buckets.rate
            return Problem(429, "too much is asked from this address", remedy="wait a little", retry=wait)
        return None

    def _too_large(self) -> Problem:
        limit = self.settings.body_bytes
        return Problem(413, f"the body is larger than {limit:,} bytes", field="body", remedy="send it in parts")

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on, counting the body: its length may not have been said, or said wrongly, and it may never come."""
        seen, is_whole, until = 0, False, asyncio.get_running_loop().time() + _BODY_SECONDS

        async def receiving() -> Message:
            nonlocal seen, is_whole
            try:
                async with asyncio.timeout_at(None if is_whole else until):
                    message = await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}  # as if the caller were gone
            is_whole = is_whole or not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > self.settings.body_bytes:
                raise HTTPException(413, self._too_large().detail)
            return message

        caller = network_of_caller(scope)
        asks = ASKER.set(Asker(receiving, lambda seconds: self._buckets.pay(caller, seconds / _SECONDS)))
        try:
            await self.app(scope, receiving, send)
        finally:
            ASKER.reset(asks)
