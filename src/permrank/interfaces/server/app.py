"""The application, made once in every web process, and its pages: templates that escape all they show."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import jinja2
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

import permrank as pr
from permrank.interfaces.server import described, model_api, polls_api, problems, versions
from permrank.interfaces.server.access import SESSION, Caller, Key
from permrank.interfaces.server.asking import Common, next_question
from permrank.interfaces.server.erasing import n_pending
from permrank.interfaces.server.limits import Buckets, Guard
from permrank.interfaces.server.polls import require_poll
from permrank.interfaces.server.polls_api import All, Poll, Who, require_shown
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.results import Ballots, GroupResult, Person
from permrank.interfaces.server.settings import ENVIRONMENT, Settings
from permrank.interfaces.server.state import State, state_of

_log = logging.getLogger("permrank.serve")
# How often a newer version of the model is looked for; and again after one that could not be loaded, in seconds.
_LOOK, _AGAIN = 2.0, 30.0


def from_environment() -> Any:
    """The application of a worker process that uvicorn has started."""
    return create_app(Settings.from_json(os.environ[ENVIRONMENT]))


def create_app(settings: Settings, pictures: str | None = None) -> Any:
    """The application with these settings."""
    state = State(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await _get_ready(state)  # nobody is let in before; other web processes take the questions meanwhile
        tasks = [asyncio.create_task(work) for work in (_look_for_versions(state), state.eraser.run())]
        yield
        for task in tasks:
            task.cancel()
        state.close()

    app = FastAPI(
        title="permrank", version=pr.__version__, lifespan=lifespan, openapi_url="/v1/openapi.json", docs_url=None,
        redoc_url=None, description="Polls by ranking, and questions to a model. Errors are RFC 9457 documents.",
    )  # fmt: skip
    app.state.all = state
    problems.install(app)
    app.include_router(polls_api.router)
    app.include_router(model_api.router)
    app.include_router(router)
    app.mount("/static", CachedFiles(directory=str(files(_HERE) / "static")))
    if pictures or os.environ.get("PERMRANK_PICTURES"):
        app.mount("/pictures", StaticFiles(directory=pictures or os.environ["PERMRANK_PICTURES"]))
    _add_health(app)
    described.install(app)
    app.add_exception_handler(problems.Problem, _page_or_problem)
    return Guard(app, settings, state.metrics)


async def _page_or_problem(request: Request, error: Exception) -> Response:
    """A person who looks at a page gets a page that says what is wrong."""
    assert isinstance(error, problems.Problem)
    looks = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    if not looks:
        return problems.answer(error)
    return page(
        "message.html", request, state_of(request), title=error.detail, text=error.remedy or "", status=error.status
    )


def _add_health(app: FastAPI) -> None:
    @app.get("/health/live", tags=["health"], summary="Is the process alive?")
    async def live() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/health/ready", tags=["health"], summary="Can it answer?", responses=polls_api.ERRORS)
    async def ready(state: polls_api.All) -> dict[str, str]:
        state.store.row("SELECT 1")  # the rest was waited for before anybody was let in
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], summary="Counters for Prometheus", response_class=PlainTextResponse,
             responses=polls_api.ERRORS)  # fmt: skip
    async def metrics(who: polls_api.Who, state: polls_api.All) -> PlainTextResponse:
        who.require("admin")
        version = state.serving.version
        gauges = {"event_streams": state.polls.n_streams, "jobs_waiting": state.turns.n_waiting,
                  "model_version": version.number if version else -1,
                  "erasures_pending": n_pending(state.store)}  # fmt: skip
        return PlainTextResponse(state.metrics.text(gauges), media_type="text/plain; version=0.0.4")


async def _get_ready(state: State) -> None:
    """Load the model, and compile what polls need; an error ends the server."""
    await state.turns.run("", warm_up)
    await state.serving.run(state.serving.load_newest)
    _settle()


async def _look_for_versions(state: State) -> None:
    """Change over to newer versions of the model, and back to an older one when somebody was erased."""
    while state.settings.model is not None:
        await asyncio.sleep(_LOOK)
        newest, current = versions.newest(state.store, state.serving.base), state.serving.version
        number = 0 if newest is None else newest.number
        if current is None or number == current.number:
            continue
        try:
            await state.serving.run(state.serving.load_newest)
            _settle()
        except Exception:  # a spoiled file, no memory: what is served goes on
            _log.exception("version %d of the model cannot be loaded; the one before goes on", number)
            await asyncio.sleep(_AGAIN)


def _settle() -> None:
    """Collect garbage, then leave what is there alone: a walk through all of a model keeps callers waiting for .1 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def warm_up() -> None:
    """Work out the result and a question of a small poll, so that no caller waits for compilation."""
    people = {"a": Person(), "b": Person()}
    people["a"].add("tiers", '[["x"], ["y", "z"], ["w"]]')
    people["b"].add("pair", '["y", "x"]')
    items = [{"id": name, "title": name} for name in "wxyz"]
    ballots = Ballots(people, {"a": 1, "b": 2}, 2, 2)
    GroupResult(items, ballots)
    next_question(list("wxyz"), people["a"], Common(Buckets(1.0, 1.0)).scores("", list("wxyz"), "b", ballots))


# Pages

router = APIRouter(include_in_schema=False)
_HERE = "permrank.interfaces.server"


@functools.cache
def _environment() -> jinja2.Environment:
    loader, undefined = jinja2.PackageLoader(_HERE, "templates"), jinja2.StrictUndefined
    return jinja2.Environment(loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True)


class CachedFiles(StaticFiles):
    """Our own files, style sheet and modules, which browsers ask about again."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """A file with an ETag."""
        found = super().file_response(*arguments, **options)
        found.headers["Cache-Control"] = "no-cache"
        return found


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
@router.get("/p/{poll}/choose")
@router.get("/p/{poll}/result")
async def of_poll(poll: Poll, request: Request, who: Who, state: All) -> HTMLResponse:
    """Rank by dragging, answer pairs, or see what the group thinks."""
    tab = request.scope["route"].path.removeprefix("/p/{poll}").strip("/") or "rank"
    who.require("vote" if tab != "result" else "read", poll)
    row = require_poll(state.store, poll)
    if tab == "result":
        try:
            require_shown(row, who, state)
        except Problem as problem:
            return page("message.html", request, state, who, poll=dict(row), tab=tab, title=problem.detail, text="")
    return page(f"{tab}.html", request, state, who, poll=dict(row), tab=tab)


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
