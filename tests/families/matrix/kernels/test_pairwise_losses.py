"""Losses over pairs against loops over all pairs, and their gradients by differences."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from permrank.families.matrix.kernels.pairwise_losses import hinge_pairs, logistic_pairs, squared_pairs
from permrank.ragged import frozen

KEY = np.uint64(5)
SMOOTH = {"squared": None, "hinge": 0.7, "hinge to the full": 1.5, "logistic": None}


def lists(seed, sizes=(1, 2, 3, 7, 12, 40), tied=0.4, spread=1.5):
    """indptr, levels, weights and scores of some lists."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    levels = np.concatenate([np.cumsum(np.append(0, rng.random(n - 1) > tied)) for n in sizes]).astype(np.int32)
    # Frozen as in Rankings: kernels are compiled once for arrays that can be written and once for others.
    return *frozen(indptr, levels), rng.uniform(0.5, 2.0, len(sizes)), spread * rng.normal(size=indptr[-1])


def computed(loss, indptr, levels, weights, scores, n_partners=100, smoothing=None):
    gradient, numbers = np.full(scores.size, np.nan), np.arange(weights.size)
    smoothing = SMOOTH.get(loss, smoothing) if smoothing is None else smoothing
    if loss == "squared":
        return squared_pairs(indptr, weights, levels, scores, gradient), gradient
    if loss == "logistic":
        return logistic_pairs(indptr, weights, numbers, levels, n_partners, KEY, scores, gradient), gradient
    return hinge_pairs(indptr, weights, levels, smoothing, scores, gradient), gradient


def of_pair(loss, d, smoothing):
    """L(d) and L'(d) by the definition of each loss (§2)."""
    if loss == "squared":
        return (1 - d) ** 2, -2 * (1 - d)
    if loss == "logistic":
        return math.log(1 + math.exp(-d)), -1 / (1 + math.exp(d))
    z = 1 - d
    if z <= 0:
        return 0.0, 0.0
    if z < smoothing:
        return z * z / (2 * smoothing), -z / smoothing
    return z - smoothing / 2, -1.0


def by_loops(loss, indptr, levels, weights, scores, smoothing):
    values, gradient = np.zeros(len(weights)), np.zeros(len(scores))
    for r in range(len(weights)):
        for i in range(indptr[r], indptr[r + 1]):
            for j in range(i + 1, indptr[r + 1]):
                if levels[i] != levels[j]:
                    value, slope = of_pair(loss, scores[i] - scores[j], smoothing)
                    values[r] += weights[r] * value
                    gradient[i] += weights[r] * slope
                    gradient[j] -= weights[r] * slope
    return values, gradient


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("tied", [0.0, 0.4, 1.0])
def test_sums_over_pairs_are_those_of_the_loops(loss, tied):
    data = lists(1, tied=tied)
    for found, wanted in zip(computed(loss, *data), by_loops(loss, *data, SMOOTH[loss]), strict=True):
        assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_the_bare_hinge_is_that_of_the_loops_too():
    data = lists(2)
    for found, wanted in zip(computed("hinge", *data, smoothing=0.0), by_loops("hinge", *data, 0.0), strict=True):
        assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_scores_far_apart_and_far_from_zero_lose_no_digits():
    indptr, levels, weights, scores = lists(3, spread=30.0)
    for loss in SMOOTH:
        near, far = (computed(loss, indptr, levels, weights, scores + shift)[1] for shift in (0.0, 2.0**20))
        assert_allclose(far, near, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("n_partners", [3, 100])
def test_gradients_are_differences_of_values(loss, n_partners):
    indptr, levels, weights, scores = lists(4)
    gradient = computed(loss, indptr, levels, weights, scores, n_partners)[1]
    for direction in np.random.default_rng(0).normal(size=(5, scores.size)):
        h = 1e-5
        up, down = (
            computed(loss, indptr, levels, weights, scores + step * direction, n_partners)[0].sum() for step in (h, -h)
        )
        assert_allclose((up - down) / (2 * h), gradient @ direction, rtol=1e-6, atol=1e-6)


def test_drawn_partners_estimate_the_sum_over_all_pairs_without_bias():
    indptr, levels, weights, scores = lists(5, sizes=(30,))
    exact, slope = (part.copy() for part in computed("logistic", indptr, levels, weights, scores))
    gradient, first, values, slopes = np.empty(30), np.zeros(1, np.int64), [], []
    for key in range(4_000):
        values.append(logistic_pairs(indptr, weights, first, levels, 2, np.uint64(key), scores, gradient)[0])
        slopes.append(gradient.copy())
    error = np.std(values) / math.sqrt(len(values))
    assert abs(np.mean(values) - exact[0]) < 4 * error
    assert 0 < error < 0.01 * exact[0]
    errors = np.std(slopes, axis=0) / math.sqrt(len(slopes))
    assert (np.abs(np.mean(slopes, axis=0) - slope) < 5 * errors + 1e-12).all()
