"""Forked processes are refused before they hang, others work; and many threads get the answers of one."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

import permrank as pr
from permrank import errors, processes

LISTS = {"ann": ["toro", "ebi", "uni", "ika"], "bob": ["ebi", "toro", "uni"], "cat": ["ika", "toro", "ebi"]}

# What the parent does before it forks, and what the child tries; a child that hangs is killed and told from the others.
PRELUDE = """
import os, signal, sys, tempfile, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and newer warn of forks beside threads
import permrank as pr
from permrank import errors
from permrank.core.model_files import load
LISTS = {"ann": ["toro", "ebi", "uni", "ika"], "bob": ["ebi", "toro", "uni"], "cat": ["ika", "toro", "ebi"]}
def told(work):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            work()
            os._exit(0)
        except errors.ForkError as error:
            os._exit(1 if "get_context('spawn')" in str(error) else 3)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)
"""
AFTER_WORK = """
rankings = pr.Rankings.from_lists(LISTS)
file = sys.argv[1] + "/r.csv"
rankings.write(file)
model = pr.Random().fit(rankings)
model.save(sys.argv[1] + "/m.permrank")
work = {
    "read": lambda: pr.read(file),
    "from_lists": lambda: pr.Rankings.from_lists(LISTS),
    "from_ratings": lambda: pr.Rankings.from_ratings({"user": [1, 1], "item": [1, 2], "rating": [1, 2]}),
    "datasets": lambda: pr.datasets.load("simulated", n_users=10),
    "lists": lambda: rankings.lists("ann"),
    "to_frame": lambda: rankings.to_frame(),
    "select": lambda: rankings.select(users=["ann"]),
    "write": lambda: rankings.write(file),
    "describe": lambda: rankings.describe(),
    "split": lambda: pr.LeaveOut(1).split(rankings),
    "fit": lambda: pr.Borda().fit(rankings),
    "load": lambda: load(sys.argv[1] + "/m.permrank"),
    "save": lambda: model.save(file),
    "recommend": lambda: model.recommend("ann"),
    "score": lambda: model.score("ann"),
    "score_pairs": lambda: model.score_pairs(["ann"], ["uni"]),
    "fold_in": lambda: model.fold_in(["uni"]),
    "prefers": lambda: model.prefers("ann", "uni", "ebi"),
    "sample": lambda: model.sample("ann", ["uni", "ebi"]),
    "log_likelihood": lambda: model.log_likelihood(rankings),
    "compare": lambda: pr.compare({"Borda": pr.Borda()}, [pr.LeaveOut(1).split(rankings)]),
    "nothing": lambda: None,
}
for name, each in work.items():
    print(name, told(each))
"""
AFTER_LOADING = """
model = load(sys.argv[1])
print("recommend", told(lambda: model.recommend("ann")))
"""
BEFORE_WORK = """
import permrank.families.factored.model, permrank.evaluation.compare, permrank.interfaces.cli.app
def whole():
    model = pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists(LISTS))
    model.recommend("ann"), model.sample("ann", ["uni", "ebi"])
print("child", told(whole))
whole()
print("parent 0")
"""


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
class TestForks:
    def test_whatever_a_forked_child_tries_after_a_fit_it_is_told_to_spawn(self, tmp_path):
        found = run(AFTER_WORK, tmp_path)
        assert len(found) == 22
        assert found.pop("nothing") == "0"
        assert set(found.values()) == {"1"}, found

    def test_a_model_that_was_only_loaded_is_refused_too(self, tmp_path):
        pr.Borda().fit(pr.Rankings.from_lists(LISTS)).save(tmp_path / "m.permrank")
        assert run(AFTER_LOADING, tmp_path / "m.permrank") == {"recommend": "1"}

    def test_a_fork_before_any_work_harms_neither_side(self):
        assert run(BEFORE_WORK) == {"child": "0", "parent": "0"}


def recommended(model, user):
    return model.recommend(user)["item"].to_list()


def test_spawned_processes_answer_and_their_errors_arrive(tmp_path):
    model = pr.Borda().fit(pr.Rankings.from_lists(LISTS))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(recommended, model, "bob").result(timeout=120) == recommended(model, "bob")
        with pytest.raises(errors.UnknownIdError, match="the nearest known one is 'bob'") as caught:
            pool.submit(recommended, model, "bobo").result(timeout=120)
    assert caught.value.value == "bobo"


def test_every_error_survives_the_way_between_processes():
    made = [errors.UnknownIdError("user", "anna", ["ann"]), errors.EstimateError("no", ["uni"])]
    made += [kind("text") for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
             and kind not in (errors.UnknownIdError, errors.EstimateError)]  # fmt: skip
    for error in made:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def in_thread(work):
    """Does work in a thread of its own; returns what it raises."""
    caught = []

    def run():
        try:
            work()
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()
    return caught[0] if caught else None


def test_a_layer_for_one_thread_is_refused_in_a_second_one_and_not_by_an_abort(monkeypatch):
    model = pr.Borda().fit(pr.Rankings.from_lists(LISTS))
    monkeypatch.setattr(processes, "threads_are_safe", lambda: True)
    assert in_thread(lambda: model.recommend("ann")) is None
    monkeypatch.setattr(processes, "threads_are_safe", lambda: False)
    for work in (lambda: model.recommend("ann"), lambda: pr.Borda().fit(model.rankings_)):
        error = in_thread(work)
        assert isinstance(error, errors.NotSupportedError)
        assert "'second', and Numba's threading layer here, workqueue, is for one only" in str(error)
    model.recommend("ann")


CONCURRENT = """
import threading
import permrank as pr
model = pr.PlackettLuce(prior="gaussian").fit(pr.datasets.load("simulated", n_users=200, n_items=30))
model.sample(None, size=50)
def ask():
    begin.wait()
    try:
        [model.sample(None, size=50) for _ in range(20)]
    except pr.errors.NotSupportedError as error:
        refused.append(error)
refused, begin = [], threading.Barrier(8)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(len(refused))
"""


@pytest.mark.parametrize(
    "setting",
    [
        {"NUMBA_THREADING_LAYER": "workqueue"},
        {"NUMBA_THREADING_LAYER_PRIORITY": "workqueue omp tbb"},
    ],
)
def test_numbas_workqueue_does_not_end_the_process(setting):
    environment = {**os.environ, **setting}
    done = subprocess.run([sys.executable, "-c", CONCURRENT], env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"8\n"


def test_a_thread_that_has_ended_gives_way_to_another(monkeypatch):
    monkeypatch.setattr(processes, "threads_are_safe", lambda: False)
    monkeypatch.setattr(processes, "_thread", None)
    assert in_thread(lambda: pr.Borda().fit(pr.Rankings.from_lists(LISTS))) is None
    assert in_thread(lambda: pr.Borda().fit(pr.Rankings.from_lists(LISTS))) is None


def test_numbas_layer_is_known_before_it_is_loaded(monkeypatch):
    import numba

    monkeypatch.setattr(numba.config, "THREADING_LAYER", "workqueue")
    assert not processes.threads_are_safe.__wrapped__()
    monkeypatch.setattr(numba.config, "THREADING_LAYER", "forksafe")
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.tbbpool", None)
    assert processes.threads_are_safe.__wrapped__() == (sys.platform != "linux")
    monkeypatch.setattr(numba.config, "THREADING_LAYER", "default")
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.tbbpool", None)
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.omppool", None)
    assert not processes.threads_are_safe.__wrapped__()
