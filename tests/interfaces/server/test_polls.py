"""Polls through the API: answers in, results, questions and exports out."""

import json
import sqlite3

import numpy as np
import pytest

import permrank as pr
from interfaces_server import DISHES, NAME, holding, new_poll, person, send, serving
from permrank.interfaces.server import erasing
from permrank.interfaces.server.store import Store

BALLOTS = {
    "ann": [["curry"], ["pizza"], ["ramen", "salad"]],
    "bob": [["pizza"], ["curry"], ["tacos"], ["ramen"], ["salad"]],
    "cat": [["curry", "tacos"], ["salad"]],
}


def vote(client, poll):
    people = {}
    for name, ranking in BALLOTS.items():
        people[name] = person(client, poll, name)
        send(client, poll, people[name], {"kind": "tiers", "ranking": ranking, "shown": DISHES})
    return people


def test_the_result_is_that_of_the_library_and_so_are_both_exports(open_client, tmp_path):
    poll = new_poll(open_client)
    people = vote(open_client, poll)
    send(open_client, poll, people["ann"], {"kind": "pair", "better": "tacos", "worse": "salad"},
         {"kind": "best_worst", "items": ["curry", "pizza", "tacos"], "best": "curry", "worst": "tacos"},
         {"kind": "skip", "items": ["pizza", "tacos"]})  # fmt: skip
    found = open_client.get(f"/v1/polls/{poll['id']}/result", headers=people["ann"]).json()
    assert (found["people"], found["answers"]) == (3, 6)
    lists = [[tier if len(tier) > 1 else tier[0] for tier in BALLOTS[name]] for name in ("ann", "bob", "cat")]
    lists += [["tacos", "salad"], ["curry", "pizza", "tacos"]]
    users = ["ann", "bob", "cat", "ann", "ann"]
    # Ann has made 2 + 1 + 2 choices, of the 4 that make an order of five.
    weights = [4 / 5 if user == "ann" else 1.0 for user in users]
    expected = pr.PlackettLuce(prior="gaussian").fit(
        pr.Rankings.from_lists(lists, users=users, weights=weights, items=DISHES, unlisted="ignore")
    )
    scores = dict(zip(expected.item_ids, expected.scores_, strict=True))
    assert [one["item"] for one in found["items"]] == expected.worths()["item"].to_list()
    groups = expected.tie_groups().to_dicts()
    for one, group in zip(found["items"], groups, strict=True):
        assert one["score"] == pytest.approx(scores[one["item"]], abs=1e-6)
        assert (one["rank_low"], one["rank_high"], one["group"]) == (
            group["rank_low"],
            group["rank_high"],
            group["group"],
        )
    assert sum(one["favourite"] for one in found["items"]) == pytest.approx(1.0)
    assert sum(one["first_choice"] for one in found["items"]) == pytest.approx(1.0)
    path = tmp_path / "poll.jsonl"
    path.write_bytes(open_client.get(f"/v1/polls/{poll['id']}/export").content)
    again = pr.PlackettLuce(prior="gaussian").fit(pr.read(path, unlisted="ignore"))
    np.testing.assert_allclose(again.scores_, expected.scores_, atol=1e-6)
    refused = open_client.get(f"/v1/polls/{poll['id']}/export?format=preflib")
    assert refused.status_code == 422  # ann's weights are no whole numbers
    assert "whole numbers" in refused.json()["detail"]


def test_a_poll_of_lists_is_exported_as_preflib_to_the_same_result(open_client, tmp_path):
    poll = new_poll(open_client)
    vote(open_client, poll)
    path = tmp_path / "poll.toi"
    path.write_bytes(open_client.get(f"/v1/polls/{poll['id']}/export?format=preflib").content)
    model = pr.PlackettLuce(prior="gaussian").fit(pr.read(path, unlisted="ignore"))
    found = open_client.get(f"/v1/polls/{poll['id']}/result").json()
    scores = dict(zip(model.item_ids, model.scores_, strict=True))
    assert {one["item"]: pytest.approx(one["score"], abs=1e-6) for one in found["items"]} == scores


