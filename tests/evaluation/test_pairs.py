"""Protocols of pairs and of questions: who is asked what, what is counted, and the cross entropy of held-out pairs."""

import numpy as np
import polars as pl
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


@pytest.fixture(scope="module")
def learnt():
    split = pr.Ask(4, n_folds=4).split(pr.Rankings.from_lists({**lists(), "tied": [{"a", "b"}, "c"]}), seed=1)
    return pr.FactoredThurstone(max_iter=30, n_draws=8).fit(split.train), split


def test_people_are_held_out_and_answer_within_their_budget(learnt):
    model, split = learnt
    assert not set(split.train.user_ids) & set(split.test.user_ids)
    found = pr.Ask(15).answers(model, split)
    strict = [user for user in split.test.user_ids if user != "tied"]
    assert found["user"].unique(maintain_order=True).to_list() == strict
    last = found.group_by("user", maintain_order=True).last()
    # After all pairs of six items the order is known.
    assert last["n_answers"].to_list() == [15] * len(strict)
    assert (last["pairs_right"] == 1.0).all()
    assert last["top_right"].all()
    assert (last["sure"] > 0.99).all()
    curve = found.group_by("n_answers").agg(pl.col("pairs_right").mean()).sort("n_answers")["pairs_right"]
    assert curve[0] < 0.75 < curve[8]


def test_random_questions_are_the_same_every_time_and_tell_less(learnt):
    model, split = learnt
    asking = pr.Ask(7, "random")
    random = asking.answers(model, split)
    assert random.equals(asking.answers(model, split))
    chosen = pr.Ask(7).answers(model, split)
    assert random["pairs_right"].mean() < chosen["pairs_right"].mean()
    with pytest.raises(NotSupportedError, match="chooses no questions"):
        asking.answers(pr.PlackettLuce(prior="gamma").fit(split.train), split)
