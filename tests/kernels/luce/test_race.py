"""Draws, the first k, and positions of one Plackett-Luce distribution, against sums over all rankings."""

from itertools import permutations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy import stats

from permrank.kernels.luce.race import gumbel_rankings, top_probabilities
from permrank.kernels.luce.ranks import (
    EXACT_LIMIT,
    approximate_rank_quantiles,
    exact_rank_quantiles,
    rank_distributions,
    rank_quantiles,
)
from permrank.randomness import stream_key

N_DRAWS = 20_000
PROBABILITIES = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
score_lists = arrays(np.float64, st.integers(1, 8), elements=st.floats(-30, 30, width=32))


def enumerated(scores):
    """All rankings and their probabilities, one choice after another."""
    rankings = list(permutations(range(len(scores))))
    probabilities = []
    for ranking in rankings:
        probability = 1.0
        for place, item in enumerate(ranking):
            left = [scores[other] - scores[item] for other in ranking[place:]]
            probability /= sum(np.exp(left))
        probabilities.append(probability)
    return rankings, np.array(probabilities)


def positions_by_enumeration(scores):
    table = np.zeros((len(scores), len(scores)))
    for ranking, probability in zip(*enumerated(scores), strict=True):
        for position, item in enumerate(ranking):
            table[item, position] += probability
    return table


@pytest.fixture(params=[(1, 1.0), (2, 2.0), (3, 0.0), (4, 1.0), (5, 5.0), (6, 1.0), (6, 15.0)], ids=str)
def scores(request):
    n, spread = request.param
    return np.random.default_rng(n).normal(size=n) * spread


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield [1, min(2, numba.config.NUMBA_NUM_THREADS)]
    numba.set_num_threads(before)


def test_probabilities_of_the_first_k_are_those_of_all_rankings(scores):
    table = positions_by_enumeration(scores)
    for k in range(scores.size + 2):
        assert_allclose(top_probabilities(scores, k), table[:, :k].sum(axis=1), rtol=0, atol=1e-12)


def test_distributions_of_the_position_are_those_of_all_rankings(scores):
    table = positions_by_enumeration(scores)
    assert_allclose(rank_distributions(scores, np.arange(scores.size)), table, rtol=0, atol=1e-12)


def test_quantiles_of_the_position_are_those_of_all_rankings(scores):
    cumulative = positions_by_enumeration(scores).cumsum(axis=1)
    probabilities = np.array([0.0, 0.03, 0.31, 0.77, 0.98, 1.0])
    expected = (cumulative[:, None, :] >= probabilities[:, None] - 1e-12).argmax(axis=2)
    assert np.array_equal(rank_quantiles(scores, np.arange(scores.size), probabilities), expected)


@settings(deadline=None, max_examples=30)
@given(score_lists, st.integers(1, 8), st.floats(-100, 100), st.randoms(use_true_random=False))
def test_a_constant_changes_nothing_and_new_labels_permute_the_answer(scores, k, constant, random):
    labels = list(range(scores.size))
    random.shuffle(labels)
    top = top_probabilities(scores, k)
    ranks = rank_distributions(scores, np.arange(scores.size))
    assert_allclose(top.sum(), min(k, scores.size), rtol=0, atol=1e-11)
    assert_allclose(ranks.sum(axis=0), 1.0, rtol=0, atol=1e-11)
    assert_allclose(ranks.sum(axis=1), 1.0, rtol=0, atol=1e-11)
    assert_allclose(ranks[:, :k].sum(axis=1), top, rtol=0, atol=1e-11)
    # 130 in double precision has steps of 3e-14, which is what the constant costs.
    assert_allclose(top_probabilities(scores + constant, k), top, rtol=0, atol=1e-11)
    assert_allclose(top_probabilities(scores[labels], k), top[labels], rtol=0, atol=1e-11)
    assert_allclose(rank_distributions(scores[labels], np.arange(scores.size)), ranks[labels], rtol=0, atol=1e-11)
    better = np.argsort(-scores)
    assert np.all(np.diff(top[better]) < 1e-11)


@pytest.mark.parametrize(("n", "k"), [(200, 100), (200, 3), (200, 197), (5000, 10), (1500, 400)])
def test_long_lists_have_the_right_sum_and_equal_scores_share_evenly(n, k):
    scores = np.random.default_rng(n).normal(size=n) * 1.5
    assert_allclose(top_probabilities(scores, k).sum(), k, rtol=1e-11, atol=0)
    assert_allclose(top_probabilities(np.full(n, -3.0), k), k / n, rtol=1e-10, atol=0)


def test_first_k_and_positions_of_a_long_list_agree():
    scores = np.random.default_rng(8).normal(size=400) * 2
    cumulative = rank_distributions(scores, np.arange(400)).cumsum(axis=1)
    for k in [1, 7, 200, 201, 390]:
        assert_allclose(cumulative[:, k - 1], top_probabilities(scores, k), rtol=0, atol=1e-11)
    assert_allclose(rank_distributions(np.zeros(900), np.array([5])), 1 / 900, rtol=1e-10, atol=0)


