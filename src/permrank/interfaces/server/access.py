"""Who is calling, and what they may do.

A key comes in the header ``Authorization: Bearer``, or as a cookie that a link has set. Requests of browsers that
change something need the token of their session as well, so that no other site can make a browser act with its
cookies; and so that no other site can reach a server that is open on loopback.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from fastapi import Request, Response

from permrank.interfaces.server.keys import Key, Role, find_key
from permrank.interfaces.server.limits import Buckets
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store

Right = Literal["admin", "vote", "read", "model"]
SESSION = "pr-session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_GRANTS: dict[Role, tuple[Right, ...]] = {
    "admin": ("admin", "vote", "read"), "vote": ("vote", "read"), "person": ("vote", "read"), "read": ("read",),
    "model": ("model",),
}  # fmt: skip
_COOKIE_SECONDS = 180 * 24 * 3600


@dataclass(frozen=True)
class Caller:
    """The valid keys of a request, and what is open to everybody."""

    keys: tuple[Key, ...]
    is_open: bool
    opens_admin: bool

    def may(self, right: Right, poll: str | None = None) -> bool:
        """Whether a right is granted, on a poll or on the whole server."""
        if self.is_open and (right != "admin" or self.opens_admin):
            return True
        for key in self.keys:
            everything = key.role == "admin" and key.poll is None
            if everything or (right in _GRANTS[key.role] and key.poll == poll and (poll or right == "model")):
                return True
        return False

    def require(self, right: Right, poll: str | None = None) -> None:
        """Refuse without the right; whether a poll exists is not told to those who may not see it."""
        if self.may(right, poll):
            return
        what = {"admin": "an admin's key", "vote": "a key to vote", "read": "a key to read", "model": "the model's key"}
        if not self.keys:
            raise Problem(401, f"this needs {what[right]}", remedy="send it as 'Authorization: Bearer KEY'")
        raise Problem(403, f"the key that was sent is not {what[right]} for this", remedy="send one that is")

    def person(self, poll: str) -> str | None:
        """The person of a poll that this caller is."""
        return next((key.person for key in self.keys if key.role == "person" and key.poll == poll), None)


class Door:
    """Finds out who calls; one for each application."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self._secret = store.secret("csrf")
        self._wrong = Buckets(rate=0.5, burst=20) if settings.rate else None

    def __call__(self, request: Request) -> Caller:
        """The caller of a request; a wrong key, or a browser without the token of its session, is a problem."""
        header = request.headers.get("authorization")
        if header is not None:
            keys: tuple[Key, ...] = (self._key_of(header, request),)
        else:
            if request.method not in _SAFE:
                self._require_token(request)
            named = [value for name, value in request.cookies.items() if name.startswith("pr-") and name != SESSION]
            found = [find_key(self.store, value) for value in named[:50]]
            keys = tuple(key for key in found if key is not None)
        return Caller(keys, not self.settings.keys, not self.settings.keys and self.settings.on_loopback)

    def _key_of(self, header: str, request: Request) -> Key:
        address = request.client.host if request.client else ""
        if self._wrong is not None and self._wrong.empty(address):
            raise Problem(429, "too many wrong keys", remedy="wait a minute", retry=60.0)
        scheme, _, text = header.partition(" ")
        key = find_key(self.store, text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            if self._wrong is not None:
                self._wrong.take(address)
            raise Problem(
                401, "the key is not valid", field="Authorization", remedy="send 'Bearer KEY' with a valid key"
            )
        return key

    # Browsers

    def _require_token(self, request: Request) -> None:
        """Refuse a change that a browser makes for another site."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if not request.cookies and origin is None and site is None:
            return  # no browser, and nothing that came along by itself
        remedy = "reload the page and try again"
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
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
        response.set_cookie(
            name, value, max_age=_COOKIE_SECONDS, httponly=True, samesite="lax", secure=self.settings.secure, path="/"
        )

    def keep_key(self, response: Response, text: str, key: Key) -> None:
        """Have a browser send a key from now on."""
        self.set_cookie(response, cookie_name(key.role, key.poll), text)


def cookie_name(role: str, poll: str | None) -> str:
    """The cookie of a key: one for each role and poll."""
    return f"pr-{role}-{poll or 'all'}"
