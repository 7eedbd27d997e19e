"""Learning that was broken off goes on to the same bits, and only from a whole file of the same work."""

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.errors import FormatError, InputError, StoppedWarning
from permrank.files import container
from permrank.interfaces.cli.app import app
from permrank.learning import checkpoints
from permrank.learning.hooks import Report
from permrank.learning.learner import run
from permrank.learning.optimisers import minorise_maximise
from permrank.types import Progress


@pytest.fixture(scope="module")
def orders():
    return pr.datasets.load("simulated", n_users=60, n_items=12, list_length=(3, 8))


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(1)
    rows = {"user": np.repeat(np.arange(40), 10), "item": np.tile(np.arange(10), 40), "rating": rng.integers(1, 6, 400)}
    return pr.Rankings.from_ratings(pl.DataFrame(rows), user="user", item="item", rating="rating")


def dying_at(sweep):
    def die(progress):
        if progress.iteration == sweep:
            raise InterruptedError

    return die


def require_same(model, other):
    assert model.history_ == other.history_
    for name in model.estimate_.names():
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))


SETTINGS = [
    (pr.FactoredPlackettLuce(2, max_iter=20, n_draws=6), "ratings"),
    (pr.FactoredPlackettLuce(2, max_iter=20, n_draws=6), "ratings"),
    (pr.FactoredPlackettLuce(2, max_iter=12, n_draws=6, ties="shuffle", intercepts=False), "ratings"),
    (pr.FactoredPlackettLuce(2, method="point", max_iter=30), "orders"),
    (pr.FactoredPlackettLuce(2, method="point", ties="shuffle", damping="learned", max_iter=12), "ratings"),
    (pr.LatentPlackettLuce(2, mixing="list", max_iter=14, n_starts=2, prior_strength=1.0), "orders"),
    (pr.PlackettLuce(prior="gaussian", method="mm", max_iter=30), "orders"),
    (pr.PlackettLuce(ties="shuffle", prior="gaussian", max_iter=40), "ratings"),
    (pr.PairwiseLogLinear(0, min_cooccurrence=2, pair_scale=0.2, max_iter=30), "orders"),
    (pr.PairwiseLogLinear(2, min_cooccurrence=2, pair_scale=0.2, max_iter=8, n_draws=3), "ratings"),
    (pr.PairwiseLogLinear(2, method="persistent", min_cooccurrence=2, pair_scale=0.2, max_iter=8), "ratings"),
    (pr.PairwiseLogLinear(0, method="contrastive", min_cooccurrence=2, pair_scale=0.2, max_iter=9), "orders"),
    (pr.PositionwiseLogLinear(0, max_iter=12, n_draws=4), "ratings"),
    (pr.PositionwiseLogLinear(0, method="exact", max_iter=12), "orders"),
    (pr.PositionwiseLogLinear(2, method="relocation", max_iter=20), "orders"),
    (pr.PositionwiseLogLinear(2, method="persistent", max_iter=9), "orders"),
    (pr.PositionwiseLogLinear(2, method="contrastive", max_iter=9), "ratings"),
]


