"""The application: made once in every web process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

import permrank as pr
from permrank.interfaces.server import described, model_api, pages, polls_api, problems, versions
from permrank.interfaces.server.asking import Common, next_question
from permrank.interfaces.server.erasing import n_pending
from permrank.interfaces.server.limits import Buckets, Guard
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
    app.include_router(pages.router)
    app.mount("/static", pages.own_files())
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
    return pages.page(
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
    await state.polls.run(warm_up)
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
    next_question(list("wxyz"), people["a"], Common(Buckets(1.0, 1.0)).scores("", list("wxyz"), ballots, "b"))
