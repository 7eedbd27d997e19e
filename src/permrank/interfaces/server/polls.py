"""What is done to polls, people and answers: plain functions on the store."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from permrank.interfaces.server.bodies import (
    BestWorstAnswer,
    ListAnswer,
    NewPoll,
    PairAnswer,
    PollChange,
    SkipAnswer,
    TiersAnswer,
)
from permrank.interfaces.server.keys import make_key
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.store import Store

AnyAnswer = ListAnswer | TiersAnswer | PairAnswer | BestWorstAnswer | SkipAnswer
MODEL = "model"
"""The id under which lists of the model's people are kept: no poll is called so."""


def create_poll(db: sqlite3.Connection, poll: NewPoll) -> str:
    """Make a poll and its items; gives its id."""
    words = re.sub(
        r"[^a-z0-9]+", "-", unicodedata.normalize("NFKD", poll.title).encode("ascii", "ignore").decode().lower()
    )
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


def delete_poll(db: sqlite3.Connection, poll: str) -> None:
    """Remove a poll with all its people, keys and answers."""
    people = [row[0] for row in db.execute("SELECT id FROM people WHERE poll = ?", (poll,))]
    for person in people:
        erase_person(db, poll, person)
    for table in ("items", "keys", "communities"):
        db.execute(f"DELETE FROM {table} WHERE poll = ?", (poll,))
    db.execute("DELETE FROM polls WHERE id = ?", (poll,))


def require_poll(store: Store, poll: str) -> sqlite3.Row:
    """The row of a poll; an unknown one is a problem."""
    found = store.row("SELECT * FROM polls WHERE id = ?", poll)
    if found is None:
        raise Problem(404, f"there is no poll {poll!r}", field="poll", remedy="look at its link again")
    return found


def items_of(store: Store, poll: str) -> list[dict[str, Any]]:
    """Items of a poll in the order in which they were given."""
    found = store.rows("SELECT id, title, about, picture FROM items WHERE poll = ? ORDER BY position", poll)
    return [dict(row) for row in found]


# People


def add_person(db: sqlite3.Connection, poll: str, name: str | None) -> tuple[str, str]:
    """Somebody new, who is known by the key that goes with the id; a name that is taken is a problem."""
    person = secrets.token_hex(8)
    try:
        db.execute("INSERT INTO people VALUES (?, ?, ?, ?)", (person, poll, name, time.time()))
    except sqlite3.IntegrityError as error:
        raise Problem(
            409, f"{name!r} takes part already", field="name",
            remedy="give another name, or use the personal link that you were given",
        ) from error  # fmt: skip
    return person, make_key(db, "person", poll, person)


def person_named(db: sqlite3.Connection, poll: str, name: str) -> str:
    """The person of a name, made if there is none."""
    found = db.execute("SELECT id FROM people WHERE poll = ? AND name = ?", (poll, name)).fetchone()
    if found is not None:
        return str(found[0])
    person = secrets.token_hex(8)
    db.execute("INSERT INTO people VALUES (?, ?, ?, ?)", (person, poll, name, time.time()))
    return person


def erase_person(db: sqlite3.Connection, poll: str, person: str) -> int:
    """Remove all that a person has said, with name and keys; gives how many answers went."""
    db.execute("INSERT OR REPLACE INTO erasures VALUES (?, ?, ?)", (person, poll, time.time()))
    gone = db.execute("DELETE FROM answers WHERE poll = ? AND person = ?", (poll, person)).rowcount
    db.execute("DELETE FROM keys WHERE person = ? AND poll = ?", (person, poll))
    db.execute("DELETE FROM people WHERE id = ? AND poll = ?", (person, poll))
    db.execute("DELETE FROM communities WHERE poll = ?", (poll,))
    return int(gone)


# Answers


def what_was_said(answer: AnyAnswer, known: set[str], where: str) -> tuple[str, str]:
    """Kind and content of an answer as it is stored; items that are unknown, or given twice, are problems."""
    said: Any
    if isinstance(answer, ListAnswer):
        named, said = answer.ranking, [[item] for item in answer.ranking]
    elif isinstance(answer, TiersAnswer):
        named, said = [item for tier in answer.ranking for item in tier], answer.ranking
    elif isinstance(answer, PairAnswer):
        named = said = [answer.better, answer.worse]
    elif isinstance(answer, BestWorstAnswer):
        named = answer.items
        middle = [item for item in named if item not in (answer.best, answer.worst)]
        said = [[answer.best], middle, [answer.worst]]
        if answer.best not in named or answer.worst not in named or answer.best == answer.worst:
            raise Problem(
                422, "best and worst must be two of the items", field=f"{where}.best", remedy="name two of the items"
            )
    else:
        named = said = answer.items
    _require_known([*named, *answer.shown], known, where)
    if len(set(named)) < len(named):
        twice = next(item for at, item in enumerate(named) if item in named[:at])
        raise Problem(422, f"{twice!r} comes twice", field=where, remedy="name every item once")
    return answer.kind, json.dumps(said, ensure_ascii=False)


def _require_known(named: Iterable[str], known: set[str], where: str) -> None:
    for item in named:
        if item not in known:
            raise Problem(
                422, f"{item!r} is not an item of this poll", field=where, remedy="take ids of the poll's items"
            )


def add_answers(
    db: sqlite3.Connection, poll: str, person: str, answers: Sequence[tuple[str, str, str, str | None]]
) -> list[tuple[int, bool]]:
    """Append answers (kind, said, shown, key of the client); gives number and whether it was there already, each.

    The poll's state is looked at here, in the transaction: what is acknowledged was given while it was open.
    """
    state = db.execute("SELECT state FROM polls WHERE id = ?", (poll,)).fetchone()
    if poll != MODEL and (state is None or state[0] != "open"):
        raise Problem(409, "the poll is closed", remedy="ask its organiser to open it again")
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
