"""Randomisation test, bootstrap and Holm's correction against enumeration, theory and a control."""

import itertools

import numpy as np
import pytest
from scipy import stats

from permrank.errors import InputError
from permrank.evaluation.significance import bootstrap_interval, holm, randomisation_test


def test_the_p_value_is_the_share_of_all_sign_patterns():
    rng = np.random.default_rng(2)
    for _ in range(5):
        d = rng.normal(0.3, 1.0, 10)
        patterns = np.array(list(itertools.product([-1, 1], repeat=10)))
        exact = np.mean(np.abs(patterns @ d) >= abs(d.sum()) - 1e-9)
        assert randomisation_test(d, n_draws=40_000) == pytest.approx(exact, abs=0.01)


def test_p_values_are_uniform_without_a_difference_and_small_with_one():
    rng = np.random.default_rng(7)
    none = [randomisation_test(rng.normal(size=80), n_draws=500, seed=i) for i in range(300)]
    assert stats.kstest(none, "uniform").pvalue > 1e-4
    some = [randomisation_test(rng.normal(0.3, 1.0, 80), n_draws=500, seed=i) for i in range(300)]
    assert stats.kstest(some, "uniform").pvalue < 1e-6  # the control
    assert np.mean(np.array(some) < 0.05) > 0.6


def test_nobody_and_no_difference_are_no_evidence():
    assert randomisation_test([]) == 1.0
    assert randomisation_test(np.zeros(100)) == 1.0
    with pytest.raises(InputError, match="finite"):
        randomisation_test([0.1, np.nan])


def test_the_same_seed_gives_the_same_p_and_interval():
    d = np.random.default_rng(0).normal(size=50)
    assert randomisation_test(d, seed=3) == randomisation_test(d, seed=3)
    assert bootstrap_interval(d, seed=3) == bootstrap_interval(d, seed=3) != bootstrap_interval(d, seed=4)


def test_bootstrap_intervals_have_the_width_of_theory_and_cover():
    rng = np.random.default_rng(5)
    hits, widths = 0, []
    for i in range(300):
        values = rng.normal(2.0, 1.0, 60)
        low, high = bootstrap_interval(values, n_draws=500, seed=i)
        hits += low <= 2.0 <= high
        widths.append(high - low)
    # 95 %, less one for the percentiles of 60 values; 300 trials know it to 0.013. Beyond four of these is wrong.
    assert 0.88 <= hits / 300 <= 0.99
    assert np.mean(widths) == pytest.approx(2 * 1.96 / np.sqrt(60), rel=0.06)


def test_weights_count_as_so_many_people_in_the_mean():
    low, high = bootstrap_interval([0.0, 1.0], [1.0, 1e9], n_draws=2000)
    assert (low, high) == (0.0, pytest.approx(1.0))
    assert np.isnan(bootstrap_interval([])).all()


def test_holm_is_the_step_down_rule():
    assert holm([0.01, 0.02, 0.03, 0.04]).tolist() == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).size == 0
