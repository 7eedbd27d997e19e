"""Applications and clients of the tests of the service."""

import contextlib
import dataclasses
import http.client
import http.server
import re
import socket
import threading
import time

import pytest

fastapi = pytest.importorskip("fastapi", reason="needs the extra serve: pip install 'permrank[serve]'")

from fastapi.testclient import TestClient  # noqa: E402

from permrank.interfaces.server.access import make_key  # noqa: E402
from permrank.interfaces.server.app import create_app  # noqa: E402
from permrank.interfaces.server.connections import http_options  # noqa: E402
from permrank.interfaces.server.described import ANSWERS  # noqa: E402
from permrank.interfaces.server.settings import Settings  # noqa: E402

DISHES = ["curry", "pizza", "ramen", "salad", "tacos"]


def answers_to(method, path):
    """What a request is answered with by the description, or None."""
    for (known, template), model in ANSWERS.items():
        if known == method.lower() and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return model
    return None


class CheckingClient(TestClient):
    """A client that holds every answer against the description."""

    def request(self, method, url, **options):
        found = super().request(method, url, **options)
        if found.status_code in (200, 201) and found.headers.get("content-type") == "application/json":
            model = answers_to(method, found.url.path)
            if model is not None:
                model.model_validate(found.json(), strict=True)
        return found


@contextlib.contextmanager
def serving(settings, **options):
    """A client on the machine of a running application, with these settings or on a file of this name."""
    if not isinstance(settings, Settings):
        settings = Settings(str(settings), rate=0.0)
    app = create_app(dataclasses.replace(settings, **options))
    with CheckingClient(app, base_url="http://localhost", client=("127.0.0.1", 50000)) as client:
        client.app_state = app.app.state.all
        yield client


@contextlib.contextmanager
def listening(app, **options):
    """The port of an application that is served over real connections, in a thread of its own."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", **(http_options() | options))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def eventually(holds, seconds=120.0):
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


NAME = "ann-with-a-rare-name"


def holding(folder, *texts):
    """Files that hold one of these texts."""
    contents = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return [name for name, content in contents.items() if any(text.encode() in content for text in texts)]


class _Forwarder(http.server.BaseHTTPRequestHandler):
    """A reverse proxy: sends on what it gets, and says for whom."""

    protocol_version = "HTTP/1.1"

    def forward(self):
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        body = self.rfile.read(int(headers.get("Content-Length", 0)))
        behind = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        behind.request(self.command, self.path, body, headers | self.server.added)
        with contextlib.closing(behind), behind.getresponse() as found:
            content = found.read()
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward  # noqa: N815

    def log_message(self, *said):
        pass


@contextlib.contextmanager
def proxied(port, added):
    """The port of a reverse proxy before another port, which adds headers to what it sends on."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Forwarder) as proxy:
        proxy.target, proxy.added = port, added
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy.server_address[1]
        finally:
            proxy.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def open_client(tmp_path_factory):
    """A server that is open, as on loopback."""
    with serving(tmp_path_factory.mktemp("open") / "a.sqlite") as client:
        yield client


@pytest.fixture(scope="module")
def keyed_client(tmp_path_factory):
    """A server that asks for keys, and its admin's key."""
    with serving(tmp_path_factory.mktemp("keyed") / "a.sqlite", keys=True) as client:
        client.admin = client.app_state.store.write(lambda db: make_key(db, "admin")).result()
        yield client


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def new_poll(client, items=DISHES, title="Where shall we eat?", **more):
    """A poll, with its keys."""
    body = {"title": title, "items": [{"title": item} for item in items], **more}
    headers = bearer(client.admin) if hasattr(client, "admin") else {}
    made = client.post("/v1/polls", json=body, headers=headers)
    assert made.status_code == 201, made.text
    return made.json()


def person(client, poll, name=None):
    """Somebody who takes part: the headers that they send."""
    made = client.post(f"/v1/polls/{poll['id']}/people", json={"name": name}, headers=bearer(poll["keys"]["vote"]))
    assert made.status_code == 201, made.text
    return bearer(made.json()["key"])


def send(client, poll, headers, *answers, code=201):
    found = client.post(f"/v1/polls/{poll['id']}/answers", json={"answers": list(answers)}, headers=headers)
    assert found.status_code == code, found.text
    return found.json()
