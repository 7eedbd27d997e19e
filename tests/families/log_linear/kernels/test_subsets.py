"""Sums over subsets against enumeration of all rankings."""

import numpy as np
import pytest

from laws import p_value
from permrank.families.log_linear.kernels.subsets import exact_draws, exact_expectations, prefix_sums
from permrank.testing.oracles import log_linear_target, random_log_linear


def split_model(n, n_free, seed):
    unary, basis, pair = random_log_linear(n, 2, seed)
    free = unary[:n_free], unary[n_free:], basis
    return (unary, basis, pair), (*free, pair[:n_free, :n_free].copy(), pair[:n_free, n_free:].copy())


def allowed(model, n_free):
    """Rankings in which the items from n_free on keep their order, with their conditional probabilities."""
    orders, target, log_z = log_linear_target(*model)
    n = len(orders[0])
    kept = [i for i, order in enumerate(orders) if [a for a in order if a >= n_free] == list(range(n_free, n))]
    share = target[kept].sum()
    fixed = sum(model[2][a, b] for a in range(n_free, n) for b in range(a + 1, n))
    return [orders[i] for i in kept], target[kept] / share, log_z + np.log(share) - fixed


@pytest.mark.parametrize(("n", "n_free"), [(1, 1), (2, 2), (5, 5), (8, 8), (5, 1), (5, 2), (6, 3), (3, 0)])
def test_normaliser_and_marginals_are_those_of_enumeration(n, n_free):
    model, arrays = split_model(n, n_free, n)
    orders, target, log_z = allowed(model, n_free)
    before, ranks = np.empty((n_free, n_free)), np.empty((n_free, n_free))
    places = np.empty((n_free, n - n_free + 1))
    found = exact_expectations(*arrays, before, ranks, places)
    np.testing.assert_allclose(found, log_z, rtol=0, atol=1e-10)
    np.testing.assert_allclose(prefix_sums(*arrays)[-1, -1], log_z, rtol=0, atol=1e-10)
    wanted = np.zeros_like(before), np.zeros_like(ranks), np.zeros_like(places)
    for order, p in zip(orders, target, strict=True):
        chosen = [a for a in order if a < n_free]
        for rank, a in enumerate(chosen):
            wanted[1][a, rank] += p
            wanted[2][a, sum(z >= n_free for z in order[: order.index(a)])] += p
            for b in chosen[rank + 1 :]:
                wanted[0][a, b] += p
    for got, want in zip((before, ranks, places), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_free", [4, 2])
def test_exact_draws_pass_a_chi_square_test_that_a_control_fails(n_free):
    model, arrays = split_model(4, n_free, 3)
    drawn = exact_draws(*arrays, np.uint64(5), 20_000)
    for scale, passes in ((1.0, True), (1.2, False)):
        orders, target, _ = allowed((scale * model[0], model[1], scale * model[2]), n_free)
        p = p_value(drawn, dict(zip(orders, target, strict=True)))
        assert p > 1e-4 if passes else p < 1e-6


def test_strong_potentials_neither_overflow_nor_underflow():
    _, (free, context, basis, pair, beside) = split_model(6, 6, 1)
    args = 1e3 * free, context, basis, 1e3 * pair, beside
    before, ranks, places = np.empty((6, 6)), np.empty((6, 6)), np.empty((6, 1))
    assert np.isfinite(exact_expectations(*args, before, ranks, places))
    np.testing.assert_allclose(ranks.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert sorted(exact_draws(*args, np.uint64(1), 1)[0]) == list(range(6))
