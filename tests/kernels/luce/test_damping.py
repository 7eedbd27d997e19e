"""Benter's damped Plackett-Luce against its definition, summed term by term in plain Python."""

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

from permrank.kernels.luce import damping as kernels
from permrank.kernels.luce.damping import damped_statistics, damping_sequence
from permrank.kernels.luce.likelihood import EXACT, stage_statistics
from permrank.ragged import frozen

DAMPINGS = {
    "none": lambda n: np.ones(n),
    "log": lambda n: 1.0 / np.log2(2.0 + np.arange(n)),
    "natural log": lambda n: 1.0 / np.log(2.0 + np.arange(n)),
    "three to zero": lambda n: np.maximum(0.0, 3.0 - np.arange(n) / 5),
    "linear to zero": lambda n: 1.0 - np.arange(n) / n,
    "few values": lambda n: np.array([1.0, 0.9, 0.4, 0.1, 0.0])[np.minimum(np.arange(n), 4)],
    "stairs": lambda n: 1.0 - np.arange(n) // 3 * 3 / n,
    "ones, then falling": lambda n: 1.0 / (1.0 + 0.05 * np.maximum(0, np.arange(n) - n // 2)),
}
every_damping = pytest.mark.parametrize("damping", DAMPINGS)
# One that panels fit, one of runs, one that ends at 0.
some_dampings = pytest.mark.parametrize("damping", ["log", "few values", "three to zero"])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    # Waking a second thread takes longer than most of the lists here.
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(threads)


def definition(scores, damping):
    """log P, expected, curvature and the gradient in the damping factors of one ranking, O(n²)."""
    n = len(scores)
    logs, expected, curvature, slope = [], [[0.0] for _ in range(n)], [[0.0] for _ in range(n)], [0.0] * n
    for i in range(n - 1):
        rho, top = float(damping[i]), max(scores[i:])
        worths = [math.exp(rho * (s - top)) for s in scores[i:]]
        total = math.fsum(worths)
        logs.append(rho * (scores[i] - top) - math.log(total))
        slope[i] = scores[i] - top - math.fsum(w * (s - top) for w, s in zip(worths, scores[i:], strict=True)) / total
        for j, worth in enumerate(worths, start=i):
            expected[j].append(rho * worth / total)
            curvature[j].append(rho**2 * worth / total)
    return math.fsum(logs), [math.fsum(x) for x in expected], [math.fsum(x) for x in curvature], slope


def statistics(rankings, damping):
    """log P, chosen, expected and curvature of a list of score arrays."""
    indptr = np.cumsum([0] + [len(scores) for scores in rankings])
    scores = np.concatenate([np.asarray(scores, dtype=float) for scores in rankings])
    chosen, expected, curvature = (np.full(scores.size, np.nan) for _ in range(3))
    value = damped_statistics(*frozen(indptr), scores, damping, chosen, expected, curvature)
    return value, chosen, expected, curvature


def rho_gradient(rankings, damping, weights):
    """∂ Σ weight log P / ∂ρ of a list of score arrays: of the means that `damped_ranking` leaves."""
    gradient = np.zeros(damping.size)
    for scores, weight in zip(rankings, weights, strict=True):
        if len(scores) < 2:
            continue
        n = len(scores)
        work, sums, unused = np.empty((5, n)), np.empty((2, 31)), np.empty((2, n))
        kernels.damped_ranking(np.asarray(scores, float), damping, work, sums, *unused)
        gradient[: n - 1] += weight * (scores - work[4])[:-1]
    return gradient


def assert_equals_definition(scores, damping):
    spread = np.ptp(scores)
    log_likelihood, expected, curvature, slope = definition(scores.tolist(), damping)
    got = statistics([scores], damping)
    assert_allclose(got[0], [log_likelihood], rtol=1e-12, atol=1e-12)
    assert_array_equal(got[1], [*damping[: scores.size - 1], 0.0])
    # exp keeps few digits of what it returns below 1e-290
    assert_allclose(got[2], expected, rtol=1e-10, atol=1e-290)
    assert_allclose(got[3], curvature, rtol=1e-10, atol=1e-290)
    assert_allclose(rho_gradient([scores], damping, [1.0])[: scores.size], slope, rtol=1e-9, atol=1e-11 * spread)


@every_damping
@pytest.mark.parametrize("spread", [0.0, 1.5, 20.0])
def test_all_statistics_equal_the_sum_over_all_pairs(damping, spread):
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 11, 40, 100):
        assert_equals_definition(spread * rng.random(n), DAMPINGS[damping](n))
    assert_equals_definition(spread * rng.random(300), DAMPINGS[damping](300))


@every_damping
@pytest.mark.parametrize("spread", [100.0, 1e4])
def test_scores_hundreds_apart_lose_no_digits(damping, spread):
    scores = spread * np.random.default_rng(2).random(120)
    for ranking in (scores, np.sort(scores), np.sort(scores)[::-1].copy()):
        assert_equals_definition(ranking, DAMPINGS[damping](120))


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    spread=st.sampled_from([0.0, 0.5, 3.0, 30.0, 300.0]),
    n_values=st.integers(1, 60),
    lowest=st.sampled_from([0.0, 0.01, 0.5, 0.999]),
)
def test_any_falling_damping_gives_the_sum_over_all_pairs(seed, n, spread, n_values, lowest):
    rng = np.random.default_rng(seed)
    values = np.concatenate([[1.0], rng.uniform(lowest, 1.0, size=n_values)])
    damping = -np.sort(-rng.choice(values, size=n))
    assert_equals_definition(spread * rng.normal(size=n), damping)


