"""Reasons in words and in few rows, whatever the model that they come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permrank as pr
from permrank.core.explanation import Reasons, _chosen
from permrank.errors import NotSupportedError

TITLES = {"item": ["a", "b", "c", "d", "e", "f"], "title": ["Alien", "Brazil", "Clue", "Dune", "Emma", "Fargo"]}


class Told(pr.Ranker):
    """A model whose reasons are given."""

    def __init__(self, parts=None, baseline=0.0):
        self.parts, self.baseline = parts, baseline

    def _learn(self, rankings):
        return pr.Estimate()

    def _scores(self, fitted, person, items):
        return np.zeros(items.size)

    def _reasons(self, fitted, person, item):
        names = list(self.parts)
        return Reasons(fitted.item_ids.indices(names), np.array(list(self.parts.values())), self.baseline, "its fame")


def told(data, parts, baseline=0.0):
    return Told(parts, baseline).fit(data.with_items(TITLES))


RATED = pr.Rankings.from_ratings(
    {"user": ["ann"] * 5 + ["bob"], "item": list("abcdef"), "rating": [5, 4.5, 3, 2, 1, 3]}
)
LISTED = pr.Rankings.from_lists({"ann": ["a", {"b", "c"}, "d", "e"], "bob": ["f"]})
CHOSEN = pr.Rankings.from_interactions({"user": ["ann"] * 5 + ["bob"], "item": list("abcdef")})


def test_five_rows_that_add_up():
    parts = {"a": 3.0, "b": 1.0, "c": 0.5, "d": -2.0, "e": -0.5}
    frame = told(RATED, parts, 1.5).explain("ann", "f")
    assert frame.drop("share").rows() == [
        ("for", "a", "Alien", 5.0, 3.0),
        ("for", "b", "Brazil", 4.5, 1.0),
        ("against", "d", "Dune", 2.0, -2.0),
        ("others", None, None, None, 0.0),
        ("baseline", None, None, None, 1.5),
    ]
    np.testing.assert_allclose(frame["share"].to_list(), np.array([3.0, 1.0, -2.0, 0.0, 1.5]) / 7.5)
    full = told(RATED, parts, 1.5).explain("ann", "f", full=True)
    assert full["contribution"].to_list() == [3.0, 1.0, 0.5, -2.0, -0.5, 1.5]
    assert full["reason"].to_list() == ["for"] * 3 + ["against"] * 2 + ["baseline"]


@given(st.lists(st.floats(-9, 9), max_size=12), st.integers(3, 8), st.integers(0, 12))
def test_what_is_shown_is_largest_and_never_more_than_asked_for_nor_the_item_itself(parts, k, index):
    parts = np.array(parts)
    chosen = _chosen(Reasons(np.arange(parts.size), parts, 0.0, "its fame"), index, k)
    assert len(set(chosen)) == chosen.size
    assert index not in chosen
    n_rows = chosen.size + 1 + (chosen.size < parts.size)
    assert n_rows <= k or parts.size <= k - 1
    parts[index : index + 1] = 0.0
    rest = np.setdiff1d(np.arange(parts.size), chosen)
    for sign in (1, -1):
        own, left = sign * parts[chosen], sign * parts[rest]
        if (own > 0).any() and (left > 0).any():
            assert own[own > 0].min() >= left.max()
    if (parts > 0).any():
        assert (parts[chosen] > 0).any()
        assert chosen[0] == parts.argmax() or parts[chosen[0]] == parts.max()


@pytest.mark.parametrize(
    ("data", "parts", "baseline", "sentence"),
    [
        (RATED, {"a": 2.0, "b": 1.0}, 0.5, "Fargo: because you rated Alien 5 and Brazil 4.5"),
        (RATED, {"a": 2.0, "b": 1.0, "e": -1.5}, 0.5, "Fargo: because you rated Alien 5 and Brazil 4.5; in spite of Emma 1"),  # noqa: E501
        (RATED, {"a": 2.0, "b": 1.0, "e": -0.5}, 0.5, "Fargo: because you rated Alien 5 and Brazil 4.5"),
        (RATED, {"a": 1.0}, 2.0, "Fargo: by its fame; because you rated Alien 5"),
        (RATED, {"e": -1.0}, 2.0, "Fargo: by its fame; in spite of Emma 1"),
        (RATED, {}, 2.0, "Fargo: by its fame"),
        (LISTED, {"a": 2.0, "c": 1.0, "e": -3}, 0.0, "Fargo: because you put Alien 1st of 4 and Clue 2nd of 4; in spite of Emma 4th of 4"),  # noqa: E501
        (CHOSEN, {"a": 2.0, "c": 1.0}, 0.0, "Fargo: because you chose Alien and Clue"),
    ],
)  # fmt: skip
def test_sentences(data, parts, baseline, sentence):
    assert told(data, parts, baseline).because("ann", "fargo") == sentence


def test_an_item_on_the_list_is_no_reason_for_itself():
    model = told(RATED, {"a": 3.0, "b": 1.0, "e": -0.5}, 1.5)
    for options in ({}, {"full": True}):
        frame = model.explain("ann", "a", **options)
        assert frame["item"].to_list() == ["b", "e", None, None]
        assert dict(frame.select("reason", "contribution").rows()[2:]) == {"others": 3.0, "baseline": 1.5}
    assert model.because("ann", "a") == "Alien: by its fame; because you rated Brazil 4.5"


@pytest.mark.parametrize("model", [pr.Recommender(n_factors=2), pr.FactoredPlackettLuce(n_factors=2, max_iter=20)])
def test_models_do_not_name_the_item_that_they_are_asked_about(model):
    rankings = pr.datasets.load("simulated", n_users=30, n_items=12, list_length=(4, 8))
    user = rankings.user_ids[0]
    item = model.fit(rankings).rankings_.lists(user)[0][0]
    for asked in (user, model.fold_in(rankings.lists(user)[0])):
        frame = model.explain(asked, item, full=True)
        assert item not in frame["item"].to_list()
        assert frame["contribution"].sum() == pytest.approx(model.score(asked, [item])[0], rel=1e-6, abs=1e-6)
        assert str(item) not in model.because(asked, item).split(":", 1)[1]


def test_somebody_new_is_told_the_same():
    model = told(LISTED, {"a": 2.0, "c": 1.0})
    new = model.fold_in(["Clue", "Alien", "Dune"])
    assert model.because(new, "Fargo") == "Fargo: because you put Alien 2nd of 3 and Clue 1st of 3"
    assert model.explain(new, "Fargo")["place"].to_list() == [2, 1, None]


def test_models_without_reasons_say_so():
    with pytest.raises(NotSupportedError, match=r"Popularity cannot answer explain\(\)"):
        pr.Popularity().fit(LISTED).explain("ann", "f")
