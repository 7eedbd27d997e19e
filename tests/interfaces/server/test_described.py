"""What the OpenAPI description allows never fails inside, and what it describes is what is answered."""

import contextlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

import permrank as pr
from interfaces_server import DISHES, new_poll, person, serving
from permrank.interfaces.server.described import ANSWERS

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: pip install schemathesis")

from schemathesis import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

# Words that mean something to this server, put in the place of some that were made up.
WORDS = [*DISHES, "ann", "me", "x", "model", "none"]
# No schema says that an item comes once, or is one of the poll's: such bodies are refused, and rightly.
NOT_HELD = [positive_data_acceptance]


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


def meant(value, data):
    """A value with some of its words changed for words that are known here."""
    if isinstance(value, dict):
        return {name: meant(one, data) for name, one in value.items()}
    if isinstance(value, list):
        return [meant(one, data) for one in value]
    known = isinstance(value, str) and value not in ("list", "tiers", "pair", "best_worst", "skip")
    return data.draw(st.sampled_from([value, *WORDS])) if known else value


def test_schemathesis_finds_no_failure(client, described):
    schema = schemathesis.openapi.from_dict(described)
    poll, refused, accepted = new_poll(client), set(), set()
    headers = person(client, poll, "ann")

    def check(operation, mode, n):
        @settings(
            max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None,
            phases=[Phase.explicit, Phase.generate],
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def one(case, data):
            whole = case.method == "DELETE" and operation.path == "/v1/polls/{poll}"
            right = mode is GenerationMode.POSITIVE and not whole
            if right and "poll" in (case.path_parameters or {}) and data.draw(st.booleans()):
                case.path_parameters["poll"] = poll["id"]
                case.headers = {**(case.headers or {}), **headers} if data.draw(st.booleans()) else case.headers
            sent = case.as_transport_kwargs(base_url="http://localhost")
            if right and "json" in sent:
                sent["json"] = meant(sent["json"], data)
            named = {"data": "content"}  # as this client calls it
            sent = {named.get(name, name): one for name, one in sent.items() if one is not None and name != "cookies"}
            found = client.request(**sent)
            case.validate_response(found, excluded_checks=NOT_HELD)
            if found.status_code < 400:
                accepted.add((operation.method, operation.path))
                return
            refused.add(found.status_code)
            problem = found.json()
            assert found.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status", "detail"} <= set(problem)
            assert problem["status"] == found.status_code

        one()

    every = [result.ok() for result in schema.get_all_operations()]
    for operation in every:
        if not operation.path.endswith("/events"):  # it has no end
            check(operation, GenerationMode.POSITIVE, 10)
            with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parameters
                check(operation, GenerationMode.NEGATIVE, 6)
    assert {404, 422} <= refused  # what was wrong was wrong
    assert len(accepted) > len(every) / 2  # and what was right was right


def test_every_json_answer_is_described(described):
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            content = {
                kind for status in ("200", "201") for kind in one["responses"].get(status, {}).get("content", {})
            }
            assert ("application/json" in content) == ((method, path) in ANSWERS), (method, path)


def test_health_and_metrics_say_what_happened(client):
    assert client.get("/health/live").json() == {"status": "alive"}
    assert client.get("/health/ready").json() == {"status": "ready"}
    text = client.get("/metrics").text
    assert 'permrank_requests_total{method="GET",route="/health/live",status="200"}' in text
    assert text.count("# TYPE") == len({line for line in text.splitlines() if line.startswith("# TYPE")})
