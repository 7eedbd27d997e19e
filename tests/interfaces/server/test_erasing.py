"""Erased is erased: nothing comes back, nothing is left in a file, and what is pending is said and done."""

import asyncio
import contextlib
import random
import sqlite3
import threading
import time

import pytest

import permrank as pr
from interfaces_server import NAME, bearer, eventually, holding, new_poll, person, send, serving
from permrank.interfaces.server import erasing, learning, polls, store
from permrank.interfaces.server.app import create_app
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.versions import changed_polls, model_is_due

httpx = pytest.importorskip("httpx2")
ANSWER = {"answers": [{"kind": "list", "ranking": ["a", "b"]}]}
_TOGETHER = 50


class Raced:
    """An application whose writer can be held, so that requests that are sent meanwhile have all been let in."""

    def __init__(self, client, store):
        self.client, self.store = client, store

    async def poll(self):
        body = {"title": "Where?", "items": [{"title": "a"}, {"title": "b"}]}
        made = (await self.client.post("/v1/polls", json=body)).json()
        return f"/v1/polls/{made['id']}", bearer(made["keys"]["vote"])

    async def person(self, poll, vote):
        return bearer((await self.client.post(f"{poll}/people", json={}, headers=vote)).json()["key"])

    async def together(self, requests):
        """Codes of requests whose writing begins, in this order, when all of them wait for it."""
        begun, held, tasks = threading.Event(), threading.Event(), []
        self.store.write(lambda db: begun.set() or held.wait())
        await asyncio.to_thread(begun.wait)
        try:
            for method, path, options in requests:
                waiting = self.store._jobs.qsize()
                tasks.append(asyncio.create_task(self.client.request(method, path, **options)))
                while self.store._jobs.qsize() == waiting:
                    await asyncio.sleep(0)
        finally:
            held.set()
        return [found.status_code for found in await asyncio.gather(*tasks)]

    def left(self):
        """Rows of a poll or a person that is not there."""
        tables = ("items", "people", "keys", "answers", "requests", "communities")
        gone = {
            table: len(self.store.rows(f"SELECT 1 FROM {table} WHERE poll NOT IN (SELECT id FROM polls)"))
            for table in tables
        }
        whose = "person IS NOT NULL AND person NOT IN (SELECT id FROM people)"
        for table in ("keys", "answers", "requests"):
            gone[table] += len(self.store.rows(f"SELECT 1 FROM {table} WHERE {whose}"))
        return {table: n for table, n in gone.items() if n}


@pytest.fixture
def hasty(monkeypatch):
    """Nobody waits for the files."""
    monkeypatch.setattr(erasing, "_WAIT", 0.0)