def test_a_damping_that_does_not_fall_is_summed_correctly_too():
    rng = np.random.default_rng(3)
    for spread in (1.0, 10.0, 100.0):
        assert_equals_definition(spread * rng.random(200), rng.random(200))


def test_a_list_of_thousands_loses_no_digits():
    scores, damping = 1.5 * np.random.default_rng(4).normal(size=2500), damping_sequence("log", 2500)
    log_likelihood, expected, curvature = 0.0, np.zeros(2500), np.zeros(2500)
    for i in range(2499):
        worths = np.exp(damping[i] * scores[i:])
        log_likelihood += damping[i] * scores[i] - math.log(worths.sum())
        expected[i:] += damping[i] * worths / worths.sum()
        curvature[i:] += damping[i] ** 2 * worths / worths.sum()
    value, _, got_expected, got_curvature = statistics([scores], damping)
    assert_allclose(value, [log_likelihood], rtol=1e-12, atol=0)
    assert_allclose(got_expected, expected, rtol=1e-10, atol=0)
    assert_allclose(got_curvature, curvature, rtol=1e-10, atol=0)


@some_dampings
@pytest.mark.parametrize("n", [1, 2, 6])
def test_probabilities_of_all_rankings_sum_to_one(damping, n):
    scores = 2.0 * np.random.default_rng(n).normal(size=n)
    rankings = [scores[list(ranking)] for ranking in itertools.permutations(range(n))]
    assert_allclose(np.exp(statistics(rankings, DAMPINGS[damping](n))[0]).sum(), 1.0, rtol=1e-12, atol=0)


@some_dampings
@pytest.mark.parametrize("spread", [0.1, 6.0])
def test_the_gradient_is_chosen_minus_expected(damping, spread):
    rng = np.random.default_rng(5)
    step = 1e-3
    for n in (2, 6, 40):
        scores, factors = spread * rng.normal(size=n), DAMPINGS[damping](n)
        moves = [move * step * row for row in np.eye(n) for move in (1, -1, 2, -2)]
        values = statistics([scores + move for move in moves], factors)[0].reshape(n, 4)
        numeric = (8 * (values[:, 0] - values[:, 1]) - (values[:, 2] - values[:, 3])) / (12 * step)
        _, chosen, expected, _ = statistics([scores], factors)
        assert_allclose(chosen - expected, numeric, rtol=1e-6, atol=1e-8)
        assert_allclose(chosen.sum(), expected.sum(), rtol=1e-11, atol=0)


