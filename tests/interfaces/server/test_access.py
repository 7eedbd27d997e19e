"""Who may do what: every route, with every kind of key and without, as the command starts the server.

The settings are those that `permrank serve` makes of its options; requests come from the machine itself, through
proxies that show themselves, and through one that does not.
"""

import asyncio
import contextlib
import dataclasses
import http.client
import json

import pytest
from typer.testing import CliRunner

from interfaces_server import bearer, listening, proxied
from permrank.interfaces.cli.app import app as command
from permrank.interfaces.server import run
from permrank.interfaces.server.access import make_key
from permrank.interfaces.server.app import create_app
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.polls import add_person, create_poll
from permrank.interfaces.server.settings import Settings

URL = "https://poll.example.org"
STARTS = {
    "private": [],
    "private, open": ["--open"],
    "key": ["--admin-key", "new"],
    "key, open": ["--admin-key", "new", "--open"],
    "public": ["--public-url", URL],
    "public, open": ["--public-url", URL, "--open"],
    "name": ["--allow-host", "poll.example.org"],
    "name, open": ["--allow-host", "poll.example.org", "--open"],
    "network": ["--host", "0.0.0.0"],
    "network, open": ["--host", "0.0.0.0", "--open"],
}
# How a request arrives: address of the connection, and headers. Only the first is of the machine's own user; the last
# cannot be told from it, and needs that the settings say that there is a proxy.
WAYS = {
    "from the machine": ("127.0.0.1", {}),
    "from another machine": ("192.0.2.7", {}),
    "named by another name": ("127.0.0.1", {"host": "192.0.2.1:8000"}),
    "through a proxy": ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}),
    "through a proxy that keeps the name": ("127.0.0.1", {"host": "poll.example.org", "X-Real-IP": "192.0.2.7"}),
    "through a proxy that shows nothing": ("127.0.0.1", {"host": "127.0.0.1:8000"}),
}
UNKNOWABLE = ("from the machine", "through a proxy that shows nothing")
ITEMS = [{"title": "a"}, {"title": "b"}]
# What each route needs: one right, or none. A route that is not here needs an admin of the server.
EVERYBODY, SERVER = "nothing", "admin of the server"
POLL = "/v1/polls/{poll}"
NEEDS = {
    "GET /v1/openapi.json": EVERYBODY, "HEAD /v1/openapi.json": EVERYBODY, "GET /": EVERYBODY,
    "GET /health/live": EVERYBODY, "GET /health/ready": EVERYBODY,
    "GET /join/{key}": "key in the address", "POST /join/{key}": "key in the address",
    **dict.fromkeys(
        (f"GET {POLL}", f"GET {POLL}/answers/mine", f"GET {POLL}/result", f"GET {POLL}/events", "GET /p/{poll}/result"),
        "read",
    ),
    **dict.fromkeys(
        (f"POST {POLL}/people", f"POST {POLL}/answers", f"GET {POLL}/question", "GET /p/{poll}",
         "GET /p/{poll}/choose"),
        "vote",
    ),
    **dict.fromkeys(
        (f"PATCH {POLL}", f"DELETE {POLL}", f"POST {POLL}/keys", f"GET {POLL}/keys", f"DELETE {POLL}/keys/{{key}}",
         f"GET {POLL}/people", f"DELETE {POLL}/people/{{person}}", f"GET {POLL}/answers", f"GET {POLL}/export",
         "GET /admin/{poll}"),
        "admin",
    ),
    **dict.fromkeys(
        ("GET /v1/model", "GET /v1/model/items", "POST /v1/model/recommend", "POST /v1/model/recommend/batch",
         "POST /v1/model/rank", "POST /v1/model/prefers", "POST /v1/model/explain", "GET /v1/model/similar/{item}",
         "GET /recommend"),
        "model",
    ),
    "PUT /v1/model/people/{person}": "lists", "DELETE /v1/model/people/{person}": "lists",
}  # fmt: skip
GRANTS = {
    None: set(), "of another poll": set(), "person of another poll": set(),
    "server": {SERVER, "admin", "vote", "read", "model", "lists"},
    "admin": {"admin", "vote", "read"}, "vote": {"vote", "read"}, "read": {"read"}, "person": {"vote", "read"},
    "model": {"model"}, "lists": {"model", "lists"},
}  # fmt: skip
OPEN = {"vote", "read", "model"}
BODIES = {
    "POST /v1/polls": {"title": "x", "items": ITEMS}, f"PATCH {POLL}": {"about": "changed"},
    f"POST {POLL}/keys": {"role": "admin"}, f"POST {POLL}/people": {},
    f"POST {POLL}/answers": {"answers": [{"kind": "list", "ranking": ["a"]}]},
    "POST /v1/model/recommend": {"ranking": ["a"]}, "POST /v1/model/recommend/batch": {"people": [{}]},
    "POST /v1/model/rank": {"items": ["a"]}, "POST /v1/model/prefers": {"pairs": [["a", "b"]]},
    "POST /v1/model/explain": {"item": "a"}, "PUT /v1/model/people/{person}": {"ranking": ["a"]},
}  # fmt: skip


