"""Sets without order: what each model makes of them."""

import warnings

import numpy as np
import pytest

import permrank as pr
from permrank.core.registry import find
from permrank.errors import InputError
from permrank.families import MODELS

CLICKS = pr.Rankings.from_interactions(
    {"user": ["ann", "ann", "ann", "bob", "bob", "cat", "cat"], "item": ["a", "b", "a", "b", "c", "b", "d"]}
)
LEARN_WITHOUT = [name for name in MODELS if not find(name).needs_order]


def test_some_models_learn_from_sets():
    assert {"Popularity", "Random"} <= set(LEARN_WITHOUT)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LEARN_WITHOUT])
def test_models_of_order_refuse_data_without_any_and_say_what_to_take(name):
    model = find(name)()
    with pytest.raises(InputError, match=rf"these data have no order.* {name} learns .*Popularity\(count='listed'\)"):
        model.fit(CLICKS)
    assert not hasattr(model, "rankings_")


@pytest.mark.parametrize("name", LEARN_WITHOUT)
def test_models_that_need_no_order_learn_from_sets(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few data, or of answers that only order
        model = find(name)().fit(CLICKS)
        assert np.isfinite(model.score("ann")).all()
        assert set(model.recommend("ann")["item"]) == {"c", "d"}


@pytest.mark.parametrize("count", ["liked", "listed"])
def test_popularity_counts_who_took_an_item_up(count):
    assert pr.Popularity(count=count).fit(CLICKS).scores_.tolist() == [1, 3, 1, 1]


def test_one_comparison_is_an_order_and_so_are_ratings():
    lists = [[{"a", "b"}], [{"b", "c"}], ["a", "c"], ["c", "a"]]
    pr.FactoredPlackettLuce(2, max_iter=5).fit(pr.Rankings.from_lists(dict(enumerate(lists))))
    rows = {"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"], "rating": [5, 5, 2, 2]}
    means = pr.MeanRating().fit(pr.Rankings.from_ratings(rows))
    assert np.isfinite(means.score(1)).all()


def test_items_above_all_that_were_left_out_are_an_order():
    lists = CLICKS.with_unlisted_last()
    assert lists.has_order
    assert lists.counts is None
    worths = pr.PlackettLuce(prior="gaussian").fit(lists)
    assert worths.rank(None, ["a", "b", "c", "d"])["item"][0] == "b"
