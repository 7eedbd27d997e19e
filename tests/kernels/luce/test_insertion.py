"""A new item in an old list, against sums over all orders of both that agree with the list."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from permrank.kernels.luce.insertion import (
    _inside_by_arrivals,
    _inside_by_subsets,
    insertion_probabilities,
)
from permrank.kernels.luce.likelihood import log_block_probability
from permrank.kernels.luce.ranks import rank_distributions


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


CASES = [(levels, seed) for n in range(6) for seed, levels in enumerate(tie_patterns(n))]


@pytest.mark.parametrize(("levels", "seed"), CASES, ids=lambda value: str(value))
def test_every_place_has_the_probability_of_all_orders_that_agree(levels, seed):
    rng = np.random.default_rng(seed)
    for spread in [0.4, 3.0]:
        scores, candidate = rng.normal(size=levels.size) * spread, rng.normal() * spread
        expected = places_by_enumeration(levels, scores, candidate)
        assert_allclose(insertion_probabilities(levels, scores, candidate), expected, rtol=1e-9, atol=1e-12)


def test_inside_a_tie_the_middle_is_not_as_likely_as_the_end():
    # The case of a bad candidate among five equals: it comes last or nearly so.
    places = insertion_probabilities(np.zeros(5, np.int32), np.zeros(5), -2.0)
    assert_allclose(places, places_by_enumeration(np.zeros(5), np.zeros(5), -2.0), rtol=1e-10, atol=0)
    assert np.all(np.diff(places) > 0.0)


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 30.0, 1000.0])
@pytest.mark.parametrize("rest", [-np.inf, -40.0, -3.0, 0.0, 3.0, 40.0, 900.0])
def test_subsets_and_arrival_times_give_the_same_places_inside_a_tie(spread, rest):
    rng = np.random.default_rng(7)
    for m in (2, 5, 11):
        scores = rng.normal(size=m) * spread
        log_alone = log_block_probability(scores, rest)
        for candidate in (-5.0, 0.3, 4.0, spread):
            exact, integrated = np.zeros(m), np.zeros(m)
            _inside_by_subsets(scores, rest, log_alone, candidate, exact)
            _inside_by_arrivals(scores, rest, candidate, integrated)
            assert_allclose(integrated, exact, rtol=0, atol=1e-10)


def test_places_inside_a_large_last_block_are_those_of_the_rank_distribution():
    rng = np.random.default_rng(8)
    for m in (30, 300):
        scores = rng.normal(size=m + 1) * 1.5
        places = insertion_probabilities(np.zeros(m, np.int32), scores[:-1], scores[-1])
        assert_allclose(places, rank_distributions(scores, np.array([m]))[0], rtol=0, atol=1e-11)


def test_places_inside_a_large_block_agree_with_draws():
    rng = np.random.default_rng(4)
    scores, candidate = rng.normal(size=20), 0.2
    levels = np.repeat([0, 1], [14, 6]).astype(np.int32)
    scores[14:] -= 4.0  # often enough the block does come first
    keys = np.append(scores, candidate) + rng.gumbel(size=(200_000, 21))
    agree = keys[:, :14].min(axis=1) > keys[:, 14:20].max(axis=1)
    place = (keys[agree, :20] > keys[agree, 20:]).sum(axis=1)
    counts = np.bincount(place, minlength=21)
    expected = agree.sum() * insertion_probabilities(levels, scores, candidate)
    kept = expected > 5
    assert chisquare(counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()).pvalue > 1e-4
    even = np.where((np.arange(21) > 0) & (np.arange(21) < 14), expected[1:14].mean(), expected)  # the control
    assert chisquare(counts[kept], even[kept] * counts[kept].sum() / even[kept].sum()).pvalue < 1e-6


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


def test_better_candidates_are_expected_earlier():
    rng = np.random.default_rng(2)
    levels = np.repeat(np.arange(5), 8).astype(np.int32)
    scores, candidates = rng.normal(size=40), np.linspace(4, -4, 50)
    expected = [insertion_probabilities(levels, scores, each) @ np.arange(41) for each in candidates]
    assert np.all(np.diff(expected) > 0.0)


def test_an_empty_list_has_one_place():
    nothing = np.empty(0)
    assert_allclose(insertion_probabilities(nothing.astype(np.int32), nothing, 2.0), [1.0], rtol=0, atol=0)