def test_a_correction_counts_instead_of_what_it_corrects_and_history_stays(open_client):
    poll = new_poll(open_client)
    ann = person(open_client, poll, "ann")
    for ranking in (["curry", "pizza"], ["pizza", "curry"]):
        send(open_client, poll, ann, {"kind": "list", "ranking": ranking})
    for better, worse in (("ramen", "salad"), ("salad", "ramen")):
        send(open_client, poll, ann, {"kind": "pair", "better": better, "worse": worse})
    lines = open_client.get(f"/v1/polls/{poll['id']}/export").text.splitlines()
    assert [json.loads(line)["ranking"] for line in lines[1:]] == [[["pizza"], ["curry"]], [["salad"], ["ramen"]]]
    page = open_client.get(f"/v1/polls/{poll['id']}/answers?limit=3").json()
    rest = open_client.get(f"/v1/polls/{poll['id']}/answers?limit=3&after={page['next']}").json()
    assert len(page["answers"]) == 3
    assert len(rest["answers"]) == 1
    assert rest["next"] is None
    assert open_client.get(f"/v1/polls/{poll['id']}/answers/mine", headers=ann).json() == {
        "ranking": [["pizza"], ["curry"]]
    }


def test_the_same_key_stores_once_and_another_answer_under_it_is_refused(open_client):
    poll = new_poll(open_client)
    ann = person(open_client, poll, "ann")
    answer, once = {"kind": "pair", "better": "curry", "worse": "pizza"}, {"Idempotency-Key": "k1"}
    first = send(open_client, poll, ann | once, answer)
    again = send(open_client, poll, ann | once, answer)
    assert first["answers"][0]["seq"] == again["answers"][0]["seq"]
    assert (first["answers"][0]["again"], again["answers"][0]["again"]) == (False, True)
    other = {"kind": "pair", "better": "pizza", "worse": "curry"}
    refused = send(open_client, poll, ann | once, other, code=409)
    assert refused["field"] == "key"
    # A batch is stored whole or not at all.
    send(open_client, poll, ann, {"kind": "list", "ranking": ["salad"]}, other | {"key": "k1/0"}, code=409)
    assert open_client.get(f"/v1/polls/{poll['id']}/answers").json()["answers"][-1]["kind"] == "pair"


def test_another_body_under_a_key_of_the_header_is_refused_whole(open_client):
    poll = new_poll(open_client)
    ann, bob = person(open_client, poll, "ann"), person(open_client, poll, "bob")
    address, once = f"/v1/polls/{poll['id']}/answers", {"Idempotency-Key": "k"}
    pair, other = ({"kind": "pair", "better": "curry", "worse": worse} for worse in ("pizza", "ramen"))
    send(open_client, poll, ann | once, pair, other)
    assert [one["again"] for one in send(open_client, poll, ann | once, pair, other)["answers"]] == [True, True]
    for body in ([pair], [pair, other, pair], [other, pair], [pair, other | {"shown": ["curry"]}],
                 [pair, other | {"key": "own"}], [{"kind": "skip", "items": ["curry", "pizza"]}]):  # fmt: skip
        refused = send(open_client, poll, ann | once, *body, code=409)
        assert refused["field"] in ("key", "Idempotency-Key")
    assert len(open_client.get(address).json()["answers"]) == 2
    send(open_client, poll, bob | once, other)  # a key belongs to whoever sends it
    for name, code in (("cat", 201), ("cat", 201), ("dan", 409)):
        found = open_client.post(address, json={"answers": [pair], "person": name}, headers=once)
        assert found.status_code == code, found.text
    assert len(open_client.get(address).json()["answers"]) == 4
    assert len(open_client.get(f"/v1/polls/{poll['id']}/people").json()["people"]) == 3


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"kind": "list", "ranking": ["curry", "curry"]}, "answers.0"),
        ({"kind": "list", "ranking": ["sushi"]}, "answers.0"),
        ({"kind": "list", "ranking": []}, "answers.0.list.ranking"),
        ({"kind": "pair", "better": "curry", "worse": "curry"}, "answers.0"),
        ({"kind": "best_worst", "items": DISHES[:3], "best": "curry", "worst": "tacos"}, "answers.0.best"),
        ({"kind": "guess"}, "answers.0"),
        ({"kind": "list", "ranking": ["curry"], "more": 1}, "answers.0.list.more"),
        ({"kind": "list", "ranking": ["\ud800"]}, "answers.0.list.ranking.0"),
    ],
)  # fmt: skip
def test_a_bad_answer_is_a_problem_that_names_the_field(open_client, answer, field):
    poll = new_poll(open_client)
    ann = person(open_client, poll)
    body = json.dumps({"answers": [answer]})
    found = open_client.post(f"/v1/polls/{poll['id']}/answers", content=body,
                             headers=ann | {"Content-Type": "application/json"})  # fmt: skip
    assert found.status_code == 422
    assert found.headers["content-type"] == "application/problem+json"
    problem = found.json()
    assert problem["field"] == field
    assert problem["remedy"]
    assert problem["status"] == 422


