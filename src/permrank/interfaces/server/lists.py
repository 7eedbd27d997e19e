"""Lists and ratings that are kept of a model's people: what may be one, by the door and by the refit alike."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any

import permrank as pr
from permrank.errors import InputError
from permrank.interfaces.server.polls import Erasure, n_erasures, note_erasure
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.serving import Version, person_id, place_of, require_once

MODEL = "model"
"""What erasures of the model's people are noted under: no poll is called so."""
Said = tuple[str | int, Any]
"""A person, and a list of tiers or ratings by item."""
_log = logging.getLogger("permrank.serve")


def keep_list(db: sqlite3.Connection, base: str, person: str, said: str, n_erased: int) -> int:
    """Append what a person says; what was on its way while somebody was erased is not stored after it."""
    if n_erasures(db, MODEL) != n_erased:
        raise Problem(409, "somebody was erased meanwhile; nothing was stored", remedy="send it again")
    made = db.execute(
        "INSERT INTO lists (base, person, said, at) VALUES (?, ?, ?, ?)", (base, person, said, time.time())
    )
    return int(made.lastrowid or 0)


def erase_lists(db: sqlite3.Connection, person: str) -> Erasure:
    """Remove what was kept of a person, for whichever model, and the versions that may have learnt from it."""
    firsts = db.execute("SELECT base, min(seq) FROM lists WHERE person = ? GROUP BY base", (person,)).fetchall()
    for base, seq in firsts:
        db.execute("UPDATE model_versions SET state = 'removed' WHERE base = ? AND seq >= ?", (base, seq))
    gone = db.execute("DELETE FROM lists WHERE person = ?", (person,)).rowcount
    return Erasure(gone, note_erasure(db, MODEL))


def usable_list(version: Version, person: str | int, said: Any) -> Said:
    """What a person says, with ids as the model has them; what it cannot learn from is a problem with the field."""
    known, user = version.model.rankings_, person_id(version.model, person)
    wanted = "ranking" if known.ratings is None else "ratings"
    if known.anonymous:
        raise Problem(422, "the model knows ballots and no people", remedy="serve a model of people")
    if isinstance(said, dict) != (wanted == "ratings"):
        raise Problem(422, f"the model learns from {wanted}", field=wanted, remedy=f"send {wanted}, and nothing else")
    tiers = [[place_of(version, item, wanted) for item in (one if isinstance(one, list) else [one])] for one in said]
    require_once(version, [item for tier in tiers for item in tier], wanted)
    found: Any = [[version.ids[at] for at in tier] for tier in tiers]
    if known.ratings is not None:
        _require_on_scale(said, float(known.ratings.min()), float(known.ratings.max()))
        found = dict(zip((item for (item,) in found), said.values(), strict=True))
    try:
        _rankings([(user, found)])
    except InputError as error:
        raise Problem(422, str(error), field="person", remedy="give another id") from error
    return user, found


def _require_on_scale(ratings: dict[str, float], low: float, high: float) -> None:
    for item, rating in ratings.items():
        if not low <= rating <= high:
            raise Problem(
                422, f"{rating:g} is not on the scale of the model's ratings", field=f"ratings.{item}",
                remedy=f"give numbers from {low:g} to {high:g}",
            )  # fmt: skip


def usable_lists(version: Version, rows: Iterable[sqlite3.Row]) -> pr.Rankings | None:
    """The last list of each person; those that cannot be used are left out, and logged by their number."""
    found = []
    for row in {row["person"]: row for row in rows}.values():
        try:
            found.append(usable_list(version, row["person"], json.loads(row["said"])))
        except (Problem, ValueError, TypeError) as error:
            _log.warning("list %d is left out: the model cannot learn from it (%s)", row["seq"], type(error).__name__)
    return _rankings(found) if found else None


def _rankings(people: Sequence[Said]) -> pr.Rankings:
    if isinstance(people[0][1], dict):
        rows = [(user, item, rating) for user, one in people for item, rating in one.items()]
        return pr.Rankings.from_ratings(dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True)))
    lists = [[set(tier) for tier in one] for _, one in people]
    return pr.Rankings.from_lists(lists, users=[user for user, _ in people], unlisted="ignore")
