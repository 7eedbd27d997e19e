"""Who connects: names and addresses, and connections that say nothing, which are closed.

A server behind a proxy is asked by the proxy, which may run on the same machine: the address of a connection does not
say who is asking. So a request is the machine's own only if everything about it says so, and the settings say that no
proxy is expected (`Settings.is_private`). Uvicorn closes connections that are idle after an answer, but waits without
end for the first request of one, and for the rest of a head that came in part.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
from collections import Counter
from typing import ClassVar
from urllib.parse import urlsplit

from starlette.types import Scope
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from permrank.errors import InputError
from permrank.types import Named

# What proxies add: Forwarded (RFC 7239) and X-Forwarded-*, Via, the client's address under a dozen names, and marks of
# those that are common (Cloudflare, Fastly, Fly, Envoy, Azure, Amazon, Tailscale).
_ADDED = re.compile(
    rb"forward|client-?ip|real-?ip|remote-?(ip|addr)|^via$|^(cf|cdn|fly|fastly|tailscale|proxy|true)-"
    rb"|^x-(amzn|appengine|arr|azure|cloud|cluster|envoy|host|nginx|original|proxy|scheme|url|varnish)"
)
_USUAL = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def is_own(scope: Scope) -> bool:
    """Whether a request comes from the machine itself, by its name, and through no proxy that shows itself.

    Every one of these is needed: a connection from loopback, a ``Host`` of loopback, no header that a proxy adds, and
    HTTP/1.1, as browsers and programs speak it: nginx hands on by HTTP/1.0 unless it is told otherwise.
    """
    client, headers = scope.get("client"), scope["headers"]
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    return (
        client is not None
        and is_loopback(client[0])
        and bool(hosts)
        and all(is_loopback(name_of(host)) for host in hosts)
        and scope["http_version"] != "1.0"
        and not any(_ADDED.search(name) for name, _ in headers)
    )


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only; a name counts if it is localhost.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    return host == "localhost" or (is_number(host) and ipaddress.ip_address(host).is_loopback)


def is_number(host: str) -> bool:
    """Whether a host is an address and not a name."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def name_of(host: str) -> str:
    """The name in a ``Host`` header, or the address without brackets.

    Examples
    --------
    >>> name_of("Localhost:8000"), name_of("[::1]:8000"), name_of("[::1]")
    ('localhost', '::1', '::1')
    """
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name).lower()


def network_of(address: str) -> str:
    """An address; of version 6 the network that one subscriber has; empty for what a proxy says that is neither."""
    if not is_number(address):
        return ""
    return address if ipaddress.ip_address(address).version == 4 else str(ipaddress.ip_network((address, 64), False))


def network_of_caller(scope: Scope) -> str:
    """The network that a request comes from."""
    return network_of(scope["client"][0] if scope.get("client") else "")


def public_origin(url: str) -> str:
    """Scheme, name and port of the address under which people reach the server.

    Examples
    --------
    >>> public_origin("https://Poll.example.org:443/"), public_origin("http://müller.example:8080")
    ('https://poll.example.org', 'http://xn--mller-kva.example:8080')
    """
    wrong = InputError(
        f"--public-url {url}: expected http:// or https://, a name and maybe a port, as in https://poll.example.org"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # brackets that do not match, a port above 65535
        raise wrong from error
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise wrong
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong
    name = parts.hostname if ":" in parts.hostname else host_name(parts.hostname, "--public-url")
    return f"{parts.scheme}://{bracketed(name)}" + ("" if port in (None, _USUAL[parts.scheme]) else f":{port}")


def host_name(name: str, option: str = "--allow-host") -> str:
    """A name as browsers send it; one with a scheme, a port or a star is refused.

    Examples
    --------
    >>> host_name("Poll.Example.org")
    'poll.example.org'
    """
    with contextlib.suppress(UnicodeError):
        found = name.encode("idna").decode().lower()
        if _NAME.fullmatch(found):
            return found
    raise InputError(f"{option} {name!r}: expected a name such as poll.example.org, without scheme, port or star")


def bracketed(host: str) -> str:
    """A host as it stands in an address.

    Examples
    --------
    >>> bracketed("::1"), bracketed("localhost")
    ('[::1]', 'localhost')
    """
    return f"[{host}]" if ":" in host else host


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Uvicorn's protocol, h11 or httptools, with a time for the head of a request and a share for each address."""

    # How long the head of a request may take from its first byte, and its first byte from the beginning.
    head_seconds: ClassVar[float] = 5.0
    # Connections of one address; of those without a request the oldest makes room, a new one is closed otherwise.
    most: ClassVar[int] = 400
    # Of all: the address with the most without a request makes room. Others may be closing, below uvicorn's limit.
    most_of_all: ClassVar[int] = 1_500
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


def http_options() -> Named:
    """What uvicorn is told about connections: their protocol, and how many and how long."""
    return {"http": Connection, "ws": "none", "limit_concurrency": 2_000, "timeout_keep_alive": 30}
