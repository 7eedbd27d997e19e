"""A process of its own that learns again: new versions of the model, and the tastes of polls.

It is started when there is something to learn (`learner`), and ends by itself when there is not: an idle server is the
web processes alone. It reads what is new in the file, works for as long as it takes, and writes one row when it is
done; the web processes see the row and change over between two questions. The version before stays on the disk.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sqlite3
import time
import warnings
from collections.abc import Callable
from typing import Any

import permrank as pr
from permrank.interfaces.server.ballots import Ballots
from permrank.interfaces.server.due import FEWEST, changed_polls, model_is_due
from permrank.interfaces.server.lists import usable_lists
from permrank.interfaces.server.polls import items_of, n_erasures
from permrank.interfaces.server.serving import loaded
from permrank.interfaces.server.settings import ENVIRONMENT, Settings
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.versions import Made, base_of, begin, end, file_of, is_wanted, remove_files

_log = logging.getLogger("permrank.serve.refit")
# How often the file is looked at, and seconds without work after which the process ends.
_LOOK, _PATIENCE = 2.0, 60.0
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
    """Fit the model again if it is time, and look for tastes in polls that have changed; whether there was anything.

    What fails keeps nothing else from being learnt; it ends the process afterwards, and is tried again by another.
    """
    path, jobs = settings.model, list[Callable[[], Any]]()
    jobs += [functools.partial(find_communities, store, poll) for poll in changed_polls(store)]
    if path is not None and model_is_due(store, settings):
        jobs.append(functools.partial(refit_model, store, path))
    errors = []
    for job in jobs:
        try:
            job()
        except Exception as error:  # whatever a fit raises
            _log.exception("learning has failed; what was there before goes on")
            errors.append(error)
    if errors:
        raise SystemExit(1) from errors[0]
    return bool(jobs)


def refit_model(store: Store, path: str) -> int | None:
    """Fit the model to its data and all lists that were sent for it, and have it served; gives the new version.

    None if somebody was erased meanwhile: it is then due again, without that person.
    """
    base = base_of(path)
    begun: Made = store.write(lambda db: begin(db, base)).result()
    rows = store.rows("SELECT seq, person, said FROM lists WHERE base = ? AND seq <= ? ORDER BY seq", base, begun.seq)
    first = loaded(0, path, begun.created)
    lists = usable_lists(first, rows)
    if lists is not None:
        _log.info("fitting the model to its data and the lists of %d people", lists.n_users)
        made = first.model.clone().fit(first.model.rankings_.joined(lists), verbose=False)
        if not is_wanted(store, begun.number):
            return None
        target = file_of(store, begun.number)
        target.parent.mkdir(mode=0o700, exist_ok=True)  # the models hold people's lists
        made.save(target)
        target.chmod(0o600)
    ended = store.write(lambda db: end(db, base, begun.number)).result()
    remove_files(store)
    return begun.number if ended else None


# Tastes


def find_communities(store: Store, poll: str) -> None:
    """Look for tastes among the rankings of a poll, and keep what was found."""
    n_erased = n_erasures(store.reader, poll)
    ballots = Ballots.of(store.rows("SELECT * FROM answers WHERE poll = ? ORDER BY seq", poll))
    found = json.dumps(communities_of(ballots, [item["id"] for item in items_of(store, poll)]))

    def tell(db: sqlite3.Connection) -> None:
        there = db.execute("SELECT 1 FROM polls WHERE id = ?", (poll,)).fetchone() is not None
        if there and n_erasures(db, poll) == n_erased:  # or it says something of people who are erased
            db.execute(
                "INSERT OR REPLACE INTO communities VALUES (?, ?, ?, ?)", (poll, ballots.seq, found, time.time())
            )

    store.write(tell).result()


def communities_of(ballots: Ballots, ids: list[str]) -> list[dict[str, Any]]:
    """Tastes, largest first: share and the items that set each apart; none where one taste explains people as well."""
    lists = [person.ranking for person in ballots.people.values() if person.ranking and len(person.ranking) > 2]
    if len(lists) < FEWEST:
        return []
    rankings = pr.Rankings.from_lists(
        [[tier if len(tier) > 1 else tier[0] for tier in tiers] for tiers in lists],
        users=list(range(len(lists))), items=ids, unlisted="ignore",
    )  # fmt: skip
    model = pr.LatentPlackettLuce(n_starts=2)
    numbers = range(1, _MOST_COMMUNITIES + 1)
    choice = pr.choose_communities(model, rankings, numbers, folds=3)
    if choice.smallest == 1:
        return []
    made = model.clone().set_params(n_communities=choice.smallest).fit(rankings, verbose=False)
    assert isinstance(made, pr.LatentPlackettLuce)
    frame = made.communities(n_items=3, n_users=0)
    return [{"share": row["size"], "items": row["items"]} for row in frame.iter_rows(named=True)]


if __name__ == "__main__":
    main()