def test_a_name_votes_once_a_closed_poll_takes_nothing_and_pages_follow_each_other(open_client):
    poll = new_poll(open_client)
    ann = person(open_client, poll, "ann")
    address = f"/v1/polls/{poll['id']}"
    taken = open_client.post(f"{address}/people", json={"name": "ann"})
    assert taken.status_code == 409
    assert taken.json()["field"] == "name"
    for n in range(4):
        person(open_client, poll, f"p{n}")
    first = open_client.get(f"{address}/people?limit=3").json()
    second = open_client.get(f"{address}/people?limit=3&after={first['next']}").json()
    assert len({one["id"] for one in first["people"] + second["people"]}) == 5
    assert second["next"] is None
    assert open_client.patch(address, json={"state": "closed"}).json()["state"] == "closed"
    send(open_client, poll, ann, {"kind": "list", "ranking": ["curry"]}, code=409)
    assert open_client.post(f"{address}/people", json={}).status_code == 409


def test_results_have_etags_and_say_what_is_close_cyclic_and_different(open_client):
    poll = new_poll(open_client, ["rock", "paper", "scissors"])
    address = f"/v1/polls/{poll['id']}"
    orders = (["rock", "scissors", "paper"], ["scissors", "paper", "rock"], ["paper", "rock", "scissors"])
    people = [person(open_client, poll) for _ in orders]
    for headers, ranking in zip(people, orders, strict=True):
        send(open_client, poll, headers, {"kind": "list", "ranking": ranking})
    found = open_client.get(f"{address}/result", headers=people[0])
    assert (
        open_client.get(f"{address}/result", headers=people[0] | {"If-None-Match": found.headers["etag"]}).status_code
        == 304
    )
    body = found.json()
    assert [sorted(cycle) for cycle in body["cycles"]] == [["paper", "rock", "scissors"]]
    assert {one["group"] for one in body["items"]} == {1}
    assert len(body["close"]) == 2
    assert all(0.4 <= one["probability"] <= 0.6 for one in body["close"])
    assert 0.0 <= body["you"]["agree"] <= 1.0
    send(open_client, poll, people[1], {"kind": "list", "ranking": orders[0]})
    now = open_client.get(f"{address}/result", headers=people[0] | {"If-None-Match": found.headers["etag"]})
    assert now.status_code == 200
    assert now.json()["cycles"] == []