@pytest.mark.parametrize(("model", "data"), SETTINGS, ids=lambda value: repr(value)[:60])
def test_wherever_it_is_broken_off_the_end_is_the_same(model, data, request, tmp_path):
    rankings = request.getfixturevalue(data)
    with warnings.catch_warnings(action="ignore"):
        whole = model.clone().fit(rankings)
        # One after another: each run is broken off a little later than the one it goes on from.
        for sweep in range(3, whole.n_iter_ + 1, max(1, whole.n_iter_ // 4)):
            with pytest.raises(InterruptedError):
                model.clone().fit(rankings, checkpoint=pr.Checkpoint(tmp_path / "c", every=2), callback=dying_at(sweep))
        resumed = model.clone().fit(rankings, checkpoint=tmp_path / "c")
        require_same(resumed, whole)


@pytest.mark.parametrize("posterior", ["draws", "point"])
def test_adding_data_that_was_broken_off_goes_on_to_the_same_bits(posterior, orders, tmp_path):
    people = list(orders.user_ids)
    first, second = orders.select(users=people[:40]), orders.select(users=people[40:])
    made = pr.FactoredPlackettLuce(2, method=posterior, max_iter=60 if posterior == "draws" else None)
    made.fit(first).save(tmp_path / "m")
    whole = pr.load(tmp_path / "m").partial_fit(second)
    assert whole.n_iter_ >= 8
    for sweep in (3, 7):
        model = pr.load(tmp_path / "m")
        with pytest.raises(InterruptedError):
            model.partial_fit(second, checkpoint=pr.Checkpoint(tmp_path / "c", every=2), callback=dying_at(sweep))
        assert model.rankings_ == first
    begun = []
    model.partial_fit(second, checkpoint=tmp_path / "c", callback=lambda progress: begun.append(progress.iteration))
    assert begun[0] == 7
    require_same(model, whole)
    other = pr.load(tmp_path / "m")
    other.fitted_ = other.fitted_.with_estimate(item_draws=2.0 * other.item_draws_)
    with pytest.raises(InputError, match=r"learning that began from .*; give the model as it was"):
        other.partial_fit(second, checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match=r"of other data|began from"):
        made.clone().fit(orders, checkpoint=tmp_path / "c")


def test_a_damaged_checkpoint_is_refused_and_says_so(orders, tmp_path):
    path = tmp_path / "c"
    model = pr.FactoredPlackettLuce(2, max_iter=8)
    model.fit(orders, checkpoint=path, callback=lambda progress: progress.iteration == 4)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    spoiled = [content[:cut] for cut in rng.integers(0, len(content), 30)]
    for place in rng.integers(0, len(content), 100):
        spoiled.append(content[:place] + bytes([content[place] ^ int(rng.integers(1, 256))]) + content[place + 1 :])
    for bad in [*spoiled, content + b"x", b"", b"a note of mine\n" * 20]:
        path.write_bytes(bad)
        with pytest.raises(FormatError, match=r"remove it to begin anew|use the version that wrote it"):
            model.clone().fit(orders, checkpoint=path)
        assert path.read_bytes() == bad


def test_what_belongs_to_other_work_is_refused_with_the_remedy(orders, ratings, tmp_path, monkeypatch):
    path = tmp_path / "c"
    model = pr.FactoredPlackettLuce(2, max_iter=8)
    model.fit(orders, checkpoint=path, callback=lambda progress: progress.iteration == 4)
    with pytest.raises(InputError, match="of other data; give the same rankings again"):
        model.clone().fit(ratings, checkpoint=path)
    with pytest.raises(InputError, match=r"of other parameters, max_iter=8 \(now 9\), seed=0 \(now 1\); ") as told:
        pr.FactoredPlackettLuce(2, max_iter=9, seed=1).fit(orders, checkpoint=path)
    assert "remove it to begin anew" in str(told.value)
    with pytest.raises(InputError, match="is a checkpoint of FactoredPlackettLuce, not of LatentPlackettLuce"):
        pr.LatentPlackettLuce(2).fit(orders, checkpoint=path)
    with pytest.raises(FormatError, match="is a permrank checkpoint, not a model"):
        pr.load(path)
    model.save(tmp_path / "m")
    with pytest.raises(FormatError, match="is a permrank model, not a checkpoint"):
        model.clone().fit(orders, checkpoint=tmp_path / "m")
    monkeypatch.setattr(pr, "__version__", "99")
    with pytest.raises(InputError, match=r"was written by permrank .*, and this is 99"):
        model.clone().fit(orders, checkpoint=path)
    for wrong, words in ((tmp_path / "no" / "c", "does not exist"), (7, "expected the name of a file")):
        with pytest.raises(InputError, match=words):
            model.clone().fit(orders, checkpoint=wrong)
    with pytest.raises(InputError, match="every=0"):
        pr.Checkpoint(path, every=0)


def test_nothing_is_kept_more_often_than_asked(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(checkpoints, "write", lambda *file: kept.append(len(file[2]["trace.history"])))
    store = checkpoints.CheckpointStore(pr.Checkpoint(tmp_path / "c", every=4), {})
    learner = minorise_maximise(lambda x: (x / 2, -float(x @ x)), np.ones(3), tol=1e-9)
    run(learner, max_iter=10, hooks=[store])
    assert kept == [4, 8, 10]


def test_a_failure_while_writing_leaves_the_checkpoint_before(tmp_path):
    container.write(tmp_path / "c", "checkpoint", {"a": np.arange(3)}, {})
    before = (tmp_path / "c").read_bytes()
    with pytest.raises(Exception, match="object"):
        container.write(tmp_path / "c", "checkpoint", {"a": np.array([object()])}, {})
    assert (tmp_path / "c").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


KILLED = """
import os, signal, sys
import permrank.files.atomic as atomic
from permrank.interfaces.cli.app import main

left, sync = int(sys.argv.pop(1)), os.fsync
def die(descriptor):
    global left
    left -= 1
    if left == 0:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)  # what a power cut may leave
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)
os.fsync = die
main()
"""


@pytest.mark.fixed_seed  # the process that is killed knows nothing of a shift
def test_a_run_killed_in_the_middle_of_writing_resumes_to_the_same_bits(orders, tmp_path):
    data, state, output = tmp_path / "data.jsonl", tmp_path / "state", tmp_path / "m.permrank"
    orders.write(data)
    rest = ["-m", "FactoredPlackettLuce", "-s", "n_factors=2", "-s", "max_iter=12", "-o", str(output)]
    command = ["fit", str(data), *rest, "--checkpoint", str(state), "--checkpoint-every", "2"]
    # A file and its folder are synced once each: the first and the third checkpoint.
    for place in (1, 3):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(place), *command], capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert len(list(tmp_path.glob(".state.*.tmp"))) == 1
        assert not output.exists()
    done = subprocess.run([sys.executable, "-c", KILLED, "1000", *command], capture_output=True, text=True, check=True)
    assert "error" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "m.permrank"]
    require_same(pr.load(output), pr.FactoredPlackettLuce(2, max_iter=12).fit(pr.read(data)))


def pressing_at(sweep, times=1):
    def press(progress):
        if progress.iteration == sweep:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    return press


def test_ctrl_c_stops_at_the_sweep_keeps_the_estimate_and_goes_on_later(orders, tmp_path):
    model = pr.FactoredPlackettLuce(2, max_iter=12)
    with pytest.warns(StoppedWarning, match="stopped after sweep 5 of at most 12; the estimate is kept"):
        model.fit(orders, callback=pressing_at(5), checkpoint=tmp_path / "c")
    assert model.n_iter_ == 5
    assert not model.converged_
    assert np.isfinite(model.score(orders.user_ids[0])).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    require_same(model.fit(orders, checkpoint=tmp_path / "c"), model.clone().fit(orders))


def test_the_command_writes_what_was_learnt_and_says_how_to_go_on(orders, tmp_path, monkeypatch):
    data, state, output = tmp_path / "data.jsonl", tmp_path / "state", tmp_path / "m.permrank"
    orders.write(data)
    command = ["fit", data, "-m", "FactoredPlackettLuce", "-s", "n_factors=2", "-s", "max_iter=12", "-o", output]

    def run(*more):
        return CliRunner().invoke(app, [str(part) for part in (*command, *more)])

    with monkeypatch.context() as patch:
        swept = Report.after_sweep

        def press(self, now):
            pressing_at(3)(Progress(now.n_sweeps, 12, 0.0))
            swept(self, now)

        patch.setattr(Report, "after_sweep", press)
        stopped = run("--checkpoint", state)
    assert stopped.exit_code == 130
    assert "stopped after sweep 3 of at most 12" in stopped.stderr
    assert f"the same command goes on from {state}" in stopped.stderr.replace("\n", "")
    assert (pr.load(output).n_iter_, state.exists()) == (3, True)
    assert run("--checkpoint", state).exit_code == 0
    require_same(pr.load(output), pr.FactoredPlackettLuce(2, max_iter=12).fit(pr.read(data)))
    assert not state.exists()
    assert "give two files" in run("--checkpoint", output).stderr


def test_ctrl_c_twice_ends_at_once_and_changes_nothing(orders):
    model = pr.FactoredPlackettLuce(2, max_iter=12)
    with pytest.raises(KeyboardInterrupt):
        model.fit(orders, callback=pressing_at(5, times=2))
    assert not hasattr(model, "rankings_")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_a_comparison_and_not_one_of_its_fits(orders):
    split = pr.LeaveOut(k=1).split(orders, 0)
    pressed = []

    class Pressed(pr.PlackettLuce):
        def _learner(self, rankings):
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            return super()._learner(rankings)

    with pytest.raises(KeyboardInterrupt):
        pr.compare([Pressed(), pr.Random()], [split])
    assert pressed == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
