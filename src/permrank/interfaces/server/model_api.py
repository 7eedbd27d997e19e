"""``/v1/model``: questions to the model, about known people or about a list in the request, which is not kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter

import permrank as pr
from permrank.errors import NotSupportedError
from permrank.interfaces.server.access import Caller, Right
from permrank.interfaces.server.bodies import (
    Explain,
    PersonList,
    Prefers,
    Rank,
    Recommend,
    RecommendMany,
    Someone,
)
from permrank.interfaces.server.learning import MODEL, Said, erase_lists, keep_list, usable_list
from permrank.interfaces.server.polls import n_erasures
from permrank.interfaces.server.polls_api import ERRORS, PENDING, All, Limit, Who, erased
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.serving import Version, age, id_of, person_id, place_of
from permrank.interfaces.server.state import State
from permrank.interfaces.server.turns import T
from permrank.types import Named

router = APIRouter(prefix="/v1/model", tags=["model"], responses=ERRORS)
Person = Annotated[str, PathParameter(min_length=1, max_length=200)]


def _opened(who: Caller, state: State, right: Right = "model") -> Version:
    who.require(right)
    return state.serving.current


def _stamp(version: Version) -> Named:
    return {"version": version.number, "age": round(age(version), 1)}


@router.get("", summary="Which model")
async def about(who: Who, state: All) -> Named:
    """The kind of the model, its size, its version and its age in seconds."""
    version = _opened(who, state)
    known = version.model.rankings_
    people = int(known.weights.sum()) if known.anonymous else known.n_users
    return {
        "model": type(version.model).__name__, "items": len(version.ids), "people": people,
        "takes": "rankings" if known.ratings is None else "ratings", **_stamp(version),
    }  # fmt: skip


@router.get("/items", summary="Search the items")
async def items(
    who: Who, state: All, search: Annotated[str, Query(max_length=100)] = "", limit: Limit = 20,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Named:  # fmt: skip
    """Items whose title holds a text; those that begin with it come first."""
    _opened(who, state)
    found, more = state.serving.search(search, limit, after)
    return {"items": found, "next": more}


@router.post("/recommend", summary="What would they choose next?")
async def recommend(body: Recommend, who: Who, state: All) -> Named:
    """The best k items that the person has not listed."""
    version = _opened(who, state)
    someone = await state.serving.someone(version, body, light=True)
    exclude = {place_of(version, item, "exclude") for item in body.exclude}
    found = await state.serving.recommend(someone, body.k, exclude)
    if body.reasons:
        sentences = await state.serving.run(lambda: [_because(someone, one) for one in found])
        found = [one | {"because": text} for one, text in zip(found, sentences, strict=True)]
    return {"items": found, **_stamp(version)}


def _because(someone: pr.Person, one: Named) -> str | None:
    """Why an item is recommended, without its name; None where the model gives no reasons."""
    try:
        return someone.because(one["item"]).removeprefix(f"{one['title']}: ")
    except NotSupportedError:
        return None


@router.post("/recommend/batch", summary="The same for many people")
async def recommend_many(body: RecommendMany, who: Who, state: All) -> Named:
    """The best k for each of several people, in their order."""
    version = _opened(who, state)
    people = [await state.serving.someone(version, one, light=True) for one in body.people]
    found = await asyncio.gather(*(state.serving.recommend(one, body.k, set()) for one in people))
    return {"people": found, **_stamp(version)}


async def _asked(state: State, version: Version, body: Someone, question: Callable[[pr.Person], T]) -> T:
    """A question about somebody, in the thread of numbers."""
    return await state.serving.run(lambda: question(state.serving.reference(version, body, light=False)))


@router.post("/rank", summary="In which order?")
async def rank(body: Rank, who: Who, state: All) -> Named:
    """The given items, best first, with the probability to be among the best and, if asked for, intervals of ranks."""
    version = _opened(who, state)
    chosen = [id_of(version, item, "items") for item in body.items]
    frame = await _asked(state, version, body, lambda person: person.rank(chosen, interval=body.interval))
    return {"items": frame.to_dicts(), **_stamp(version)}


@router.post("/prefers", summary="Which of two?")
async def prefers(body: Prefers, who: Who, state: All) -> Named:
    """The probability that the first of each pair is put before the second."""
    version = _opened(who, state)
    pairs = [[id_of(version, item, f"pairs.{at}") for item in pair] for at, pair in enumerate(body.pairs)]
    found = await _asked(state, version, body, lambda person: [person.prefers(*pair) for pair in pairs])
    return {"probabilities": found, **_stamp(version)}


@router.post("/explain", summary="Why?")
async def explain(body: Explain, who: Who, state: All) -> Named:
    """What speaks for an item, in a sentence and as parts that add up to its score."""
    version = _opened(who, state)
    item = id_of(version, body.item, "item")

    def question(person: pr.Person) -> Named:
        return {"because": person.because(item), "reasons": person.explain(item).to_dicts()}

    return await _asked(state, version, body, question) | _stamp(version)


@router.get("/similar/{item}", summary="What is like it?")
async def similar(item: Person, who: Who, state: All, k: Annotated[int, Query(ge=1, le=1_000)] = 10) -> Named:
    """Items that the same people like."""
    version = _opened(who, state)
    name = id_of(version, item, "item")
    frame = await state.serving.run(lambda: version.model.similar_items(name, k))
    return {"items": frame.to_dicts(), **_stamp(version)}


@router.put("/people/{person}", summary="Keep what a person says")
async def keep(person: Person, body: PersonList, who: Who, state: All) -> Named:
    """Store a list or ratings of a person: answers about the person follow it at once, and the model learns from it."""
    version = _opened(who, state, "lists")
    if (body.ranking is None) == (body.ratings is None):
        raise Problem(422, "a list or ratings are needed", field="ranking", remedy="send one of them")
    n_erased = n_erasures(state.store.reader, MODEL)

    def check() -> Said:
        found = usable_list(version, person, body.ratings if body.ranking is None else body.ranking)
        state.serving.reference(version, Someone(ranking=body.ranking, ratings=body.ratings), light=False)
        return found

    name, said = await state.serving.run(check)
    text = json.dumps(said, ensure_ascii=False)
    base = state.serving.base
    seq = await state.written(lambda db: keep_list(db, base, str(name), text, n_erased))
    return {"person": person, "seq": seq}


@router.delete("/people/{person}", summary="Erase what a person has said", responses=PENDING)
async def erase(person: Person, who: Who, state: All, response: Response) -> Named:
    """Remove what was kept of a person, and the versions of the model that may have learnt from it.

    Data of the model that was served at first stay in its file.
    """
    version = _opened(who, state, "lists")
    name = str(person_id(version.model, person))
    return await erased(state, response, person, lambda db: erase_lists(db, name))
