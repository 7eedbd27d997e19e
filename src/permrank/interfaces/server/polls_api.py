"""``/v1/polls``: polls, people, answers, questions, results, exports."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import StreamingResponse

from permrank.interfaces.server import polls as work
from permrank.interfaces.server.access import Caller, Key, make_key
from permrank.interfaces.server.bodies import NewAnswers, NewKey, NewPerson, NewPoll, PollChange, ProblemDocument
from permrank.interfaces.server.connections import network_of_caller
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import Ballots, Person, ranking_lines, rankings_of
from permrank.interfaces.server.state import Holders, State, state_of
from permrank.interfaces.server.store import Job
from permrank.types import Named

ERRORS: dict[int | str, Named] = {
    status: {"model": ProblemDocument, "content": {"application/problem+json": {}}}
    for status in (400, 401, 403, 404, 409, 413, 422, 429, 503, 507)
}
PENDING: dict[int | str, Named] = {202: {"description": "Erased for all who ask, and not yet in the files"}}
router = APIRouter(prefix="/v1", tags=["polls"], responses=ERRORS)
Poll = Annotated[str, PathParameter(max_length=64, pattern=r"^[a-z0-9-]+$")]
Token = Annotated[str, PathParameter(max_length=64, pattern=r"^[a-z0-9-]+$")]
After = Annotated[str, Query(max_length=64, description="Go on after this one.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]


def caller_of(request: Request) -> Caller:
    """Who calls; a parameter of the API that there is not, a slip of the pen perhaps, is refused."""
    who = state_of(request).door(request)
    if request.url.path.startswith("/v1/"):
        known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
        for name in request.query_params:
            if name not in known:
                raise Problem(422, f"there is no parameter {name!r}", field=name, remedy="see /v1/openapi.json")
    return who


Who = Annotated[Caller, Depends(caller_of)]
All = Annotated[State, Depends(state_of)]


async def erased(state: State, response: Response, what: str, job: Job[work.Erasure]) -> Named:
    """What is said of an erasure: 200 once it is in no file any more, 202 while that is pending."""
    gone = await state.written(job)
    pending = not await state.eraser.is_done(gone.seq)
    response.status_code = 202 if pending else 200
    return {"erased": what, "answers": gone.answers, "pending": pending}


def _page(name: str, rows: list[sqlite3.Row], limit: int) -> Named:
    """Some of the rows, of which there may be one more, and where to go on."""
    return {name: [dict(row) for row in rows[:limit]], "next": rows[limit - 1]["id"] if len(rows) > limit else None}


@router.post("/polls", status_code=201, summary="Make a poll")
async def create(body: NewPoll, who: Who, state: All) -> Named:
    """Make a poll; gives its keys, which are shown once."""
    who.require("admin")

    def job(db: sqlite3.Connection) -> Named:
        poll = work.create_poll(db, body)
        return {"id": poll, "keys": {role: make_key(db, role, poll) for role in ("vote", "read", "admin")}}

    return await state.written(job)


@router.get("/polls", summary="List the polls")
async def index(who: Who, state: All, after: After = "", limit: Limit = 100) -> Named:
    """Polls by id."""
    who.require("admin")
    rows = state.store.rows("SELECT * FROM polls WHERE id > ? ORDER BY id LIMIT ?", after, limit + 1)
    return _page("polls", rows, limit)


@router.get("/polls/{poll}", summary="Title and items")
async def show(poll: Poll, who: Who, state: All) -> Named:
    """What the poll asks, and who the caller is in it."""
    who.require("read", poll)
    row = dict(work.require_poll(state.store, poll))
    person = who.person(poll)
    name = state.store.row("SELECT name FROM people WHERE poll = ? AND id = ?", poll, person or "")
    return row | {
        "items": work.items_of(state.store, poll), "person": person, "name": name["name"] if name else None,
        "may": [right for right in ("admin", "vote", "read") if who.may(right, poll)],
    }  # fmt: skip


@router.patch("/polls/{poll}", summary="Change, close or open a poll")
async def change(poll: Poll, body: PollChange, who: Who, state: All) -> Named:
    """Change what is given."""
    who.require("admin", poll)
    work.require_poll(state.store, poll)
    await state.written(lambda db: work.change_poll(db, poll, body))
    return dict(work.require_poll(state.store, poll))


@router.delete("/polls/{poll}", summary="Delete a poll and all its answers", responses=PENDING)
async def delete(poll: Poll, who: Who, state: All, response: Response) -> Named:
    """There is no way back."""
    who.require("admin", poll)
    return await erased(state, response, poll, lambda db: work.delete_poll(db, poll))


# Keys and people


@router.post("/polls/{poll}/keys", status_code=201, summary="Make a key")
async def new_key(poll: Poll, body: NewKey, who: Who, state: All) -> Named:
    """A key to vote, read or administer, or one of a person; it is shown once."""
    who.require("admin", poll)
    work.require_poll(state.store, poll)

    def job(db: sqlite3.Connection) -> Named:
        work.require_there(db, poll)
        person = None
        if body.role == "person":
            if body.name is None:
                raise Problem(422, "a personal key needs a name", field="name", remedy="give the person's name")
            person = work.person_named(db, poll, body.name)
        return {"key": make_key(db, body.role, poll, person, body.label), "role": body.role, "person": person}

    return await state.written(job)


@router.get("/polls/{poll}/keys", summary="List the keys")
async def keys(poll: Poll, who: Who, state: All, after: After = "", limit: Limit = 100) -> Named:
    """Ids and roles; the keys themselves are not kept."""
    who.require("admin", poll)
    found = state.store.rows(
        "SELECT id, role, person, label, created, revoked FROM keys WHERE poll = ? AND id > ? ORDER BY id LIMIT ?",
        poll, after, limit + 1,
    )  # fmt: skip
    return _page("keys", found, limit)


@router.delete("/polls/{poll}/keys/{key}", status_code=204, summary="Revoke a key")
async def revoke(poll: Poll, key: Token, who: Who, state: All) -> None:
    """It is of no use from now on."""
    who.require("admin", poll)

    def job(db: sqlite3.Connection) -> None:
        done = db.execute("UPDATE keys SET revoked = ? WHERE id = ? AND poll = ?", (time.time(), key, poll))
        if not done.rowcount:
            raise Problem(404, f"there is no key {key!r} of this poll", field="key", remedy="list the poll's keys")

    await state.written(job)


@router.post("/polls/{poll}/people", status_code=201, summary="Take part")
async def join(poll: Poll, body: NewPerson, who: Who, state: All, response: Response, request: Request) -> Named:
    """Somebody new, with a key of their own; a browser keeps it as a cookie and is not shown it."""
    who.require("vote", poll)
    if who.person(poll) is not None:
        raise Problem(409, "you take part already", remedy="send answers; a new ranking takes the place of the old one")
    person, key = await state.written(lambda db: work.add_person(db, poll, body.name))
    if "origin" in request.headers or "sec-fetch-site" in request.headers:
        state.door.keep_key(response, key, Key("", "person", poll, person))
        return {"person": person, "name": body.name}
    return {"person": person, "name": body.name, "key": key}


@router.get("/polls/{poll}/people", summary="Who takes part")
async def people(poll: Poll, who: Who, state: All, after: After = "", limit: Limit = 100) -> Named:
    """People, and how many answers each has given."""
    who.require("admin", poll)
    found = state.store.rows(
        "SELECT p.id, p.name, p.created, count(a.seq) AS answers, max(a.at) AS latest FROM people p "
        "LEFT JOIN answers a ON a.person = p.id AND a.poll = p.poll WHERE p.poll = ? AND p.id > ? "
        "GROUP BY p.id ORDER BY p.id LIMIT ?",
        poll, after, limit + 1,
    )  # fmt: skip
    return _page("people", found, limit)


@router.delete("/polls/{poll}/people/{person}", summary="Erase a person", responses=PENDING)
async def erase(poll: Poll, person: Token, who: Who, state: All, response: Response) -> Named:
    """Remove all that a person has said, with name and keys, from the file; the person, or an admin, may ask for it."""
    if person == "me":
        person = who.person(poll) or ""
    if not (person and who.person(poll) == person):
        who.require("admin", poll)
    return await erased(state, response, person, lambda db: work.erase_person(db, poll, person))


# Answers


@router.post("/polls/{poll}/answers", status_code=201, summary="Send answers")
async def answer(
    poll: Poll, body: NewAnswers, who: Who, state: All,
    idempotency_key: Annotated[str | None, Header(max_length=90, pattern=r"^[\x21-\x7e]+$")] = None,
) -> Named:  # fmt: skip
    """Store answers; once this has answered they are on the disk. The same key again stores nothing twice."""
    who.require("vote", poll)
    person = who.person(poll)
    if body.person is not None:
        who.require("admin", poll)
    elif person is None:
        raise Problem(
            409, "nobody has given these answers", field="person",
            remedy=f"take part first: POST /v1/polls/{poll}/people, and send the key that it gives",
        )  # fmt: skip
    work.require_poll(state.store, poll)
    known = state.item_ids(poll)
    rows: list[tuple[str, str, str, str | None]] = []
    for at, one in enumerate(body.answers):
        key = one.key or (None if idempotency_key is None else f"{idempotency_key}/{at}")
        said = work.what_was_said(one, known, f"answers.{at}")
        rows.append((*said, json.dumps(one.shown, ensure_ascii=False), key))

    digest = hashlib.sha256(json.dumps([body.person, rows]).encode()).digest()

    def job(db: sqlite3.Connection) -> list[tuple[int, bool]]:
        whose = str(person) if body.person is None else work.person_named(db, poll, body.person)
        stored = work.add_answers(db, poll, whose, rows)
        if idempotency_key is not None:
            work.require_same(db, poll, "" if body.person else whose, whose, (idempotency_key, digest))
        return stored

    stored = await state.written(job)
    return {"answers": [{"seq": seq, "again": again} for seq, again in stored]}


@router.get("/polls/{poll}/answers", summary="All answers, as they were given")
async def answers(
    poll: Poll, who: Who, state: All, after: Annotated[int, Query(ge=0, le=2**62)] = 0, limit: Limit = 100
) -> Named:
    """The history, corrections and all; by number."""
    who.require("admin", poll)
    rows = state.store.rows(
        "SELECT seq, person, kind, said, shown, at FROM answers WHERE poll = ? AND seq > ? ORDER BY seq LIMIT ?",
        poll, after, limit + 1,
    )  # fmt: skip
    found = [dict(row) | {"said": json.loads(row["said"]), "shown": json.loads(row["shown"])} for row in rows[:limit]]
    return {"answers": found, "next": found[-1]["seq"] if len(rows) > limit else None}


@router.get("/polls/{poll}/answers/mine", summary="What counts of the caller's answers")
async def mine(poll: Poll, who: Who, state: All) -> Named:
    """The last ranking of the caller, or null."""
    who.require("read", poll)
    row = state.store.row(
        "SELECT said FROM answers WHERE poll = ? AND person = ? AND kind IN ('list', 'tiers') "
        "ORDER BY seq DESC LIMIT 1",
        poll, who.person(poll) or "",
    )  # fmt: skip
    return {"ranking": None if row is None else json.loads(row["said"])}


# What follows from them


@router.get("/polls/{poll}/question", summary="The next question")
async def ask(poll: Poll, who: Who, state: All, kind: Literal["pair", "best_worst"] = "pair") -> Named:
    """The question that tells most about the caller's order, the order so far, and whether it is enough."""
    who.require("vote", poll)
    row = work.require_poll(state.store, poll)
    return await state.polls.question(poll, who.person(poll), kind, hidden=not is_shown(row, who, state))


