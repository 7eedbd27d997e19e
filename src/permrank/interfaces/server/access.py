"""Who is calling, and what they may do.

A key comes in the header ``Authorization: Bearer``, or as a cookie that a link has set. Without a key a request may do
what is open to everybody (``--open``), and on a server that is private to its machine all that the machine's own user
may. Requests of browsers that change something need the token of their session as well, so that no other site can make
a browser act with its cookies, or reach a server that is private.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fastapi import Request, Response

from permrank.errors import InputError
from permrank.interfaces.server.connections import is_own, network_of_caller
from permrank.interfaces.server.limits import Buckets
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store

# Keys. A key is ``pr_<id>_<secret>``: made here, shown once, kept as a digest. The id finds its row; the secret has 192
# random bits, so that one round of SHA-256 keeps it as well as any slow hash would.
Role = Literal["admin", "vote", "read", "person", "model", "lists"]
_KEY = re.compile(r"pr_([0-9a-f]{12})_([A-Za-z0-9_-]{32})")
_NOBODY = b"\0" * 32


class Key(NamedTuple):
    """What a key is good for: one poll, or, without one, the whole server or its model."""

    id: str
    role: Role
    poll: str | None
    person: str | None


def make_key(
    db: sqlite3.Connection, role: Role, poll: str | None = None, person: str | None = None, label: str = "",
    text: str | None = None,
) -> str:  # fmt: skip
    """Make a key, or take one that was made elsewhere, and keep its digest; this is the only time that it is seen."""
    if text is None:
        text = f"pr_{secrets.token_hex(6)}_{secrets.token_urlsafe(24)}"
    found = _KEY.fullmatch(text)
    if found is None:
        raise InputError("a key is 'pr_', 12 hexadecimal digits, '_' and 32 letters; --admin-key new makes one")
    db.execute(
        "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
        (found[1], _digest(found[2]), role, poll, person, label, time.time()),
    )
    return text


def find_key(store: Store, text: str) -> Key | None:
    """The key that this is, if it is one; the time that it takes does not tell how much of a secret was right."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    row = store.row("SELECT * FROM keys WHERE id = ? AND revoked IS NULL", found[1])
    right = hmac.compare_digest(_digest(found[2]), _NOBODY if row is None else bytes(row["digest"]))
    return Key(row["id"], row["role"], row["poll"], row["person"]) if right and row is not None else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


Right = Literal["admin", "vote", "read", "model", "lists"]
SESSION = "pr-session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_GRANTS: dict[Role, tuple[Right, ...]] = {
    "admin": ("admin", "vote", "read"), "vote": ("vote", "read"), "person": ("vote", "read"), "read": ("read",),
    "model": ("model",), "lists": ("model", "lists"),
}  # fmt: skip
_OPEN: tuple[Right, ...] = ("vote", "read", "model")
_CALLED: dict[Right, str] = {
    "admin": "an admin's key", "vote": "a key to vote", "read": "a key to read", "model": "a key to the model",
    "lists": "a key to people's lists",
}  # fmt: skip
_COOKIE_SECONDS, _MOST_COOKIES = 180 * 24 * 3600, 50


@dataclass(frozen=True)
class Caller:
    """Who has sent a request."""

    keys: tuple[Key, ...]  # those of the keys that came with it that are valid
    is_own: bool  # whether it is of the user of the machine, to whom a private server is open
    is_open: bool  # whether everybody may vote, read and ask the model
    remedy: str  # what somebody without a key can do
    guesses: bool = False  # whether too many wrong keys came from this address

    def may(self, right: Right, poll: str | None = None) -> bool:
        """Whether a right is granted, on a poll or on the whole server."""
        return self.is_own or (self.is_open and right in _OPEN) or self.holds(right, poll)

    def holds(self, right: Right, poll: str | None = None) -> bool:
        """Whether a key grants a right: a poll's on that poll, the model's on the server, an admin's everywhere."""
        return any(
            (key.role == "admin" and key.poll is None)
            or (right in _GRANTS[key.role] and key.poll == poll and (poll is not None or right in ("model", "lists")))
            for key in self.keys
        )

    def require(self, right: Right, poll: str | None = None) -> None:
        """Refuse without the right; whether a poll exists is not told to those who may not see it."""
        if self.may(right, poll):
            return
        if self.guesses:
            raise too_many_wrong()
        if not self.keys:
            raise Problem(401, f"this needs {_CALLED[right]}", remedy=self.remedy)
        raise Problem(403, f"the key that was sent is not {_CALLED[right]} for this", remedy="send one that is")

    def person(self, poll: str) -> str | None:
        """The person of a poll that this caller is."""
        return next((key.person for key in self.keys if key.role == "person" and key.poll == poll), None)


