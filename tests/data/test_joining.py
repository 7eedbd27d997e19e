"""Two sets of rankings in one."""

import numpy as np
import pytest

import permrank as pr
from permrank.data.joining import joined
from permrank.errors import InputError


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


def test_what_does_not_go_together_is_refused():
    lists = pr.Rankings.from_lists({"ann": ["a", "b"]})
    with pytest.raises(InputError, match="one of the two has ratings"):
        joined(lists, pr.Rankings.from_ratings({"user": ["bob"], "item": ["a"], "rating": [3]}))
    with pytest.raises(InputError, match="without voters"):
        joined(lists, pr.Rankings.from_lists([["a", "b"]]))
    with pytest.raises(InputError, match="strings on one side"):
        joined(lists, pr.Rankings.from_lists({"bob": [1, 2]}))