@router.get("/polls/{poll}/result", summary="What the group thinks")
async def result(
    poll: Poll, who: Who, state: All, if_none_match: Annotated[str | None, Header(max_length=200)] = None
) -> Any:
    """The order of the group: probabilities, intervals of ranks, tie groups, close pairs, cycles and tastes."""
    who.require("read", poll)
    row = work.require_poll(state.store, poll)
    require_shown(row, who, state)
    person = who.person(poll)
    tastes = state.store.row("SELECT seq, found FROM communities WHERE poll = ?", poll)

    def etag(of: tuple[int, int]) -> str:
        parts = *of, row["state"], tastes["seq"] if tastes else 0, person or 0
        return '"' + "-".join(map(str, parts)) + '"'

    headers = {"ETag": etag(state.polls.state(poll)), "Cache-Control": "private, no-cache"}
    if if_none_match == headers["ETag"]:  # nothing was said since
        return Response(status_code=304, headers=headers)
    of, ballots, group = await state.polls.result(poll)
    headers["ETag"] = etag(of)
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    own = ballots.people.get(person or "", Person())
    head = {
        "poll": poll, "title": row["title"], "state": row["state"], "people": group.n_people,
        "answers": group.n_answers, "as_of": group.seq, "age": round(time.time() - group.at, 3),
        "communities": json.loads(tastes["found"]) if tastes else [],
        "communities_as_of": tastes["seq"] if tastes else None,
        "you": await state.turns.run(poll, lambda: group.differences(own), ("you", person)) if own.ranking else None,
    }  # fmt: skip
    text = json.dumps(head, ensure_ascii=False, allow_nan=False)
    return Response(f"{text[:-1]}, {group.text[1:]}", headers=headers, media_type="application/json")