def started(folder, monkeypatch, arguments):
    """Settings that the command makes of its options, and what it prints."""
    made = []
    monkeypatch.setattr(run, "_serve", lambda settings, pictures: made.append(settings))
    monkeypatch.setattr(run, "Learner", lambda settings, ready: contextlib.nullcontext())
    monkeypatch.setattr(run, "require_free", lambda host, port: None)
    monkeypatch.delenv("PERMRANK_SERVE", raising=False)
    found = CliRunner().invoke(command, ["serve", "--rate", "0", "--db", str(folder / "a.sqlite"), *arguments])
    assert found.exit_code == 0, found.output
    return made[0], found.output


def routes(application):
    """Method and path of every route, of those that FastAPI keeps in routers too."""
    for route in application.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes(inner)
        elif getattr(route, "methods", None):
            yield from ((method, route.path) for method in route.methods)
        else:
            assert route.path in ("/static", "/pictures"), route  # files of ours, for everybody


def test_all_routes_are_found(open_client):
    found = {f"{method} {path}" for method, path in routes(open_client.app.app)}
    assert set(NEEDS) <= found
    assert set(BODIES) <= found
    for path, methods in open_client.get("/v1/openapi.json").json()["paths"].items():
        assert {f"{method.upper()} {path}" for method in methods} <= found
    assert found - set(NEEDS) == {"GET /v1/polls", "POST /v1/polls", "GET /admin", "GET /metrics"}  # of the server


def poll_with_keys(store):
    """A new poll, and a key of every kind."""

    def job(db):
        poll, other = (create_poll(db, NewPoll(title="t", items=[Item(**one) for one in ITEMS])) for _ in range(2))
        keys = {role: make_key(db, role, poll) for role in ("admin", "vote", "read")}
        keys |= {role: make_key(db, role) for role in ("model", "lists")}
        keys["server"], keys["of another poll"] = make_key(db, "admin"), make_key(db, "admin", other)
        keys["person of another poll"] = add_person(db, other, None)[1]
        return poll, keys | {"person": add_person(db, poll, None)[1]}

    return store.write(job).result()


async def status(app, method, path, body, headers, address, version="1.1"):
    """The status of an answer, and its text, without a client in between."""
    content = b"" if body is None else json.dumps(body).encode()
    sent = {
        "host": "127.0.0.1:8000",
        "content-length": str(len(content)),
        "content-type": "application/json",
        **headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": version, "method": method, "scheme": "http",
             "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": raw,
             "client": (address, 50_000), "server": ("127.0.0.1", 8000), "state": {}}  # fmt: skip
    messages, parts = [], [{"type": "http.request", "body": content, "more_body": False}]

    async def receive():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    await app(scope, receive, send)
    return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:]).decode()


async def everything(app, poll, headers, address="127.0.0.1"):
    """The status of every route for somebody; those that delete come last."""
    found = {}
    for method, path in sorted(set(routes(app.app)), key=lambda one: (one[0] == "DELETE", one[1] == POLL, one)):
        route, where = f"{method} {path}", path
        for name, value in {"poll": poll, "key": "0" * 12, "person": "0123", "item": "a"}.items():
            where = where.replace(f"{{{name}}}", value)
        found[route], text = await status(app, method, where, BODIES.get(route), headers, address)
        assert found[route] != 422, f"{route} needs another body here: {text}"
        assert found[route] < 500, (route, text)
    return found


def may(start, way, caller, route):
    """Whether a request has to get in."""
    host = WAYS[way][1].get("host", "")
    if host == "poll.example.org" and not start.startswith(("public", "name")):
        return False  # whoever asks: no name of this server
    need = NEEDS.get(route, SERVER)
    if need in ("key in the address", EVERYBODY):
        return need == EVERYBODY
    own = start.startswith("private") and way in UNKNOWABLE
    return own or need in GRANTS[caller] or (need in OPEN and start.endswith("open"))


@pytest.mark.parametrize("start", STARTS)
def test_nobody_does_what_they_may_not_on_any_route_through_any_proxy(start, tmp_path, monkeypatch):
    settings, _ = started(tmp_path, monkeypatch, STARTS[start])
    app = create_app(dataclasses.replace(settings, streams=0))
    asked, wrong = [], []

    async def ask_all():
        async with app.app.router.lifespan_context(app.app):
            for way, (address, headers) in WAYS.items():
                for caller in GRANTS if way == "through a proxy" else (None,):
                    poll, keys = poll_with_keys(app.app.state.all.store)
                    sent = headers | ({} if caller is None else bearer(keys[caller]))
                    for route, code in (await everything(app, poll, sent, address)).items():
                        asked.append(may(start, way, caller, route))
                        if asked[-1] != (code not in (401, 403, 421)):
                            wrong.append(("kept out" if asked[-1] else "got in", way, caller, route, code))

    asyncio.run(ask_all())
    assert wrong == []
    assert min(asked.count(True), asked.count(False)) > 100  # there is something to tell apart


