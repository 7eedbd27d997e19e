"""The protocol of pairs, and the cross entropy of held-out ones."""

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError, NotSupportedError


def lists(n_users=40, seed=3):
    rng = np.random.default_rng(seed)
    return {f"u{u}": rng.permutation(list("abcdef")).tolist() for u in range(n_users)}


def test_pairs_are_of_the_persons_own_list_and_never_asked_twice():
    said = lists()
    rankings = pr.Rankings.from_lists({**said, "short": ["a", "b"], "tied": [{"a", "b", "c", "d"}, "e"]})
    split = pr.Pairs(n_train=5, n_test=4).split(rankings, seed=1)
    assert set(split.train.user_ids) == set(split.test.user_ids) == set(said)
    for user, order in said.items():
        train, test = split.train.lists(user), split.test.lists(user)
        assert (len(train), len(test)) == (5, 4)
        for winner, loser in train + test:
            assert order.index(winner) < order.index(loser)
        assert len({tuple(pair) for pair in train + test}) == 9
    assert pr.Pairs(5, 4).split(rankings, seed=1) == split
    assert pr.Pairs(5, 4).split(rankings, seed=2) != split
    with pytest.raises(InputError, match="leaves nobody"):
        pr.Pairs(10, 10).split(rankings)


def test_the_cross_entropy_is_the_mean_of_minus_log_prefers():
    rankings = pr.Rankings.from_lists(lists())
    model = pr.PlackettLuce(prior="gamma").fit(rankings)
    held = pr.Rankings.from_lists({"u0": ["a", {"b", "c"}, "d"], "u1": ["f", "e"], "u2": ["a"], "u3": [{"a", "b"}]})
    found = pr.evaluate(model, held, metrics=["cross_entropy", "pairs_right"])
    told = dict(zip(found.per_user["user"], found.per_user["cross_entropy"], strict=True))
    pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
    expected = -np.mean([np.log(model.prefers("u0", *pair)) for pair in pairs])
    np.testing.assert_allclose(told["u0"], expected, rtol=1e-9)
    np.testing.assert_allclose(told["u1"], -np.log(model.prefers("u1", "f", "e")), rtol=1e-9)
    assert told["u2"] is None
    assert told["u3"] is None
    with pytest.raises(NotSupportedError, match="prefers"):
        pr.evaluate(pr.MeanRating().fit(rankings), held, metrics=["cross_entropy"])


def test_a_comparison_by_cross_entropy_puts_the_lowest_first():
    truth = pr.datasets.load("simulated", n_users=150, n_items=12, list_length=8, separation=0.0)
    found = pr.compare(
        {"random": pr.Random(), "worths": pr.PlackettLuce(prior="gamma")}, truth, protocol=pr.Pairs(8, 4),
        metrics=["cross_entropy"],
    )  # fmt: skip
    table = found.table()
    assert table["model"].to_list() == ["worths", "random"]
    np.testing.assert_allclose(table["cross_entropy"].to_list()[1], np.log(2), rtol=1e-6)