def test_questions_lead_to_the_order_that_answers_them_and_then_it_is_enough(open_client):
    truth = [f"item {n}" for n in range(8)]
    poll = new_poll(open_client, truth[5:] + truth[2:5] + truth[:2])
    ann = person(open_client, poll, "ann")
    address, sure = f"/v1/polls/{poll['id']}/question", []
    for n in range(28):
        asked = open_client.get(address, headers=ann).json()
        sure.append(asked["certainty"])
        assert asked["answered"] == n
        if asked["enough"]:
            break
        better, worse = sorted(asked["items"], key=truth.index)
        send(open_client, poll, ann, {"kind": "pair", "better": better, "worse": worse, "shown": asked["items"]})
    assert asked["enough"]
    assert n < 28  # of 28 pairs some follow from others
    assert sure[-1] > 0.8 > 0.55 > sure[0]
    order = [one["item"] for one in asked["order"]]
    right = np.mean([order.index(a) < order.index(b) for i, a in enumerate(truth) for b in truth[i + 1 :]])
    assert right >= 0.9
    # A question that is passed over is not asked again; four items can be asked about at once.
    bob = person(open_client, poll, "bob")
    first = open_client.get(address, headers=bob).json()["items"]
    send(open_client, poll, bob, {"kind": "skip", "items": first})
    assert set(open_client.get(address, headers=bob).json()["items"]) != set(first)
    assert len(set(open_client.get(f"{address}?kind=best_worst", headers=bob).json()["items"])) == 4


def test_a_person_is_erased_from_the_file_and_answers_cannot_be_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(erasing, "_WAIT", 60.0)
    path = tmp_path / "a.sqlite"
    with serving(path) as client:
        poll = new_poll(client)
        ann, bob = person(client, poll, NAME), person(client, poll, "bob")
        send(client, poll, ann, {"kind": "list", "ranking": ["curry", "pizza"]})
        send(client, poll, bob, {"kind": "list", "ranking": ["pizza", "salad"]})
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            client.app_state.store.write(lambda db: db.execute("UPDATE answers SET said = '[]'")).result()
        with pytest.raises(sqlite3.IntegrityError, match="are kept"):
            client.app_state.store.write(lambda db: db.execute("DELETE FROM answers")).result()
        gone = client.delete(f"/v1/polls/{poll['id']}/people/me", headers=ann)
        assert gone.status_code == 200
        assert (gone.json()["answers"], gone.json()["pending"]) == (1, False)
        assert client.get(f"/v1/polls/{poll['id']}/result", headers=ann).status_code == 401  # the key is gone too
        assert client.get(f"/v1/polls/{poll['id']}/result", headers=bob).json()["people"] == 1
        assert holding(tmp_path, NAME) == []
        gone = client.delete(f"/v1/polls/{poll['id']}")
        assert gone.json() == {"erased": poll["id"], "answers": 1, "pending": False}
        assert client.get(f"/v1/polls/{poll['id']}").status_code == 404


def test_two_applications_on_one_file_see_one_state(tmp_path):
    path = tmp_path / "a.sqlite"
    with serving(path) as one, serving(path) as other:
        poll = new_poll(one)
        ann, bob = person(one, poll, "ann"), person(other, poll, "bob")
        send(one, poll, ann, {"kind": "list", "ranking": ["curry", "pizza"]})
        assert other.get(f"/v1/polls/{poll['id']}/result", headers=bob).json()["people"] == 1
        send(other, poll, bob, {"kind": "list", "ranking": ["curry", "pizza"]})
        bodies = [client.get(f"/v1/polls/{poll['id']}/result").json() | {"age": 0} for client in (one, other)]
        assert bodies[0] == bodies[1]
        assert bodies[0]["people"] == 2


def test_a_failed_job_takes_no_other_with_it_and_a_full_disk_is_said(tmp_path):
    store = Store(tmp_path / "a.sqlite")
    made = [store.write(lambda db, n=n: db.execute("INSERT INTO meta VALUES (?, ?)", ("same" if n else "own", b"x")))
            for n in range(3)]  # fmt: skip
    kept = [future.exception() is None for future in made]
    assert kept == [True, True, False]
    assert len(store.rows("SELECT * FROM meta")) == 2
    store.close()
    with serving(tmp_path / "b.sqlite") as client:
        poll = new_poll(client)
        ann = person(client, poll)
        client.app_state.store.write(lambda db: db.execute("PRAGMA max_page_count = 1")).result()
        answers = [{"kind": "list", "ranking": DISHES, "shown": DISHES}] * 900
        found = client.post(f"/v1/polls/{poll['id']}/answers", json={"answers": answers}, headers=ann)
        assert found.status_code == 507
        assert found.json()["remedy"]