def test_draws_follow_the_distribution_and_scores_stretched_by_a_fifth_do_not():
    scores = np.array([0.9, -0.4, 0.1, 1.3])
    draws = gumbel_rankings(scores, stream_key(11), N_DRAWS)
    assert draws.dtype == np.int32
    rankings, probabilities = enumerated(scores)
    index = {ranking: place for place, ranking in enumerate(rankings)}
    counts = np.bincount([index[tuple(draw)] for draw in draws.tolist()], minlength=len(rankings))
    assert stats.chisquare(counts, N_DRAWS * probabilities).pvalue > 1e-4
    stretched = enumerated(1.2 * scores)[1]
    assert stats.chisquare(counts, N_DRAWS * stretched / stretched.sum()).pvalue < 1e-6


def test_a_draw_does_not_depend_on_how_many_are_drawn():
    scores = np.random.default_rng(0).normal(size=30)
    assert np.array_equal(gumbel_rankings(scores, stream_key(1), 50)[:7], gumbel_rankings(scores, stream_key(1), 7))
    assert not np.array_equal(gumbel_rankings(scores, stream_key(1), 7), gumbel_rankings(scores, stream_key(2), 7))


def test_one_thread_and_two_give_the_same_bits(threads):
    scores = np.random.default_rng(3).normal(size=1200)
    targets = np.array([5, 700])
    answers = []
    for n_threads in threads:
        numba.set_num_threads(n_threads)
        answers.append(
            (
                gumbel_rankings(scores, stream_key(0), 20),
                top_probabilities(scores, 9),
                rank_distributions(scores[:300], np.array([2, 200])),
                rank_quantiles(scores, targets, PROBABILITIES),
            )
        )
    for one, two in zip(*answers, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("spread", [1e3, 1e4, 1e300])
def test_wide_spreads_give_finite_and_certain_answers(spread):
    scores = np.linspace(0.5, -0.5, 40) * spread
    certain = np.arange(40)
    assert_allclose(rank_distributions(scores, certain), np.eye(40), rtol=0, atol=1e-8)
    for k in [1, 11, 30]:
        assert_allclose(top_probabilities(scores, k), certain < k, rtol=0, atol=1e-8)
    for quantiles in [exact_rank_quantiles, approximate_rank_quantiles]:
        assert np.array_equal(quantiles(scores, certain, np.array([0.1, 0.9])), np.column_stack([certain, certain]))
    assert np.array_equal(gumbel_rankings(scores, stream_key(0), 3), [certain] * 3)


@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0, 20.0])
def test_approximate_quantiles_are_within_one_position_of_the_exact_ones(spread):
    scores = np.random.default_rng(12).normal(size=300) * spread
    targets = np.arange(0, 300, 5)
    exact = exact_rank_quantiles(scores, targets, PROBABILITIES)
    approximate = approximate_rank_quantiles(scores, targets, PROBABILITIES)
    assert np.abs(exact - approximate).max() <= 1
    assert np.mean(exact != approximate) < 0.1


def test_quantiles_and_first_k_in_a_catalogue_agree_with_draws():
    n, size = 3 * EXACT_LIMIT, 2000
    scores = np.random.default_rng(5).normal(size=n) * 1.5
    best_first = np.argsort(-scores)
    targets = best_first[[0, 3, 50, 700, 2990]]
    draws = gumbel_rankings(scores, stream_key(6), size)
    places = np.argsort(draws, axis=1)[:, targets]
    quantiles = rank_quantiles(scores, targets, PROBABILITIES)
    slack = 4 * np.sqrt(PROBABILITIES * (1 - PROBABILITIES) / size) + 0.005  # 4 standard errors, and the expansion's
    for t in range(targets.size):
        up_to = np.array([(places[:, t] <= quantile).mean() for quantile in quantiles[t]])
        short_of = np.array([(places[:, t] < quantile).mean() for quantile in quantiles[t]])
        assert np.all(up_to >= PROBABILITIES - slack)
        assert np.all(short_of <= PROBABILITIES + slack)
    top = top_probabilities(scores, 60)[targets]
    assert np.all(np.abs((places < 60).mean(axis=0) - top) < 4 * np.sqrt(top * (1 - top) / size) + 1e-3)


def test_no_targets_give_no_rows():
    nobody = np.empty(0, dtype=np.int64)
    assert rank_distributions(np.zeros(3), nobody).shape == (0, 3)
    assert rank_quantiles(np.zeros(3), nobody, PROBABILITIES).shape == (0, 5)
    assert approximate_rank_quantiles(np.zeros(3), nobody, PROBABILITIES).shape == (0, 5)
    assert gumbel_rankings(np.zeros(3), stream_key(0), 0).shape == (0, 3)
