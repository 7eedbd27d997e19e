"""Ragged arrays against plain loops over lists: of any lengths, also none and no lists at all."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import permrank as pr
from permrank.ragged import first_entries, frozen, indptr_of, new_blocks, owners, positions, ranges, read_only

lengths = st.lists(st.integers(0, 4), max_size=8)


@given(lengths)
def test_indptr_owners_positions_and_first_entries_are_those_of_a_loop(lengths):
    indptr = indptr_of(lengths)
    entries = [(number, position) for number, n in enumerate(lengths) for position in range(n)]
    assert indptr.dtype == np.int64
    assert indptr.tolist() == [0, *accumulate(lengths)]
    assert owners(indptr).tolist() == [number for number, _ in entries]
    assert positions(indptr).tolist() == [position for _, position in entries]
    assert first_entries(indptr).tolist() == [position == 0 for _, position in entries]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [2, 0, 1]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_owners_have_the_type_that_is_asked_for(lengths, dtype):
    assert owners(indptr_of(lengths), dtype).dtype == dtype


def test_lengths_may_be_marks():
    assert indptr_of(np.array([True, False, True])).tolist() == [0, 1, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=6))
def test_ranges_are_those_of_a_loop(parts):
    first = np.array([start for start, _ in parts], np.int64)
    last = first + np.array([n for _, n in parts], np.int64)
    assert ranges(first, last).tolist() == [x for start, n in parts for x in range(start, start + n)]


@given(st.lists(st.lists(st.integers(0, 2), max_size=4).map(sorted), max_size=6))
def test_a_block_begins_with_every_list_and_every_other_level(lists):
    indptr = indptr_of([len(levels) for levels in lists])
    flat = np.array([level for levels in lists for level in levels], np.int32)
    expected = [n == 0 or levels[n] != levels[n - 1] for levels in lists for n in range(len(levels))]
    assert new_blocks(flat, indptr).tolist() == expected


@given(arrays(np.int32, st.integers(0, 5)))
def test_a_read_only_array_leaves_the_given_one_as_it_was(array):
    view = read_only(array[::2])
    assert view.flags.c_contiguous
    assert not view.flags.writeable
    assert array.flags.writeable
    assert view.tolist() == array[::2].tolist()
    assert [part.tolist() for part in frozen(array, view)] == [array.tolist(), view.tolist()]


RANKINGS = {
    "several rankings, ties and an idle user": pr.Rankings.from_lists(
        [["a", {"b", "c"}], ["b"], ["c", "a"], []], users=["ann", "ann", "cid", "bob"], weights=[2, 3, 1, 1]
    ),
    "nothing": pr.Rankings.from_lists({"ann": ["a"]}).select(users=[], items=[]),
}


@pytest.mark.parametrize("rankings", RANKINGS.values(), ids=RANKINGS)
def test_what_rankings_know_of_their_parts_is_that_of_a_loop(rankings):
    rows = [
        (user, ranking, entry)
        for user, (first, last) in enumerate(pairwise(rankings.user_indptr.tolist()))
        for ranking in range(first, last)
        for entry in range(rankings.indptr[ranking], rankings.indptr[ranking + 1])
    ]
    assert rankings.entry_users().tolist() == [user for user, _, _ in rows]
    assert rankings.entry_rankings().tolist() == [ranking for _, ranking, _ in rows]
    assert rankings.entry_weights().tolist() == [rankings.weights[ranking] for _, ranking, _ in rows]
    assert rankings.entry_users(np.int32).dtype == np.int32
    counts = [sum(own == user for own, _, _ in rows) for user in range(rankings.n_users)]
    assert rankings.user_bounds.tolist() == [0, *accumulate(counts)]
    owner = {ranking: user for user, ranking, _ in rows}
    assert rankings.ranking_users.tolist() == [owner[ranking] for ranking in range(rankings.n_rankings)]
    entries = [[entry for _, own, entry in rows if own == ranking] for ranking in range(rankings.n_rankings)]
    assert rankings.lengths.tolist() == [len(part) for part in entries]
    assert rankings.last_levels.tolist() == [rankings.levels[part[-1]] for part in entries]


@pytest.mark.parametrize("name", ["lengths", "last_levels", "ranking_users", "user_bounds"])
def test_small_arrays_are_kept_and_cannot_be_written(name):
    rankings = next(iter(RANKINGS.values()))
    found = getattr(rankings, name)
    assert getattr(rankings, name) is found
    assert not found.flags.writeable


@pytest.mark.parametrize("name", ["entry_rankings", "entry_users", "entry_weights"])
def test_large_arrays_are_not_kept(name):
    rankings = next(iter(RANKINGS.values()))
    assert getattr(rankings, name)() is not getattr(rankings, name)()
