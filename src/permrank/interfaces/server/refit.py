"""A process of its own that learns again: new versions of the model, and the tastes of polls.

It is started when there is something to learn (`learner`), and ends by itself when there is not: an idle server is the
web processes alone. It reads what is new in the file, works for as long as it takes, and writes one row when it is
done; the web processes see the row and change over between two questions. The version before stays on the disk.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any

from permrank.core.model_files import load
from permrank.evaluation.number_of_communities import choose_communities
from permrank.families.latent.model import LatentPlackettLuce
from permrank.interfaces.server.ballots import Ballots
from permrank.interfaces.server.due import FEWEST, changed_polls, model_is_due
from permrank.interfaces.server.polls import MODEL, items_of
from permrank.interfaces.server.settings import ENVIRONMENT, Settings
from permrank.interfaces.server.store import Store
from permrank.rankings.joining import joined
from permrank.rankings.rankings import Rankings

_log = logging.getLogger("permrank.serve.refit")
# Versions whose files are kept; how often the file is looked at; seconds without work after which the process ends.
_KEPT, _LOOK, _PATIENCE = 2, 2.0, 60.0
_MOST_COMMUNITIES = 3


def main() -> None:
    """Work while there is something to learn and the server that started this process is there; then end."""
    settings = Settings.from_json(os.environ[ENVIRONMENT])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    store, parent = Store(settings.db), os.getppid()
    if hasattr(os, "nice"):
        os.nice(10)
    idle = 0.0
    while os.getppid() == parent and idle < _PATIENCE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            idle = 0.0 if learn_what_is_new(store, settings) else idle + _LOOK
        time.sleep(_LOOK)


def learn_what_is_new(store: Store, settings: Settings) -> bool:
    """Fit the model again if it is time, and look for tastes in polls that have changed; whether there was anything."""
    due = model_is_due(store, settings)
    if due and settings.model is not None:
        refit_model(store, settings.model)
    changed = changed_polls(store)
    for poll in changed:
        find_communities(store, poll)
    return due or bool(changed)


def refit_model(store: Store, path: str) -> int:
    """Fit the model to its data and all lists that were sent, write a new version, and say so in the file."""
    model = load(path)
    rows = store.rows("SELECT * FROM answers WHERE poll = ? ORDER BY seq", MODEL)
    said = {row["person"]: json.loads(row["said"]) for row in rows}
    _log.info("fitting the model to its data and the lists of %d people", len(said))
    known = model.rankings_
    made = model.clone().fit(joined(known, _lists(said, known)), verbose=False)
    folder = Path(f"{store.path}.models")
    folder.mkdir(mode=0o700, exist_ok=True)  # the models hold people's lists
    seq = int(rows[-1]["seq"])
    target = folder / f"{seq:012d}.permrank"
    made.save(target)
    target.chmod(0o600)
    note = f"{len(said)} people"

    def tell(db: sqlite3.Connection) -> int:
        return int(db.execute(
            "INSERT INTO model_versions (path, created, seq, note) VALUES (?, ?, ?, ?)",
            (str(target.absolute()), time.time(), seq, note),
        ).lastrowid or 0)  # fmt: skip

    version = int(store.write(tell).result())
    for old in sorted(folder.glob("*.permrank"))[:-_KEPT]:
        old.unlink()
    return version


def _lists(said: dict[str, Any], known: Rankings) -> Rankings:
    """What people sent, with ids as the model's data have them."""
    users = {name: int(name) if known.user_ids.is_integer else name for name in said}
    items = known.item_ids
    if known.ratings is not None:
        rows = [(users[name], items[items.find(_own(item, items))], value) for name, one in said.items()
                for item, value in one.items()]  # fmt: skip
        who, what, rating = zip(*rows, strict=True)
        return Rankings.from_ratings({"user": list(who), "item": list(what), "rating": list(rating)})
    lists = [
        [
            {items[items.find(_own(item, items))] for item in (tier if isinstance(tier, list) else [tier])}
            for tier in one
        ]
        for one in said.values()
    ]
    return Rankings.from_lists(lists, users=list(users.values()), unlisted="ignore")


def _own(item: Any, items: Any) -> Any:
    """An id of the model, of which a JSON object has only the text."""
    return int(item) if items.is_integer and isinstance(item, str) and item.lstrip("-").isdigit() else item


# Tastes


def find_communities(store: Store, poll: str) -> None:
    """Look for tastes among the rankings of a poll, and keep what was found."""
    ballots = Ballots.of(store.rows("SELECT * FROM answers WHERE poll = ? ORDER BY seq", poll))
    found = json.dumps(communities_of(ballots, [item["id"] for item in items_of(store, poll)]))
    row = (poll, ballots.seq, found, time.time())
    store.write(lambda db: db.execute("INSERT OR REPLACE INTO communities VALUES (?, ?, ?, ?)", row)).result()


def communities_of(ballots: Ballots, ids: list[str]) -> list[dict[str, Any]]:
    """Tastes, largest first: share and the items that set each apart; none where one taste explains people as well."""
    lists = [person.ranking for person in ballots.people.values() if person.ranking and len(person.ranking) > 2]
    if len(lists) < FEWEST:
        return []
    rankings = Rankings.from_lists(
        [[tier if len(tier) > 1 else tier[0] for tier in tiers] for tiers in lists],
        users=list(range(len(lists))), items=ids, unlisted="ignore",
    )  # fmt: skip
    model = LatentPlackettLuce(n_starts=2)
    numbers = range(1, _MOST_COMMUNITIES + 1)
    choice = choose_communities(model, rankings, numbers, folds=3)
    if choice.smallest == 1:
        return []
    made = model.clone().set_params(n_communities=choice.smallest).fit(rankings, verbose=False)
    assert isinstance(made, LatentPlackettLuce)
    frame = made.communities(n_items=3, n_users=0)
    return [{"share": row["size"], "items": row["items"]} for row in frame.iter_rows(named=True)]


if __name__ == "__main__":
    main()
