"""The protocol of questions: who is asked what, and what is counted."""

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import NotSupportedError


def lists(n_users=40, seed=3):
    rng = np.random.default_rng(seed)
    return {f"u{u}": rng.permutation(list("abcdef")).tolist() for u in range(n_users)}


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
