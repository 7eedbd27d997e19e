"""Ids and indices."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permrank.errors import InputError, UnknownIdError
from permrank.rankings.vocabulary import Vocabulary, encode, id_series

IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.integers(0, 50), min_size=1),
    st.lists(st.text(), min_size=1),
)


@settings(deadline=None)
@given(IDS)
def test_codes_point_back_to_the_ids_and_the_ids_are_sorted(ids):
    codes, vocabulary = encode(id_series(ids, "item"), "item")
    assert [vocabulary[code] for code in codes] == ids
    assert list(vocabulary) == sorted(set(ids), key=lambda x: x.encode() if isinstance(x, str) else x)
    np.testing.assert_array_equal(vocabulary.codes(id_series(ids, "item")), codes)
    assert all(vocabulary.index(value) == code for value, code in zip(ids, codes, strict=True))


def test_integers_and_strings_are_different_ids():
    numbers, words = Vocabulary.of([1, 2], "user"), Vocabulary.of(["1", "2"], "user")
    assert numbers != words
    assert 1 in numbers
    assert "1" not in numbers
    assert True not in numbers
    assert np.int64(2) in numbers
    assert [1] not in numbers
    with pytest.raises(UnknownIdError, match="unknown user '1'; the nearest known one is 1"):
        numbers.index("1")


@pytest.mark.parametrize("ids", [pl.Series(["a", "z"]), pl.Series([1, 9])])
def test_codes_of_a_given_vocabulary_name_the_unknown_id(ids):
    vocabulary = Vocabulary.of(ids[:1].to_list(), "item")
    with pytest.raises(UnknownIdError, match=f"unknown item {ids[1]!r}"):
        vocabulary.codes(ids)
    with pytest.raises(UnknownIdError):
        vocabulary.codes(pl.Series([1.5]))


@pytest.mark.parametrize("ids", [["b", "a", "c", "a"], [7, -2, 7, 9]])
def test_a_column_of_ids_has_the_indices_of_a_list(ids):
    vocabulary = Vocabulary.of(ids, "item")
    found = vocabulary.indices(pl.Series(ids))
    assert (found.tolist(), found.dtype) == (vocabulary.indices(ids).tolist(), np.int64)
    strange = "unheard of" if isinstance(ids[0], str) else 12345
    for wrong in ([*ids, strange], [None, *ids], [1.5]):
        with pytest.raises(UnknownIdError, match="unknown item"):
            vocabulary.indices(pl.Series(wrong))


def test_a_string_is_not_several_ids():
    with pytest.raises(InputError, match="pass a list"):
        Vocabulary.of(["abc"], "item").indices("abc")


def test_an_integer_past_64_bits_is_refused():
    with pytest.raises(InputError, match="64 bits"):
        Vocabulary.of([2**70], "item")


@pytest.mark.parametrize(
    "names", [[f"n{i:03}" for i in range(0, 300, 3)], list(range(-5, 700, 7)), [10**15, -4, 7] * 40]
)
def test_many_ids_are_found_as_one_by_one(names):
    vocabulary = Vocabulary.of(names, "item")
    asked = [names[i] for i in np.random.default_rng(1).integers(len(names), size=500)]
    one_by_one = [vocabulary.index(name) for name in asked]
    ways = [asked, tuple(asked), pl.Series(asked)] + ([np.array(asked)] if isinstance(names[0], int) else [])
    for way in ways:
        np.testing.assert_array_equal(vocabulary.indices(way), one_by_one)
    missing = "n001" if isinstance(names[0], str) else 3
    for strange in (missing, True, 2.0, None):
        with pytest.raises(UnknownIdError):
            vocabulary.indices([*asked, strange])
    if isinstance(names[0], int):
        for beyond in (-(10**6), 10**18, 10**30):
            with pytest.raises(UnknownIdError):
                vocabulary.indices([*asked, beyond])
