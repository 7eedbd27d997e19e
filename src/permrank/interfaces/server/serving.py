"""The model that is served: loaded and asked in one thread, questions that wait together answered together."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import permrank as pr
from permrank.interfaces.server.bodies import Someone
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.turns import T, Turns
from permrank.interfaces.server.versions import base_of, file_of, newest
from permrank.types import Named, UserId

_log = logging.getLogger("permrank.serve")
_TOGETHER = 64
# The model takes turns with the polls under this name.
_TURN = "model"
Found = list[Named]
_Waiting = tuple[pr.Person, int, set[int], "asyncio.Future[Found]"]


class Version(NamedTuple):
    """A loaded model, which one it is, and how old; titles of its items as they are, and as they are searched."""

    number: int
    model: pr.Ranker
    created: float
    ids: list[UserId]
    titles: list[str]
    names: list[str]
    places: dict[object, int]


class Serving:
    """One model at a time; a newer version takes its place between two questions."""

    def __init__(self, store: Store, turns: Turns, path: str | None) -> None:
        self.store, self.turns, self.path = store, turns, path
        self.base = "" if path is None else base_of(path)
        self.version: Version | None = None
        self._waiting: list[_Waiting] = []
        self._busy = False

    # Versions

    def load_newest(self) -> None:
        """Load the newest version of the file that is served, in the thread of numbers, and warm up by a question."""
        if self.path is None:
            return
        row, path = newest(self.store, self.base), Path(self.path)
        number, created = (0, path.stat().st_mtime) if row is None else (row.number, row.created)
        if self.version is not None and self.version.number == number:
            return
        if row is not None and file_of(self.store, number).exists():
            path = file_of(self.store, number)
        made = loaded(number, str(path), created)
        warm_up(made)
        self.version = made  # one assignment: who asks meanwhile has the old one or the new one, whole
        _log.info("model version %d is served", number)

    @property
    def current(self) -> Version:
        """The version that is served; without one a problem."""
        if self.version is None:
            raise Problem(404, "no model is served here", remedy="start with 'permrank serve MODEL'")
        return self.version

    # People

    async def someone(self, version: Version, who: Someone, *, light: bool) -> pr.Person:
        """Who a question is about, worked out in the thread of numbers where there is something to work out."""
        by_order = version.model.fitted_.finds_by_order
        if light and not by_order and who.ranking and who.person is None and who.ratings is None:
            return self.reference(version, who, light=True)
        return await self.run(functools.partial(self.reference, version, who, light=light))

    def reference(self, version: Version, who: Someone, *, light: bool) -> pr.Person:
        """Who a question is about; ``light`` leaves out what only questions of order need."""
        given = [name for name in ("person", "ranking", "ratings") if getattr(who, name) is not None]
        model = version.model
        if len(given) > 1:
            raise Problem(422, f"{' and '.join(given)} are given", field=given[1], remedy="give one of them")
        said: Any = who.ranking if who.ratings is None else who.ratings
        if who.person is not None:
            person = person_id(model, who.person)
            said = self._said(person)
            if said is None:
                return model.person(person)
        if said is None:
            if model.knows_nobody:
                return model.person(None)
            raise Problem(
                422, "nothing says who this is about", field="person", remedy="give person, ranking or ratings"
            )
        if isinstance(said, dict):
            return model.fold_in({id_of(version, item, "ratings"): one for item, one in said.items()})
        tiers = [[place_of(version, item, "ranking") for item in _tier(entry)] for entry in said]
        return folded(version, tiers, light=light)

    def _said(self, person: str | int) -> Any:
        """The last list, or ratings, that were sent for a person and this model; None without."""
        query = "SELECT said FROM lists WHERE person = ? AND base = ? ORDER BY seq DESC LIMIT 1"
        row = self.store.row(query, str(person), self.base)
        return None if row is None else json.loads(row["said"])

    # Questions

    async def run(self, work: Callable[[], T]) -> T:
        """Work with the model, in the thread of numbers."""
        return await self.turns.run(_TURN, work)

    async def recommend(self, who: pr.Person, k: int, exclude: set[int]) -> Found:
        """The best k for somebody: questions that arrive while others are answered are answered at one go."""
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.append((who, k, exclude, future))
        if not self._busy:
            self._busy = True
            nobody = contextvars.Context()  # a batch is not the first asker's, who may go away
            asyncio.get_running_loop().create_task(self._answer_all(), context=nobody)
        return await future

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
                version = self.current
                try:
                    found = await self.run(functools.partial(recommended, version, batch))
                except Exception as error:  # told to everybody who waits for this batch
                    for *_, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for (*_, future), one in zip(batch, found, strict=True):
                    if not future.done():
                        future.set_result(one)
        finally:
            self._busy = False

    def search(self, text: str, limit: int, after: int) -> tuple[Found, int | None]:
        """Items whose title holds a text, those that begin with it first; and where to go on."""
        version, wanted = self.current, text.strip().casefold()
        hits = [(not name.startswith(wanted), at) for at, name in enumerate(version.names) if wanted in name]
        page = [at for _, at in sorted(hits)][after : after + limit]
        more = after + limit if len(hits) > after + limit else None
        return [{"item": version.ids[at], "title": version.titles[at]} for at in page], more


def loaded(number: int, path: str, created: float) -> Version:
    """A version from its file."""
    model = pr.load(path)
    ids, titles = list(model.item_ids), [model.item_ids.called(at) for at in range(len(model.item_ids))]
    places: dict[object, int] = {}
    for at, title in enumerate(titles):
        places.setdefault(title, at)
    places |= {str(name): at for at, name in enumerate(ids)} | {name: at for at, name in enumerate(ids)}
    return Version(number, model, created, ids, titles, [title.casefold() for title in titles], places)


def warm_up(version: Version) -> None:
    """Ask once, so that the first caller waits for no compilation."""
    someone = folded(version, [[0]], light=True)
    recommended(version, [(someone, 1, set(), None)])  # type: ignore[list-item]


def folded(version: Version, tiers: list[list[int]], *, light: bool) -> pr.Person:
    """Somebody new by a list of indices; by the quick way where `recommend` goes by what is listed alone."""
    flat = [item for tier in tiers for item in tier]
    require_once(version, flat, "ranking")
    if light and flat and not version.model.fitted_.finds_by_order:
        return version.model.fitted_.newcomer(np.array(flat), np.repeat(np.arange(len(tiers)), [*map(len, tiers)]))
    return version.model.fold_in(
        [{version.ids[item] for item in tier} if len(tier) > 1 else version.ids[tier[0]] for tier in tiers]
    )


def recommended(version: Version, batch: Sequence[_Waiting]) -> list[Found]:
    """The best items of several people at one go."""
    k = max(wanted + len(exclude) for _, wanted, exclude, _ in batch)
    lengths, items, scores = version.model.fitted_.best([person for person, *_ in batch], k)
    found, start = [], 0
    for length, (_, wanted, exclude, _) in zip(lengths.tolist(), batch, strict=True):
        part = zip(items[start : start + length].tolist(), scores[start : start + length].tolist(), strict=True)
        kept = [(at, score) for at, score in part if at not in exclude][:wanted]
        found.append(
            [
                {"rank": rank, "item": version.ids[at], "title": version.titles[at], "score": score}
                for rank, (at, score) in enumerate(kept, 1)
            ]
        )
        start += length
    return found


def place_of(version: Version, item: object, field: str) -> int:
    """Index of an item by id or title; an unknown one is a problem that names it."""
    found = version.places.get(item)
    if found is None:
        try:
            return version.model.item_ids.find(item)
        except Exception as error:
            raise Problem(404, str(error), field=field, remedy="see /v1/model/items?search=...") from error
    return found


def id_of(version: Version, item: object, field: str) -> UserId:
    """The id of an item by id or title."""
    return version.ids[place_of(version, item, field)]


def require_once(version: Version, places: Sequence[int], field: str) -> None:
    """Refuse an item that comes twice, once by its id and once by its title perhaps."""
    if len(set(places)) < len(places):
        twice = next(item for at, item in enumerate(places) if item in places[:at])
        raise Problem(422, f"{version.ids[twice]!r} comes twice", field=field, remedy="name every item once")


def _tier(entry: object) -> list[object]:
    return entry if isinstance(entry, list) else [entry]


def person_id(model: pr.Ranker, person: str | int) -> str | int:
    """An id of a person in the type of the model's ids, or a problem."""
    if not model.user_ids.is_integer:
        return str(person)
    try:
        return int(person)
    except ValueError as error:
        raise Problem(
            404, f"unknown user {person!r}", field="person", remedy="give an id as the model has them: a whole number"
        ) from error


def age(version: Version) -> float:
    """Seconds since a version was made."""
    return max(0.0, time.time() - version.created)