def is_shown(row: sqlite3.Row, who: Caller, state: State) -> bool:
    """Whether the organiser shows the result to a caller yet."""
    if who.may("admin", row["id"]) or row["shows"] == "always" or row["state"] == "closed":
        return True
    if any(key.role == "read" and key.poll == row["id"] for key in who.keys):
        return True
    person = who.person(row["id"])
    voted = person and state.store.row("SELECT 1 FROM answers WHERE poll = ? AND person = ? LIMIT 1", row["id"], person)
    return row["shows"] == "voted" and bool(voted)


def require_shown(row: sqlite3.Row, who: Caller, state: State) -> None:
    """Refuse a result that the organiser does not show yet."""
    if not is_shown(row, who, state):
        when = "when the poll is closed" if row["shows"] == "closed" else "once you have voted"
        raise Problem(403, f"the result is shown {when}", remedy="come back then")


@router.get("/polls/{poll}/events", summary="Changes, as they happen", response_class=StreamingResponse)
async def events(poll: Poll, who: Who, state: All, request: Request) -> StreamingResponse:
    """Server-sent events: a ``change`` with the number of the last answer whenever there is a new one."""
    who.require("read", poll)
    work.require_poll(state.store, poll)
    holders = Holders(poll, network_of_caller(request.scope), who.person(poll))
    state.polls.require_room(holders)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(state.polls.events(holders), media_type="text/event-stream", headers=headers)


