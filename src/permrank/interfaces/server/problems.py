"""Errors in one form: RFC 9457, ``application/problem+json``, naming the field and the remedy."""

from __future__ import annotations

import logging
import sqlite3

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from permrank.errors import InputError, NotSupportedError, UnknownIdError
from permrank.types import Named

_log = logging.getLogger("permrank.serve")
_TITLES = {
    400: "The request cannot be read", 401: "A key is needed", 403: "Not allowed", 404: "Not found",
    405: "Not a method of this address", 409: "In conflict with what is there", 413: "Too large",
    415: "Not JSON", 421: "Not a name of this server", 422: "The request is not valid", 429: "Too many requests",
    500: "The server has failed", 503: "Not ready", 507: "No room left",
}  # fmt: skip


class Problem(Exception):  # noqa: N818  (RFC 9457 calls it so)
    """An answer other than success: status, what is wrong, with which field, and what to do."""

    def __init__(
        self, status: int, detail: str, *, field: str | None = None, remedy: str | None = None, retry: float = 0.0
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field, self.remedy, self.retry = status, detail, field, remedy, retry


def problem_body(status: int, detail: str, field: str | None = None, remedy: str | None = None) -> Named:
    """The members of a problem document."""
    title = _TITLES.get(status, "The request was refused")
    body: Named = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return body | {name: value for name, value in (("field", field), ("remedy", remedy)) if value is not None}


def answer(problem: Problem) -> JSONResponse:
    """A problem as a response."""
    headers = {"Cache-Control": "no-store"}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry > 0.0:
        headers["Retry-After"] = str(max(1, round(problem.retry)))
    body = problem_body(problem.status, problem.detail, problem.field, problem.remedy)
    return JSONResponse(body, problem.status, headers, "application/problem+json")


def of_error(error: BaseException) -> Problem:
    """What an error of the library, the database or the server is to its caller."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, UnknownIdError):
        return Problem(404, str(error), field=error.kind, remedy=f"name a known {error.kind}")
    if isinstance(error, NotSupportedError):
        return Problem(409, str(error), remedy="ask another question, or serve a model that answers this one")
    if isinstance(error, InputError):
        return Problem(422, str(error), remedy="correct the value that is named")
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return Problem(507, "the disk is full; nothing was stored", remedy="free some room, then send it again")
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return Problem(503, "the database is busy; nothing was stored", remedy="send it again", retry=1.0)
    if isinstance(error, RecursionError):
        return Problem(400, "the body is nested too deeply", remedy="send flat lists")
    _log.exception("unexpected error", exc_info=error)
    return Problem(500, "an error of the server; it is in its log", remedy="send it again later")


def install(app: FastAPI) -> None:
    """Have every error of an application answered as a problem."""

    async def expected(request: Request, error: Exception) -> JSONResponse:
        return answer(of_error(error))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = [str(part) for part in first["loc"]]
        if first["type"] == "json_invalid":
            return answer(Problem(400, "the body is not JSON", field="body", remedy="send a JSON object"))
        field = ".".join(where[1:]) or where[0]
        body = problem_body(422, f"{field}: {first['msg']}", field, "see /v1/openapi.json for what is expected")
        body["errors"] = [
            {"field": ".".join(map(str, one["loc"][1:])) or str(one["loc"][0]), "detail": one["msg"]}
            for one in jsonable_encoder(error.errors()[:20], exclude={"ctx", "input", "url"})
        ]
        return JSONResponse(body, 422, {"Cache-Control": "no-store"}, "application/problem+json")

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        found = answer(Problem(error.status_code, str(error.detail).lower()))
        found.headers.update(error.headers or {})
        return found

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    for kind in (Problem, InputError, UnknownIdError, NotSupportedError, sqlite3.Error, RecursionError, Exception):
        app.add_exception_handler(kind, expected)
