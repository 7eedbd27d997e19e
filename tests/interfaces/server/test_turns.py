"""Whose turn it is: work that a poll asks for is bounded, shared, in turn with that of others, and dropped in time."""

import asyncio
import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from interfaces_server import eventually, listening, new_poll, person, send, serving
from permrank.interfaces.server import asking, state, turns
from permrank.interfaces.server.app import create_app
from permrank.interfaces.server.bodies import Item, NewPoll
from permrank.interfaces.server.polls import create_poll
from permrank.interfaces.server.problems import Problem
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.turns import ASKER, Asker, Turns

COST = 0.4


class Gate:
    """A job that waits in its thread until it is let go, and jobs that are written down when they are done."""

    def __init__(self):
        self.done, self._open = [], threading.Event()

    def hold(self):
        assert self._open.wait(60)

    def go(self):
        self._open.set()

    def job(self, name):
        return lambda: self.done.append(name) or len(self.done)


def in_turn(test):
    """Run a test with turns, a gate, and a job that holds the thread."""

    async def run():
        with ThreadPoolExecutor(1) as numbers:
            shared, gate = Turns(numbers), Gate()
            held = asyncio.create_task(shared.run("held", gate.hold))
            try:
                await asyncio.sleep(0.01)
                await test(shared, gate)
            finally:
                gate.go()
                await held

    asyncio.run(run())


async def asked(*coroutines):
    """Tasks that have got as far as they can without the thread."""
    found = [asyncio.create_task(one) for one in coroutines]
    for _ in range(5):
        await asyncio.sleep(0)
    return found


def test_a_poll_with_a_long_queue_keeps_others_waiting_for_one_job():
    async def test(shared, gate):
        many = await asked(*(shared.run("a", gate.job(f"a{n}")) for n in range(50)))
        others = await asked(*(shared.run(poll, gate.job(poll)) for poll in "bc"))
        gate.go()
        await asyncio.gather(*many, *others)
        assert gate.done == ["a0", "b", "c", *(f"a{n}" for n in range(1, 50))]

    in_turn(test)


def test_who_comes_while_a_job_runs_is_next():
    async def test(shared, gate):
        inner = Gate()
        many = await asked(shared.run("a", inner.hold), *(shared.run("a", gate.job(f"a{n}")) for n in range(9)))
        gate.go()
        while shared.n_waiting == len(many):
            await asyncio.sleep(0.001)
        (other,) = await asked(shared.run("b", gate.job("b")))
        inner.go()
        await asyncio.gather(other, *many)
        assert gate.done[0] == "b"

    in_turn(test)


def test_the_queue_of_a_poll_is_bounded_and_of_no_other(monkeypatch):
    monkeypatch.setattr(turns, "_MOST", 3)

    async def test(shared, gate):
        many = await asked(*(shared.run("a", gate.job(n), n) for n in range(3)))
        with pytest.raises(Problem) as refused:
            await shared.run("a", gate.job("more"), "more")
        assert (refused.value.status, refused.value.retry > 0) == (503, True)
        many += await asked(shared.run("a", gate.job("again"), 2), shared.run("b", gate.job("b")))  # that waits already
        assert shared.n_waiting == 4
        gate.go()
        await asyncio.gather(*many)
        assert gate.done == [0, "b", 1, 2]

    in_turn(test)


def test_jobs_of_one_name_are_one_until_it_begins():
    async def test(shared, gate):
        inner = Gate()
        first = await asked(*(shared.run("a", inner.hold, "name") for _ in range(3)))
        gate.go()
        while shared.n_waiting:
            await asyncio.sleep(0.001)
        then = await asked(*(shared.run("a", gate.job("after"), "name") for _ in range(3)))  # it may be out of date
        inner.go()
        assert await asyncio.gather(*first, *then) == [None] * 3 + [1] * 3
        assert gate.done == ["after"]

    in_turn(test)


def test_work_that_nobody_waits_for_is_not_done_and_errors_are_their_askers():
    async def test(shared, gate):
        gone, stays, shared_one = await asked(
            shared.run("a", gate.job("gone"), "gone"), shared.run("a", gate.job("both"), "both"),
            shared.run("a", gate.job("both"), "both"),
        )  # fmt: skip
        failed, after = await asked(shared.run("a", lambda: 1 / 0), shared.run("a", gate.job("after")))
        for one in (gone, stays):
            one.cancel()
        await asyncio.wait([gone, stays])
        assert shared.n_waiting == 3
        gate.go()
        with pytest.raises(ZeroDivisionError):
            await failed
        assert await asyncio.gather(shared_one, after) == [1, 2]
        assert gate.done == ["both", "after"]

    in_turn(test)


