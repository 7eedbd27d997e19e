"""A pool of workers: the same bits as here, whoever is lost on the way; each shard sent once, results in order."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import permrank as pr
from permrank.errors import EngineError, InputError
from permrank.learning.pool import PoolEngine, WorkerLost, pack, unpack
from permrank.learning.shards import gathered
from permrank.posterior import passes

RATED = pr.datasets.load("simulated", n_users=60, n_items=12, list_length=(4, 8), ties=3)
MODELS = {
    "draws": (pr.FactoredPlackettLuce(2, max_iter=8, n_draws=2), RATED),
    "point": (pr.FactoredPlackettLuce(2, method="point", max_iter=5), RATED),
    "latent": (pr.LatentPlackettLuce(2, max_iter=5), RATED),
}
every_model = pytest.mark.parametrize("name", MODELS)
pytestmark = pytest.mark.filterwarnings("ignore::permrank.errors.ConvergenceWarning")


class Fakes:
    """Workers in this process that are given copies, hold them until they are lost, and may be lost at any moment."""

    def __init__(self, n_workers, lost=()):
        self.n_workers, self.log, self.n_done = n_workers, [], 0
        self.held = [{} for _ in range(n_workers)]
        self.alive = [True] * n_workers
        self._lost = dict(lost)  # after so many results: the worker

    def send(self, value):
        return pack(value)

    def hold(self, worker, key, sent):
        self._require(worker)
        assert key not in self.held[worker], "sent twice"
        self.log.append(("hold", worker, key))
        self.held[worker][key] = unpack(sent)

    def drop(self, worker, keys):
        for key in keys:
            self.held[worker].pop(key, None)

    def call(self, worker, function, key, arguments):
        self._require(worker)
        self.log.append(("call", worker, key))
        return function, key, pack(arguments)

    def result(self, worker, pending):
        if self.n_done in self._lost:
            lost = self._lost.pop(self.n_done)
            self.alive[lost], self.held[lost] = False, {}
        self._require(worker)
        function, key, arguments = pending
        self.n_done += 1
        return unpack(pack(unpack(function)(self.held[worker][key], *unpack(arguments))))

    def restart(self, worker):
        self.log.append(("restart", worker, None))
        self.alive[worker], self.held[worker] = True, {}

    def _require(self, worker):
        if not self.alive[worker]:
            raise WorkerLost("gone")


def learnt(name, engine=None, **options):
    model, data = MODELS[name]
    fitted = model.clone().fit(data, engine=engine, **options)
    return [np.asarray(getattr(fitted, each)) for each in fitted.estimate_.names()] + [np.array(fitted.history_)]


@pytest.fixture(scope="module")
def here():
    return {name: learnt(name) for name in MODELS}


@every_model
@pytest.mark.parametrize(("n_workers", "n_shards"), [(1, 1), (2, 2), (3, 3), (2, 4)])
def test_a_pool_learns_the_same_bits(name, n_workers, n_shards, here):
    for wanted, got in zip(here[name], learnt(name, PoolEngine(Fakes(n_workers), n_shards)), strict=True):
        assert_array_equal(got, wanted, strict=True)


@pytest.mark.parametrize("n_shards", [2, 3, 8])
def test_draws_learn_the_same_bits_by_sums_and_by_entries(n_shards, here, monkeypatch):
    for numbers in (0, 10**9):  # every entry is sent, or none is
        monkeypatch.setattr(passes, "_NUMBERS_OF_AN_ENTRY", numbers)
        for wanted, got in zip(here["draws"], learnt("draws", PoolEngine(Fakes(2), n_shards)), strict=True):
            assert_array_equal(got, wanted, strict=True)


def test_large_data_are_walked_through_in_shards_to_the_same_bits(here, monkeypatch):
    cuts = []

    def noted(job, parts, *rest):
        cuts.append(len(parts))
        return gathered(job, parts, *rest)

    settings = {"_LARGE": 0, "_NUMBERS_OF_AN_ENTRY": 10**9, "_SUMS_OF_AN_ENTRY": 10**9, "gathered": noted}
    for name, value in {**settings, "get_num_threads": lambda: 1}.items():
        monkeypatch.setattr(passes, name, value)
    for wanted, got in zip(here["draws"], learnt("draws"), strict=True):
        assert_array_equal(got, wanted, strict=True)
    assert set(cuts) == {4}


@every_model
def test_lost_workers_change_nothing(name, here):
    fakes = Fakes(2, {1: 0, 4: 1, 7: 1, 8: 0})
    for wanted, got in zip(here[name], learnt(name, PoolEngine(fakes)), strict=True):
        assert_array_equal(got, wanted, strict=True)
    assert sum(each[0] == "restart" for each in fakes.log) >= 3


def test_checkpoints_and_progress_are_those_of_a_fit_here(here, tmp_path):
    seen, path = [], tmp_path / "kept"

    def stop(progress):
        seen.append(progress.iteration)
        return progress.iteration == 4

    learnt("draws", PoolEngine(Fakes(2)), checkpoint=pr.Checkpoint(path, every=2), callback=stop)
    assert seen == [1, 2, 3, 4]
    # What a pool has begun goes on here, and the other way round.
    for wanted, got in zip(here["draws"], learnt("draws", checkpoint=path), strict=True):
        assert_array_equal(got, wanted, strict=True)


def shard_and(shard, number):
    return shard, number


def test_shards_are_sent_once_and_results_come_in_their_order():
    fakes = Fakes(2)
    engine = PoolEngine(fakes, 3)
    first, second = ["a", "b", "c"], ["d", "e", "f"]
    for numbers in ([1, 2, 3], [4, 5, 6]):
        assert engine.map(shard_and, first, numbers) == list(zip(first, numbers, strict=True))
        assert engine.map(shard_and, second, numbers) == list(zip(second, numbers, strict=True))
    held = [each for each in fakes.log if each[0] == "hold"]
    assert [(worker, key) for _, worker, key in held] == [(0, 0), (1, 1), (0, 2), (0, 3), (1, 4), (0, 5)]


def test_what_is_no_longer_used_is_dropped():
    fakes = Fakes(2)
    engine = PoolEngine(fakes)
    groups = [[f"{n} left", f"{n} right"] for n in range(5)]
    for group in groups:
        engine.map(shard_and, group, [0, 0])
    assert sum(map(len, fakes.held)) == 6
    assert engine.map(shard_and, groups[0], [1, 2]) == [("0 left", 1), ("0 right", 2)]
    assert sum(map(len, fakes.held)) == 6


def test_a_worker_that_is_lost_between_two_calls_is_replaced():
    fakes = Fakes(2)
    engine = PoolEngine(fakes)
    shards = ["a", "b"]
    engine.map(shard_and, shards, [1, 2])
    fakes.alive[1], fakes.held[1] = False, {}
    assert engine.map(shard_and, shards, [3, 4]) == [("a", 3), ("b", 4)]
    fakes.alive[0], fakes.held[0] = False, {}
    assert engine.map(shard_and, ["c", "d"], [5, 6]) == [("c", 5), ("d", 6)]


def test_a_place_that_loses_every_worker_is_given_up():
    class Cursed(Fakes):
        def result(self, worker, pending):
            raise WorkerLost("out of memory")

    with pytest.raises(EngineError, match=r"worker 0 was lost 4 times .*out of memory.*checkpoint"):
        PoolEngine(Cursed(2)).map(shard_and, ["a", "b"], [1, 2])


def test_errors_of_functions_are_not_taken_for_losses():
    with pytest.raises(ZeroDivisionError):
        PoolEngine(Fakes(2)).map(divided, ["a", "b"], [1, 0])


def divided(shard, number):
    return 1 / number


def test_parcels_keep_what_may_be_written():
    fixed, free = np.arange(3.0), np.arange(4)
    fixed.flags.writeable = False
    one, (other, text) = unpack(pack((fixed, (free, "x"))))
    assert (one.flags.writeable, other.flags.writeable, text) == (False, True, "x")
    other[0] = 9
    assert free[0] == 0
    assert_array_equal(one, fixed)


def test_engines_are_checked_before_anything_is_learnt():
    with pytest.raises(InputError, match="engine='spark', expected 'local', 'ray'"):
        learnt("draws", "spark")
    with pytest.raises(InputError, match="n_workers"):
        pr.RayEngine(n_workers=0)
    assert learnt("draws", "local")


@pytest.mark.ray
def test_ray_learns_the_same_bits_though_a_worker_is_killed(here):
    """One small test of the real thing: about 20 seconds, most of them Ray's."""
    import os
    import signal

    engine, killed = pr.RayEngine(n_workers=2, threads=1), []

    def kill(progress):
        if progress.iteration == 3 and not killed:
            killed.append(engine._workers.processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    for wanted, got in zip(here["draws"], learnt("draws", engine, callback=kill), strict=True):
        assert_array_equal(got, wanted, strict=True)
    assert killed