@some_dampings
def test_the_gradient_in_the_damping_factors_agrees_with_central_differences(damping):
    rng = np.random.default_rng(6)
    rankings = [2.0 * rng.normal(size=n) for n in (0, 1, 2, 7, 40, 25)]
    weights, factors, step = np.array([3.0, 1.0, 0.5, 2.0, 1.0, 0.1]), DAMPINGS[damping](42), 1e-3
    numeric = np.empty(42)
    for i in range(42):
        moved = [factors + move * step * (np.arange(42) == i) for move in (1, -1, 2, -2)]
        values = [float(weights @ statistics(rankings, rho)[0]) for rho in moved]
        numeric[i] = (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * step)
    got = rho_gradient(rankings, factors, weights)
    assert_allclose(got, numeric, rtol=1e-6, atol=1e-8)
    assert_array_equal(got[39:], 0.0)  # the last stage of the longest ranking is certain, the others do not exist


@some_dampings
def test_the_curvature_is_no_less_than_minus_the_diagonal_of_the_hessian(damping):
    scores, factors, step = 2.0 * np.random.default_rng(7).normal(size=30), DAMPINGS[damping](30), 1e-4
    curvature = statistics([scores], factors)[3]
    for j in range(30):
        gradients = []
        for move in (step, -step):
            _, chosen, expected, _ = statistics([scores + move * (np.arange(30) == j)], factors)
            gradients.append(chosen[j] - expected[j])
        assert curvature[j] >= -(gradients[0] - gradients[1]) / (2 * step) - 1e-9


@pytest.mark.parametrize("spread", [1.5, 30.0, 900.0])
def test_without_damping_it_is_plackett_luce(spread):
    rng = np.random.default_rng(8)
    rankings = [spread * rng.normal(size=n) for n in (1, 2, 5, 30, 500)]
    indptr, scores = np.cumsum([0, 1, 2, 5, 30, 500]), np.concatenate(rankings)
    levels = np.concatenate([np.arange(ranking.size, dtype=np.int32) for ranking in rankings])
    chosen, expected = np.empty(scores.size), np.empty(scores.size)
    value = stage_statistics(*frozen(indptr, levels), scores, EXACT, chosen, expected)
    got = statistics(rankings, damping_sequence("none", 500))
    assert_allclose(got[0], value, rtol=1e-12, atol=1e-300)
    assert_array_equal(got[1], chosen)
    assert_allclose(got[2], expected, rtol=1e-10, atol=1e-290)
    assert_array_equal(got[3], got[2])


def test_after_full_damping_every_choice_is_uniform():
    scores = 5.0 * np.random.default_rng(9).normal(size=50)
    value, chosen, expected, curvature = statistics([scores], np.zeros(50))
    assert_allclose(value, [-math.lgamma(51)], rtol=1e-13, atol=0)
    for zero in (chosen, expected, curvature):
        assert_array_equal(zero, 0.0)
    want = [scores[i] - scores[i:].mean() for i in range(50)]
    assert_allclose(rho_gradient([scores], np.zeros(50), [1.0]), want, rtol=1e-11, atol=1e-12)


@some_dampings
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), shift=st.floats(-1e4, 1e4))
def test_adding_a_constant_to_the_scores_changes_nothing(damping, seed, n, shift):
    scores, factors = 3.0 * np.random.default_rng(seed).normal(size=n), DAMPINGS[damping](n)
    for moved, plain in zip(statistics([scores + shift], factors), statistics([scores], factors), strict=True):
        assert_allclose(moved, plain, rtol=1e-9, atol=1e-9)
    moved, plain = (rho_gradient([ranking], factors, [1.0]) for ranking in (scores + shift, scores))
    assert_allclose(moved, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [3, 6, 200])
