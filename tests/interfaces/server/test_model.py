"""Questions to a model through the API, and learning again."""

import json
import time

import numpy as np
import pytest

import permrank as pr
from interfaces_server import eventually, new_poll, person, send, serving
from permrank.interfaces.server import learning, versions
from permrank.interfaces.server.results import Ballots, Person
from permrank.interfaces.server.serving import loaded
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.state import Holders


@pytest.fixture(scope="module")
def rankings():
    # Two tastes that list different things: so what is listed says something.
    tastes = [[f"dish {n:02}" for n in range(12)], [f"dish {n:02}" for n in range(8, 20)]]
    rng = np.random.default_rng(3)
    return pr.Rankings.from_lists({f"user-{n:04}": rng.permutation(tastes[n % 2])[:6].tolist() for n in range(80)})


@pytest.fixture(scope="module")
def model(rankings):
    made = pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=2).fit(rankings)
    assert made.chosen_  # so that lists take the quick way
    return made


@pytest.fixture(scope="module")
def client(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model.save(folder / "m.permrank")
    with serving(folder / "a.sqlite", model=str(folder / "m.permrank")) as found:
        yield found


def ask(client, question, body, code=200):
    found = client.post(f"/v1/model/{question}", json=body)
    assert found.status_code == code, found.text
    return found.json()


def test_answers_are_those_of_the_model_for_known_people_and_for_lists(client, model):
    known = model.user_ids[3]
    items = list(model.item_ids)[:5]
    someone = model.fold_in([items[0], {items[1], items[2]}])
    for who, body in ((known, {"person": known}), (someone, {"ranking": [items[0], [items[1], items[2]]]})):
        expected = model.recommend(who, k=4)
        found = ask(client, "recommend", {**body, "k": 4, "reasons": True})["items"]
        assert [one["item"] for one in found] == expected["item"].to_list()
        np.testing.assert_allclose([one["score"] for one in found], expected["score"], rtol=1e-4)
        assert model.because(who, found[0]["item"]).endswith(found[0]["because"])
        rank = ask(client, "rank", {**body, "items": items, "interval": True})["items"]
        assert [one["item"] for one in rank] == model.rank(who, items)["item"].to_list()
        told = ask(client, "prefers", {**body, "pairs": [[items[3], items[4]], [items[4], items[3]]]})["probabilities"]
        assert told[0] == pytest.approx(model.prefers(who, items[3], items[4]))
        assert sum(told) == pytest.approx(1.0)
        reasons = ask(client, "explain", {**body, "item": items[4]})
        assert reasons["because"] == model.because(who, items[4])
    excluded = ask(client, "recommend", {"person": known, "k": 3, "exclude": [expected["item"][0]]})["items"]
    assert expected["item"][0] not in [one["item"] for one in excluded]
    assert len(excluded) == 3
    similar = client.get(f"/v1/model/similar/{items[0]}?k=3").json()["items"]
    assert [one["item"] for one in similar] == model.similar_items(items[0], 3)["item"].to_list()
    batch = ask(client, "recommend/batch", {"people": [{"person": known}, {"ranking": [items[0]]}], "k": 2})["people"]
    assert [one["item"] for one in batch[0]] == model.recommend(known, k=2)["item"].to_list()
    assert [one["item"] for one in batch[1]] == model.recommend(model.fold_in([items[0]]), k=2)["item"].to_list()
    found = client.get("/v1/model/items?search=sh&limit=2").json()
    assert len(found["items"]) == 2
    again = client.get(f"/v1/model/items?search=sh&limit=2&after={found['next']}").json()
    assert not {one["item"] for one in found["items"]} & {one["item"] for one in again["items"]}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"person": "nobody-of-that-name"}, 404, "user"),
        ({"ranking": ["no such dish"]}, 404, "ranking"),
        ({"ranking": ["goulash", "goulash"]}, 422, "ranking"),
        ({"ranking": ["goulash"], "person": "ann"}, 422, "ranking"),
        ({"k": 0, "ranking": []}, 422, "k"),
        ({"k": True, "ranking": []}, 422, "k"),
    ],
)
def test_a_bad_question_is_a_problem_that_names_the_field(client, model, body, code, field):
    body = json.loads(json.dumps(body).replace("goulash", str(model.item_ids[0])))
    problem = ask(client, "recommend", body, code)
    assert problem["field"] == field
    assert problem["remedy"]


