"""Losses over lists: definitions, gradients by differences, and the assignment inside the bound on NDCG."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import log_softmax, softmax

from permrank.families.matrix.kernels.listwise_losses import (
    ndcg_bound,
    project_on_permutahedron,
    squared_errors,
    top_one_divergence,
)
from permrank.ragged import frozen

ALL = 2**31 - 1


def lists(seed, sizes=(1, 2, 5, 9, 30)):
    """indptr, levels, stars (best first) and weights of some lists, and scores."""
    rng = np.random.default_rng(seed)
    stars = [np.sort(rng.integers(1, 6, n))[::-1].astype(float) for n in sizes]
    levels = [np.cumsum(np.append(0, np.diff(part) != 0)) for part in stars]
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    weights, scores = rng.uniform(0.5, 2.0, len(sizes)), 2.0 * rng.normal(size=indptr[-1])
    # Frozen as in Rankings: kernels are compiled once for arrays that can be written and once for others.
    indptr, levels = frozen(indptr, np.concatenate(levels).astype(np.int32))
    return indptr, levels, np.concatenate(stars), weights, scores


def computed(loss, indptr, levels, stars, weights, scores, smoothing=1.0, truncation=ALL):
    gradient = np.full(scores.size, np.nan)
    if loss == "top one":
        return top_one_divergence(indptr, weights, stars, scores, gradient), gradient
    if loss == "squared":
        return squared_errors(indptr, weights, stars, 5.0, scores, gradient), gradient
    return ndcg_bound(indptr, weights, levels, 2**stars - 1, truncation, smoothing, scores, gradient), gradient


@pytest.mark.parametrize("loss", ["top one", "squared", "ndcg"])
def test_gradients_are_differences_of_values(loss):
    data = lists(0)
    gradient = computed(loss, *data)[1]
    for direction in np.random.default_rng(0).normal(size=(5, gradient.size)):
        h = 1e-5
        up, down = (computed(loss, *data[:4], data[4] + step * direction)[0].sum() for step in (h, -h))
        assert_allclose((up - down) / (2 * h), gradient @ direction, rtol=1e-5, atol=1e-6)


def test_top_one_is_the_divergence_of_two_softmaxes():
    indptr, _, stars, weights, scores = data = lists(1)
    values = computed("top one", *data)[0]
    for r, (a, b) in enumerate(itertools.pairwise(indptr)):
        p = softmax(stars[a:b])
        wanted = weights[r] * np.sum(p * (np.log(p) - log_softmax(scores[a:b])))
        assert_allclose(values[r], wanted, rtol=1e-11, atol=1e-13)
    assert_allclose(computed("top one", indptr, None, stars, weights, stars + 7.0)[0], 0, rtol=0, atol=1e-12)


def test_squared_errors_solve_for_the_offset():
    indptr, _, stars, weights, scores = data = lists(2)
    values = computed("squared", *data)[0]
    for r, (a, b) in enumerate(itertools.pairwise(indptr)):
        error = stars[a:b] - scores[a:b]
        best = minimize(lambda x, e=error: np.sum((e - x) ** 2) + 5.0 * np.sum(x**2), 0.0).fun
        assert_allclose(values[r], weights[r] * best, rtol=1e-8, atol=1e-8)
    bare = squared_errors(indptr, weights, stars, np.inf, scores, np.empty(scores.size))
    wanted = weights * np.add.reduceat((stars - scores) ** 2, indptr[:-1])
    assert_allclose(bare, wanted, rtol=1e-12, atol=0)


def one_list(rng, n, ties):
    stars = np.sort(rng.integers(1, 6, n) if ties else rng.permutation(n) * 4 / (n - 1) + 1)[::-1].astype(float)
    levels = np.cumsum(np.append(0, np.diff(stars) != 0)).astype(np.int32)
    return stars, *frozen(levels, np.array([0, n])), 2.0 * rng.normal(size=n)


def discounts_of(n, truncation):
    return np.where(np.arange(n) < truncation, 1 / np.log2(np.arange(n) + 2.0), 0.0)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("truncation", [3, ALL])
def test_the_bound_on_ndcg_is_the_largest_over_all_orders_and_the_best_assignment(ties, truncation):
    rng = np.random.default_rng(3)
    for _ in range(5):
        n = 6
        stars, levels, ends, s = one_list(rng, n, ties)
        gains, c = 2**stars - 1, discounts_of(n, truncation)
        ideal = c @ gains
        mean_c = np.array([c[levels == level].mean() for level in levels])
        value = ndcg_bound(ends, np.ones(1), levels, gains, truncation, 0.0, s, np.empty(n))[0]
        orders = (
            n * (1 - c @ gains[list(order)] / ideal) + c @ s[list(order)] - mean_c @ s
            for order in itertools.permutations(range(n))
        )
        assert_allclose(value, max(orders), rtol=1e-10, atol=0)
        cost = np.outer(c, s) - n * np.outer(c, gains) / ideal  # place by entry
        places, entries = linear_sum_assignment(cost, maximize=True)
        assert_allclose(value, n - mean_c @ s + cost[places, entries].sum(), rtol=1e-10, atol=0)


def test_the_bound_on_ndcg_is_never_below_what_the_order_by_scores_loses():
    rng = np.random.default_rng(4)
    for smoothing in (0.0, 0.3, 3.0):
        for _ in range(20):
            n = 12
            stars, levels, ends, s = one_list(rng, n, ties=True)
            gains, c = 2**stars - 1, discounts_of(n, ALL)
            lost = 1 - c @ gains[np.argsort(-s)] / (c @ gains)
            value = ndcg_bound(ends, np.ones(1), levels, gains, ALL, smoothing, s, np.empty(n))[0]
            assert value / n >= lost - 1e-12
            bare = ndcg_bound(ends, np.ones(1), levels, gains, ALL, 0.0, s, np.empty(n))[0]
            assert bare <= value + 1e-12 <= bare + smoothing / 2 * (c @ c) + 1e-9


def test_the_projection_is_the_nearest_mixture_of_orders():
    rng = np.random.default_rng(5)
    c = np.array([1.0, 0.6, 0.5, 0.1])
    corners = np.array(list(itertools.permutations(c)))
    for z in rng.normal(size=(10, 4)):
        found = project_on_permutahedron(z, c)
        # In the hull: sums of the largest k are no larger than those of c, and the whole is the same.
        largest = np.cumsum(np.sort(found)[::-1])
        assert (largest <= np.cumsum(c) + 1e-12).all()
        assert_allclose(largest[-1], c.sum(), rtol=1e-12, atol=0)
        # Nearest: no corner lies on the far side of it (the variational inequality of a projection).
        assert ((corners - found) @ (z - found) <= 1e-10).all()


def test_lists_that_say_nothing_cost_nothing():
    gradient = np.full(1, np.nan)
    one, ends = frozen(np.zeros(1, np.int32), np.array([0, 1]))
    assert ndcg_bound(ends, np.ones(1), one, np.ones(1), ALL, 1.0, np.ones(1), gradient)[0] == 0
    assert gradient[0] == 0