def test_a_score_that_is_not_a_number_gives_nan_and_never_hangs(n):
    for bad in (0, n // 2, n - 1):
        scores = np.zeros(n)
        scores[bad] = np.nan
        for factors in (damping_sequence("log", n), np.ones(n)):
            assert np.isnan(statistics([scores], factors)[0]).all()


def test_the_bits_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(10)
    rankings = [2.0 * rng.normal(size=n) for n in rng.integers(0, 80, size=300)]
    weights, factors = rng.random(300), damping_sequence("log", 80)
    results = []
    try:
        for count in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(count)
            results.append([*statistics(rankings, factors), rho_gradient(rankings, factors, weights)])
    finally:
        numba.set_num_threads(1)
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


def test_a_ranking_gives_the_same_bits_alone_and_among_others():
    rng = np.random.default_rng(11)
    rankings, factors = [2.0 * rng.normal(size=n) for n in (4, 0, 60, 1, 25)], damping_sequence("log", 100)
    together = statistics(rankings, factors)
    alone = [statistics([ranking], factors) for ranking in rankings]
    for k, whole in enumerate(together):
        assert_array_equal(whole, np.concatenate([np.atleast_1d(parts[k]) for parts in alone]))
    assert statistics([[]], factors)[0].tolist() == [0.0]


def work_per_item(scores, factors):
    """Terms and stages summed one by one, over all panels: what an item of the list costs at most."""
    tops, bottoms = np.empty(scores.size), np.empty(scores.size)
    kernels.suffix_extremes(scores, tops, bottoms)
    work, last = 0, scores.size - 2
    while last >= 0:
        first, _, terms = kernels.next_panel(factors, tops, bottoms, last, scores.size)
        work += terms if terms > 0 else last - first + 1
        last = first - 1
    return work


@pytest.mark.parametrize(("spread", "most"), [(0.0, 1), (1.0, 15), (10.0, 30), (50.0, 120)])
def test_the_work_for_an_item_depends_on_the_spread_of_scores_and_not_on_the_length_of_the_list(spread, most):
    rng = np.random.default_rng(12)
    for n in (100, 1000, 10_000, 100_000):
        scores = spread * rng.random(n)
        assert work_per_item(scores, damping_sequence("log", n)) <= most
        assert work_per_item(scores, damping_sequence("none", n)) == 1
        assert work_per_item(scores, DAMPINGS["few values"](n)) <= 5


def test_the_number_of_terms_keeps_the_exponential_series_to_twelve_digits():
    for z in (0.0, 1e-9, 0.3, 1.0, 2.2, 4.0):
        terms = kernels.n_terms(z)
        # fsum: each of the terms is exact to 1e-16 of e^z, which for z = 4 is 3e-13 of e^-z
        series = math.fsum((-z) ** k / math.factorial(k) for k in range(terms))
        assert_allclose(series, math.exp(-z), rtol=1.1e-12, atol=0)
    assert kernels.n_terms(0.0) == 1
    assert kernels.n_terms(4.0) == 30


def test_damping_sequences_are_those_named_and_are_continued_by_their_last_value():
    wanted = [1 / math.log(1 + i) for i in range(1, 8)]
    assert_allclose(damping_sequence("natural_log", 7), wanted, rtol=1e-15, atol=0)
    assert_array_equal(damping_sequence("none", 3), [1.0, 1.0, 1.0])
    assert_allclose(damping_sequence("log", 7)[[0, 2, 6]], [1.0, 1 / 2, 1 / 3], rtol=1e-15, atol=0)
    assert_array_equal(damping_sequence([1, 0.5], 4), [1.0, 0.5, 0.5, 0.5])
    assert_array_equal(damping_sequence(np.array([1.0, 0.5, 0.25]), 2), [1.0, 0.5])
    assert damping_sequence([1], 2).dtype == np.float64
    assert damping_sequence("log", 0).size == 0


BOUNDS_SCRIPT = """
import numpy as np
from permrank.kernels.luce.damping import damped_statistics, damping_sequence
from permrank.ragged import frozen
indptr = np.array([0, 1, 1, 5, 65, 67, 107])
damping = damping_sequence("log", 60)
for spread in (0.0, 3.0, 9.0, 200.0):
    scores = spread * np.random.default_rng(1).random(107)
    for rho in (damping, np.ones(60), damping_sequence([1, 0.5, 0.2], 60)):
        damped_statistics(indptr, scores, rho, *np.full((3, 107), np.nan))
print("done")
"""


def test_no_kernel_reads_past_the_end_of_an_array():
    # Interpreted, so that NumPy checks every index; quicker than compiling again with NUMBA_BOUNDSCHECK.
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", BOUNDS_SCRIPT], env=environment, capture_output=True, text=True
    )
    assert run.stdout == "done\n", run.stderr
