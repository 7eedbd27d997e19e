"""Lists of a model's people: what may be one, whose model learns from it, and how it is forgotten."""

import json
import logging
import shutil

import numpy as np
import polars as pl
import pytest

import permrank as pr
from interfaces_server import NAME, eventually, holding, new_poll, person, send, serving
from permrank.interfaces.server import erasing, learning, versions
from permrank.interfaces.server.learning import Learner
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.versions import changed_polls, model_is_due


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Model files: of ratings with whole numbers for ids and with titles, and two of lists."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    rows = [(user, item, float(rng.integers(1, 6))) for user in range(1, 21) for item in range(1, 9)]
    columns = dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True))
    titles = pl.DataFrame({"item": range(1, 9), "title": [f"Dish {at}" for at in range(1, 9)]})
    pr.MeanRating().fit(pr.Rankings.from_ratings(columns).with_items(titles)).save(folder / "ratings.permrank")
    for name, order in (("one", range(6)), ("other", range(5, -1, -1))):
        ballots = {f"p{n}": [f"dish {at}" for at in order] for n in range(3)}
        pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists(ballots)).save(folder / f"{name}.permrank")
    return folder


def settings_of(client):
    found = client.app_state.settings
    return Settings(found.db, found.model, refit_answers=1, refit_seconds=0.0)


def put(client, who, code=200, **body):
    found = client.put(f"/v1/model/people/{who}", json=body)
    assert found.status_code == code, found.text
    return found.json()


def learn(client):
    return learning.refit_model(client.app_state.store, client.app_state.settings.model)


def until_served(client, version):
    eventually(lambda: client.get("/v1/model").json()["version"] == version)


