"""Cold items and users: what is hidden, and that it is measured apart."""

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import InputError
from permrank.rankings.selection import restrict


@pytest.fixture(scope="module")
def rankings():
    return pr.datasets.load("simulated", n_users=60, n_items=30, list_length=15, ties=5, separation=0.0, seed=3)


def ids(part, kind):
    return set(part.item_ids if kind == "items" else part.user_ids)


def test_cold_items_are_never_learnt_from_and_others_in_part(rankings):
    split = pr.ColdItems(share=0.3, known_share=0.2).split(rankings, seed=1)
    cold = ids(split.test, "items") - ids(split.train, "items")
    assert len(cold) == 9
    assert split.train.n_entries + split.test.n_entries <= rankings.n_entries
    hidden = split.test.to_frame().filter(~split.test.to_frame()["item"].is_in(list(cold)))
    kept = split.train.to_frame().group_by("user").len()
    both = kept.join(hidden.group_by("user").len(), on="user", suffix="_hidden")
    assert (both["len_hidden"] == ((both["len"] + both["len_hidden"]) * 0.2).floor()).all()
    assert pr.ColdItems(share=0.3).split(rankings, seed=1).test == split.test
    assert pr.ColdItems(share=0.3).split(rankings, seed=2).test != split.test


def test_cold_users_are_never_learnt_from(rankings):
    split = pr.ColdUsers(share=0.25).split(rankings, seed=1)
    cold = ids(split.test, "users") - ids(split.train, "users")
    assert len(cold) == 15
    for user in cold:
        assert split.test.lists(user) == rankings.lists(user)


@pytest.mark.parametrize("protocol", [pr.ColdItems(share=0.3), pr.ColdUsers(share=0.3)])
def test_parts_are_measured_as_if_they_were_all(rankings, protocol, tmp_path):
    split = protocol.split(rankings, seed=0)
    result = pr.evaluate(pr.MeanRating(), split, metrics=["ndcg", "pairs_right"])
    items, users = (pl.Series(list(ids(split.train, kind))) for kind in ("items", "users"))
    frame = split.test.to_frame()
    known = frame["item"].is_in(items.implode()) & frame["user"].is_in(users.implode())
    alone = pr.evaluate(result.model, pr.Rankings.from_ratings(frame.filter(known)), metrics=["ndcg", "pairs_right"])
    for name, value in alone.means().items():
        assert result.means("known")[name] == pytest.approx(value, abs=1e-12)
    assert np.isfinite(result.means("cold")["ndcg"])
    if split.cold == "users":  # of whom nothing is known, but people agree in these data
        assert result.means("cold")["pairs_right"] > 0.6
    split.save(tmp_path / "split")
    assert pr.Split.load(tmp_path / "split") == split
    with pytest.raises(InputError, match="ColdItems"):
        pr.evaluate(pr.MeanRating(), pr.Given(3).split(rankings)).means("cold")


def test_finding_cold_items_is_asked_among_cold_items(rankings):
    split = pr.ColdItems(share=0.3, question="find").split(rankings, seed=0)
    cold = ids(split.test, "items") - ids(split.train, "items")
    assert ids(split.test, "items") <= cold
    assert split.test.ratings.min() >= 4

    class Knows(pr.MeanRating):
        """Has learnt from everything, cold items too."""

        def fit(self, train, y=None, **options):
            keep = np.array([user in ids(train, "users") for user in rankings.user_ids])
            return super().fit(restrict(rankings, keep, np.ones(rankings.n_items, bool)), **options)

    result = pr.evaluate(Knows(), split, metrics=["recall"], k=9)
    assert result.means()["recall"] == 1.0  # every cold item is shown, and no other


def test_what_cannot_be_split_is_refused(rankings):
    for wrong in (
        pr.ColdItems(share=0.0),
        pr.ColdUsers(share=1.0),
        pr.ColdItems(known_share=2),
        pr.ColdItems(question="x"),
    ):
        with pytest.raises(InputError):
            wrong.split(rankings)
    with pytest.raises(InputError, match="can be cold"):
        pr.ColdItems().split(pr.Rankings.from_lists({"ann": ["a"]}))


@pytest.mark.parametrize("kind", ["items", "users"])
def test_who_is_cold_depends_on_the_seed(rankings, kind):
    protocol = pr.ColdItems(share=0.3) if kind == "items" else pr.ColdUsers(share=0.3)
    splits = [protocol.split(rankings, seed) for seed in (1, 1, 2, 3)]
    cold = [frozenset(ids(split.test, kind) - ids(split.train, kind)) for split in splits]
    assert cold[0] == cold[1]
    assert len(set(cold)) == 3
