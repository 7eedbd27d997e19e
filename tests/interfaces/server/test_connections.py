"""Connections that say nothing, or hold on to what others need."""

import asyncio
import contextlib
import socket
import time

import pytest

from interfaces_server import eventually, listening, serving
from permrank.interfaces.server import connections, limits
from permrank.interfaces.server.app import create_app
from permrank.interfaces.server.connections import Connection
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.state import Holders


class Limited(Connection):
    """With few connections, and a patience that a test changes: what is in time must be so on a busy machine too."""

    head_seconds = 600.0
    most = 20


async def says_yes(scope, receive, send):
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"yes"})


REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answered(connection):
    connection.sendall(REQUEST)
    found = part = connection.recv(1_000)
    while part and not found.endswith(b"yes"):
        part = connection.recv(1_000)
        found += part
    return found.startswith(b"HTTP/1.1 200")


def is_closed(connection):
    """Whether the other side closes; waits for that."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def trickle(connection, seconds=120.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.sendall(b"G")
        time.sleep(0.05)


def test_a_connection_that_sends_no_whole_head_is_closed(monkeypatch):
    with listening(says_yes, http=Limited, lifespan="off") as port, contextlib.ExitStack() as stack:
        good, begun = (stack.enter_context(connected(port)) for _ in range(2))
        for _ in range(3):
            assert answered(good)
            assert answered(begun)
        eventually(lambda: len(Limited._waiting["127.0.0.1"]) == 2)
        assert all(one._late is None for one in Limited._waiting["127.0.0.1"])  # idle after an answer is another matter
        monkeypatch.setattr(Limited, "head_seconds", 0.2)
        begun.sendall(b"GET")
        assert is_closed(begun)
        for part in (b"", b"GET", REQUEST[:-2]):
            with connected(port) as silent:
                silent.sendall(part)
                assert is_closed(silent)
        with connected(port) as slow, pytest.raises(OSError):  # a byte now and then does not help
            trickle(slow)
        assert answered(good)


def test_silent_connections_of_an_address_make_room_for_new_ones():
    options = {"http": Limited, "limit_concurrency": 3 * Limited.most}
    with listening(says_yes, lifespan="off", **options) as port:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(connected(port)) for _ in range(10 * Limited.most)]
            good = stack.enter_context(connected(port))
            assert answered(good)
            assert all(map(is_closed, held[: -Limited.most]))  # the oldest
            assert answered(good)
        eventually(lambda: not Limited._open and not Limited._waiting)


def test_silent_connections_of_many_addresses_make_room_too(monkeypatch):
    most = 3 * Limited.most
    names = iter(["somebody", *(f"192.0.2.{n % 6}" for n in range(5 * most)), "somebody else"])
    monkeypatch.setattr(connections, "network_of", lambda address: next(names))
    monkeypatch.setattr(Limited, "most", most)
    monkeypatch.setattr(Limited, "most_of_all", most)
    with listening(says_yes, http=Limited, lifespan="off", limit_concurrency=most + 20) as port:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(connected(port))
            assert answered(first)
            held = [stack.enter_context(connected(port)) for _ in range(5 * most)]
            assert answered(stack.enter_context(connected(port)))
            assert all(map(is_closed, held[: 3 * most]))
            assert answered(first)  # idle since long, but not of those who have the most
        eventually(lambda: not Limited._open and not Limited._waiting)


def test_a_body_that_never_comes_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_BODY_SECONDS", 0.2)
    app = create_app(Settings(str(tmp_path / "a.sqlite"), rate=0.0))
    with listening(app) as port, connected(port) as stuck:
        stuck.sendall(b"POST /v1/polls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        assert stuck.recv(1_000).startswith(b"HTTP/1.1 400")


def test_nobody_has_all_event_streams(tmp_path):
    with serving(tmp_path / "a.sqlite", streams=40) as client:
        polls = client.app_state.polls

        async def opened(holders):
            """How many streams of these are let in."""
            streams = [polls.events(one) for one in holders]
            told = [await anext(stream, None) for stream in streams]
            return [stream for stream, one in zip(streams, told, strict=True) if one is not None]

        async def all_of_them():
            from_one_address = await opened(Holders("a", "192.0.2.1", None) for _ in range(50))
            of_one_person = await opened(Holders("b", f"192.0.2.{n}", "ann") for n in range(50))
            of_one_poll = await opened(Holders("c", f"192.0.2.{n}", f"person {n}") for n in range(50))
            assert (len(from_one_address), len(of_one_person), len(of_one_poll)) == (8, 8, 20)
            others = await opened(Holders(f"poll {n}", f"198.51.100.{n}", None) for n in range(50))
            assert polls.n_streams == 40 == 8 + 8 + 20 + len(others)
            await from_one_address[0].aclose()
            assert polls.has_room(Holders("a", "192.0.2.1", None))
            for stream in from_one_address[1:] + of_one_person + of_one_poll + others:
                await stream.aclose()
            assert polls.n_streams == 0

        asyncio.run(all_of_them())
