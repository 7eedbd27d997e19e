"""The normal distribution far in its tails, and draws between two bounds."""

import numpy as np
import pytest
from scipy import special, stats

from permrank.families.thurstone.kernels.normals import below, log_between, log_cdf, quantile_of_log, truncated
from permrank.randomness import stream_key

BOUNDS = [
    (-1.0, 1.0), (-3.0, 4.0), (0.1, 0.2), (0.1, 9.0), (0.6, 3.0), (5.0, np.inf), (5.0, 5.01), (-np.inf, -8.0),
    (2.0, 2.2), (-0.1, np.inf), (30.0, np.inf), (-9.0, -0.3), (-np.inf, np.inf),
]  # fmt: skip


def drawn(low, high, n=3000):
    counter, out = np.uint64(0), np.empty(n)
    key = stream_key(3)
    for i in range(n):
        out[i], counter = truncated(low, high, key, np.uint64(counter))
    return out, int(counter)


def test_logarithms_and_quantiles_agree_with_scipy_in_both_tails():
    z = np.concatenate((np.linspace(-45, 9, 400), [-25.0001, -24.9999, -1e-9, 1e-9]))
    np.testing.assert_allclose([log_cdf(v) for v in z], special.log_ndtr(z), rtol=1e-12, atol=1e-300)
    logs = np.concatenate((-np.geomspace(1e5, 0.7, 200), [-300.1, -299.9]))
    np.testing.assert_allclose([log_cdf(quantile_of_log(v)) for v in logs], logs, rtol=1e-11)
    for bound in (-30.0, -1.0, 0.5, 12.0):
        for u in (1e-9, 0.3, 0.999):
            np.testing.assert_allclose(log_cdf(below(bound, u)), log_cdf(bound) + np.log(u), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.exp(log_between(-1.0, 2.0)), stats.norm.cdf(2) - stats.norm.cdf(-1), rtol=1e-12)
    np.testing.assert_allclose(log_between(20.0, 21.0), log_between(-21.0, -20.0), rtol=1e-12)
    np.testing.assert_allclose(log_between(20.0, 21.0), special.log_ndtr(-20.0), rtol=1e-9)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_draws_between_bounds_have_the_truncated_distribution(low, high):
    values, words = drawn(low, high)
    assert low <= values.min() <= values.max() <= high
    assert words < 2.5 * values.size  # few proposals are refused
    assert stats.kstest(values, lambda v: stats.truncnorm.cdf(v, low, high)).pvalue > 1e-4


def test_draws_from_other_bounds_are_told_apart():
    values, _ = drawn(0.6, 3.0)
    assert stats.kstest(values, lambda v: stats.truncnorm.cdf(v, 0.5, 3.0)).pvalue < 1e-6
