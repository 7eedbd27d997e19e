from __future__ import annotations

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from permrank.families.plackett_luce.kernels.pooled import observed_information
from permrank.families.plackett_luce.statistics import PooledStatistics
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION, stage_statistics
from permrank.ragged import frozen
from permrank.testing import oracles

TREATMENTS = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION}
every_treatment = pytest.mark.parametrize("ties", TREATMENTS)


def pooled_statistics(indptr, items, levels, scores, weights, ties):
    return PooledStatistics(indptr, items, levels, weights, scores.size, ties)(scores)


def random_problem(seed, n_rankings=60, n_items=12, tied=0.5, longest=None):
    """Ragged arrays and weights of random rankings of some of the items."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, (longest or n_items) + 1, size=n_rankings)
    items = np.concatenate([rng.permutation(n_items)[:n] for n in lengths]).astype(np.int32)
    levels = np.concatenate([np.cumsum(np.arange(n) * (rng.random(n) >= tied) > 0) for n in lengths])
    return frozen(np.cumsum([0, *lengths]), items, levels.astype(np.int32), rng.uniform(0.5, 3.0, size=n_rankings))


@every_treatment
@pytest.mark.parametrize("tied", [0.0, 0.6])
@pytest.mark.parametrize("spread", [1.0, 500.0])
def test_pooled_statistics_equal_stage_statistics_summed(ties, tied, spread):
    indptr, items, levels, weights = random_problem(1, tied=tied)
    scores = spread * np.random.default_rng(2).normal(size=14)  # two items are in no ranking
    chosen, expected = np.empty(items.size), np.empty(items.size)
    values = stage_statistics(indptr, levels, scores[items], TREATMENTS[ties], chosen, expected)
    by_entry = np.repeat(weights, np.diff(indptr))
    got = pooled_statistics(indptr, items, levels, scores, weights, TREATMENTS[ties])
    assert_allclose(got[0], values @ weights, rtol=1e-11, atol=0)
    assert_allclose(got[1], np.bincount(items, by_entry * chosen, 14), rtol=1e-11, atol=1e-12)
    assert_allclose(got[2], np.bincount(items, by_entry * expected, 14), rtol=1e-11, atol=1e-12)


def test_pooled_statistics_of_more_items_than_entries_and_of_no_rankings_are_right():
    indptr, items, levels, weights = random_problem(3, n_rankings=3, n_items=5, tied=0.0)
    scores = np.random.default_rng(4).normal(size=1000)
    value, chosen, expected = pooled_statistics(indptr, items, levels, scores, weights, EXACT)
    small = pooled_statistics(indptr, items, levels, scores[:5], weights, EXACT)
    assert_allclose(value, small[0], rtol=1e-12, atol=0)
    assert_allclose(expected[:5], small[2], rtol=1e-12, atol=0)
    assert not chosen[5:].any()
    empty = pooled_statistics(*frozen(np.zeros(1, dtype=np.int64)), items[:0], levels[:0], scores, weights[:0], EXACT)
    assert empty[0] == 0.0
    assert not empty[2].any()


@every_treatment
@pytest.mark.parametrize("tied", [0.0, 0.6])
def test_pooled_bits_do_not_depend_on_the_number_of_threads(ties, tied):
    indptr, items, levels, weights = random_problem(5, n_rankings=500, tied=tied)
    scores = np.random.default_rng(6).normal(size=12)
    threads = numba.get_num_threads()
    results = []
    try:
        for count in (1, min(2, threads)):
            numba.set_num_threads(count)
            pooled = pooled_statistics(indptr, items, levels, scores, weights, TREATMENTS[ties])
            part = slice(0, indptr[20])
            information = observed_information(
                indptr[:21], items[part], levels[part], scores, weights[:20], TREATMENTS[ties]
            )
            results.append([*pooled, information])
    finally:
        numba.set_num_threads(threads)
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


@every_treatment
def test_the_information_equals_second_differences_of_the_enumerated_likelihood(ties):
    indptr, items, levels, weights = random_problem(7, n_rankings=6, n_items=5, tied=0.5)
    scores = np.random.default_rng(8).normal(size=5)

    def log_likelihood(point):
        return sum(
            weight * oracles.log_likelihood(point[items[a:b]], levels[a:b], ties)
            for a, b, weight in zip(indptr, indptr[1:], weights, strict=False)
        )

    step, axes = 1e-3, np.eye(5)
    numeric = np.empty((5, 5))
    for i in range(5):
        for j in range(5):
            corners = [(a, b) for a in (step, -step) for b in (step, -step)]
            values = [np.sign(a * b) * log_likelihood(scores + a * axes[i] + b * axes[j]) for a, b in corners]
            numeric[i, j] = -sum(values) / (4.0 * step**2)
    got = observed_information(indptr, items, levels, scores, weights, TREATMENTS[ties])
    assert_allclose(got, numeric, rtol=1e-5, atol=1e-5)
    assert_array_equal(got, got.T)
    assert_allclose(got.sum(axis=0), np.zeros(5), rtol=0, atol=1e-9)


def test_the_information_of_strict_rankings_is_that_of_the_formula():
    scores = 2.0 * np.random.default_rng(9).normal(size=8)
    worths, want = np.exp(scores), np.zeros((8, 8))
    for stage in range(7):
        share = np.where(np.arange(8) >= stage, worths, 0.0) / worths[stage:].sum()
        want += np.diag(share) - np.outer(share, share)
    order = np.arange(8, dtype=np.int32)
    got = observed_information(np.array([0, 8]), order, order, scores, np.ones(1), EXACT)
    assert_allclose(got, want, rtol=1e-8, atol=1e-9)


@every_treatment
@pytest.mark.parametrize("spread", [1.0, 20.0, 500.0])
def test_the_information_matches_differences_of_the_gradient(ties, spread):
    """Large blocks and small ones, first, in the middle and last; worths that differ by any factor."""
    rng = np.random.default_rng(10)
    levels = np.repeat(np.arange(6), [40, 1, 9, 1, 8, 5]).astype(np.int32)
    items = np.concatenate([rng.permutation(70)[: levels.size] for _ in range(2)]).astype(np.int32)
    levels, indptr, weights = np.tile(levels, 2), np.array([0, 64, 128]), np.array([2.0, 0.3])
    scores = spread * rng.normal(size=70)
    got = observed_information(indptr, items, levels, scores, weights, TREATMENTS[ties])
    assert_array_equal(got, got.T)
    assert_allclose(got.sum(axis=0), np.zeros(70), rtol=0, atol=1e-12 * max(1.0, got.max()))
    step = 3e-3
    for direction in rng.normal(size=(5, 70)):
        moved = [pooled_statistics(indptr, items, levels, scores + h * step * direction, weights, TREATMENTS[ties])
                 for h in (1, -1, 2, -2)]  # fmt: skip
        plus, minus, plus_two, minus_two = (chosen - expected for _, chosen, expected in moved)
        numeric = -(8.0 * (plus - minus) - (plus_two - minus_two)) / (12.0 * step)
        assert_allclose(got @ direction, numeric, rtol=0, atol=1e-8 * max(1.0, got.max()))
