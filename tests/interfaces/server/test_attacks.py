"""What must not get in, get out or run."""

import json
import re

from fastapi.testclient import TestClient

from interfaces_server import bearer, new_poll, person, send, serving
from permrank.interfaces.server.access import find_key, make_key
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.polls import create_poll

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{1234*5678}}"


def test_what_a_key_opens_is_told_to_nobody_else_and_not_for_longer(keyed_client):
    client = keyed_client
    mine, other = new_poll(client, title="mine"), new_poll(client, title="other")
    ann = person(client, mine, "ann")
    # Unknown polls look like those that one may not see.
    codes = {client.get(f"/v1/polls/{name}", headers=ann).status_code for name in (other["id"], "no-such-poll")}
    assert codes == {403}
    # Nobody votes for somebody else, and one who has a person's key is not given another vote.
    found = client.post(f"/v1/polls/{mine['id']}/answers", headers=ann,
                        json={"answers": [{"kind": "list", "ranking": ["curry"]}], "person": "bob"})  # fmt: skip
    assert found.status_code == 403
    assert client.post(f"/v1/polls/{mine['id']}/people", json={}, headers=ann).status_code == 409
    # A revoked key is worth nothing.
    key = mine["keys"]["read"]
    revoked = client.delete(f"/v1/polls/{mine['id']}/keys/{key.split('_')[1]}", headers=bearer(mine["keys"]["admin"]))
    assert revoked.status_code == 204
    assert client.get(f"/v1/polls/{mine['id']}", headers=bearer(key)).status_code == 401


def test_keys_are_kept_as_digests_only(keyed_client):
    poll = new_poll(keyed_client)
    path = keyed_client.app_state.store.path
    content = b"".join(part.read_bytes() for part in path.parent.iterdir())
    for key in poll["keys"].values():
        _, _, secret = key.split("_", 2)  # a secret may have underscores
        assert len(secret) == 32
        assert secret.encode() not in content
    assert find_key(keyed_client.app_state.store, poll["keys"]["vote"]).role == "vote"
    assert path.stat().st_mode & 0o077 == 0


def test_stored_markup_is_text_on_every_page(open_client):
    for bad in ("\x1b[31m", "\u202etxt", "a\x00b"):
        refused = open_client.post("/v1/polls", json={"title": bad, "items": [{"title": "a"}, {"title": "b"}]})
        assert refused.status_code == 422
    for picture in ("https://evil.example/x.png", "//evil.example/x.png", "/pictures/../secret", "javascript:alert(1)"):
        body = {"title": "t", "items": [{"title": "a", "picture": picture}, {"title": "b"}]}
        assert open_client.post("/v1/polls", json=body).status_code == 422
    poll = new_poll(open_client, ["a", MARKUP[:90]], title=MARKUP, about=MARKUP)
    for path in (
        "/",
        f"/p/{poll['id']}",
        f"/p/{poll['id']}/choose",
        f"/p/{poll['id']}/result",
        f"/admin/{poll['id']}",
        "/admin",
    ):
        found = open_client.get(path, headers={"Accept": "text/html"})
        assert found.status_code == 200, (path, found.text)
        assert "<script>alert" not in found.text
        assert "<img src=x" not in found.text
        assert "7006652" not in found.text  # 1234*5678
        policy = found.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        tags = " ".join(re.findall(r"<[^>]*>", found.text))
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>|\son\w+=|\sstyle=", tags), path  # nothing inline
        assert not re.search(r"(src|href)=\"?(https?:)?//", tags), path  # nothing from elsewhere
    text = open_client.get(f"/v1/polls/{poll['id']}")
    assert text.headers["content-type"] == "application/json"
    assert text.headers["x-content-type-options"] == "nosniff"


def browser(client, poll):
    """A browser that has followed a link to vote, and the token of its page."""
    other = TestClient(client.app, base_url="http://localhost", follow_redirects=False)
    moved = other.get(f"/join/{poll['keys']['vote']}")
    assert moved.status_code == 303
    assert poll["keys"]["vote"] not in moved.headers["location"]
    cookie = moved.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    page = other.get(moved.headers["location"], headers={"Accept": "text/html"})
    return other, re.search(r'name="csrf" content="([0-9a-f]{64})"', page.text)[1]