BAD = {
    "ratings": [
        (str(2**63), {"Dish 1": 3.0}, 422, "person"),
        ("-9223372036854775809", {"1": 3.0}, 422, "person"),
        ("ann", {"1": 3.0}, 404, "person"),
        ("7", {"1": 3.0, "Dish 1": 4.0}, 422, "ratings"),
        ("7", {"1": 1e300}, 422, "ratings.1"),
        ("7", {"1": 0.0}, 422, "ratings.1"),
        ("7", {"99": 3.0}, 404, "ratings"),
    ],
    "one": [
        ("%20", ["dish 1"], 422, "person"),
        ("%E3%80%80", ["dish 1"], 422, "person"),
        ("ann", ["dish 1", "dish 1"], 422, "ranking"),
        ("ann", [["dish 1", "dish 1"]], 422, "ranking"),
        ("ann", ["none"], 404, "ranking"),
    ],
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_learnt_is_refused_at_the_door_and_left_out_behind_it(tmp_path, files, caplog, kind):
    takes = "ratings" if kind == "ratings" else "ranking"
    good = {"Dish 2": 5.0, "3": 1.0} if kind == "ratings" else ["dish 5", ["dish 1", "dish 2"]]
    with serving(tmp_path / "a.sqlite", model=str(files / f"{kind}.permrank")) as client:
        made = client.app_state.store
        for who, said, code, field in BAD[kind]:
            problem = put(client, who, code, **{takes: said})
            assert problem["field"] == field, (who, said, problem)
            assert problem["remedy"]
        assert put(client, "7", 422)["field"] == "ranking"
        assert put(client, "7", 422, ranking=["1"], ratings={"1": 1.0})["field"] == "ranking"
        assert made.rows("SELECT * FROM lists") == []
        put(client, "77", **{takes: good})
        base = client.app_state.serving.base
        for at, (who, said, *_) in enumerate(BAD[kind]):  # as if the door had let them in
            row = (base, f"{who.replace('%20', ' ').replace('%E3%80%80', chr(0x3000))}", json.dumps(said))
            if row[1] in ("7", "ann"):
                row = (base, f"{at}{at}{at}" if row[1] == "7" else row[1] + "x" * at, row[2])
            made.write(lambda db, row=row: learning.keep_list(db, *row, 0)).result()
        with caplog.at_level(logging.WARNING, "permrank.serve"):
            version = learn(client)
        left_out = [record for record in caplog.records if "is left out" in record.getMessage()]
        assert len(left_out) == len(BAD[kind])
        learnt = pr.load(versions.file_of(made, version)).rankings_
        assert learnt.n_users == pr.load(files / f"{kind}.permrank").rankings_.n_users + 1
        assert 77 in learnt.user_ids if kind == "ratings" else "77" in learnt.user_ids
        assert not model_is_due(made, settings_of(client))  # and no other attempt is made before there is something new
        until_served(client, version)


def test_if_nobody_can_be_learnt_from_the_file_is_served_on(tmp_path, files):
    with serving(tmp_path / "a.sqlite", model=str(files / "one.permrank")) as client:
        made, base = client.app_state.store, client.app_state.serving.base
        made.write(lambda db: learning.keep_list(db, base, " ", '["dish 1"]', 0)).result()
        version = learn(client)
        until_served(client, version)
        assert client.get("/v1/model").json()["people"] == 3
        assert not model_is_due(made, settings_of(client))


def test_a_fit_that_fails_keeps_no_tastes_from_being_found(tmp_path, files, monkeypatch):
    with serving(tmp_path / "a.sqlite", model=str(files / "one.permrank")) as client:
        poll = new_poll(client)
        for n in range(20):
            who = person(client, poll, f"p{n}")
            send(client, poll, who, {"kind": "list", "ranking": ["curry", "pizza", "ramen"]})
        put(client, "ann", ranking=["dish 1"])
        monkeypatch.setattr(learning, "refit_model", lambda *arguments: 1 / 0)
        monkeypatch.setattr(learning, "communities_of", lambda *arguments: [])
        made = client.app_state.store
        assert changed_polls(made) == [poll["id"]]
        with pytest.raises(SystemExit):
            learning.learn_what_is_new(made, settings_of(client))
        assert changed_polls(made) == []


@pytest.mark.parametrize("what", ["person", "poll"])
def test_tastes_of_people_who_were_erased_meanwhile_are_not_kept(tmp_path, monkeypatch, what):
    with serving(tmp_path / "a.sqlite") as client:
        poll, made = new_poll(client), client.app_state.store
        people = [person(client, poll, f"p{n}") for n in range(2)]
        for who in people:
            send(client, poll, who, {"kind": "list", "ranking": ["curry", "pizza", "ramen"]})
        address = f"/v1/polls/{poll['id']}"

        def meanwhile(*arguments):
            assert client.delete(*(address,) if what == "poll" else (f"{address}/people/me",),
                                 headers=people[0] if what == "person" else {}).is_success  # fmt: skip
            return []

        monkeypatch.setattr(learning, "communities_of", meanwhile)
        learning.find_communities(made, poll["id"])
        assert made.rows("SELECT * FROM communities") == []
        monkeypatch.setattr(learning, "communities_of", lambda *arguments: [])
        learning.find_communities(made, poll["id"])
        assert len(made.rows("SELECT * FROM communities")) == (what == "person")


def test_a_model_file_that_is_being_replaced_does_not_end_learning(tmp_path):
    (tmp_path / "m.permrank").write_text("half of a model", encoding="utf-8")
    made = Store(tmp_path / "a.sqlite")
    learner = Learner(Settings(str(made.path), str(tmp_path / "m.permrank")), lambda seconds: None)
    assert not learner._is_needed(made)
    made.close()


def test_another_model_file_has_versions_and_lists_of_its_own(tmp_path, files):
    path = tmp_path / "a.sqlite"
    with serving(path, model=str(files / "one.permrank")) as client:
        for n in range(9):
            put(client, f"new{n}", ranking=[f"dish {at}" for at in (5, 4, 3)])
        version = learn(client)
        until_served(client, version)
        assert client.get("/v1/model").json()["people"] == 12
        state = client.app_state
        assert not model_is_due(state.store, settings_of(client))
    with serving(path, model=str(files / "other.permrank")) as client:
        about = client.get("/v1/model").json()
        assert (about["version"], about["people"]) == (0, 3)
        assert not model_is_due(client.app_state.store, settings_of(client))  # those lists are for another model
        assert client.post("/v1/model/recommend", json={"person": "new1"}).status_code == 404
        put(client, "bob", ranking=["dish 1"])
        assert model_is_due(client.app_state.store, settings_of(client))
        made = learn(client)
        assert pr.load(versions.file_of(client.app_state.store, made)).rankings_.n_users == 4
    shutil.copy(files / "one.permrank", tmp_path / "moved.permrank")  # the same file, wherever it is
    with serving(path, model=str(tmp_path / "moved.permrank")) as client:
        assert client.get("/v1/model").json()["version"] == version
        assert client.post("/v1/model/recommend", json={"person": "new1"}).is_success


def test_few_files_are_kept_of_all_models(tmp_path, files):
    path = tmp_path / "a.sqlite"
    for kind in ("one", "other", "ratings", "one"):
        with serving(path, model=str(files / f"{kind}.permrank")) as client:
            for _ in range(3):
                put(client, "77", **({"ratings": {"1": 2.0}} if kind == "ratings" else {"ranking": ["dish 1"]}))
                version = learn(client)
    assert len(list((tmp_path / "a.sqlite.models").iterdir())) == 4
    assert versions.file_of(client.app_state.store, version).exists()


def test_a_model_that_has_learnt_from_somebody_goes_when_they_are_erased(tmp_path, files, monkeypatch):
    monkeypatch.setattr(erasing, "_WAIT", 60.0)
    with serving(tmp_path / "a.sqlite", model=str(files / "one.permrank")) as client:
        put(client, "bob", ranking=["dish 1"])
        first = learn(client)
        put(client, NAME, ranking=["dish 1"])
        second = learn(client)
        until_served(client, second)
        assert holding(tmp_path, NAME)
        gone = client.delete(f"/v1/model/people/{NAME}").json()
        assert (gone["answers"], gone["pending"]) == (1, False)
        assert holding(tmp_path, NAME) == []
        until_served(client, first)  # which does not know them
        assert client.get("/v1/model").json()["people"] == 4
        assert client.post("/v1/model/recommend", json={"person": NAME}).status_code == 404
        client.delete("/v1/model/people/bob")
        until_served(client, 0)


def test_whoever_is_erased_during_a_refit_is_not_in_what_it_makes(tmp_path, files, monkeypatch):
    monkeypatch.setattr(erasing, "_WAIT", 60.0)
    with serving(tmp_path / "a.sqlite", model=str(files / "one.permrank")) as client:
        put(client, NAME, ranking=["dish 1"])
        put(client, "bob", ranking=["dish 1"])
        together = pr.Rankings.joined

        def meanwhile(*parts):
            gone = client.delete(f"/v1/model/people/{NAME}").json()
            assert (gone["answers"], gone["pending"]) == (1, False)
            return together(*parts)

        monkeypatch.setattr(pr.Rankings, "joined", meanwhile)
        assert learn(client) is None
        assert not (tmp_path / "a.sqlite.models").exists()  # nothing was written that had to be removed again
        assert holding(tmp_path, NAME) == []
        assert client.get("/v1/model").json()["version"] == 0
        assert model_is_due(client.app_state.store, settings_of(client))
        monkeypatch.setattr(pr.Rankings, "joined", together)
        made = learn(client)
        assert pr.load(versions.file_of(client.app_state.store, made)).rankings_.n_users == 4
        # What a writer that was killed has left goes with the next version.
        (tmp_path / "a.sqlite.models" / f".{made - 1:08d}.permrank.0123456789ab.tmp").write_text(NAME, encoding="utf-8")
        (tmp_path / "a.sqlite.models" / "notes.txt").write_text("of somebody else", encoding="utf-8")
        learn(client)
        assert holding(tmp_path, NAME) == []
        assert (tmp_path / "a.sqlite.models" / "notes.txt").exists()


def test_a_list_that_is_on_its_way_while_somebody_is_erased_is_not_stored(tmp_path, files, monkeypatch):
    with serving(tmp_path / "a.sqlite", model=str(files / "one.permrank")) as client:
        serving_, check = client.app_state.serving, client.app_state.serving.reference

        def meanwhile(*arguments, **options):
            monkeypatch.setattr(serving_, "reference", check)
            client.app_state.store.write(lambda db: learning.erase_lists(db, NAME)).result()
            return check(*arguments, **options)

        monkeypatch.setattr(serving_, "reference", meanwhile)
        assert put(client, NAME, 409, ranking=["dish 1"])["remedy"] == "send it again"
        assert client.app_state.store.rows("SELECT * FROM lists") == []
        put(client, NAME, ranking=["dish 1"])


def test_an_attempt_that_failed_is_made_again_after_a_while(tmp_path, files, monkeypatch):
    model = str(files / "one.permrank")
    with serving(tmp_path / "a.sqlite", model=model) as client:
        put(client, "ann", ranking=["dish 1"])
    made = Store(tmp_path / "a.sqlite")
    monkeypatch.setattr(pr.Rankings, "joined", lambda *parts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learning.refit_model(made, model)
    assert not model_is_due(made, Settings(str(made.path), model, refit_answers=1, refit_seconds=60.0))
    assert model_is_due(made, Settings(str(made.path), model, refit_answers=1, refit_seconds=0.0))
    made.close()
