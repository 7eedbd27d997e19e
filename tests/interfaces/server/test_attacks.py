"""What must not get in, get out or run."""

import json
import re

from fastapi.testclient import TestClient

from interfaces_server import bearer, new_poll, person, send, serving
from permrank.interfaces.server.keys import find_key, make_key

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{1234*5678}}"


def addresses(client, poll):
    """Every address that a key guards, with a body that would do something."""
    base = f"/v1/polls/{poll}"
    return [
        ("POST", "/v1/polls", {"title": "x", "items": [{"title": "a"}, {"title": "b"}]}),
        ("GET", "/v1/polls", None), ("GET", base, None), ("PATCH", base, {"state": "closed"}), ("DELETE", base, None),
        ("POST", f"{base}/keys", {"role": "admin"}), ("GET", f"{base}/keys", None),
        ("DELETE", f"{base}/keys/0123456789ab", None), ("POST", f"{base}/people", {}), ("GET", f"{base}/people", None),
        ("DELETE", f"{base}/people/me", None), ("DELETE", f"{base}/people/0123", None),
        ("POST", f"{base}/answers", {"answers": [{"kind": "list", "ranking": ["curry"]}]}),
        ("GET", f"{base}/answers", None), ("GET", f"{base}/answers/mine", None), ("GET", f"{base}/question", None),
        ("GET", f"{base}/result", None), ("GET", f"{base}/events", None), ("GET", f"{base}/export", None),
        ("GET", "/metrics", None), ("GET", "/v1/model", None), ("GET", "/v1/model/items", None),
        ("POST", "/v1/model/recommend", {"ranking": ["a"]}), ("POST", "/v1/model/recommend/batch", {"people": [{}]}),
        ("POST", "/v1/model/rank", {"items": ["a"]}), ("POST", "/v1/model/prefers", {"pairs": [["a", "b"]]}),
        ("POST", "/v1/model/explain", {"item": "a"}), ("GET", "/v1/model/similar/a", None),
        ("PUT", "/v1/model/people/ann", {"ranking": ["a"]}), ("DELETE", "/v1/model/people/ann", None),
        ("GET", f"/p/{poll}", None), ("GET", f"/p/{poll}/choose", None), ("GET", f"/p/{poll}/result", None),
        ("GET", "/recommend", None), ("GET", "/admin", None), ("GET", f"/admin/{poll}", None),
    ]  # fmt: skip


def test_the_list_of_guarded_addresses_is_complete(keyed_client):
    poll = "POLL"
    listed = {(method, path.replace(poll, "{poll}")) for method, path, _ in addresses(keyed_client, poll)}
    described = keyed_client.get("/v1/openapi.json").json()["paths"]
    open_to_all = {"/health/live", "/health/ready"}
    for path, methods in described.items():
        for method in methods:
            pattern = re.sub(r"\\{(key|person|item)\\}", r"[^/]+", re.escape(path)).replace(r"\{poll\}", r"\{poll\}")
            found = any(one == method.upper() and re.fullmatch(pattern, where) for one, where in listed)
            assert found or path in open_to_all, (method, path)


def test_nothing_gets_in_without_a_key_or_with_a_wrong_one(keyed_client):
    client, poll = keyed_client, new_poll(keyed_client)
    good = poll["keys"]["admin"]
    other = client.app_state.store.write(lambda db: make_key(db, "vote", "another-poll")).result()
    wrong = [
        None, "", "Bearer", "Bearer ", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", f"Bearer {other}",
        f"Bearer {good[:16]}{'A' * 32}", "Bearer pr_000000000000_" + "A" * 32, "Bearer ' OR 1=1 --",
    ]  # fmt: skip
    before = client.get("/v1/polls", headers=bearer(client.admin)).json()
    for method, path, body in addresses(client, poll["id"]):
        for header in wrong:
            headers = {} if header is None else {"Authorization": header}
            found = client.request(method, path, json=body, headers=headers)
            assert found.status_code in (401, 403), (method, path, header, found.status_code)
    assert client.get("/v1/polls", headers=bearer(client.admin)).json() == before


def test_a_key_of_one_poll_opens_no_other_and_a_role_no_more_than_its_own(keyed_client):
    client = keyed_client
    mine, other = new_poll(client, title="mine"), new_poll(client, title="other")
    ann = person(client, mine, "ann")
    send(client, mine, ann, {"kind": "list", "ranking": ["curry", "pizza"]})
    allowed = {
        "read": {("GET", ""), ("GET", "/answers/mine"), ("GET", "/result"), ("GET", "/events")},
        "vote": {("GET", ""), ("GET", "/answers/mine"), ("GET", "/result"), ("GET", "/events"), ("GET", "/question"),
                 ("POST", "/people"), ("POST", "/answers")},
    }  # fmt: skip
    keys = {role: bearer(mine["keys"][role]) for role in allowed} | {"person": ann}
    for role, headers in keys.items():
        for method, path, body in addresses(client, other["id"]):
            assert client.request(method, path, json=body, headers=headers).status_code == 403, (role, method, path)
        for method, path, body in addresses(client, mine["id"]):
            tail = path.removeprefix(f"/v1/polls/{mine['id']}")
            if path.startswith(("/p/", "/v1/polls/")) and (
                path.startswith("/p/") or (method, tail) in allowed.get(role, allowed["vote"]) or tail == "/people/me"
            ):
                continue
            assert client.request(method, path, json=body, headers=headers).status_code == 403, (role, method, path)
    # A poll's admin is no admin of the server; and unknown polls look like those that one may not see.
    poll_admin = bearer(mine["keys"]["admin"])
    assert client.get("/v1/polls", headers=poll_admin).status_code == 403
    codes = {client.get(f"/v1/polls/{name}", headers=ann).status_code for name in (other["id"], "no-such-poll")}
    assert codes == {403}
    # Nobody votes for somebody else, and one who has a person's key is not given another vote.
    found = client.post(f"/v1/polls/{mine['id']}/answers", headers=ann,
                        json={"answers": [{"kind": "list", "ranking": ["curry"]}], "person": "bob"})  # fmt: skip
    assert found.status_code == 403
    assert client.post(f"/v1/polls/{mine['id']}/people", json={}, headers=ann).status_code == 409
    # A revoked key is worth nothing.
    key = mine["keys"]["read"]
    assert client.delete(f"/v1/polls/{mine['id']}/keys/{key.split('_')[1]}", headers=poll_admin).status_code == 204
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


def test_an_open_server_is_not_open_to_other_sites(open_client):
    body = {"title": "evil", "items": [{"title": "a"}, {"title": "b"}]}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost"},
    ):
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
    with serving(tmp_path / "b.sqlite", keys=True, rate=1000.0, burst=1000) as client:
        codes = [client.get("/v1/polls", headers=bearer(f"pr_{n:012x}_{'A' * 32}")).status_code for n in range(60)]
        assert codes[0] == 401
        assert codes[-1] == 429


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
