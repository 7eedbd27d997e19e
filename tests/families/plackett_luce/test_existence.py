"""Data that have no estimate, fits that stop short, and parameters that are refused."""

import itertools

import numpy as np
import pytest

import permrank as pr
from permrank.errors import ConvergenceWarning, EstimateError, InputError
from permrank.families.plackett_luce.model import PooledEstimate
from permrank.inference.existence import require_partition_estimates
from permrank.learning.learner import Step, standing
from tied_lists import random_rankings


def test_items_without_an_estimate_are_named_with_the_reason():
    lists = [["a", "b", "loser"], ["b", "a"], ["winner", "a"], ["alone"]]
    rankings = pr.Rankings.from_lists(lists)
    with pytest.raises(EstimateError) as caught:
        pr.PlackettLuce().fit(rankings)
    message = str(caught.value)
    assert "never ranked above another item: 'loser'" in message
    assert "never ranked below another item: 'winner'" in message
    assert "never compared with another item: 'alone'" in message
    assert "prior='gaussian'" in message
    assert sorted(caught.value.items) == ["alone", "loser", "winner"]
    assert pr.PlackettLuce().fit(rankings.drop(items=caught.value.items)).converged_
    for prior in ("gaussian", "gamma"):
        assert np.isfinite(pr.PlackettLuce(prior=prior).fit(rankings).scores_).all()


@pytest.mark.parametrize(
    "lists", [[[{"a", "b"}, "c"], ["c", {"a", "b"}], ["b", "a"]], [[{"a", "b"}, "c"], ["c", {"a", "b"}]]]
)
def test_partition_refuses_data_in_which_one_item_of_a_block_can_carry_it(lists):
    # Connected by single comparisons, and yet the shares of a and b in their block are open.
    with pytest.raises(EstimateError, match=r"ties='partition'.*'[ab]'.*--set prior=gaussian") as caught:
        pr.PlackettLuce(ties="partition").fit(pr.Rankings.from_lists(lists))
    assert set(caught.value.items) < {"a", "b", "c"}
    assert pr.PlackettLuce(ties="partition", prior="gaussian").fit(pr.Rankings.from_lists(lists)).converged_


def closed_sets(rankings):
    """All proper sets of items that hold what follows every block they hold, by enumeration."""
    stages = []
    for each in rankings.lists():
        blocks = [entry if isinstance(entry, set) else {entry} for entry in each]
        stages += [(blocks[b], set().union(*blocks[b + 1 :])) for b in range(len(blocks) - 1)]
    for size in range(1, rankings.n_items):
        for chosen in itertools.combinations(rankings.item_ids, size):
            if all(after <= set(chosen) for block, after in stages if block <= set(chosen)):
                yield set(chosen)


def test_partition_accepts_exactly_the_data_without_a_closed_set():
    rng = np.random.default_rng(3)
    accepted = 0
    for _ in range(300):
        n_items, lists = int(rng.integers(2, 7)), []
        for _ in range(rng.integers(2, 14)):
            order, blocks = rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist(), []
            while order:
                size = int(rng.choice([1, 1, 2, 3]))
                blocks.append(order[0] if len(order[:size]) == 1 else set(order[:size]))
                order = order[size:]
            lists.append(blocks)
        rankings = pr.Rankings.from_lists(lists, items=range(n_items))
        try:
            require_partition_estimates(rankings)
        except EstimateError as error:
            assert any(closed_sets(rankings))
            assert len(error.items) > 0
        else:
            assert not any(closed_sets(rankings))
            accepted += 1
    assert 30 < accepted < 270


def test_two_groups_that_meet_in_one_direction_only_are_reported():
    rankings = pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "c"], ["c", "d"], ["d", "c"]])
    with pytest.raises(EstimateError, match=r"compared in one direction only with the other items: '[ac]', '[bd]'"):
        pr.PlackettLuce().fit(rankings)


def test_a_failed_fit_leaves_the_model_as_it_was():
    good = random_rankings(8)
    model = pr.PlackettLuce().fit(good)
    before = model.scores_.copy()
    with pytest.raises(EstimateError):
        model.fit(pr.Rankings.from_lists([["a", "b"]]))
    np.testing.assert_array_equal(model.scores_, before)
    assert model.rankings_ is good


def test_stopping_short_warns_and_keeps_the_estimate():
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 sweeps"):
        model = pr.PlackettLuce(method="mm", max_iter=2).fit(random_rankings(9))
    assert not model.converged_
    assert len(model.history_) == 2
    assert np.isfinite(model.scores_).all()


def test_the_warning_counts_the_sweeps_that_were_made_and_advises_accordingly(monkeypatch):
    def stalled(self, rankings):
        found = PooledEstimate(np.zeros(rankings.n_items), 0.0)
        return lambda kept: iter([standing(lambda: found), *[Step(-1.0, lambda: found)] * 3])

    monkeypatch.setattr(pr.PlackettLuce, "_learn", stalled)
    with pytest.warns(ConvergenceWarning, match=r"in 3 sweeps;.* No step raised the objective any more"):
        pr.PlackettLuce(max_iter=50).fit(random_rankings(9))
    with pytest.warns(ConvergenceWarning, match=r"in 3 sweeps;.* Raise max_iter or tol"):
        pr.PlackettLuce(max_iter=3).fit(random_rankings(9))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior": "flat"}, "prior='flat', expected one of None, 'gaussian', 'gamma'"),
        ({"ties": "none"}, "ties='none'"),
        ({"prior": np.zeros(2)}, "prior=array"),
        ({"method": "sgd"}, "method='sgd'"),
        ({"prior_scale": 0}, "prior_scale=0, expected a finite number above 0"),
        ({"prior_scale": "big"}, "prior_scale='big'"),
        ({"prior_shape": 1.0}, "prior_shape=1.0, expected a finite number above 1"),
        ({"tol": float("nan")}, "tol=nan"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_iter": 2.5}, "max_iter=2.5"),
        ({"prior_scale": 1e-9}, "prior_scale=1e-09, expected between 1e-06 and 1e"),
        ({"prior_scale": 1e9}, "prior_scale=1000000000.0, expected between"),
        ({"seed": -1}, "seed=-1, expected a whole number from 0"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"seed": None}, "seed=None"),
    ],
)
def test_bad_parameters_are_refused_by_fit(parameters, message):
    with pytest.raises(InputError, match=message):
        pr.PlackettLuce(**parameters).fit(random_rankings(0))
