"""Least-squares factors: loss and solutions against dense algebra, descent, weights, the contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from graded import random_entries
from permrank.families.catalogue.kernels.products import add_products, gram_matrix
from permrank.families.catalogue.least_squares import Factors, FactorScores, Sweeps, Weighting
from permrank.testing import ModelContract

WEIGHTING = Weighting(0.2, 0.05)


class TestImplicitFactorsContract(ModelContract):
    supports = frozenset({"similar_items"})

    def make(self, **parameters):
        return pr.ImplicitFactors(**{"n_factors": 3, "missing_weight": 0.3, "penalty": 0.05} | parameters)


def dense_loss(targets, users, items, weights):
    """The loss as it is defined, over all pairs."""
    omega, penalty = WEIGHTING
    listed = targets > 0
    scores = users @ items.T
    errors = np.where(listed, (targets - scores) ** 2, omega * scores**2)
    of_users = listed.sum(axis=1) + omega * targets.shape[1]
    of_items = (weights[:, None] * np.ones_like(targets)).sum(axis=0) * omega + listed.sum(axis=0)
    ridge = (weights * of_users) @ (users**2).sum(axis=1) + of_items @ (items**2).sum(axis=1)
    return (weights[:, None] * errors).sum() + penalty * ridge


def made(seed, weights=None):
    entries, dense = random_entries(seed)
    weights = np.ones(30) if weights is None else weights
    return Sweeps(entries, 9, weights, 4, WEIGHTING, seed), entries, dense, weights


def test_the_loss_is_the_sum_over_all_pairs():
    sweeps, _, dense, weights = made(1)
    sweeps.sweep()
    wanted = dense_loss(dense, sweeps.users.astype(float), sweeps.items.astype(float), weights)
    assert_allclose(sweeps.loss(), wanted, rtol=1e-5, atol=0)


def test_no_sweep_raises_the_loss_and_it_ends_where_both_sides_are_solved():
    sweeps, entries, dense, _ = made(2)
    values = [sweeps.sweep() for _ in range(300)]
    assert (np.diff(values) > -1e-5 * abs(values[-1])).all()
    # A fixed point: every row solves its own weighted ridge regression given the other side.
    omega, penalty = WEIGHTING
    items, users = sweeps.items.astype(np.float64), sweeps.users.astype(np.float64)
    for own, others, targets in ((users, items, dense), (items, users, dense.T)):
        for row, target in zip(own, targets, strict=True):
            listed = target > 0
            confidence = np.where(listed, 1.0, omega)
            ridge = penalty * (listed.sum() + omega * target.size)
            matrix = others.T @ (confidence[:, None] * others) + ridge * np.eye(4)
            assert_allclose(row, np.linalg.solve(matrix, others.T @ target), rtol=0, atol=3e-3)
    # And the same by the exact solution that answers use.
    exact = FactorScores(Factors(sweeps.items, WEIGHTING)).users(entries)
    assert_allclose(exact, users, rtol=0, atol=3e-3)


def test_users_are_solved_exactly():
    entries, dense = random_entries(3)
    factors = np.random.default_rng(4).normal(size=(9, 4)).astype(np.float32)
    scores = FactorScores(Factors(factors, WEIGHTING))
    omega, penalty = WEIGHTING
    for row, target in zip(scores.users(entries), dense, strict=True):
        listed = target > 0
        confidence = np.where(listed, 1.0, omega)
        matrix = factors.T.astype(float) @ (confidence[:, None] * factors)
        matrix += penalty * (listed.sum() + omega * 9) * np.eye(4)
        wanted = np.linalg.solve(matrix, factors.T.astype(float) @ target) if listed.any() else np.zeros(4)
        assert_allclose(row, wanted, rtol=1e-5, atol=1e-6)
    assert_allclose(scores.rows(entries), scores.users(entries) @ factors.T, rtol=1e-4, atol=1e-5)


def test_a_weight_counts_as_so_many_people_in_the_loss():
    weights = np.random.default_rng(5).integers(1, 4, 30).astype(float)
    sweeps, _, dense, _ = made(6, weights)
    sweeps.sweep()
    users, items = sweeps.users.astype(float), sweeps.items.astype(float)
    repeated = np.repeat(np.arange(30), weights.astype(int))
    listed = dense[repeated] > 0
    omega, penalty = WEIGHTING
    scores = users[repeated] @ items.T
    errors = np.where(listed, (dense[repeated] - scores) ** 2, omega * scores**2).sum()
    of_users = listed.sum(axis=1) + omega * 9
    of_items = (dense > 0).sum(axis=0) + omega * weights.sum()
    ridge = of_users @ (users[repeated] ** 2).sum(axis=1) + of_items @ (items**2).sum(axis=1)
    assert_allclose(sweeps.loss(), errors + penalty * ridge, rtol=1e-5, atol=0)


def test_a_gram_matrix_is_the_product():
    for n, size in ((500, 6), (3, 9), (40_000, 5)):
        rows = np.random.default_rng(7).normal(size=(n, size)).astype(np.float32)
        rows.flags.writeable = False
        wanted = rows.T.astype(float) @ rows.astype(float)
        assert_allclose(gram_matrix(rows), wanted, rtol=0, atol=2e-6 * n**0.5 * np.abs(wanted).max() ** 0.5)


@pytest.mark.parametrize(("m", "n", "size"), [(1, 1, 1), (4, 2, 16), (7, 5, 33), (18, 67, 20)])
def test_products_in_tiles_are_added(m, n, size):
    rng = np.random.default_rng(9)
    left, right, out = (rng.normal(size=shape).astype(np.float32) for shape in ((m, size), (n, size), (m, n)))
    wanted = out + 0.5 * left @ right.T
    add_products(left, right, np.float32(0.5), out)
    assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("missing_weight", ["auto", 0.2])
def test_planted_taste_is_found(missing_weight):
    rng = np.random.default_rng(8)
    lists = {user: (rng.permutation(15) + 15 * (user % 3))[:7].tolist() for user in range(150)}
    model = pr.ImplicitFactors(8, missing_weight=missing_weight).fit(pr.Rankings.from_lists(lists))
    found = model.recommend(list(range(60)), k=8)
    own = found["item"].to_numpy() // 15 == found["user"].to_numpy() % 3
    assert own.mean() > 0.9  # a third by chance
    new = model.recommend(model.fold_in([15, 16, 17]), k=8)["item"].to_numpy()
    assert (new // 15 == 1).mean() > 0.7