def test_another_site_can_make_no_browser_act(keyed_client):
    poll = new_poll(keyed_client)
    other, token = browser(keyed_client, poll)
    people = f"/v1/polls/{poll['id']}/people"
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": token}
    attacks = [
        {}, {"X-CSRF-Token": "0" * 64}, {"X-CSRF-Token": token[:-1]}, own | {"Origin": "http://evil.example"},
        own | {"Origin": "null"}, own | {"Sec-Fetch-Site": "cross-site"}, own | {"Sec-Fetch-Site": "same-site"},
        own | {"X-CSRF-Token": ""}, {name: value for name, value in own.items() if name != "X-CSRF-Token"},
    ]  # fmt: skip
    for headers in attacks:
        found = other.post(people, json={"name": "eve"}, headers=headers)
        assert found.status_code == 403, headers
    _, foreign_token = browser(keyed_client, poll)
    assert other.post(people, json={}, headers=own | {"X-CSRF-Token": foreign_token}).status_code == 403
    joined = other.post(people, json={"name": "ann"}, headers=own)
    assert joined.status_code == 201
    assert "key" not in joined.json()  # the browser keeps it where no script can read it
    sent = other.post(f"/v1/polls/{poll['id']}/answers", headers=own,
                      json={"answers": [{"kind": "list", "ranking": ["curry"]}]})  # fmt: skip
    assert sent.status_code == 201
    # No page of another origin may read an answer either.
    found = other.get(f"/v1/polls/{poll['id']}", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in found.headers
    assert found.headers["cross-origin-resource-policy"] == "same-origin"


def follow(client, key, site=None):
    """A link that a browser opens, from another site or not."""
    return client.get(f"/join/{key}", headers={"Accept": "text/html"} | ({"Sec-Fetch-Site": site} if site else {}))


def test_no_link_makes_somebody_another_person_unasked(keyed_client):
    poll = new_poll(keyed_client)
    address = f"/v1/polls/{poll['id']}"
    ann, eve = (person(keyed_client, poll, name)["Authorization"].removeprefix("Bearer ") for name in ("ann", "<b>eve"))
    other = TestClient(keyed_client.app, base_url="http://localhost", follow_redirects=False)

    def who():
        return other.get(address).json().get("name")

    # A browser that nobody uses yet: it is asked if the link came from elsewhere, or if it cannot say from where.
    for site in ("cross-site", "same-site", None):
        asked = follow(other, ann, site)
        assert asked.status_code == 200, site
        assert list(other.cookies) == ["pr-session"]
        assert "Go on as ann" in asked.text
        assert 'href="/p/' not in asked.text  # nowhere to go as somebody else
    assert follow(other, poll["keys"]["vote"], "cross-site").status_code == 200
    assert list(other.cookies) == ["pr-session"]
    assert follow(other, poll["keys"]["vote"]).status_code == 303  # this makes nobody of anybody
    assert follow(other, ann, "none").status_code == 303
    assert who() == "ann"
    # One that somebody uses: another person's link is asked about wherever it comes from.
    for site in ("cross-site", "none", "same-origin", None):
        asked = follow(other, eve, site)
        assert asked.status_code == 200
        assert "In this browser ann takes part." in asked.text
        assert "&lt;b&gt;eve" in asked.text
        assert who() == "ann"
    assert follow(other, ann, "cross-site").status_code == 303  # who they are already
    # The change itself is by the button of that page.
    token = re.search(r'name="csrf" content="([0-9a-f]{64})"', asked.text)[1]
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": token}
    for headers in ({}, own | {"Origin": "http://evil.example"}, own | {"Sec-Fetch-Site": "cross-site"},
                    own | {"X-CSRF-Token": "0" * 64}):  # fmt: skip
        assert other.post(f"/join/{eve}", headers=headers).status_code == 403
    assert who() == "ann"
    taken = other.post(f"/join/{eve}", headers=own)
    assert taken.json() == {"target": f"/p/{poll['id']}"}
    assert who() == "<b>eve"
    assert follow(other, "pr_000000000000_" + "A" * 32).status_code == 401


def test_a_page_behind_a_proxy_that_changes_the_name_may_act(tmp_path):
    with serving(tmp_path / "a.sqlite", public="https://poll.example.org", is_open=True) as client:
        poll = client.app_state.store.write(
            lambda db: create_poll(db, NewPoll(title="t", items=[Item(title="a"), Item(title="b")]))
        ).result()
        page = client.get(f"/p/{poll}")
        assert "Secure" in page.headers["set-cookie"]
        token = re.search(r'name="csrf" content="([0-9a-f]{64})"', page.text)[1]
        headers = {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": token}
        headers["Cookie"] = page.headers["set-cookie"].partition(";")[0]  # the client sends it by HTTPS only
        for origin, code in (("https://poll.example.org", 201), ("https://evil.example", 403)):
            found = client.post(f"/v1/polls/{poll}/people", json={}, headers=headers | {"Origin": origin})
            assert found.status_code == code, found.text


def test_an_open_server_is_not_open_to_other_sites(open_client):
    body = {"title": "evil", "items": [{"title": "a"}, {"title": "b"}]}
    for site in ("http://evil.example", "http://[", "http://[::1", "null", "", "localhost", "http://localhost.",
                 "file://", "\xff"):  # fmt: skip
        found = open_client.post("/v1/polls", json=body, headers={"Origin": site.encode("latin-1")})
        assert (found.status_code, found.json()["field"]) == (403, "Origin"), site
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost"}):
        assert open_client.post("/v1/polls", json=body, headers=headers).status_code == 403
    # A name of another site that points at this machine (DNS rebinding) is no name of this server.
    for host in ("evil.example", "evil.example:8000", "", "localhost.evil.example"):
        assert open_client.get("/v1/polls", headers={"Host": host}).status_code == 421
    for host in ("127.0.0.1:8000", "[::1]:8000", "localhost"):
        assert open_client.get("/health/live", headers={"Host": host}).status_code == 200


def test_bodies_rates_streams_and_guesses_have_limits(tmp_path):
    with serving(tmp_path / "a.sqlite", body_bytes=2_000, streams=0, rate=0.01, burst=60) as client:
        poll = new_poll(client)
        address = f"/v1/polls/{poll['id']}/answers"
        large = json.dumps({"answers": [{"kind": "list", "ranking": ["curry"] * 500}]})
        assert client.post(address, content=large).status_code == 413

        def parts():
            for _ in range(10):
                yield b" " * 1_000

        assert client.post(address, content=parts()).status_code == 413  # without a length that says so
        deep = "[" * 900 + "]" * 900
        assert client.post(address, content=deep, headers={"Content-Type": "application/json"}).status_code in (
            400,
            422,
        )
        assert client.get(f"/v1/polls/{poll['id']}/events").status_code == 429
        codes = [client.get("/health/live").status_code for _ in range(100)]
        assert codes.count(429) > 10


def test_wrong_keys_are_limited_and_keep_no_right_one_out(tmp_path):
    with serving(tmp_path / "b.sqlite", keys=True, rate=1000.0, burst=1000) as client:
        admin = client.app_state.store.write(lambda db: make_key(db, "admin")).result()
        wrong = [f"pr_{n:012x}_{'A' * 32}" for n in range(30)]
        ways = {
            "header": lambda key: client.get("/v1/polls", headers=bearer(key)),
            "link": lambda key: client.get(f"/join/{key}", headers={"Sec-Fetch-Site": "none"}),
            "cookie": lambda key: client.get("/v1/polls", headers={"Cookie": f"pr-admin-all={key}"}),
        }
        for way, ask in ways.items():
            client.app_state.door._wrong._left.clear()
            codes = [ask(key).status_code for key in wrong]
            assert codes[0] == 401, way
            assert codes[-1] == 429, way
            for right in ways.values():
                client.cookies.clear()
                assert right(admin).status_code == 200, way
        client.cookies.clear()
        assert client.get("/health/live", headers={"Cookie": f"pr-vote-old={wrong[0]}"}).status_code == 200


def test_who_may_ask_a_model_may_not_write_lists_of_its_people(tmp_path):
    with serving(tmp_path / "a.sqlite", keys=True, is_open=True) as client:
        keys = {role: client.app_state.store.write(lambda db, role=role: make_key(db, role)).result()
                for role in ("model", "lists")}  # fmt: skip
        for method in ("PUT", "DELETE"):
            body = {"ranking": ["a"]} if method == "PUT" else None
            codes = [client.request(method, "/v1/model/people/ann", json=body, headers=headers).status_code
                     for headers in ({}, bearer(keys["model"]), bearer(keys["lists"]))]  # fmt: skip
            assert codes == [401, 403, 404]  # the last: no model is served here
        assert client.get("/v1/model").status_code == 404


def test_titles_and_names_that_look_the_same_are_the_same_and_none_is_blank(open_client):
    open_client.cookies.clear()
    items = [{"title": "a"}, {"title": "b"}]
    blank = ("", " ", "\u00a0", "\u3000\u2003", "\u200b", "\u2060\ufeff", "\u3164", "\u2800", "\u00ad", "\ufe0f", "\n")
    for nothing in blank:
        for body in ({"title": nothing, "items": items}, {"title": "t", "items": [*items, {"title": nothing}]},
                     {"title": "t", "items": [*items, {"title": "c", "id": nothing}]}):  # fmt: skip
            assert open_client.post("/v1/polls", json=body).status_code == 422, ascii(nothing)
    same = (
        "ann lee",
        " ann  lee",
        "ann\u00a0lee",
        "a\u200bnn lee",
        "ann\u2060 lee\u200f",
        "ann lee\ufe0f",
        "\ufeffann lee",
    )
    poll = new_poll(open_client)
    assert open_client.patch(f"/v1/polls/{poll['id']}", json={"title": "\u200b"}).status_code == 422
    codes = [open_client.post(f"/v1/polls/{poll['id']}/people", json={"name": name}).status_code for name in same]
    assert codes == [201] + [409] * (len(same) - 1)
    twice = {"title": "t", "items": [{"title": "cafe\u0301"}, {"title": "caf\u00e9"}]}
    refused = open_client.post("/v1/polls", json=twice)
    assert refused.status_code == 422
    assert refused.json()["field"] == "items"
    # What a script needs stays: joiners in Persian and Hindi, the parts of an emoji.
    words = ["می\u200cخواهم", "क्\u200dष", "👩🏽\u200d🍳", "❤\ufe0f\u200d🔥"]
    kept = new_poll(open_client, words)
    shown = open_client.get(f"/v1/polls/{kept['id']}").json()["items"]
    assert [one["title"] for one in shown] == [one["id"] for one in shown] == words
    send(open_client, kept, person(open_client, kept), {"kind": "list", "ranking": words})


def test_a_result_is_shown_when_the_organiser_says(keyed_client):
    poll = new_poll(keyed_client, shows="voted")
    ann = person(keyed_client, poll, "ann")
    address = f"/v1/polls/{poll['id']}/result"
    assert keyed_client.get(address, headers=ann).status_code == 403
    send(keyed_client, poll, ann, {"kind": "list", "ranking": ["curry", "pizza"]})
    assert keyed_client.get(address, headers=ann).status_code == 200
    admin = bearer(poll["keys"]["admin"])
    keyed_client.patch(f"/v1/polls/{poll['id']}", json={"shows": "closed"}, headers=admin)
    assert keyed_client.get(address, headers=ann).status_code == 403
    assert keyed_client.get(address, headers=bearer(poll["keys"]["read"])).status_code == 200
    # Nor does the order of the questions tell what the others think.
    asked = [keyed_client.get(f"/v1/polls/{poll['id']}/question", headers=who).json()["order"]
             for who in (person(keyed_client, poll, "bob"), admin)]  # fmt: skip
    assert {one["before_next"] for one in asked[0][:-1]} == {0.5}
    assert {one["before_next"] for one in asked[1][:-1]} != {0.5}
    keyed_client.patch(f"/v1/polls/{poll['id']}", json={"state": "closed"}, headers=admin)
    assert keyed_client.get(address, headers=ann).status_code == 200