def racing(path, work):
    """Do something with an application in a loop of its own."""

    async def run():
        app = create_app(Settings(str(path), rate=0.0))
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 5), raise_app_exceptions=False)
        async with (
            app.app.router.lifespan_context(app.app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            await work(Raced(client, app.app.state.all.store))

    asyncio.run(run())


async def erase_and_answer(raced, n):
    """Erase people while they answer; in every second pair the erasure is written first."""
    codes = []
    for _ in range(n // _TOGETHER):
        poll, vote = await raced.poll()
        requests = []
        for at in range(_TOGETHER):
            who = await raced.person(poll, vote)
            erase = ("DELETE", f"{poll}/people/me", {"headers": who})
            answer = ("POST", f"{poll}/answers", {"headers": who | {"Idempotency-Key": "k"}, "json": ANSWER})
            requests += (erase, answer) if at % 2 else (answer, erase)
        codes += await raced.together(requests)
    return codes


def test_of_five_hundred_erasures_that_answers_race_with_none_comes_back(tmp_path, hasty):
    async def work(raced):
        codes = await erase_and_answer(raced, 500)
        assert sum(code in (200, 202) for code in codes) == 500
        assert codes.count(201) == codes.count(409) == 250  # those that were written before, and after
        assert raced.store.rows("SELECT * FROM answers") == []
        assert raced.left() == {}

    racing(tmp_path / "a.sqlite", work)


@pytest.mark.parametrize("foreign_keys", [True, False])
def test_without_the_check_and_the_foreign_keys_answers_would_come_back(tmp_path, hasty, monkeypatch, foreign_keys):
    monkeypatch.setattr(polls, "require_person", lambda *arguments: None)
    connect = store.connected

    def careless(*arguments):
        db = connect(*arguments)
        db.execute(f"PRAGMA foreign_keys = {foreign_keys:d}")
        return db

    monkeypatch.setattr(store, "connected", careless)

    async def work(raced):
        await erase_and_answer(raced, _TOGETHER)
        assert bool(raced.left().get("answers")) != foreign_keys

    racing(tmp_path / "a.sqlite", work)


def test_nothing_outlives_its_poll(tmp_path, hasty):
    async def work(raced):
        for _ in range(10):
            poll, vote = await raced.poll()
            people = [await raced.person(poll, vote) for _ in range(10)]
            later = [("POST", f"{poll}/answers", {"headers": who, "json": ANSWER}) for who in people]
            later += [
                ("POST", f"{poll}/people", {"headers": vote, "json": {"name": "ann"}}),
                ("POST", f"{poll}/answers", {"json": ANSWER | {"person": "bob"}}),
                ("POST", f"{poll}/keys", {"json": {"role": "person", "name": "cat"}}),
                ("POST", f"{poll}/keys", {"json": {"role": "vote"}}),
                ("DELETE", f"{poll}/people/me", {"headers": people[0]}),
                ("DELETE", poll, {}),
            ]
            gone, *after = await raced.together([("DELETE", poll, {}), *later])
            assert gone in (200, 202)
            assert set(after) == {404}
        assert raced.left() == {}

    racing(tmp_path / "a.sqlite", work)


# Files


@contextlib.contextmanager
def reading(path):
    """A program that reads the file in one long transaction."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM answers").fetchall()
        yield
        db.execute("COMMIT")


def until_none_is_pending(client):
    eventually(lambda: erasing.n_pending(client.app_state.store) == 0)


@pytest.mark.parametrize("what", ["person", "poll"])
def test_while_somebody_reads_an_erasure_is_pending_and_then_it_is_done(tmp_path, what):
    path = tmp_path / "a.sqlite"
    with serving(path) as client:
        poll, other = new_poll(client), new_poll(client)
        ann, bob = person(client, poll, NAME), person(client, other, "bob")
        assert client.delete(f"/v1/polls/{poll['id']}/people/me", headers=person(client, poll)).is_success  # is noted
        send(client, poll, ann, {"kind": "list", "ranking": ["curry"]})
        address = f"/v1/polls/{poll['id']}" + ("/people/me" if what == "person" else "")
        with reading(path):
            gone = client.delete(address, headers=ann if what == "person" else {})
            assert gone.status_code == 202
            assert gone.json()["pending"]
            assert holding(tmp_path, NAME)  # so the control: it is there, and 200 would have been a lie
            began = time.monotonic()
            for _ in range(20):
                send(client, other, bob, {"kind": "list", "ranking": ["curry"]})
            assert time.monotonic() - began < 5.0  # the attempts leave the writer room
            assert "permrank_erasures_pending 1" in client.get("/metrics").text
        until_none_is_pending(client)
        assert holding(tmp_path, NAME, poll["id"] if what == "poll" else NAME) == []
        again = client.delete(address, headers=ann if what == "person" else {})
        assert again.status_code == (401 if what == "person" else 404)


def test_what_is_pending_is_done_after_a_restart(tmp_path):
    path = tmp_path / "a.sqlite"
    store.Store(path).close()
    with reading(path):
        with serving(path) as client:
            poll = new_poll(client)
            ann = person(client, poll, NAME)
            assert client.delete(f"/v1/polls/{poll['id']}/people/me", headers=ann).status_code == 202
        assert holding(tmp_path, NAME)
    with serving(path) as client:
        until_none_is_pending(client)
        assert holding(tmp_path, NAME) == []


def test_an_attempt_that_fails_is_not_the_last(tmp_path, monkeypatch):
    attempts, forget = [], erasing.forget

    def failing(made):
        attempts.append(made)
        if len(attempts) < 4:
            raise sqlite3.OperationalError("database or disk is full")
        return forget(made)

    monkeypatch.setattr(erasing, "forget", failing)
    monkeypatch.setattr(erasing, "_LOOK", 0.01)
    with serving(tmp_path / "a.sqlite") as client:
        poll = new_poll(client)
        client.delete(f"/v1/polls/{poll['id']}/people/me", headers=person(client, poll, NAME))
        until_none_is_pending(client)
        assert len(attempts) >= 4
        assert holding(tmp_path, NAME) == []


def test_the_first_of_many_rows_is_read_and_nothing_goes_on_being_read(tmp_path):
    made = store.Store(tmp_path / "a.sqlite")
    crowd(made, 50)
    assert made.row("SELECT * FROM answers") is not None
    made.write(lambda db: polls.note_erasure(db, "")).result()
    assert erasing.n_pending(made) == 1  # an older state would be read, and nothing seem to be pending
    assert erasing.forget(made)
    made.close()


def crowd(made, n):
    """A poll of many people with rare names."""
    rng = random.Random(3)

    def job(db):
        poll = polls.create_poll(db, NewPoll(title="x", items=[Item(title="a"), Item(title="b")]))
        rows = [(poll, f"{rng.getrandbits(64):016x}", f"{rng.random()}-NAME{at}-" + "x" * rng.randrange(60), 0.0)
                for at in range(n)]  # fmt: skip
        for row in rows:  # one after the other, as people come
            db.execute("INSERT INTO people VALUES (?, ?, ?, ?)", row)
            said = '[["a"]]' + " " * rng.randrange(400)
            db.execute("INSERT INTO answers (poll, person, kind, said, shown, at, client_key) "
                       "VALUES (?, ?, 'list', ?, '[]', 0, 'k')", (poll, row[1], said))  # fmt: skip
        return poll, [row[1] for row in rows]

    return made.write(job).result()


@pytest.mark.parametrize("rebuilt", [True, False])
def test_of_thousands_who_are_erased_nothing_is_left_between_rows_either(tmp_path, monkeypatch, rebuilt):
    if not rebuilt:  # the control: freed pages and rows are overwritten, and that is not enough
        monkeypatch.setattr(erasing, "_is_rebuilt", lambda db: True)
    made = store.Store(tmp_path / "a.sqlite")
    poll, people = crowd(made, 4_000)
    gone = random.Random(4).sample(people, 2_000)
    for who in gone:
        made.write(lambda db, who=who: polls.erase_person(db, poll, who))
    made.write(lambda db: None).result()
    assert erasing.forget(made)
    assert erasing.n_pending(made) == 0
    content = b"".join(part.read_bytes() for part in tmp_path.iterdir())  # before the last connection empties a journal
    made.close()
    assert (sum(who.encode() in content for who in gone) == 0) == rebuilt
    assert sum(who.encode() in content for who in people) >= 2_000


# Statements


def test_no_statement_about_a_poll_or_a_person_reads_a_whole_table(tmp_path, monkeypatch):
    said, connect = set(), store.connected

    def listening(*arguments):
        db = connect(*arguments)
        db.set_trace_callback(said.add)
        return db

    monkeypatch.setattr(store, "connected", listening)
    path, model = tmp_path / "a.sqlite", tmp_path / "m.permrank"
    pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists({"a": ["x", "y"]})).save(model)
    with serving(path, model=str(model), refit_answers=1) as client:
        assert client.put("/v1/model/people/ann", json={"ranking": ["x"]}).is_success
        assert client.post("/v1/model/recommend", json={"person": "ann"}).is_success
        assert model_is_due(client.app_state.store, client.app_state.settings)
        learning.refit_model(client.app_state.store, str(model))
        assert client.delete("/v1/model/people/ann").is_success
        poll = new_poll(client)
        address, ann = f"/v1/polls/{poll['id']}", person(client, poll, "ann")
        send(client, poll, ann | {"Idempotency-Key": "k"}, {"kind": "list", "ranking": ["curry"]})
        send(client, poll, {}, *[{"kind": "list", "ranking": ["curry"]}], code=409)
        for page in ("", "/people", "/keys", "/answers", "/answers/mine", "/question", "/result", "/export"):
            assert client.get(
                f"{address}{page}", headers=ann if page in ("/question", "/answers/mine") else {}
            ).is_success
        assert client.post(f"{address}/keys", json={"role": "person", "name": "bob"}).is_success
        assert client.delete(f"{address}/people/me", headers=ann).is_success
        changed_polls(client.app_state.store)
        assert client.delete(address).is_success
    with contextlib.closing(sqlite3.connect(path)) as db:
        scans = {
            (plan[3], text)
            for text in said
            if text.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")
            for plan in db.execute(f"EXPLAIN QUERY PLAN {text}")
            if plan[3].startswith("SCAN")
        }
    assert len(said) > 40
    few = ("polls", "p", "model_versions", "sqlite_master", "CONSTANT")  # rows that are listed, or a handful
    assert {(plan, text) for plan, text in scans if plan.split()[1] not in few} == set()


def test_what_goes_with_a_poll_or_a_person_is_found_by_an_index():
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(store.TABLES)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {}
        for table in tables:
            columns = {}
            for row in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
                columns.setdefault(row[0], []).append(row[3])
                assert row[6] == "CASCADE"
            for names in columns.values():
                where = " AND ".join(f"{name} = 1" for name in names)
                (plan,) = db.execute(f"EXPLAIN QUERY PLAN DELETE FROM {table} WHERE {where}").fetchall()
                found[table, *names] = plan[3]
    assert len(found) == 7
    for (_, *names), plan in found.items():
        assert plan.startswith("SEARCH"), found
        assert plan.count("=?") == len(names), found
