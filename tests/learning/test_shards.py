"""One shard, two, three and eight give the same bits, for every learner whose sums go through `map_shards`."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cloudpickle
from numpy.testing import assert_array_equal

import permrank as pr
import permrank.families.latent.learning as latent_learning
from permrank.learning.shards import (
    LocalEngine,
    blocks_by_entries,
    blocks_by_rows,
    gathered,
    map_shards,
    n_blocks_of,
    present_engine,
    shards_of,
    using,
)
from permrank.rankings.vocabulary import Vocabulary

N_USERS, N_ITEMS = 330, 9


def several_lists(*, tied: bool) -> pr.Rankings:
    """Lists of different lengths, some users with several and some with none, and weights."""
    rng = np.random.default_rng(3)
    of_user = rng.choice([0, 1, 1, 2, 3], N_USERS)
    lengths = rng.integers(2, N_ITEMS + 1, of_user.sum())
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    items = np.concatenate([rng.permutation(N_ITEMS)[:n] for n in lengths]).astype(np.int32)
    new_level = np.concatenate([np.arange(n) > 0 for n in lengths]) & (rng.random(items.size) > (0.4 if tied else 0.0))
    levels = np.cumsum(new_level) - np.repeat(np.cumsum(new_level)[indptr[:-1]], lengths)
    return pr.Rankings(
        np.concatenate(([0], np.cumsum(of_user))), indptr, items, levels.astype(np.int32),
        rng.choice([1.0, 2.0, 0.5], lengths.size), Vocabulary(pl.Series(np.arange(N_USERS)), "user"),
        Vocabulary(pl.Series(np.arange(N_ITEMS)), "item"),
    )  # fmt: skip


def ratings() -> pr.Rankings:
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(200), 7)
    what = np.concatenate([rng.permutation(N_ITEMS)[:7] for _ in range(200)])
    return pr.Rankings.from_ratings({"user": who, "item": what, "rating": rng.integers(1, 6, who.size)})


def full() -> pr.Rankings:
    rng = np.random.default_rng(5)
    return pr.Rankings.from_lists({user: rng.permutation(6).tolist() for user in range(150)})


DATA = {
    "strict": several_lists(tied=False), "tied": several_lists(tied=True), "ratings": ratings(), "full": full(),
}  # fmt: skip


def features() -> pl.DataFrame:
    """Of users and items, so that entries have covariates."""
    who, what = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    return pl.DataFrame({"user": who, "item": what, "x": np.random.default_rng(6).normal(size=who.size)})


LEARNERS = {
    "newton": (pr.PlackettLuce(prior="gaussian"), "strict"),
    "newton with ties": (pr.PlackettLuce(prior="gaussian", ties="efron"), "tied"),
    "shuffled ties": (pr.PlackettLuce(prior="gamma", ties="shuffle", max_iter=20), "tied"),
    "latent by stage": (pr.LatentPlackettLuce(3, max_iter=20), "tied"),
    "latent by list": (pr.LatentPlackettLuce(3, mixing="list", max_iter=20), "strict"),
    "latent, shuffled": (pr.LatentPlackettLuce(2, ties="shuffle", max_iter=10), "tied"),
    # Few pairs, so that they are drawn at random.
    "preference": (pr.LatentPreference(2, max_pairs=5, max_iter=20), "tied"),
    "centres": (pr.Mallows(2, n_starts=4, max_iter=10), "tied"),
    "centres of ranks": (pr.Mallows(2, distance="spearman", n_starts=4, max_iter=10), "full"),
    "pairs by hinge": (pr.PairwiseFactorisation(2, loss="hinge", max_iter=10), "strict"),
    # Few partners, so that they are drawn at random.
    "pairs by logistic": (pr.PairwiseFactorisation(2, n_partners=2, max_iter=10), "tied"),
    "bound on ndcg": (pr.CofiRank(2, max_iter=10), "ratings"),
    "squared errors": (pr.CofiRank(2, loss="squared", max_iter=10), "ratings"),
    "listnet": (pr.ListNet(2, max_iter=10), "ratings"),
    "listmle with features": (pr.ListNet(2, loss="listmle", features=features(), max_iter=10), "strict"),
    "point": (pr.FactoredPlackettLuce(3, method="point", max_iter=10), "tied"),
    "point, damped": (pr.FactoredPlackettLuce(3, method="point", damping="learned", max_iter=30), "strict"),
    "point, shuffled": (pr.FactoredPlackettLuce(3, method="point", ties="shuffle", max_iter=10), "tied"),
    "draws": (pr.FactoredPlackettLuce(3, max_iter=12, n_draws=4), "strict"),
    "draws with ratings": (pr.FactoredPlackettLuce(3, max_iter=12, n_draws=4), "ratings"),
    "draws, shuffled": (pr.FactoredPlackettLuce(3, ties="shuffle", max_iter=12, n_draws=4), "tied"),
    "draws by swaps": (pr.PositionwiseLogLinear(3, max_iter=12, n_draws=4), "tied"),
    "draws and pairs": (pr.PairwiseLogLinear(3, min_cooccurrence=1, pair_scale=0.1, max_iter=10, n_draws=4), "tied"),
    "pairs of items": (pr.PairwiseLogLinear(0, min_cooccurrence=1, pair_scale=0.1, max_iter=10), "tied"),
    "exact": (pr.PairwiseLogLinear(0, method="exact", min_cooccurrence=1, pair_scale=0.1, max_iter=10), "tied"),
    "contrastive": (
        pr.PairwiseLogLinear(0, method="contrastive", min_cooccurrence=1, pair_scale=0.1, max_iter=10),
        "strict",
    ),
    "factors by swaps": (pr.PositionwiseLogLinear(2, method="swaps", max_iter=10), "strict"),
    "factors by contrast": (pr.PositionwiseLogLinear(2, method="contrastive", max_iter=10), "tied"),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


class Recorder(LocalEngine):
    """Notes into how many shards data were cut, and works through them from the last to the first."""

    def __init__(self, n_shards):
        super().__init__(n_shards)
        self.cuts = []

    def map(self, function, *columns):
        self.cuts.append(len(columns[0]))
        return [function(*each) for each in reversed(list(zip(*columns, strict=True)))][::-1]


class Elsewhere(Recorder):
    """Calls functions on copies of all that they are given, as another process would."""

    def map(self, function, *columns):
        return super().map(lambda *each: copied(copied((function, each)), call=True), *columns)


def copied(value, *, call=False):
    """Through a stream of bytes and back, arrays as writeable as they were."""
    value = value[0](*value[1]) if call else value
    buffers = []
    stream = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    return pickle.loads(stream, buffers=[bytes(v) if v.readonly else bytearray(v) for v in views])


def estimate(name, engine=None, n_users=None):
    """What a learner learns from the first so many users, or all, with the trace of its objective."""
    model, data = LEARNERS[name][0], DATA[LEARNERS[name][1]]
    if n_users is not None:
        data = data.select(users=data.user_ids.ids[:n_users].to_list())
    with using(engine or LocalEngine()):
        fitted = model.clone().fit(data)
    return [np.asarray(getattr(fitted, learned)) for learned in fitted.estimate_.names()] + [np.array(fitted.history_)]


@pytest.fixture(scope="module")
def by_one_shard():
    found = {}

    def of(name):
        if name not in found:
            found[name] = estimate(name)
        return found[name]

    return of


@pytest.mark.filterwarnings("ignore::permrank.errors.ConvergenceWarning")
@every_learner
@pytest.mark.parametrize("engine", [Recorder(2), Elsewhere(3)], ids=["two", "three, elsewhere"])
def test_shards_give_the_same_bits_as_one(name, engine, by_one_shard):
    engine.cuts.clear()
    for wanted, got in zip(by_one_shard(name), estimate(name, engine), strict=True):
        assert_array_equal(got, wanted, strict=True)
    assert max(engine.cuts) == engine.n_shards


@pytest.mark.filterwarnings("ignore::permrank.errors.ConvergenceWarning")
@every_learner
def test_more_shards_than_users_give_the_same_bits(name):
    for wanted, got in zip(estimate(name, n_users=5), estimate(name, LocalEngine(8), n_users=5), strict=True):
        assert_array_equal(got, wanted, strict=True)


@pytest.mark.filterwarnings("ignore::permrank.errors.ConvergenceWarning")
def test_more_shards_than_blocks_give_the_same_bits(by_one_shard):
    for name in ("newton", "latent by stage", "point"):
        engine = Recorder(10 * N_USERS)
        for wanted, got in zip(by_one_shard(name), estimate(name, engine), strict=True):
            assert_array_equal(got, wanted, strict=True)
        assert max(engine.cuts) <= 64


@pytest.mark.filterwarnings("ignore::permrank.errors.ConvergenceWarning")
def test_blocks_that_depended_on_the_number_of_shards_would_not_give_the_same_bits(by_one_shard, monkeypatch):
    # The control: as many blocks as shards.
    monkeypatch.setattr(latent_learning, "n_blocks_of", lambda *_, **__: present_engine().n_shards)
    changed = estimate("latent by stage", LocalEngine(3))
    assert any((got != wanted).any() for got, wanted in zip(changed, by_one_shard("latent by stage"), strict=True))


def test_results_in_the_wrong_order_would_not_give_the_same_bits():
    # The control of the order: one by one the small numbers are lost beside the large one, together they are not.
    indptr, numbers = np.arange(41), np.append(1.0, np.full(39, 1e-17))

    def sums(shard):
        return (np.array([shard.data[0][a:b].sum() for a, b in zip(shard.bounds[:-1], shard.bounds[1:], strict=True)]),)

    def total(n_shards, step=1):
        with using(LocalEngine(n_shards)):
            (by_block,) = gathered(sums, shards_of(blocks_by_rows(40, 16), (indptr,), ((numbers,),))[::step])
        return float(np.cumsum(by_block)[-1])

    assert {total(n) for n in (1, 2, 3, 8)} == {total(1)}
    assert total(8, -1) != total(1)


rows = st.lists(st.integers(0, 4), max_size=60)


@given(rows, st.integers(1, 20), st.booleans())
def test_blocks_cover_all_rows_once(lengths, n_blocks, by_entries):
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    bounds = blocks_by_entries(starts, n_blocks) if by_entries else blocks_by_rows(len(lengths), n_blocks)
    assert bounds.size == n_blocks + 1
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    assert (np.diff(bounds) >= 0).all()
    if by_entries:  # a block exceeds its share by less than one row
        share = starts[-1] / n_blocks
        assert (np.diff(starts[bounds]) < share + max([*lengths, 1])).all()
    else:
        assert np.ptp(np.diff(bounds)) <= 1


@given(rows, st.integers(1, 20), st.integers(1, 30))
def test_shards_hold_all_data_once_counted_from_their_own_first(lengths, n_blocks, n_shards):
    of_user = np.array(lengths, np.int64)
    of_list = np.arange(of_user.sum()) % 3
    user_indptr, indptr = (np.concatenate(([0], np.cumsum(part))) for part in (of_user, of_list))
    user_indptr.flags.writeable = False
    data = np.arange(of_user.size), np.arange(of_list.size), np.arange(of_list.sum())
    bounds = blocks_by_entries(indptr[user_indptr], n_blocks)
    with using(LocalEngine(n_shards)):
        shards = shards_of(bounds, (user_indptr, indptr), tuple((level,) for level in data))
    assert len(shards) == min(n_shards, n_blocks)
    assert sum(shard.n_blocks for shard in shards) == n_blocks
    for level, wanted in enumerate(data):
        assert_array_equal(np.concatenate([shard.data[level] for shard in shards]), wanted)
        assert_array_equal(np.concatenate([wanted[shard.spans[level]] for shard in shards]), wanted)
    for shard in shards:
        users, lists, entries = shard.data
        own_lists, own_entries = shard.indptrs
        assert shard.bounds[0] == own_lists[0] == own_entries[0] == 0
        assert (shard.bounds[-1], own_lists[-1], own_entries[-1]) == (users.size, lists.size, entries.size)
        assert_array_equal(np.diff(own_lists), of_user[users])
        assert_array_equal(np.diff(own_entries), of_list[lists])
        assert not own_lists.flags.writeable
        assert own_entries.flags.writeable


def test_one_shard_is_the_data_themselves():
    indptr, data = np.arange(11), np.arange(10)
    (shard,) = shards_of(blocks_by_rows(10, 4), (indptr,), ((data,),))
    assert np.shares_memory(shard.indptrs[0], indptr)
    assert np.shares_memory(shard.data[0], data)
    assert gathered(lambda shard: shard.data, [shard])[0] is shard.data[0]


def test_an_engine_is_in_use_inside_its_block_only():
    before = present_engine()
    with using(LocalEngine(2)) as engine:
        assert present_engine() is engine
    assert present_engine() is before
    with pytest.raises(ZeroDivisionError), using(LocalEngine(2)):
        raise ZeroDivisionError
    assert present_engine() is before
    assert before.n_shards == 1
    with pytest.raises(ValueError, match="at least 1"):
        LocalEngine(0)


def test_a_function_is_given_the_lines_of_its_shard():
    indptr = np.array([0, 2, 2, 5, 6])
    with using(LocalEngine(2)):
        shards = shards_of(np.array([0, 1, 4]), (indptr,))
        found = map_shards(lambda shard, a, b: (a.tolist(), b.tolist()), shards, np.arange(4), 10 * np.arange(4))
        assert found == [([0], [0]), ([1, 2, 3], [10, 20, 30])]
        assert map_shards(lambda shard, a: a.tolist(), shards, np.arange(6), level=1) == [[0, 1], [2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("n_rows", "allowed", "wanted"), [(100, 7, 7), (100, 0, 2), (100, 99, 16), (5, 9, 5), (0, 9, 1)]
)
def test_there_are_as_many_blocks_as_allowed_but_no_more_than_rows(n_rows, allowed, wanted):
    assert n_blocks_of(n_rows, allowed, fewest=2) == wanted
