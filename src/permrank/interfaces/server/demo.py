"""A poll on simulated people, to look at the pages with something on them."""

from __future__ import annotations

import json
import sqlite3

import permrank as pr
from permrank.interfaces.server import polls
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.store import Store

_TITLE = "What shall we cook?"
_PEOPLE, _DISHES = 40, 10


def simulate(store: Store, seed: int = 0) -> tuple[NewPoll, bool]:
    """A poll of ten dishes in which forty simulated people of two tastes have voted; and whether it is new."""
    rankings, _ = pr.datasets.simulated(
        _PEOPLE, _DISHES, n_communities=2, separation=2.5, list_length=(6, 10), seed=seed
    )
    poll = NewPoll(title=_TITLE, about="Simulated people have voted; add your own ranking.",
                   items=[Item(title=str(name)) for name in rankings.item_ids])  # fmt: skip
    if store.row("SELECT 1 FROM polls WHERE title = ? AND state = 'open'", _TITLE) is not None:
        return poll, False

    def job(db: sqlite3.Connection) -> None:
        made = polls.create_poll(db, poll)
        for user in rankings.user_ids:
            (ballot,) = rankings.lists(user)
            said = [sorted(map(str, tier)) if isinstance(tier, set) else [str(tier)] for tier in ballot]
            person = polls.person_named(db, made, str(user))
            polls.add_answers(db, made, person, [("tiers", json.dumps(said), "[]", None)])

    store.write(job).result()
    return poll, True
