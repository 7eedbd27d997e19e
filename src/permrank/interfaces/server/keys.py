"""Keys: made here, shown once, kept as digests, and compared in constant time.

A key is ``pr_<id>_<secret>``. The id finds its row; the secret has 192 random bits, so that one round of SHA-256 keeps
it as well as any slow hash would.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from typing import Literal, NamedTuple

from permrank.errors import InputError
from permrank.interfaces.server.store import Store

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
    db: sqlite3.Connection, role: Role, poll: str | None = None, person: str | None = None, label: str = ""
) -> str:
    """Make a key and keep its digest; this is the only time that it is seen."""
    text = f"pr_{secrets.token_hex(6)}_{secrets.token_urlsafe(24)}"
    keep_key(db, text, role, poll, person, label)
    return text


def keep_key(
    db: sqlite3.Connection, text: str, role: Role, poll: str | None = None, person: str | None = None, label: str = ""
) -> None:
    """Keep the digest of a key that was made elsewhere."""
    found = _KEY.fullmatch(text)
    if found is None:
        raise InputError("a key is 'pr_', 12 hexadecimal digits, '_' and 32 letters; --admin-key new makes one")
    db.execute(
        "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
        (found[1], _digest(found[2]), role, poll, person, label, time.time()),
    )


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
