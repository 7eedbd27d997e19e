from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from permrank.kernels.luce import likelihood as kernels
from permrank.kernels.luce.likelihood import (
    BRESLOW,
    EFRON,
    EXACT,
    PARTITION,
    log_block_probability,
    stage_statistics,
)
from permrank.ragged import frozen
from permrank.testing import oracles

TREATMENTS = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION}
PATTERNS = [sizes for n in range(1, 8) for sizes in oracles.compositions(n)]
every_treatment = pytest.mark.parametrize("ties", TREATMENTS)


def statistics(rankings, ties):
    """log P, chosen and expected of a list of (scores, levels)."""
    indptr = np.cumsum([0] + [len(scores) for scores, _ in rankings])
    scores = np.concatenate([np.asarray(scores, dtype=float) for scores, _ in rankings])
    levels = np.concatenate([np.asarray(levels, dtype=np.int32) for _, levels in rankings])
    chosen, expected = np.full(scores.size, np.nan), np.full(scores.size, np.nan)
    value = stage_statistics(*frozen(indptr, levels), scores, TREATMENTS[ties], chosen, expected)
    return value, chosen, expected


def random_ranking(rng, n, spread=1.0, tied=0.5):
    """Scores and levels of one ranking; two neighbours tie with the given probability."""
    return spread * rng.normal(size=n), np.concatenate([[0], np.cumsum(rng.random(n - 1) > tied)])


def test_exact_equals_the_sum_over_all_orders_for_every_tie_pattern_of_up_to_seven_items():
    rng = np.random.default_rng(1)
    rankings = [(1.5 * rng.normal(size=sum(sizes)), oracles.levels_of(sizes)) for sizes in PATTERNS]
    want = [oracles.exact_probability(scores, levels) for scores, levels in rankings]
    assert_allclose(np.exp(statistics(rankings, "exact")[0]), want, rtol=1e-10, atol=0)


@pytest.mark.parametrize("ties", ["efron", "breslow", "partition"])
def test_the_closed_forms_follow_their_definition_for_every_tie_pattern(ties):
    rng = np.random.default_rng(2)
    rankings = [(1.5 * rng.normal(size=sum(sizes)), oracles.levels_of(sizes)) for sizes in PATTERNS]
    want = [oracles.log_likelihood(scores, levels, ties) for scores, levels in rankings]
    assert_allclose(statistics(rankings, ties)[0], want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 7])
def test_quadrature_equals_enumeration_on_blocks_small_enough_for_both(m):
    rng = np.random.default_rng(m)
    for spread, rest in itertools.product([0.1, 1.0, 3.0], [-4.0, 0.0, 4.0]):
        scores = spread * rng.normal(size=m)
        own = np.empty(m)
        value, _ = kernels._integrate_block(np.exp(scores - rest), own, np.empty((0, 0)))
        want = oracles.exact_probability([*scores, rest], [0] * m + [1])
        assert_allclose(math.exp(value), want, rtol=1e-10, atol=0)
        _, chosen, expected = statistics([([*scores, rest], [0] * m + [1])], "exact")
        assert_allclose(1.0 - own, (chosen - expected)[:m], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("m", "spread", "shift"),
    [
        *[(50, 1, -3), (50, 4, 0), (50, 3, 12), (50, 30, 0), (50, 90, 20), (50, 2, -300), (50, 1, 300)],
        *[(50, 0, 8), (200, 5, 3), (200, 3, 12), (500, 1, 60)],
    ],
)
def test_large_blocks_of_very_unequal_worths_agree_with_mpmath(m, spread, shift):
    log_rates = spread * np.random.default_rng(m).normal(size=m) + shift
    want = oracles.log_block_probability(log_rates)
    for rest in (0.0, -700.0, 5000.0):
        assert_allclose(log_block_probability(log_rates + rest, rest), want, rtol=1e-12, atol=1e-10)


def test_a_block_with_nothing_after_it_or_with_no_items_is_certain():
    assert log_block_probability(np.array([1.0, -3.0]), -np.inf) == 0.0
    assert log_block_probability(np.empty(0), 2.0) == 0.0
    assert_allclose(log_block_probability(np.array([1.0]), 1.0), -math.log(2.0), rtol=1e-15, atol=0)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3), (3, 1, 1), (1, 2, 2), (1, 3, 1), (5,)])