def test_an_asker_who_goes_away_is_not_waited_for_and_pays_for_what_was_done():
    paid = {}

    async def ask(shared, name, work, left):
        async def receive():
            await left.wait()
            return {"type": "http.disconnect"}

        ASKER.set(Asker(receive, lambda seconds: paid.update({name: seconds})))
        return await shared.run("a", work, name)

    async def test(shared, gate):
        left, never, inner = asyncio.Event(), asyncio.Event(), Gate()
        tasks = await asked(
            ask(shared, "running", inner.hold, left), ask(shared, "waiting", gate.job("waiting"), left),
            ask(shared, "stays", gate.job("stays"), never),
        )  # fmt: skip
        gate.go()
        while shared.n_waiting == 3:
            await asyncio.sleep(0.001)
        left.set()
        for one in tasks[:2]:
            with pytest.raises(Problem) as told:
                await one
            assert told.value.status == 499
        inner.go()
        await tasks[2]
        assert gate.done == ["stays"]
        assert set(paid) == {"running", "stays"}

    in_turn(test)


# With fits that are counted, and cost what they cost


@pytest.fixture
def fits(monkeypatch):
    """Polls (by their number of items) that were fitted, for results and for questions; each costs .4 s, as it says."""
    found, clock = {"result": [], "question": []}, [0.0]

    class Counted(state.GroupResult):
        def __init__(self, items, ballots):
            super().__init__(items, ballots)
            found["result"].append(len(items))
            clock[0] += COST

    def fitted(rankings, ids, really=asking.fitted):
        if ids != list("wxyz"):  # when a server warms up
            found["question"].append(len(ids))
        clock[0] += COST
        return really(rankings, ids)

    monkeypatch.setattr(state, "GroupResult", Counted)
    monkeypatch.setattr(asking, "fitted", fitted)
    monkeypatch.setattr("time.thread_time", lambda: clock[0])
    return found


@contextlib.contextmanager
def still(path, **options):
    """An application for which no time passes but what is added to the list."""
    with serving(path, **options) as client:
        now, budgets = [1.0], (client.app_state.polls._budget, client.app_state.polls._common._budget)
        for one in (*budgets, client.app._buckets):
            if one is not None:
                one.clock = lambda: now[0]
        yield client, now


def test_a_poll_is_not_fitted_for_each_person_after_each_answer(fits, tmp_path):
    with still(tmp_path / "a.sqlite") as (client, now):
        poll = new_poll(client)
        address, people = f"/v1/polls/{poll['id']}", [person(client, poll) for _ in range(8)]
        dishes, given = ["curry", "pizza", "ramen"], []
        for n in range(40):
            dishes = dishes[1:] + dishes[:1]
            given.append(send(client, poll, people[n % 8], {"kind": "list", "ranking": dishes})["answers"][0]["seq"])
            asked = client.get(f"{address}/question", headers=people[n % 8])
            found = client.get(f"{address}/result", headers=people[n % 8])
            assert (asked.status_code, found.status_code) == (200, 200)
            assert found.json()["as_of"] == found.json()["answers"] == given[min(n, 2)]  # what it says that it holds
        # A second is saved up: after the third fit it is used up. One more is of all, for those who have had none.
        assert {what: len(of) for what, of in fits.items()} == {"result": 3, "question": 4}
        # The tag is that of what was given; when there is time again, the newest state is.
        tag = {"If-None-Match": found.headers["etag"]} | people[-1]
        assert client.get(f"{address}/result", headers=tag).status_code == 304
        now[0] += 2 * COST / 0.2
        late = client.get(f"{address}/result", headers=tag)
        assert (late.status_code, late.json()["as_of"], late.json()["answers"]) == (200, given[-1], 40)
        assert late.headers["etag"] != found.headers["etag"]
        client.get(f"{address}/question", headers=people[0])
        assert {what: len(of) for what, of in fits.items()} == {"result": 4, "question": 5}


def test_what_was_erased_is_in_no_result_however_busy_a_poll_is(fits, tmp_path):
    with still(tmp_path / "a.sqlite") as (client, _):
        poll = new_poll(client)
        people = [person(client, poll) for _ in range(6)]
        for headers in people:
            send(client, poll, headers, {"kind": "list", "ranking": ["curry", "pizza"]})
            client.get(f"/v1/polls/{poll['id']}/result")
        assert client.get(f"/v1/polls/{poll['id']}/result").json()["people"] < 6
        client.delete(f"/v1/polls/{poll['id']}/people/me", headers=people[0])
        assert client.get(f"/v1/polls/{poll['id']}/result").json()["people"] == 5


def test_questions_are_about_what_others_think_also_when_time_is_short(fits, tmp_path):
    with still(tmp_path / "a.sqlite") as (client, _):
        poll = new_poll(client)
        address, (ann, bob, cat) = f"/v1/polls/{poll['id']}", (person(client, poll) for _ in range(3))
        send(client, poll, bob, {"kind": "list", "ranking": ["curry", "pizza", "ramen", "salad", "tacos"]})

        def expected(who, name):
            client.get(f"{address}/question", headers=who)
            return client.app_state.polls._common._kept[poll["id"], name][1]

        row = client.get(f"{address}/people").json()["people"]
        names = {headers["Authorization"]: client.get(address, headers=headers).json()["person"]
                 for headers in (ann, bob, cat)}  # fmt: skip
        assert len(row) == 3
        ann_id, bob_id, cat_id = (names[one["Authorization"]] for one in (ann, bob, cat))
        before = expected(ann, ann_id)
        assert expected(bob, bob_id).tolist() == [0.0] * 5  # nobody else has said anything
        client.app_state.polls._common._budget.pay(poll["id"], 10.0)
        for _ in range(3):
            send(client, poll, ann, {"kind": "list", "ranking": ["tacos", "salad", "ramen", "pizza", "curry"]})
            assert expected(ann, ann_id) is before  # she does not count twice
        assert expected(cat, cat_id) is before  # one who comes has what there is


