"""Variances of means against theory, and how often Student's intervals hold the mean."""

import numpy as np
import pytest
from scipy import stats

from permrank.errors import InputError
from permrank.evaluation.significance import interval, variance_of


def test_the_interval_is_students():
    values = np.random.default_rng(3).normal(size=12)
    expected = stats.t.interval(0.9, 11, values.mean(), stats.sem(values))
    assert interval(values, level=0.9) == pytest.approx(expected, rel=1e-12)
    assert interval(values, 7.0 * np.ones(12), level=0.9) == pytest.approx(expected, rel=1e-12)


def test_one_person_and_nobody_have_no_interval():
    for values in ([], [0.3]):
        assert np.isnan(interval(values)).all()
    assert interval([0.5] * 4) == (0.5, 0.5)
    for wrong, words in (([0.1, np.nan], "finite"), ([[0.1]], "list of finite")):
        with pytest.raises(InputError, match=words):
            interval(wrong)
    with pytest.raises(InputError, match="level"):
        interval([0.1, 0.2], level=1.0)


@pytest.mark.parametrize(
    ("draw", "mean", "shares"),
    [
        # Of 3,000 samples, by benchmarks/verdicts.py --only intervals.
        (lambda rng, n: rng.beta(5, 1, n), 5 / 6, {5: 0.90, 8: 0.92, 15: 0.92, 30: 0.94, 100: 0.95}),
        (lambda rng, n: rng.beta(0.5, 0.5, n), 0.5, {5: 0.92, 8: 0.95, 15: 0.95, 30: 0.95, 100: 0.95}),
        (lambda rng, n: rng.exponential(size=n), 1.0, {5: 0.87, 8: 0.89, 15: 0.91, 30: 0.925, 100: 0.94}),
    ],
    ids=["near its bound", "two heaps", "skewed"],
)
def test_intervals_of_few_people_hold_the_mean(draw, mean, shares):
    rng = np.random.default_rng(5)
    for n, share in shares.items():
        samples = [draw(rng, n) for _ in range(500)]
        ends = np.array([interval(each) for each in samples])
        held = np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1]))
        assert abs(held - share) < 5 * np.sqrt(share * (1 - share) / 500) + 0.005, n


def test_five_normal_people_need_students_quantiles():
    samples = np.random.default_rng(12).normal(size=(1000, 5))
    ends = np.array([interval(each) for each in samples])
    # .95 and .88 of 1,000 are known to .007 and .010.
    assert 0.92 <= np.mean((ends[:, 0] <= 0.0) & (ends[:, 1] >= 0.0)) <= 0.98
    assert np.mean(np.abs(samples.mean(axis=1)) <= 1.96 * stats.sem(samples, axis=1)) < 0.92  # the control


def test_intervals_of_weighted_people_hold_the_mean_and_without_weights_they_do_not():
    # People with much weight vary more: the variance without weights is half of what it should be.
    rng, weights = np.random.default_rng(6), np.repeat([1.0, 4.0], 20)
    weighted, bare = 0, 0
    for _ in range(400):
        values = rng.normal(size=40) * weights
        low, high = interval(values, weights)
        weighted += low <= 0.0 <= high
        mean, reach = np.average(values, weights=weights), np.diff(interval(values))[0] / 2
        bare += abs(mean) <= reach
    assert 0.91 <= weighted / 400 <= 0.985
    assert bare / 400 < 0.88  # the control


def test_parts_of_the_variance_are_those_of_the_two_way_layout():
    rng = np.random.default_rng(8)
    n, m = 40, 5
    values = rng.normal(size=(n, 1)) + rng.normal(size=m) + rng.normal(size=(n, m))
    part = variance_of(values, np.ones(n))
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    assert part.mean == pytest.approx(values.mean(), rel=1e-12)
    assert part.people == pytest.approx(values.mean(axis=1).var(ddof=1) / n, rel=1e-12)
    assert part.people_df == pytest.approx(n - 1)
    assert part.columns == pytest.approx(values.mean(axis=0).var(ddof=1) / m, rel=1e-12)
    assert part.noise == pytest.approx((rest**2).sum() / ((n - 1) * (m - 1)) / (n * m), rel=1e-12)


def test_people_who_are_in_one_column_each_make_no_difference_of_columns():
    # Folds: every person is in one split, and means of splits differ by their people alone.
    rng, n, m, excess = np.random.default_rng(9), 60, 5, []
    for _ in range(300):
        values = np.full((n, m), np.nan)
        values[np.arange(n), np.arange(n) % m] = rng.normal(size=n)
        part = variance_of(values, np.ones(n))
        excess.append(part.columns - part.noise)
        assert part.people == pytest.approx(1 / n, rel=1.0)
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(300)
    assert np.mean(excess) < 0.2 / n