class Door:
    """Finds out who calls; one for each application."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self._secret = store.secret("csrf")
        self._wrong = Buckets(rate=0.5 if settings.rate else 0.0, burst=20)
        self._remedy = "send it as 'Authorization: Bearer KEY'"
        if settings.is_private:
            self._remedy = (
                "without keys this server answers its own machine only, and through no proxy: start it with "
                "--public-url, or with --admin-key new"
            )

    def __call__(self, request: Request) -> Caller:
        """The caller of a request; a wrong key, or a browser without the token of its session, is a problem."""
        header = request.headers.get("authorization")
        own = self.settings.is_private and is_own(request.scope)
        if header is not None:
            scheme, _, text = header.partition(" ")
            key = self.key_of(text.strip() if scheme.lower() == "bearer" else "", request)
            if key is None:
                remedy = "send 'Bearer KEY' with a valid key"
                raise Problem(401, "the key is not valid", field="Authorization", remedy=remedy)
            return Caller((key,), own, self.settings.is_open, self._remedy)
        if request.method not in _SAFE:
            self._require_token(request)
        found = [find_key(self.store, value) for value in self._cookies(request)]
        keys = tuple(key for key in found if key is not None)
        guesses = sum(not self._guess(request) for key in found if key is None) > 0  # each of them counts
        return Caller(keys, own, self.settings.is_open, self._remedy, guesses)

    def key_of(self, text: str, request: Request) -> Key | None:
        """The key that this is; without one None, and after many wrong ones from an address a problem."""
        key = find_key(self.store, text)
        if key is None and not self._guess(request):
            raise too_many_wrong()
        return key

    def _guess(self, request: Request) -> bool:
        """Count a wrong key; whether its address is allowed another one."""
        return self._wrong.take(network_of_caller(request.scope))

    def _cookies(self, request: Request) -> list[str]:
        """Keys that a browser has sent: of the poll in the address and of the server, or all where there is none."""
        poll = request.path_params.get("poll")
        named = {name: text for name, text in request.cookies.items() if name.startswith("pr-") and name != SESSION}
        if poll is not None:
            wanted = [cookie_name(role, where) for role in _GRANTS for where in (poll, None)]
            return [named[name] for name in wanted if name in named]
        return list(named.values())[:_MOST_COOKIES]

    # Browsers

    def _require_token(self, request: Request) -> None:
        """Refuse a change that a browser makes for another site."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if not request.cookies and origin is None and site is None:
            return  # no browser, and nothing that came along by itself
        remedy = "reload the page and try again"
        here = request.headers.get("host", "")
        if origin is not None and origin not in (f"http://{here}", f"https://{here}", self.settings.public or None):
            raise Problem(403, "the request came from another site", field="Origin", remedy="use this server's pages")
        if site not in (None, "same-origin", "none"):
            raise Problem(403, "the request came from another site", field="Sec-Fetch-Site", remedy=remedy)
        given, session = request.headers.get("x-csrf-token", ""), request.cookies.get(SESSION, "")
        if not session or not hmac.compare_digest(given.encode(), self.token(session).encode()):
            raise Problem(403, "the token of the page is missing or old", field="X-CSRF-Token", remedy=remedy)

    def token(self, session: str) -> str:
        """What a page of this session has to send with every change."""
        return hmac.new(self._secret, session.encode(), hashlib.sha256).hexdigest()

    def session(self, request: Request) -> str:
        """The session of a request, or a new one."""
        found = request.cookies.get(SESSION, "")
        return found if 20 <= len(found) <= 64 else secrets.token_urlsafe(24)

    def set_cookie(self, response: Response, name: str, value: str) -> None:
        """A cookie that scripts cannot read and other sites do not send."""
        secure, seconds = self.settings.is_secure, _COOKIE_SECONDS
        response.set_cookie(name, value, seconds, httponly=True, samesite="lax", secure=secure, path="/")

    def held(self, key: Key, request: Request) -> Key | None:
        """The valid key that a browser holds in the place of another one."""
        return find_key(self.store, request.cookies.get(cookie_name(key.role, key.poll), ""))

    def keep_key(self, response: Response, text: str, key: Key) -> None:
        """Have a browser send a key from now on."""
        self.set_cookie(response, cookie_name(key.role, key.poll), text)


def too_many_wrong() -> Problem:
    """What an address is told that has sent many wrong keys."""
    return Problem(429, "too many wrong keys from this address", remedy="wait a minute, or send a key", retry=60.0)


def cookie_name(role: str, poll: str | None) -> str:
    """The cookie of a key: one for each role and poll."""
    return f"pr-{role}-{poll or 'all'}"
