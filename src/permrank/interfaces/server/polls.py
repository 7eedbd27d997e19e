"""What is done to polls, people and answers: plain functions on the store."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from permrank.interfaces.server.access import make_key
from permrank.interfaces.server.bodies import (
    BestWorstAnswer,
    ListAnswer,
    NewPoll,
    PairAnswer,
    PollChange,
    SkipAnswer,
    TiersAnswer,
)
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.store import Store
from permrank.types import Named

AnyAnswer = ListAnswer | TiersAnswer | PairAnswer | BestWorstAnswer | SkipAnswer


class Erasure(NamedTuple):
    """How many answers went, and the number of the note that says so."""

    answers: int
    seq: int


def create_poll(db: sqlite3.Connection, poll: NewPoll) -> str:
    """Make a poll and its items; gives its id."""
    plain = unicodedata.normalize("NFKD", poll.title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain)
    made = f"{words.strip('-')[:24].strip('-') or 'poll'}-{secrets.token_hex(4)}"
    db.execute(
        "INSERT INTO polls VALUES (?, ?, ?, ?, 'open', ?, NULL)",
        (made, poll.title, poll.about, poll.shows, time.time()),
    )
    db.executemany(
        "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)",
        [(made, item.name, item.title, item.about, item.picture, position) for position, item in enumerate(poll.items)],
    )
    return made


def change_poll(db: sqlite3.Connection, poll: str, change: PollChange) -> None:
    """Change what is given of a poll."""
    given = change.model_dump(exclude_none=True)
    if "state" in given:
        given["closed"] = time.time() if given["state"] == "closed" else None
    for name, value in given.items():  # names are fields of PollChange, never a caller's text
        db.execute(f"UPDATE polls SET {name} = ? WHERE id = ?", (value, poll))


def delete_poll(db: sqlite3.Connection, poll: str) -> Erasure:
    """Remove a poll and with it all its people, keys and answers."""
    require_there(db, poll)
    (gone,) = db.execute("SELECT count(*) FROM answers WHERE poll = ?", (poll,)).fetchone()
    db.execute("DELETE FROM polls WHERE id = ?", (poll,))
    db.execute("UPDATE erasures SET poll = '' WHERE poll = ?", (poll,))  # an id has words of the title
    return Erasure(gone, note_erasure(db, ""))


def require_there(db: sqlite3.Connection, poll: str) -> str:
    """The state of a poll in the transaction that writes to it; one that was deleted meanwhile is a problem."""
    found = db.execute("SELECT state FROM polls WHERE id = ?", (poll,)).fetchone()
    if found is None:
        raise _unknown(poll)
    return str(found[0])


def require_open(db: sqlite3.Connection, poll: str) -> None:
    """As `require_there`; a closed poll is a problem as well."""
    if require_there(db, poll) != "open":
        raise Problem(409, "the poll is closed", remedy="ask its organiser to open it again")


def require_poll(store: Store, poll: str) -> sqlite3.Row:
    """The row of a poll; an unknown one is a problem."""
    found = store.row("SELECT * FROM polls WHERE id = ?", poll)
    if found is None:
        raise _unknown(poll)
    return found


def _unknown(poll: str) -> Problem:
    return Problem(404, f"there is no poll {poll!r}", field="poll", remedy="look at its link again")


def items_of(store: Store, poll: str) -> list[Named]:
    """Items of a poll in the order in which they were given."""
    found = store.rows("SELECT id, title, about, picture FROM items WHERE poll = ? ORDER BY position", poll)
    return [dict(row) for row in found]


# People


def add_person(db: sqlite3.Connection, poll: str, name: str | None) -> tuple[str, str]:
    """Somebody new, who is known by the key that goes with the id; a name that is taken is a problem."""
    require_open(db, poll)
    try:
        person = _made(db, poll, name)
    except sqlite3.IntegrityError as error:
        raise Problem(
            409, f"{name!r} takes part already", field="name",
            remedy="give another name, or use the personal link that you were given",
        ) from error  # fmt: skip
    return person, make_key(db, "person", poll, person)


def person_named(db: sqlite3.Connection, poll: str, name: str) -> str:
    """The person of a name, made if there is none."""
    require_there(db, poll)
    found = db.execute("SELECT id FROM people WHERE poll = ? AND name = ?", (poll, name)).fetchone()
    return _made(db, poll, name) if found is None else str(found[0])


def _made(db: sqlite3.Connection, poll: str, name: str | None) -> str:
    person = secrets.token_hex(8)
    db.execute("INSERT INTO people (poll, id, name, created) VALUES (?, ?, ?, ?)", (poll, person, name, time.time()))
    return person


def erase_person(db: sqlite3.Connection, poll: str, person: str) -> Erasure:
    """Remove all that a person has said, with name and keys, and what was worked out from it."""
    (gone,) = db.execute("SELECT count(*) FROM answers WHERE poll = ? AND person = ?", (poll, person)).fetchone()
    if not db.execute("DELETE FROM people WHERE poll = ? AND id = ?", (poll, person)).rowcount:
        raise Problem(404, "there is no such person in this poll", field="person", remedy="list the poll's people")
    db.execute("DELETE FROM communities WHERE poll = ?", (poll,))
    return Erasure(gone, note_erasure(db, poll))


def note_erasure(db: sqlite3.Connection, poll: str) -> int:
    """Note that something is to vanish from the files (`erasing`); gives the number of the note."""
    return int(db.execute("INSERT INTO erasures (poll, at) VALUES (?, ?)", (poll, time.time())).lastrowid or 0)


def n_erasures(db: sqlite3.Connection, poll: str) -> int:
    """How often somebody was erased from a poll: what was worked out from answers holds while this stays the same."""
    return int(db.execute("SELECT count(*) FROM erasures WHERE poll = ?", (poll,)).fetchall()[0][0])


# Answers


def what_was_said(answer: AnyAnswer, known: set[str], where: str) -> tuple[str, str]:
    """Kind and content of an answer as it is stored; items that are unknown, or given twice, are problems."""
    said: Any
    match answer:
        case ListAnswer(ranking=named):
            said = [[item] for item in named]
        case TiersAnswer(ranking=said):
            named = [item for tier in said for item in tier]
        case BestWorstAnswer(items=named, best=best, worst=worst):
            said = [[best], [item for item in named if item not in (best, worst)], [worst]]
            if not {best, worst} <= set(named) or best == worst:
                remedy = "name two of the items"
                raise Problem(422, "best and worst must be two of the items", field=f"{where}.best", remedy=remedy)
        case PairAnswer():
            named = said = [answer.better, answer.worse]
        case SkipAnswer():
            named = said = answer.items
    for item in (*named, *answer.shown):
        if item not in known:
            remedy = "take ids of the poll's items"
            raise Problem(422, f"{item!r} is not an item of this poll", field=where, remedy=remedy)
    if len(set(named)) < len(named):
        twice = next(item for at, item in enumerate(named) if item in named[:at])
        raise Problem(422, f"{twice!r} comes twice", field=where, remedy="name every item once")
    return answer.kind, json.dumps(said, ensure_ascii=False)


def add_answers(
    db: sqlite3.Connection, poll: str, person: str, answers: Sequence[tuple[str, str, str, str | None]]
) -> list[tuple[int, bool]]:
    """Append answers (kind, said, shown, key of the client); gives number and whether it was there already, each.

    Poll and person are looked at here, in the transaction: what is acknowledged was given while the poll was open, by
    somebody who takes part; what was on its way during an erasure is not stored after it.
    """
    require_open(db, poll)
    require_person(db, poll, person)
    found = []
    for kind, said, shown, key in answers:
        if key is not None:
            there = db.execute(
                "SELECT seq, kind, said FROM answers WHERE poll = ? AND person = ? AND client_key = ?",
                (poll, person, key),
            ).fetchone()
            if there is not None:
                if (there["kind"], there["said"]) != (kind, said):
                    raise Problem(
                        409, f"the key {key!r} belongs to another answer", field="key", remedy="take a new key"
                    )
                found.append((int(there["seq"]), True))
                continue
        made = db.execute(
            "INSERT INTO answers (poll, person, kind, said, shown, at, client_key) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (poll, person, kind, said, shown, time.time(), key),
        )
        found.append((int(made.lastrowid or 0), False))
    return found


def require_person(db: sqlite3.Connection, poll: str, person: str) -> None:
    """Refuse to write for somebody who was erased meanwhile."""
    if db.execute("SELECT 1 FROM people WHERE poll = ? AND id = ?", (poll, person)).fetchone() is None:
        raise Problem(409, "this person was erased", field="person", remedy="take part again to answer")


def require_same(db: sqlite3.Connection, poll: str, sender: str, person: str, request: tuple[str, bytes]) -> None:
    """Refuse another body under the key (of the header) of a former one: key and digest of the body are kept."""
    key, digest = request
    known = "SELECT digest FROM requests WHERE poll = ? AND sender = ? AND client_key = ?"
    found = db.execute(known, (poll, sender, key)).fetchone()
    if found is None:
        db.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (poll, sender, key, digest, person))
    elif bytes(found[0]) != digest:
        raise Problem(
            409, f"the key {key!r} belongs to another request", field="Idempotency-Key", remedy="take a new key"
        )