def test_an_attack_on_one_poll_keeps_no_other_waiting(fits, tmp_path):
    with still(tmp_path / "a.sqlite") as (client, now):
        large, small = new_poll(client, [f"item {n}" for n in range(40)]), new_poll(client)
        for poll, items in ((large, ["item 1", "item 2"]), (small, ["curry", "pizza"])):
            for _ in range(2):
                send(client, poll, person(client, poll), {"kind": "list", "ranking": items})
        polls = client.app_state.polls

        async def attack():
            questions = (polls.question(large["id"], f"p{n}", "pair", hidden=False) for n in range(100))
            many = await asked(*questions, *(polls.result(large["id"]) for _ in range(100)))
            now[0] += 1e6  # there is time for all fits
            await polls.result(small["id"])
            done = sum(task.done() for task in many)
            await asyncio.gather(*many)
            return done

        assert asyncio.run(attack()) <= 1
        assert fits["result"] in ([5, 40], [40, 5])
        assert len(fits["question"]) == 1


def test_what_an_address_has_worked_out_counts_against_its_rate(fits, tmp_path):
    with still(tmp_path / "a.sqlite", rate=10.0, burst=40) as (client, now):
        poll = new_poll(client)
        ann = person(client, poll)
        send(client, poll, ann, {"kind": "list", "ranking": ["curry", "pizza"]})
        left = client.app._buckets.left
        assert left("127.0.0.1") == pytest.approx(40 - 3, abs=0.1)
        client.get(f"/v1/polls/{poll['id']}/result", headers=ann)  # .4 s are twenty pages
        assert left("127.0.0.1") == pytest.approx(40 - 3 - 1 - 20, abs=0.1)
        client.get(f"/v1/polls/{poll['id']}/result", headers=ann)
        assert left("127.0.0.1") == pytest.approx(40 - 3 - 2 - 20, abs=0.1)
        client.post(f"/v1/polls/{poll['id']}/answers", content=b" " * 655_360, headers=ann)
        assert left("127.0.0.1") == pytest.approx(40 - 3 - 2 - 20 - 11, abs=0.1)
        client.app._buckets.pay("127.0.0.1", 24.0)
        refused = client.get(f"/v1/polls/{poll['id']}", headers=ann)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        now[0] += 2.2
        assert client.get(f"/v1/polls/{poll['id']}", headers=ann).status_code == 200


def test_a_batch_of_questions_to_the_model_is_not_of_one_asker(tmp_path):
    with serving(tmp_path / "a.sqlite") as client:
        model, askers = client.app_state.serving, []

        async def run(work):
            askers.append(ASKER.get())
            return [["found"]]

        async def ask():
            ASKER.set(Asker(None, None))
            return await model.recommend(None, 1, set())

        model.version, model.run = "any", run
        assert asyncio.run(ask()) == ["found"]
        assert askers == [None]  # nobody who may go away


def test_a_client_that_hangs_up_takes_its_work_along_but_not_its_answers(fits, tmp_path):
    app = create_app(Settings(str(tmp_path / "a.sqlite"), rate=0.0))
    state, gate, desk = app.app.state.all, Gate(), Gate()
    poll = state.store.write(
        lambda db: create_poll(db, NewPoll(title="t", items=[Item(title="a"), Item(title="b")]))
    ).result()
    body = json.dumps({"person": "ann", "answers": [{"kind": "list", "ranking": ["a", "b"]}]})
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"

    def hang_up(method, what, has_arrived):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(f"{method} /v1/polls/{poll}/{what} HTTP/1.1\r\n{head}".encode())
            eventually(has_arrived)

    with listening(app) as port:
        state.store.write(lambda db: desk.hold())
        eventually(lambda: state.store._jobs.qsize() == 0)
        hang_up("POST", "answers", lambda: state.store._jobs.qsize() == 1)
        desk.go()
        eventually(lambda: state.store.row("SELECT 1 FROM answers") is not None)
        state.numbers.submit(gate.hold)
        try:
            # The first is handed to the thread, as far as the server knows, and the others wait.
            for what, n in (("result", 0), ("result", 1), ("question", 1), ("export", 1)):
                hang_up("GET", what, lambda n=n: state.turns._serving is not None and state.turns.n_waiting == n)
                eventually(lambda: not state.turns.n_waiting)
        finally:
            gate.go()
        eventually(lambda: state.turns._serving is None)
    assert fits == {"result": [2], "question": []}