def test_what_a_person_says_counts_at_once_is_learnt_and_can_be_erased(client, model):
    items = list(model.item_ids)
    before = ask(client, "recommend", {"ranking": items[3:6], "k": 3})["items"]
    kept = client.put("/v1/model/people/newcomer", json={"ranking": items[3:6]})
    assert kept.status_code == 200, kept.text
    assert ask(client, "recommend", {"person": "newcomer", "k": 3})["items"] == before
    wrong = client.put("/v1/model/people/newcomer", json={"ratings": {items[0]: 3.0}})
    assert wrong.json()["field"] == "ranking"
    state = client.app_state
    settings = Settings(str(state.store.path), state.settings.model, refit_answers=1, refit_seconds=0.0)
    assert versions.model_is_due(state.store, settings)
    assert not versions.model_is_due(state.store, Settings(settings.db, settings.model, refit_answers=2))
    version = learning.refit_model(state.store, settings.model)
    learnt = loaded(version, str(versions.file_of(state.store, version)), time.time()).model
    assert "newcomer" in learnt.user_ids
    assert learnt.rankings_.lists("newcomer") == [items[3:6]]
    eventually(lambda: client.get("/v1/model").json()["version"] == version)
    assert client.get("/v1/model").json()["people"] == model.rankings_.n_users + 1
    assert client.delete("/v1/model/people/newcomer").json()["answers"] == 1
    assert not versions.model_is_due(state.store, settings)


def test_without_a_model_its_questions_are_not_found(open_client):
    assert ask(open_client, "recommend", {"ranking": []}, 404)["remedy"]


def test_two_tastes_are_found_and_one_taste_is_not_two():
    def people(orders):
        found = {}
        for n, order in enumerate(orders):
            found[str(n)] = Person()
            found[str(n)].add("tiers", json.dumps([[item] for item in order]))
        return Ballots(found, {}, len(found), len(found))

    rng = np.random.default_rng(5)
    items = [f"item {n}" for n in range(6)]

    def noisy(order):  # neighbours change places now and then
        order = list(order)
        at = int(rng.integers(len(order) - 1))
        order[at : at + 2] = order[at : at + 2][:: int(rng.choice([-1, 1]))]
        return order

    two = people([noisy(items if n % 2 else items[::-1]) for n in range(40)])
    assert len(learning.communities_of(two, items)) == 2
    assert learning.communities_of(people([noisy(items) for _ in range(19)]), items) == []  # too few to say


def test_live_results_come_as_events(open_client):
    import anyio

    poll = new_poll(open_client)
    ann = person(open_client, poll, "ann")
    polls = open_client.app_state.polls

    async def watch():
        events = polls.events(Holders(poll["id"], "127.0.0.1", None))
        first = await anext(events)
        send_one = open_client.app_state.store.write(
            lambda db: db.execute("UPDATE polls SET state = 'closed' WHERE id = ?", (poll["id"],))
        )
        with anyio.fail_after(60):
            second = await anext(events)
        await events.aclose()
        return first, second, send_one.result()

    send(open_client, poll, ann, {"kind": "list", "ranking": ["curry"]})
    first, second, _ = anyio.run(watch)
    assert first.startswith("event: change\ndata: ")
    assert json.loads(first.split("data: ")[1])["state"] == "open"
    assert json.loads(second.split("data: ")[1])["state"] == "closed"