@router.get("/polls/{poll}/export", summary="Take the answers away", response_class=Response)
async def export(poll: Poll, who: Who, state: All, format: Literal["jsonl", "preflib"] = "jsonl") -> Response:  # noqa: A002
    """All that counts, as JSON lines with people, or as PrefLib without; permrank reads both to the same result."""
    who.require("admin", poll)
    work.require_poll(state.store, poll)
    names = {row["id"]: row["name"] for row in state.store.rows("SELECT id, name FROM people WHERE poll = ?", poll)}
    ids = [item["id"] for item in work.items_of(state.store, poll)]

    def text() -> str:
        ballots = state.polls.ballots(poll)
        if not any(person.lists() for person in ballots.people.values()):
            raise Problem(409, "nobody has answered yet", remedy="export when there are answers")
        return _json_lines(ballots, ids, names) if format == "jsonl" else _preflib(ballots, ids)

    found = await state.turns.run(poll, text)
    ending, kind = ("jsonl", "application/x-ndjson") if format == "jsonl" else ("toi", "text/plain; charset=utf-8")
    return Response(found, headers={"Content-Disposition": f'attachment; filename="{poll}.{ending}"'}, media_type=kind)


def _json_lines(ballots: Ballots, ids: list[str], names: dict[str, str]) -> str:
    lines: list[Named] = [{"items": ids}]
    for user, tiers, weight in ranking_lines(ballots, len(ids), names):
        weighed = {} if weight == 1.0 else {"weight": weight}
        lines.append({"user": user, "ranking": tiers, **weighed})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _preflib(ballots: Ballots, ids: list[str]) -> str:
    rankings = rankings_of(ballots, ids)
    assert rankings is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "poll.toi"
        rankings.merged().write(path)
        return path.read_text(encoding="utf-8")