def test_exact_probabilities_of_all_outcomes_with_given_block_sizes_sum_to_one(sizes):
    scores = 2.0 * np.random.default_rng(3).normal(size=5)
    outcomes = list(oracles.ordered_partitions(range(5), sizes))
    levels = oracles.levels_of(sizes)
    value, _, _ = statistics([(scores[list(outcome)], levels) for outcome in outcomes], "exact")
    assert_allclose(np.exp(value).sum(), 1.0, rtol=1e-10, atol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_partition_probabilities_of_all_ordered_partitions_sum_to_one(n):
    scores = 2.0 * np.random.default_rng(n).normal(size=n)
    rankings = [
        (scores[list(outcome)], oracles.levels_of(sizes))
        for sizes in oracles.compositions(n)
        for outcome in oracles.ordered_partitions(range(n), sizes)
    ]
    assert_allclose(np.exp(statistics(rankings, "partition")[0]).sum(), 1.0, rtol=1e-11, atol=0)


@every_treatment
def test_without_ties_every_treatment_has_the_gradient_of_plackett_luce(ties):
    rng = np.random.default_rng(4)
    rankings = [(2.0 * rng.normal(size=n), range(n)) for n in (1, 2, 3, 10, 400)]
    value, chosen, expected = statistics(rankings, ties)
    if ties != "partition":
        want = [oracles.strict_probability(np.exp(scores[:10])) for scores, _ in rankings[:4]]
        assert_allclose(np.exp(value[:4]), want, rtol=1e-11, atol=0)
    _, plain_chosen, plain_expected = statistics(rankings, "breslow")
    assert_allclose(chosen, plain_chosen, rtol=1e-12, atol=0)
    assert_allclose(expected, plain_expected, rtol=1e-11, atol=0)


@every_treatment
@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
def test_the_gradient_is_chosen_minus_expected(ties, spread):
    rng = np.random.default_rng(5)
    step = 1e-3
    for n, tied in [(1, 0.5), (2, 1.0), (6, 0.0), (7, 0.7), (12, 0.8), (40, 0.9), (40, 0.97)]:
        scores, levels = random_ranking(rng, n, spread, tied)
        moves = [move * step * row for row in np.eye(n) for move in (1, -1, 2, -2)]
        values = statistics([(scores + move, levels) for move in moves], ties)[0].reshape(n, 4)
        numeric = (8 * (values[:, 0] - values[:, 1]) - (values[:, 2] - values[:, 3])) / (12 * step)
        _, chosen, expected = statistics([(scores, levels)], ties)
        assert_allclose(chosen - expected, numeric, rtol=1e-6, atol=1e-8)
        assert_allclose(chosen.sum(), expected.sum(), rtol=1e-10, atol=1e-12)


@every_treatment
@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), shift=st.floats(-1e4, 1e4), tied=st.floats(0, 1))
def test_adding_a_constant_to_the_scores_changes_nothing(ties, seed, n, shift, tied):
    scores, levels = random_ranking(np.random.default_rng(seed), n, 3.0, tied)
    for moved, plain in zip(
        statistics([(scores + shift, levels)], ties), statistics([(scores, levels)], ties), strict=True
    ):
        assert_allclose(moved, plain, rtol=1e-9, atol=1e-9)


@every_treatment
@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    spread=st.sampled_from([150.0, 1000.0, 1e4]),
    tied=st.floats(0, 1),
)
def test_scores_thousands_apart_give_finite_statistics(ties, seed, n, spread, tied):
    scores, levels = random_ranking(np.random.default_rng(seed), n, spread, tied)
    value, chosen, expected = statistics([(scores, levels)], ties)
    assert np.isfinite(value).all()
    assert np.isfinite(expected).all()
    assert (expected >= 0.0).all()
    assert ((chosen >= 0.0) & (chosen <= 1.0 + 1e-9)).all()
    assert_allclose(chosen.sum(), expected.sum(), rtol=1e-8, atol=1e-8)