def test_a_key_that_is_none_opens_nothing(tmp_path, monkeypatch):
    settings, _ = started(tmp_path, monkeypatch, STARTS["key, open"])
    app = create_app(dataclasses.replace(settings, streams=0))
    store = app.app.state.all.store
    poll, keys = poll_with_keys(store)
    good, revoked = keys["admin"], keys["vote"]
    store.write(lambda db: db.execute("UPDATE keys SET revoked = 1.0 WHERE id = ?", (revoked.split("_")[1],))).result()
    wrong = ["", "Bearer", "Bearer ", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", f"Bearer {revoked}",
             f"Bearer {good[:16]}{'A' * 32}", "Bearer pr_000000000000_" + "A" * 32, "Bearer ' OR 1=1 --"]  # fmt: skip
    before = [store.rows(f"SELECT * FROM {table}") for table in ("polls", "people", "keys", "answers")]

    async def ask_all():
        async with app.app.router.lifespan_context(app.app):
            return [(header, *one) for header in wrong
                    for one in (await everything(app, poll, {"Authorization": header})).items()]  # fmt: skip

    free = {route for route, need in NEEDS.items() if need in (EVERYBODY, "key in the address")}
    got_in = [one for one in asyncio.run(ask_all()) if one[2] != 401 and one[1] not in free]
    assert got_in == []
    assert [store.rows(f"SELECT * FROM {table}") for table in ("polls", "people", "keys", "answers")] == before


def test_a_server_that_others_can_reach_has_a_key_from_its_first_start_on(tmp_path, monkeypatch):
    for n, (start, arguments) in enumerate(STARTS.items()):
        folder = tmp_path / str(n)
        folder.mkdir()
        first, said = started(folder, monkeypatch, arguments)
        assert first.is_private == start.startswith("private")
        assert first.keys == ("/join/pr_" in said) == (not first.is_private)
        again, said = started(folder, monkeypatch, [one for one in arguments if one not in ("--admin-key", "new")])
        assert again.is_private == first.is_private  # a key that is known is asked for
        assert "/join/pr_" not in said
        assert again.is_open == start.endswith("open")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Forwarded", "for=192.0.2.7"), ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "localhost"), ("X-Real-IP", "127.0.0.1"), ("Via", "1.1 proxy"), ("CF-Ray", "1"),
        ("CF-Connecting-IP", "192.0.2.7"), ("True-Client-IP", "192.0.2.7"), ("Client-IP", "192.0.2.7"),
        ("X-Original-URL", "/"), ("Fly-Client-IP", "192.0.2.7"), ("Tailscale-User-Login", "a@b.org"),
        ("X-Envoy-External-Address", "192.0.2.7"), ("X-Amzn-Trace-Id", "1"), ("CDN-Loop", "cloudflare"),
        ("Host", "192.168.1.4:8000"), ("Host", "0.0.0.0:8000"),
    ],
)  # fmt: skip
def test_a_request_that_shows_a_proxy_is_not_of_the_machine(open_client, name, value):
    assert open_client.get("/v1/polls").status_code == 200
    refused = open_client.get("/v1/polls", headers={name: value})
    assert refused.status_code == 401
    assert "--public-url" in refused.json()["remedy"]


def test_a_request_of_the_machine_comes_from_it_by_its_name_and_in_todays_http(tmp_path):
    app = create_app(Settings(str(tmp_path / "a.sqlite"), rate=0.0))

    def asked(headers=(), address="127.0.0.1", version="1.1"):
        return asyncio.run(status(app, "GET", "/v1/polls", None, dict(headers), address, version))[0]

    assert asked() == asked({"host": "localhost:8000"}) == asked({"host": "[::1]:8000"}, "::1") == 200
    assert asked(version="1.0") == 401  # as nginx hands on unless it is told otherwise
    assert asked(address="192.0.2.7") == asked(address="::ffff:192.0.2.7") == asked(address="") == 401
    assert asked({"Host": "127.0.0.1:8000"}) == 421  # two names


@pytest.mark.parametrize("start", ["private", "public", "key, open"])
def test_a_real_proxy_on_the_machine_lets_nobody_administer(start, tmp_path, monkeypatch):
    settings, _ = started(tmp_path, monkeypatch, STARTS[start])
    app = create_app(settings)
    poll, keys = poll_with_keys(app.app.state.all.store)

    def asked(port, method, path, key=None):
        behind = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        behind.request(method, path, None, {} if key is None else bearer(key))
        with contextlib.closing(behind), behind.getresponse() as found:
            return found.status

    hidden = {} if start == "private" else {"Host": "127.0.0.1"}  # settings that say more need no header that shows it
    with listening(app) as port, proxied(port, hidden or {"X-Forwarded-For": "192.0.2.7"}) as reached:
        for method, path in (("DELETE", f"/v1/polls/{poll}"), ("GET", "/v1/polls"), ("GET", "/metrics")):
            assert asked(reached, method, path) == 401, (method, path)
            assert asked(reached, method, path, keys["vote"]) == 403, (method, path)
        assert asked(reached, "GET", f"/v1/polls/{poll}") == (200 if start == "key, open" else 401)
        assert asked(port, "GET", "/v1/polls") == (200 if start == "private" else 401)
        assert asked(reached, "DELETE", f"/v1/polls/{poll}", keys["admin"]) in (200, 202)
