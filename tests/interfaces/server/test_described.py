"""What the OpenAPI description allows never fails inside, and what it describes is what is answered."""

import json
import urllib.parse

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import permrank as pr
from interfaces_server import DISHES, new_poll, person, serving

# Bodies that may be asked for, and pieces that are wrong in many ways.
WORDS = st.one_of(st.sampled_from([*DISHES, "", "me", "model", "x" * 300]), st.text(max_size=20))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), WORDS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


def resolved(schema, whole):
    while "$ref" in schema:
        schema = whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def like(schema, whole, depth=0):
    """Values that a schema describes, more or less: sometimes anything instead."""
    schema = resolved(schema, whole)
    if depth > 4:
        return SCALARS
    if "anyOf" in schema or "oneOf" in schema:
        return st.one_of(*(like(one, whole, depth + 1) for one in schema.get("anyOf") or schema["oneOf"]))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {name: like(one, whole, depth + 1) for name, one in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(required, optional=fields)
    if kind == "array":
        return st.lists(like(schema["items"], whole, depth + 1), min_size=schema.get("minItems", 0), max_size=4)
    return {
        "string": WORDS, "integer": st.integers(-5, 1200), "number": st.floats(), "boolean": st.booleans(),
        "null": st.none(),
    }.get(kind, VALUES)  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """An open server with a model of the dishes."""
    folder = tmp_path_factory.mktemp("described")
    lists = {"ann": DISHES, "me": DISHES[::-1], "x": DISHES[1:3]}
    pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists(lists)).save(folder / "m.permrank")
    with serving(folder / "a.sqlite", model=str(folder / "m.permrank")) as found:
        yield found


@pytest.fixture(scope="module")
def described(client):
    return client.get("/v1/openapi.json").json()


def operations(described):
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            if not path.endswith("/events"):
                yield method.upper(), path, one


def test_no_request_fails_inside_and_every_answer_is_described(client, described):
    poll = new_poll(client)
    headers = person(client, poll, "ann")
    every = sorted(operations(described), key=lambda one: one[:2])
    refused = set()

    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def check(data):
        method, path, one = data.draw(st.sampled_from(every))
        if method == "DELETE" and path == "/v1/polls/{poll}":
            return
        names = {"poll": st.just(poll["id"]) | WORDS}
        for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
            text = data.draw(names.get(name, WORDS)).encode("utf-8", "ignore").decode()
            path = path.replace(f"{{{name}}}", urllib.parse.quote(text, safe="") or "none")
        query = {}
        for parameter in one.get("parameters", []):
            if parameter["in"] == "query" and data.draw(st.booleans()):
                value = data.draw(st.one_of(like(parameter["schema"], described), WORDS))
                query[parameter["name"]] = str(value).encode("utf-8", "ignore").decode()
        body = None
        if "requestBody" in one:
            schema = one["requestBody"]["content"]["application/json"]["schema"]
            body = data.draw(st.one_of(like(schema, described), like(schema, described), VALUES))
        sent = {} if body is None else {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        sent["headers"] = sent.get("headers", {}) | (headers if data.draw(st.booleans()) else {})
        found = client.request(method, path, params=query, **sent)
        assert found.status_code < 500 or found.status_code == 501, (method, path, body, found.text)
        known = {int(status) for status in one["responses"]} | {304, 405, 413}
        assert found.status_code in known, (method, path, found.status_code, found.text)
        if found.status_code >= 400:
            refused.add(found.status_code)
            problem = found.json()
            assert found.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status", "detail"} <= set(problem)
            assert problem["status"] == found.status_code
        elif "json" in found.headers.get("content-type", "").split(";")[0] and found.content:
            found.json()

    check()
    assert {404, 422} <= refused  # the wrong pieces were wrong


def test_health_and_metrics_say_what_happened(client):
    assert client.get("/health/live").json() == {"status": "alive"}
    assert client.get("/health/ready").json() == {"status": "ready"}
    text = client.get("/metrics").text
    assert 'permrank_requests_total{method="GET",route="/health/live",status="200"}' in text
    assert text.count("# TYPE") == len({line for line in text.splitlines() if line.startswith("# TYPE")})