@every_treatment
@pytest.mark.parametrize("n", [3, 6, 30])
def test_a_score_that_is_not_a_number_gives_nan_and_never_hangs(ties, n):
    for bad in (0, n // 2):
        scores = np.zeros(n)
        scores[bad] = np.nan
        value, _, _ = statistics([(scores, np.arange(n) // (n - 1))], ties)
        assert np.isnan(value).all()


def test_expected_keeps_all_digits_when_the_block_is_nothing_beside_the_rest():
    # r = 1 - z/2 for z = a x, and x is gamma distributed with mean m + 1, so that expected = a (m + 1) / 2.
    scores = np.array([*np.linspace(-500.0, -20.0, 10), 0.0])
    _, _, expected = statistics([(scores, [0] * 10 + [1])], "exact")
    assert_allclose(expected[:10], np.exp(scores[:10]) * 5.5, rtol=1e-7, atol=0)


def test_the_quick_and_the_log_domain_path_agree_on_rankings_without_ties():
    scores = 30.0 * np.random.default_rng(6).normal(size=200)
    quick = statistics([(scores, range(200))], "exact")
    chosen, expected = np.empty(200), np.empty(200)
    value = kernels._tied_ranking(np.arange(200, dtype=np.int32), scores, 0, 200, EXACT, chosen, expected)
    assert_allclose(value, quick[0][0], rtol=1e-12, atol=0)
    assert_allclose(chosen, quick[1], rtol=0, atol=0)
    assert_allclose(expected, quick[2], rtol=1e-11, atol=1e-300)


@every_treatment
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    spread=st.sampled_from([0.0, 1.0, 5.0]),
    tied=st.floats(0, 1),
)
def test_a_step_of_the_mm_algorithm_never_lowers_the_likelihood(ties, seed, n, spread, tied):
    rng = np.random.default_rng(seed)
    item_scores = spread * rng.normal(size=n)
    lists = [rng.permutation(n)[: rng.integers(1, n + 1)] for _ in range(6)]
    levels = [random_ranking(rng, len(items), tied=tied)[1] for items in lists]
    before = -np.inf
    for _ in range(4):
        value, chosen, expected = statistics(
            [(item_scores[items], level) for items, level in zip(lists, levels, strict=True)], ties
        )
        assert value.sum() >= before - 1e-9 * (1.0 + abs(value.sum()))
        before = value.sum()
        entries = np.concatenate(lists)
        total_chosen, total_expected = np.bincount(entries, chosen, n), np.bincount(entries, expected, n)
        # An item that is always last has no finite optimum; part of a step climbs too, so bound the move.
        with np.errstate(divide="ignore", invalid="ignore"):
            move = np.log(total_chosen / total_expected)
        item_scores = item_scores + np.clip(np.nan_to_num(move, nan=0.0), -30.0, 30.0)


@every_treatment
def test_the_bits_do_not_depend_on_the_number_of_threads(ties):
    rng = np.random.default_rng(7)
    rankings = [random_ranking(rng, n, 2.0, 0.8) for n in rng.integers(1, 40, size=200)]
    threads = numba.get_num_threads()
    results = []
    try:
        for count in (1, min(2, threads)):
            numba.set_num_threads(count)
            results.append(statistics(rankings, ties))
    finally:
        numba.set_num_threads(threads)
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


BOUNDS_SCRIPT = """
import numpy as np
from permrank.families.plackett_luce.kernels.pooled import observed_information
from permrank.kernels.luce.likelihood import stage_statistics
from permrank.families.plackett_luce.statistics import PooledStatistics
indptr = np.array([0, 1, 5, 15, 18])
levels = np.array([0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 2], dtype=np.int32)
items = np.array([0, 3, 1, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 3, 2], dtype=np.int32)
scores, weights = np.linspace(-1.0, 2.0, 10), np.array([1.0, 2.0, 0.5, 1.0])
strict = np.concatenate([np.arange(n, dtype=np.int32) for n in np.diff(indptr)])
for ties in range(4):
    stage_statistics(indptr, levels, scores[items], ties, np.empty(18), np.empty(18))
    PooledStatistics(indptr, items, levels, weights, 10, ties)(scores)
    PooledStatistics(indptr, items, strict, weights, 10, ties)(scores)
observed_information(indptr[:3], items[:5], levels[:5], scores, weights[:2], 0)
print("done")
"""


def test_no_kernel_reads_past_the_end_of_an_array():
    # Interpreted, so that NumPy checks every index; quicker than compiling again with NUMBA_BOUNDSCHECK.
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", BOUNDS_SCRIPT], env=environment, capture_output=True, text=True
    )
    assert run.stdout == "done\n", run.stderr
