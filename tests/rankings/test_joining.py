"""Two sets of rankings in one."""

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError

joined = pr.Rankings.joined


def test_lists_of_both_are_all_there_and_a_common_user_has_several():
    first = pr.Rankings.from_lists({"ann": ["b", {"a", "d"}], "cat": ["a"]})
    second = pr.Rankings.from_lists({"bob": ["c", "b"], "ann": ["d", "c"], "eve": []})
    both = joined(first, second)
    assert list(both.user_ids) == ["ann", "bob", "cat", "eve"]
    assert list(both.item_ids) == ["a", "b", "c", "d"]
    assert both.lists("ann") == [["b", {"a", "d"}], ["d", "c"]]
    assert both.lists("bob") == second.lists("bob")
    assert both.lists("cat") == first.lists("cat")
    assert both.n_entries == first.n_entries + second.n_entries


def test_ratings_of_both_become_one_list_and_the_newer_rating_counts():
    rng = np.random.default_rng(0)
    rows = {
        (int(u), int(i)): float(r) for u, i, r in zip(*rng.integers(0, 8, (2, 60)), rng.integers(1, 6, 60), strict=True)
    }
    new = {
        (int(u), int(i)): float(r)
        for u, i, r in zip(*rng.integers(4, 12, (2, 60)), rng.integers(1, 6, 60), strict=True)
    }

    def rankings(given):
        users, items = zip(*given, strict=True)
        return pr.Rankings.from_ratings({"user": users, "item": items, "rating": list(given.values())})

    assert joined(rankings(rows), rankings(new)) == rankings(rows | new)


def test_an_item_that_nobody_listed_stays():
    first = pr.Rankings.from_lists({"ann": ["a", "b"]}, items=["a", "b", "z"])
    assert list(joined(first, pr.Rankings.from_lists({"bob": ["c", "a"]})).item_ids) == ["a", "b", "c", "z"]


def test_ballots_without_voters_are_all_new_people():
    first, second = pr.Rankings.from_lists([["a", "b"], ["b", "a"]]), pr.Rankings.from_lists([["b", "c"], ["c"], ["a"]])
    both = joined(first, second)
    assert (both.n_users, both.n_rankings, both.anonymous) == (5, 5, True)
    assert both.lists() == first.lists() + second.lists()
    assert list(both.user_ids)[:2] == list(first.user_ids)
    again = joined(both, first)
    assert again.lists() == both.lists() + first.lists()
    np.testing.assert_array_equal(again.weights, np.concatenate((both.weights, first.weights)))
    # Whoever has numbered the ballots, and with ratings on them.
    rows = {"user": ["x9", "x9", "y"], "item": ["a", "b", "a"], "rating": [3.0, 5.0, 4.0]}
    rated = pr.Rankings.from_ratings(rows)
    arrays = (rated.user_indptr, rated.indptr, rated.items, rated.levels, rated.weights, rated.user_ids, rated.item_ids)
    ballots = pr.Rankings(*arrays, ratings=rated.ratings, anonymous=True)
    twice = joined(ballots, ballots)
    assert (twice.n_users, twice.anonymous, twice.ratings.tolist()) == (4, True, [5.0, 3.0, 4.0] * 2)
    assert twice.lists() == ballots.lists() * 2


def test_a_model_of_ballots_learns_from_more_of_them_as_of_new_people():
    model = pr.FactoredPlackettLuce(2, max_iter=9).fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"]]))
    model.partial_fit(pr.Rankings.from_lists([["b", "c"], ["c", "a"], ["a", "b", "c"]]))
    assert model.rankings_.n_users == model.rankings_.n_rankings == 5


def test_what_does_not_go_together_is_refused():
    lists = pr.Rankings.from_lists({"ann": ["a", "b"]})
    with pytest.raises(InputError, match="one of the two has ratings"):
        joined(lists, pr.Rankings.from_ratings({"user": ["bob"], "item": ["a"], "rating": [3]}))
    with pytest.raises(InputError, match="without voters"):
        joined(lists, pr.Rankings.from_lists([["a", "b"]]))
    with pytest.raises(InputError, match="strings on one side"):
        joined(lists, pr.Rankings.from_lists({"bob": [1, 2]}))
