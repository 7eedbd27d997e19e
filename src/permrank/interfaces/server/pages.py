"""The pages: templates that escape all they show, one style sheet, and small modules of our own."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import jinja2
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from permrank.interfaces.server.access import SESSION, Caller, Key
from permrank.interfaces.server.polls import require_poll
from permrank.interfaces.server.polls_api import All, Poll, Who, require_shown
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.state import State

router = APIRouter(include_in_schema=False)
_HERE = "permrank.interfaces.server"


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(_HERE, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class CachedFiles(StaticFiles):
    """Our own files, which browsers ask about again."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """A file with an ETag."""
        found = super().file_response(*arguments, **options)
        found.headers["Cache-Control"] = "no-cache"
        return found


def own_files() -> CachedFiles:
    """Style sheet and modules."""
    return CachedFiles(directory=str(files(_HERE) / "static"))


def page(name: str, request: Request, state: State, who: Caller | None = None, **values: Any) -> HTMLResponse:
    """A page, with the token of its session."""
    session = state.door.session(request)
    shown = {
        "token": state.door.token(session), "poll": None, "tab": "", "model": state.settings.model is not None,
        "may_admin": who is not None and who.may("admin"),
        "model_open": state.settings.model is not None and who is not None and who.may("model"),
    }  # fmt: skip
    status = values.pop("status", 200)
    text = _environment().get_template(name).render(shown | values)
    response = HTMLResponse(text, status)
    if request.cookies.get(SESSION) != session:
        state.door.set_cookie(response, SESSION, session)
    return response


@router.get("/")
async def home(request: Request, who: Who, state: All) -> HTMLResponse:
    """What can be done here."""
    polls = []
    for row in state.store.rows("SELECT id, title, state FROM polls ORDER BY created DESC LIMIT 200"):
        if who.is_own or who.holds("read", row["id"]):  # what is open is not listed for everybody
            polls.append(dict(row))
    return page("home.html", request, state, who, polls=polls)


@router.get("/join/{key}")
async def join(key: str, request: Request, state: All) -> Response:
    """A link with a key: kept as a cookie, and gone from the address; asked first if another site may have sent it."""
    found = _linked(key, request, state)
    if not _asks_first(found, request, state):
        response: Response = RedirectResponse(_target(found), 303)
        state.door.keep_key(response, key, found)
        return response
    poll = state.store.row("SELECT title FROM polls WHERE id = ?", found.poll or "")
    return page(
        "join.html", request, state, title="permrank" if poll is None else poll["title"], role=found.role,
        own=_name(state, found), held=_name(state, state.door.held(found, request)), target=_target(found),
    )  # fmt: skip


@router.post("/join/{key}")
async def take(key: str, request: Request, who: Who, state: All) -> Response:
    """What `join` asks first: take the key after all; from a page of this server only."""
    found = _linked(key, request, state)
    response = JSONResponse({"target": _target(found)})
    state.door.keep_key(response, key, found)
    return response


def _linked(key: str, request: Request, state: State) -> Key:
    found = state.door.key_of(key, request)
    if found is None:
        raise Problem(401, "this link is not valid any more", remedy="ask for a new one")
    return found


def _target(key: Key) -> str:
    """The page that a link leads to."""
    if key.role == "admin":
        return f"/admin/{key.poll}" if key.poll else "/admin"
    if key.poll is None:
        return "/recommend"
    return f"/p/{key.poll}/result" if key.role == "read" else f"/p/{key.poll}"


def _asks_first(key: Key, request: Request, state: State) -> bool:
    """Whether somebody else than the user may have chosen to follow a link, or it would make them another person.

    Browsers say whether an address came from another site, but not over HTTP to other machines than their own: there
    the links that make somebody a person ask in any case.
    """
    held = state.door.held(key, request)
    if held is not None and held.person == key.person:
        return False  # who they are already
    site = request.headers.get("sec-fetch-site")
    elsewhere = site not in ("none", "same-origin") if site is not None else key.role == "person"
    return held is not None or elsewhere


def _name(state: State, key: Key | None) -> str | None:
    """The person of a key, if it is one's: the name, or that there is none."""
    if key is None or key.person is None:
        return None
    row = state.store.row("SELECT name FROM people WHERE poll = ? AND id = ?", key.poll, key.person)
    return (row["name"] if row is not None else None) or "somebody without a name"


@router.get("/p/{poll}")
async def rank(poll: Poll, request: Request, who: Who, state: All) -> HTMLResponse:
    """Rank by dragging."""
    return _of_poll("rank.html", poll, "rank", request, who, state)


@router.get("/p/{poll}/choose")
async def choose(poll: Poll, request: Request, who: Who, state: All) -> HTMLResponse:
    """Answer pairs."""
    return _of_poll("choose.html", poll, "choose", request, who, state)


@router.get("/p/{poll}/result")
async def result(poll: Poll, request: Request, who: Who, state: All) -> HTMLResponse:
    """What the group thinks."""
    return _of_poll("result.html", poll, "result", request, who, state)


def _of_poll(name: str, poll: str, tab: str, request: Request, who: Caller, state: State) -> HTMLResponse:
    who.require("vote" if tab != "result" else "read", poll)
    row = require_poll(state.store, poll)
    if tab == "result":
        try:
            require_shown(row, who, state)
        except Problem as problem:
            return page("message.html", request, state, who, poll=dict(row), tab=tab, title=problem.detail, text="")
    return page(name, request, state, who, poll=dict(row), tab=tab)


@router.get("/recommend")
async def recommend(request: Request, who: Who, state: All) -> HTMLResponse:
    """A list, and what follows from it."""
    who.require("model")
    if state.settings.model is None:
        raise Problem(404, "no model is served here", remedy="start with 'permrank serve MODEL'")
    return page("recommend.html", request, state, who, tab="recommend")


@router.get("/admin")
async def admin(request: Request, who: Who, state: All) -> HTMLResponse:
    """Make a poll."""
    who.require("admin")
    return page("admin.html", request, state, who, tab="admin")


@router.get("/admin/{poll}")
async def admin_poll(poll: Poll, request: Request, who: Who, state: All) -> HTMLResponse:
    """Watch, close and export a poll."""
    who.require("admin", poll)
    return page("watch.html", request, state, who, poll=dict(require_poll(state.store, poll)), tab="admin")
