"""Learning while the server runs: lists that are kept of a model's people, new versions of the model, tastes in polls.

A process of its own learns. It is started when there is something to learn (`Learner`), and ends by itself when there
is not: an idle server is the web processes alone. It reads what is new in the file, works for as long as it takes, and
writes one row when it is done; the web processes see the row and change over between two questions.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import permrank as pr
from permrank.errors import InputError
from permrank.interfaces.server.polls import Erasure, items_of, n_erasures, note_erasure
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import Ballots
from permrank.interfaces.server.serving import Version, loaded, person_id, place_of, require_once
from permrank.interfaces.server.settings import ENVIRONMENT, Settings, learner_environment
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.versions import (
    FEWEST,
    Made,
    base_of,
    begin,
    changed_polls,
    end,
    file_of,
    is_wanted,
    model_is_due,
    remove_files,
    something_to_learn,
)
from permrank.types import Named

MODEL = "model"
"""What erasures of the model's people are noted under: no poll is called so."""
Said = tuple[str | int, Any]
"""A person, and a list of tiers or ratings by item."""
_log = logging.getLogger("permrank.serve")
# How often the file is looked at, seconds without work after which the process ends, and after which one is started
# again that has failed.
_LOOK, _PATIENCE, _AGAIN = 2.0, 60.0, 30.0
_MOST_COMMUNITIES = 3


def keep_list(db: sqlite3.Connection, base: str, person: str, said: str, n_erased: int) -> int:
    """Append what a person says; what was on its way while somebody was erased is not stored after it."""
    if n_erasures(db, MODEL) != n_erased:
        raise Problem(409, "somebody was erased meanwhile; nothing was stored", remedy="send it again")
    row = "INSERT INTO lists (base, person, said, at) VALUES (?, ?, ?, ?)"
    return int(db.execute(row, (base, person, said, time.time())).lastrowid or 0)


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
    users, lists = zip(*people, strict=True)
    return pr.Rankings.from_lists(list(lists), users=list(users), unlisted="ignore")


# The process that learns


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
    path, jobs = settings.model, list[Callable[[], object]]()
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
        if n_erasures(db, poll) == n_erased:  # or it says something of people who are erased
            row = "INSERT OR REPLACE INTO communities SELECT id, ?, ?, ? FROM polls WHERE id = ?"
            db.execute(row, (ballots.seq, found, time.time(), poll))  # unless the poll was deleted

    store.write(tell).result()


def communities_of(ballots: Ballots, ids: list[str]) -> list[Named]:
    """Tastes, largest first: share and the items that set each apart; none where one taste explains people as well."""
    lists = [person.ranking for person in ballots.people.values() if person.ranking and len(person.ranking) > 2]
    if len(lists) < FEWEST:
        return []
    rankings = pr.Rankings.from_lists(lists, users=list(range(len(lists))), items=ids, unlisted="ignore")
    model = pr.LatentPlackettLuce(n_starts=2)
    choice = pr.choose_communities(model, rankings, range(1, _MOST_COMMUNITIES + 1), folds=3)
    if choice.smallest == 1:
        return []
    made = pr.LatentPlackettLuce(choice.smallest, n_starts=2).fit(rankings, verbose=False)
    frame = made.communities(n_items=3, n_users=0)
    return [{"share": row["size"], "items": row["items"]} for row in frame.iter_rows(named=True)]


# The thread that starts it


class Learner:
    """A thread that waits until the server answers, then watches the file; a context that ends what it started.

    ready: called once, with the seconds that it took, when connections are let in.
    """

    def __init__(self, settings: Settings, ready: Callable[[float], None]) -> None:
        self.settings, self._ready = settings, ready
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="permrank-learner", daemon=True)

    def __enter__(self) -> Learner:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(timeout=_LOOK)
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:  # in the middle of a fit, which is lost in any case
            process.kill()

    def _watch(self) -> None:
        began = time.perf_counter()
        while not _lets_in(self.settings):
            if self._ended.wait(0.05):
                return
        self._ready(time.perf_counter() - began)
        store, pause = Store(self.settings.db), _LOOK
        while not self._ended.wait(pause):
            pause = _LOOK
            if self._process is not None:
                code = self._process.poll()
                pause = _AGAIN if code else _LOOK  # the log says why it failed; the version before goes on
                self._process = None if code is not None else self._process
            elif self._is_needed(store):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "permrank.interfaces.server.learning"], env=learner_environment()
                )
        store.close()

    def _is_needed(self, store: Store) -> bool:
        try:
            return something_to_learn(store, self.settings)
        except Exception:  # a model file that is being replaced, a locked database: learning goes on afterwards
            _log.exception("whether there is something to learn cannot be found out; it is looked again")
            return False


def _lets_in(settings: Settings) -> bool:
    """Whether a web process takes connections, which it does when it is ready."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    try:
        socket.create_connection((host.strip("[]"), settings.port), timeout=1.0).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
