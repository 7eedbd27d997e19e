"""The container and its constructors, against a plain-Python twin."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.rankings.build import compact, keys_of
from permrank.rankings.vocabulary import Vocabulary

RATED = st.lists(
    st.tuples(st.integers(-3, 3), st.sampled_from("abcdefg"), st.sampled_from([1, 2, 2.5, 3, 5])),
    min_size=1,
    unique_by=lambda row: row[:2],
)


def naive_lists(rows, *, descending):
    """Users sorted; values sorted; equal values a set."""
    out = []
    for user in sorted({row[0] for row in rows}):
        mine = [(item, value) for who, item, value in rows if who == user]
        values = sorted({value for _, value in mine}, reverse=descending)
        blocks = [{item for item, other in mine if other == value} for value in values]
        out.append([next(iter(block)) if len(block) == 1 else block for block in blocks])
    return out


def frame_of(rows, value="rating"):
    return {"user": [r[0] for r in rows], "item": [r[1] for r in rows], value: [r[2] for r in rows]}


@settings(deadline=None)
@given(RATED)
def test_ratings_become_levels_with_the_highest_first(rows):
    rankings = pr.Rankings.from_ratings(frame_of(rows))
    assert rankings.lists() == naive_lists(rows, descending=True)
    rated = {(u, i): r for u, i, r in rows}
    back = rankings.to_frame()
    assert {(u, i): r for u, i, r in back.select("user", "item", "rating").iter_rows()} == rated


@settings(deadline=None)
@given(RATED)
def test_ranks_become_levels_with_the_lowest_first(rows):
    rankings = pr.Rankings.from_ranks(frame_of(rows, "rank"))
    assert rankings.lists() == naive_lists(rows, descending=False)
    assert rankings.ratings is None


@settings(deadline=None)
@given(RATED, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, random):
    mixed = list(rows)
    random.shuffle(mixed)
    assert pr.Rankings.from_ratings(frame_of(rows)) == pr.Rankings.from_ratings(frame_of(mixed))


@settings(deadline=None)
@given(RATED)
def test_finished_arrays_pass_their_own_check(rows):
    r = pr.Rankings.from_ratings(frame_of(rows))
    again = pr.Rankings(
        r.user_indptr, r.indptr, r.items, r.levels, r.weights, r.user_ids, r.item_ids, ratings=r.ratings
    )
    assert again == r
    assert again.fingerprint == r.fingerprint


@settings(deadline=None)
@given(RATED)
def test_the_item_view_lists_every_entry_of_an_item_in_order(rows):
    rankings = pr.Rankings.from_ratings(frame_of(rows))
    view = rankings.item_view
    for item in range(rankings.n_items):
        expected = np.flatnonzero(rankings.items == item)
        np.testing.assert_array_equal(view.entries[view.indptr[item] : view.indptr[item + 1]], expected)


def test_strict_rankings_with_both_views_take_at_most_16_bytes_an_entry():
    n_users, n_items = 2_000, 50
    frame = {
        "user": np.repeat(np.arange(n_users), n_items),
        "item": np.tile(np.arange(n_items), n_users),
        "rank": np.tile(np.arange(n_items), n_users),
    }
    rankings = pr.Rankings.from_ranks(frame)
    arrays = [rankings.indptr, rankings.user_indptr, rankings.items, rankings.levels, rankings.weights]
    arrays += list(rankings.item_view)
    assert sum(array.nbytes for array in arrays) <= 16 * rankings.n_entries


@pytest.mark.parametrize(
    "convert",
    [pl.DataFrame, lambda d: pl.DataFrame(d).lazy(), pd.DataFrame, pa.table, dict],
    ids=["polars", "lazy", "pandas", "pyarrow", "dict"],
)
def test_any_frame_that_speaks_arrow_is_accepted(convert):
    columns = {"user": ["ann", "ann", "bob"], "item": [1, 2, 1], "rating": [4.0, 5.0, 3.0]}
    assert pr.Rankings.from_ratings(convert(columns)).lists() == [[2, 1], [1]]


def test_a_duckdb_relation_is_accepted():
    # In a process of its own: DuckDB's bindings complain on standard error when an interpreter ends.
    code = (
        "import duckdb, permrank as pr\n"
        "relation = duckdb.sql(\"select * from (values ('ann', 'a', 1), ('ann', 'b', 2)) t(u, i, r)\")\n"
        "print(pr.Rankings.from_ratings(relation, user='u', item='i', rating='r').lists())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[['b', 'a']]"


def test_several_rankings_of_a_user_lie_side_by_side():
    frame = {
        "user": ["bob", "ann", "ann", "ann"],
        "q": [1, 2, 1, 1],
        "item": list("abca"),
        "rank": [1, 1, 2, 1],
    }
    rankings = pr.Rankings.from_ranks(frame, ranking="q")
    assert rankings.lists("ann") == [["a", "c"], ["b"]]
    assert rankings.user_indptr.tolist() == [0, 2, 3]
    lists = pr.Rankings.from_lists([["a", "c"], ["x"], ["b"]], users=["ann", "bob", "ann"])
    assert lists.lists("ann") == [["a", "c"], ["b"]]


def test_pairs_become_rankings_of_two_with_weights():
    frame = {
        "user": ["u", "u", "v"],
        "winner": ["a", "a", "b"],
        "loser": ["b", "b", "a"],
        "n": [1.0, 2.5, 1.0],
    }
    rankings = pr.Rankings.from_pairs(frame, weight="n")
    assert rankings.lists() == [["a", "b"], ["b", "a"]]
    assert rankings.weights.tolist() == [3.5, 1.0]
    assert not rankings.anonymous


def test_ballots_without_voters_are_merged_and_counted():
    rankings = pr.Rankings.from_lists([["b", {"a", "c"}], ["a"], ["b", ["c", "a"]]], weights=[2, 1, 3])
    assert rankings.anonymous
    assert rankings.lists() == [["b", {"a", "c"}], ["a"]]
    assert rankings.weights.tolist() == [5.0, 1.0]


def test_unlisted_items_can_be_put_last():
    rankings = pr.Rankings.from_lists({"u": ["a"], "v": ["c", "a"]}, items=["b", "c"], unlisted="last")
    assert rankings.lists() == [["a", {"b", "c"}], ["c", "a", "b"]]


def test_selection_keeps_the_order_and_closes_the_gaps():
    rankings = pr.Rankings.from_lists({"u": ["a", "b", {"c", "d"}], "v": ["b"], "w": ["d", "a"]})
    part = rankings.select(users=["u", "v"], items=["a", "c", "d"])
    assert part.lists() == [["a", {"c", "d"}]]
    assert part.n_users == 2
    assert part.lists("v") == []
    assert rankings.drop(users=["w"], items=["b"]) == part
    with pytest.raises(UnknownIdError, match="unknown item 'z'"):
        rankings.drop(items=["z"])


@settings(deadline=None)
@given(RATED, st.integers(0, 10))
def test_shuffled_ties_are_strict_and_respect_the_levels(rows, seed):
    rankings = pr.Rankings.from_ratings(frame_of(rows))
    strict = rankings.shuffled_ties(seed)
    assert not strict.has_ties
    for tied, order in zip(rankings.lists(), strict.lists(), strict=True):
        flat = iter(order)
        for block in tied:
            block = block if isinstance(block, set) else {block}
            assert {next(flat) for _ in block} == block
    assert strict == rankings.shuffled_ties(seed)


def test_shuffling_uses_every_order_equally_often():
    rankings = pr.Rankings.from_lists({user: [{"a", "b", "c"}] for user in range(6_000)})
    orders, counts = np.unique(["".join(x) for x in rankings.shuffled_ties(3).lists()], return_counts=True)
    assert orders.size == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 25  # chi-square, 5 degrees of freedom, p = 1e-4


def test_ties_are_noticed_only_inside_a_ranking():
    assert not pr.Rankings.from_lists({"u": ["a"], "v": ["b"]}).has_ties
    assert pr.Rankings.from_lists({"u": [{"a", "b"}]}).has_ties


def test_arrays_cannot_be_changed():
    rankings = pr.Rankings.from_lists({"u": ["a", "b"]})
    with pytest.raises(ValueError, match="read-only"):
        rankings.items[0] = 1


def test_an_empty_list_leaves_a_user_without_a_ranking():
    rankings = pr.Rankings.from_lists({"u": [], "v": ["a"]})
    assert rankings.n_users == 2
    assert rankings.lists("u") == []


BAD = {
    "NaN rating": ({"rating": [1.0, float("nan")]}, r"row 1: rating nan is not a finite number"),
    "missing rating": ({"rating": [None, 1.0]}, r"row 0: rating None is not a finite number"),
    "word as rating": ({"rating": ["4", "good"]}, r"row 1: rating 'good' is not a finite number"),
    "empty user": ({"user": ["ann", " "]}, r"row 1: the user id is empty"),
    "no item": ({"item": [None, "b"]}, r"row 0: the item id is empty"),
    "twice": (
        {"item": ["a", "a"]},
        r"row 1: user 'ann' has item 'a' a second time \(first in row 0\).*duplicates=",
    ),
    "float ids": ({"item": [1.5, 2.0]}, r"item ids in column 'item' are Float64.*cast"),
    "bool ids": ({"user": [True, False]}, r"user ids in column 'user' are Boolean"),
    "zero weight": ({"weight": [1.0, 0.0]}, r"row 1: weight 0 is not positive"),
    "heavy weight": ({"weight": [1.0, 1e300]}, r"row 1: weight 1e\+300 is not between 1e-09 and 1e\+09"),
    "far rating": ({"rating": [1.0, -1e300]}, r"row 1: rating -1e\+300 is not between -1e\+15 and 1e\+15; scale all"),
    "two weights": ({"weight": [1.0, 2.0]}, r"row 1: weight 2 differs from 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_with_its_value(name):
    change, message = BAD[name]
    columns = {"user": ["ann", "ann"], "item": ["a", "b"], "rating": [1.0, 2.0], **change}
    with pytest.raises(InputError, match=message):
        pr.Rankings.from_ratings(columns, weight="weight" if "weight" in change else None)


def test_a_rank_that_is_not_a_number_is_named():
    with pytest.raises(InputError, match="row 1: rank 'second' is not a finite number"):
        pr.Rankings.from_ranks({"user": [1, 1], "item": ["a", "b"], "rank": ["1", "second"]})


@pytest.mark.parametrize(("how", "rating"), [("first", 1.0), ("last", 4.0), ("mean", 2.5)])
def test_duplicates_can_be_settled(how, rating):
    columns = {"user": [1, 1, 1], "item": ["a", "b", "a"], "rating": [1.0, 3.0, 4.0]}
    rankings = pr.Rankings.from_ratings(columns, duplicates=how)
    assert dict(rankings.to_frame().select("item", "rating").iter_rows()) == {"a": rating, "b": 3.0}


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"u": ["a", "a"]}, "ranking 0: item 'a' comes twice"),
        ({"u": ["a", {"b"}], "v": [["c", "c"]]}, "ranking 1: item 'c' comes twice"),
        ({"u": "abc"}, "ranking 0 is 'abc', expected a list"),
        ({"u": ["a", 1]}, "ids must be all strings or all integers"),
        ({"u": [1.5]}, "ranking 0 holds 1.5"),
        ({"u": ["a", ""]}, "an item id is empty"),
        ({"": ["a"]}, "a user id is empty"),
        ({}, "no rankings were given"),
        ("abc", "expected a mapping"),
        ([{"a", "b"}], "expected a list of items"),
    ],
)
def test_bad_lists_are_refused(lists, message):
    with pytest.raises(InputError, match=message):
        pr.Rankings.from_lists(lists)


def test_other_bad_arguments_are_refused():
    frame = {"user": [1], "item": [1], "rating": [1]}
    with pytest.raises(UnknownIdError, match=r"unknown column \(rating\) 'ratng'.*'rating'"):
        pr.Rankings.from_ratings(frame, rating="ratng")
    with pytest.raises(InputError, match="duplicates='all'"):
        pr.Rankings.from_ratings(frame, duplicates="all")
    with pytest.raises(InputError, match="expected a frame"):
        pr.Rankings.from_ratings([1, 2])
    with pytest.raises(InputError, match="no rows"):
        pr.Rankings.from_ratings({"user": [], "item": [], "rating": []})
    with pytest.raises(InputError, match="both winner and loser"):
        pr.Rankings.from_pairs({"winner": ["a"], "loser": ["a"]}, user=None)
    with pytest.raises(InputError, match="weight -1"):
        pr.Rankings.from_lists([["a"]], weights=[-1])
    for weight in (1e300, 1e-300, float("inf")):
        with pytest.raises(InputError, match=r"ranking 1: weight .* is not between 1e-09 and 1e\+09"):
            pr.Rankings.from_lists([["a"], ["b"]], weights=[1, weight])
    with pytest.raises(InputError, match=r"add up to 2e\+09"):
        pr.Rankings.from_lists([["a"], ["a"]], weights=[1e9, 1e9])
    with pytest.raises(InputError, match="2 users for 1 rankings"):
        pr.Rankings.from_lists([["a"]], users=["u", "v"])
    with pytest.raises(InputError, match="unlisted='first'"):
        pr.Rankings.from_lists([["a"]], unlisted="first")


ARRAYS = {
    "user_indptr": [0, 1],
    "indptr": [0, 3],
    "items": [0, 1, 2],
    "levels": [0, 1, 1],
    "weights": [1.0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": [0, 2, 2]}, "entry 1 has a level that skips"),
        ({"levels": [1, 1, 2]}, "level is not 0"),
        ({"levels": [0, 1, 0]}, "entry 2 has a lower level"),
        ({"items": [0, 1, 1]}, "entry 2: item 'b' comes twice"),
        ({"items": [0, 1, 3]}, "entry 2 has an item that does not exist"),
        ({"weights": [0.0]}, "ranking 0: weight 0 is not positive"),
        ({"weights": [np.nan]}, "ranking 0: weight nan is not positive"),
        ({"weights": [1e300]}, r"ranking 0: weight 1e\+300 is not between 1e-09 and 1e\+09"),
        ({"ratings": [1e300, 4.0, 2.0]}, r"entry 0: rating 1e\+300 is not between -1e\+15 and 1e\+15"),
        ({"ratings": [3.0, 4.0, 2.0]}, "entry 1 has a higher rating than entry 0"),
        ({"levels": [0, 0, 1], "ratings": [3.0, 5.0, 4.0]}, "entry 2 has a higher rating than entry 0"),
        ({"weights": [1.0, 1.0]}, "2 weights for 1 rankings"),
        ({"indptr": [0, 2]}, "indptr must rise from 0 to 3"),
        ({"indptr": [0, 0, 3], "weights": [1.0, 1.0], "user_indptr": [0, 2]}, "ranking 0 is empty"),
        ({"user_indptr": [0]}, "user_indptr has 1 entries"),
        ({"levels": [0, 1]}, "one value for each"),
        ({"ratings": [1.0, np.nan, 0.0]}, "rating that is not finite"),
    ],
)
def test_bad_arrays_are_refused(change, message):
    arrays = {name: np.array(value) for name, value in {**ARRAYS, **change}.items()}
    with pytest.raises(InputError, match=message):
        pr.Rankings(**arrays, user_ids=Vocabulary.of(["u"], "user"), item_ids=Vocabulary.of("abc", "item"))


def test_many_distinct_values_and_wide_ids_still_sort():
    rng = np.random.default_rng(0)
    values = rng.normal(size=500)
    frame = {"user": rng.integers(-(2**62), 2**62, 500), "item": np.arange(500) * 2**40, "rating": values}
    rankings = pr.Rankings.from_ratings(frame)
    assert rankings.n_users == 500
    assert rankings.ratings.dtype == np.float64
    one = pr.Rankings.from_ratings({"user": np.zeros(500, int), "item": frame["item"], "rating": values})
    np.testing.assert_array_equal(one.ratings, np.sort(values)[::-1])


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1), st.booleans())
def test_keys_keep_the_order_and_can_be_decoded(values, descending):
    values = np.array(values)
    keys = keys_of(values, descending=descending)
    np.testing.assert_array_equal(keys.decode(keys.codes), values)
    order = np.argsort(keys.codes, kind="stable")
    expected = np.sort(values)[::-1] if descending else np.sort(values)
    np.testing.assert_array_equal(values[order], expected)
    assert keys.codes.min() >= 0


def test_ratings_are_kept_in_single_precision_only_where_that_is_exact():
    assert compact(np.array([0.5, 4.0])).dtype == np.float32
    assert compact(np.array([0.1, 4.0])).dtype == np.float64
