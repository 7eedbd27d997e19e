"""A new item in an old list, against sums over all orders of both that agree with the list."""

from itertools import permutations, product

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from permrank.kernels.insertion import expected_positions, insertion_probabilities


def tie_patterns(n):
    """Levels of every ordered list of n with ties: a new block starts, or does not, at each item."""
    for starts in product([0, 1], repeat=max(n - 1, 0)):
        yield np.concatenate([np.zeros(min(n, 1)), np.cumsum(starts)]).astype(np.int32)


def places_by_enumeration(levels, scores, candidate):
    """P(the candidate has j of the list before it | the list's levels), over all orders of both."""
    worths = np.exp(np.append(scores, candidate))
    new = len(scores)
    places = np.zeros(new + 1)
    for order in permutations(range(new + 1)):
        kept = [levels[item] for item in order if item != new]
        if kept == sorted(kept):
            left = np.cumsum(worths[list(order)][::-1])[::-1]
            places[order.index(new)] += np.prod(worths[list(order)] / left)
    return places / places.sum()


def inner_places(levels):
    return [place for place in range(1, len(levels)) if levels[place] == levels[place - 1]]


CASES = [(levels, seed) for n in range(6) for seed, levels in enumerate(tie_patterns(n))]


@pytest.mark.parametrize(("levels", "seed"), CASES, ids=lambda value: str(value))
def test_gaps_and_blocks_have_the_probability_of_all_orders_that_agree(levels, seed):
    rng = np.random.default_rng(seed)
    for spread in [0.4, 3.0]:
        scores, candidate = rng.normal(size=levels.size) * spread, rng.normal() * spread
        expected = places_by_enumeration(levels, scores, candidate)
        places = insertion_probabilities(levels, scores, candidate)
        inner = inner_places(levels)
        gaps = np.setdiff1d(np.arange(levels.size + 1), inner)
        assert_allclose(places[gaps], expected[gaps], rtol=1e-9, atol=1e-12)
        for level in range(levels.max(initial=-1) + 1):
            block = [place for place in inner if levels[place] == level]
            assert_allclose(places[block].sum(), expected[block].sum(), rtol=1e-9, atol=1e-11)
            assert_allclose(places[block], places[block].mean() if block else 0.0, rtol=1e-12, atol=0)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(-20, 20), st.booleans()), max_size=12),
    st.floats(-20, 20),
    st.floats(-50, 50),
    st.randoms(use_true_random=False),
)
def test_a_constant_and_the_order_inside_ties_change_nothing(entries, candidate, constant, random):
    scores = np.array([score for score, _ in entries])
    levels = np.cumsum([starts for _, starts in entries]).astype(np.int32)
    places = insertion_probabilities(levels, scores, candidate)
    assert places.shape == (len(entries) + 1,)
    assert np.all(places >= 0.0)
    assert_allclose(places.sum(), 1.0, rtol=1e-12, atol=0)
    moved = insertion_probabilities(levels, scores + constant, candidate + constant)
    assert_allclose(moved, places, rtol=0, atol=1e-9)
    shuffled = list(range(len(entries)))
    random.shuffle(shuffled)
    shuffled.sort(key=lambda entry: levels[entry])
    assert_allclose(insertion_probabilities(levels, scores[shuffled], candidate), places, rtol=0, atol=1e-9)
    assert_allclose(
        expected_positions(levels, scores, np.array([candidate, candidate + 1.0]))[0],
        places @ np.arange(places.size),
        rtol=1e-12,
        atol=1e-12,
    )


def test_without_ties_neighbouring_places_have_the_odds_of_the_paper():
    scores, candidate = np.random.default_rng(3).normal(size=200), 0.3
    places = insertion_probabilities(np.arange(200, dtype=np.int32), scores, candidate)
    totals = np.append(np.cumsum(np.exp(scores)[::-1])[::-1], 0.0)
    assert_allclose(places[1:] / places[:-1], totals[:-1] / (totals[1:] + np.exp(candidate)), rtol=1e-10, atol=0)


def test_large_blocks_agree_with_the_integral_over_the_arrival_of_the_candidate():
    rng = np.random.default_rng(9)
    levels = np.repeat([0, 1, 2], [25, 30, 15]).astype(np.int32)
    scores, candidate = rng.normal(size=70), 0.5
    worths, new = np.exp(scores), np.exp(candidate)

    def comes_first(block, rest):
        # Arrival of the rest's first item in log time: the trapezoid rule has no error for a smooth bump.
        x = np.linspace(-40.0, 6.0, 20_001)[:, None] - np.log(rest)
        bump = np.exp(x + np.log(rest) - rest * np.exp(x)) * np.prod(
            -np.expm1(-worths[block] * np.exp(x)), axis=1, keepdims=True
        )
        return bump.sum() * 46.0 / 20_000

    first, second, third = (np.flatnonzero(levels == level) for level in range(3))
    rest = worths[levels > 0].sum()
    passed_first = comes_first(first, rest + new) / comes_first(first, rest)
    rest = worths[third].sum()
    passed_second = passed_first * comes_first(second, rest + new) / comes_first(second, rest)
    places = insertion_probabilities(levels, scores, candidate)
    assert_allclose(places[0], new / (worths.sum() + new), rtol=1e-10, atol=0)
    assert_allclose(places[25], passed_first * new / (worths[25:].sum() + new), rtol=1e-10, atol=0)
    assert_allclose(places[55], passed_second * new / (worths[55:].sum() + new), rtol=1e-10, atol=0)
    assert_allclose(places[70], passed_second * comes_first(third, new), rtol=1e-10, atol=0)
    assert_allclose(places[26:].sum(), passed_first * (1 - new / (worths[25:].sum() + new)), rtol=1e-10, atol=0)


@pytest.mark.parametrize("spread", [1e3, 1e4])
def test_wide_spreads_stay_finite_and_lead_to_certain_places(spread):
    scores = np.linspace(0.5, -0.5, 12) * spread
    strict, tied = np.arange(12, dtype=np.int32), np.repeat(np.arange(4), 3).astype(np.int32)
    candidate = 0.5 * (scores[5] + scores[6])
    assert_allclose(insertion_probabilities(strict, scores, candidate), np.arange(13) == 6, rtol=0, atol=1e-12)
    for levels in [strict, tied]:
        for order in [scores, scores[::-1].copy(), np.roll(scores, 5)]:
            for value in [candidate, -spread, spread]:
                places = insertion_probabilities(levels, order, value)
                assert np.all(np.isfinite(places))
                assert_allclose(places.sum(), 1.0, rtol=1e-12, atol=0)


def test_better_candidates_are_expected_earlier_and_threads_do_not_matter():
    rng = np.random.default_rng(2)
    levels = np.repeat(np.arange(5), 8).astype(np.int32)
    scores, candidates = rng.normal(size=40), np.linspace(4, -4, 50)
    expected = expected_positions(levels, scores, candidates)
    assert np.all(np.diff(expected) > 0.0)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    alone = expected_positions(levels, scores, candidates)
    numba.set_num_threads(before)
    assert np.array_equal(alone, expected)
    assert expected_positions(levels, scores, np.empty(0)).shape == (0,)


def test_an_empty_list_has_one_place():
    nothing = np.empty(0)
    assert_allclose(insertion_probabilities(nothing.astype(np.int32), nothing, 2.0), [1.0], rtol=0, atol=0)
    assert_allclose(expected_positions(nothing.astype(np.int32), nothing, np.zeros(2)), 0.0, rtol=0, atol=0)
