"""Energies and their changes against full recomputation; pairs against dense counts; insertion by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permrank.families.log_linear import lists as ll_lists
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.kernels import energy as ll
from permrank.families.log_linear.kernels.arguments import Pairs
from permrank.families.log_linear.kernels.insertion import position_energies
from permrank.families.log_linear.lists import MOST_PARTNERS, pairs_of, weights_of_pairs
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled
from permrank.testing.oracles import log_linear_energy, random_log_linear

NOTHING = np.zeros((0, 0))


@given(st.integers(2, 9), st.integers(1, 3), st.booleans(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_changes_of_energy_are_those_of_full_recomputation(n, n_functions, paired, seed):
    unary, basis, pair = random_log_linear(n, n_functions, seed)
    full = pair if paired else np.zeros((n, n))
    table = pair if paired else NOTHING
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    before = log_linear_energy(order, unary, basis, full)
    np.testing.assert_allclose(ll.energy(order, unary, basis, table), before, rtol=1e-12, atol=1e-12)
    first, second = sorted(rng.choice(n, 2, replace=False))
    swapped = order.copy()
    swapped[[first, second]] = swapped[[second, first]]
    found = ll.swap_energy_delta(order, first, second, unary, basis, table)
    np.testing.assert_allclose(found, log_linear_energy(swapped, unary, basis, full) - before, rtol=0, atol=1e-10)
    energies = np.empty(n)
    ll.insertion_energies(order, first, unary, basis, table, energies)
    for target in range(n):
        moved = order.copy()
        ll.insert(moved, first, target)
        found = energies[target] - energies[first]
        np.testing.assert_allclose(found, log_linear_energy(moved, unary, basis, full) - before, rtol=0, atol=1e-10)
        ll.insert(moved, target, first)
        np.testing.assert_array_equal(moved, order)


def dense_pairs(items, n_items):
    """Every pair a < b of the items, with random λ."""
    table = np.triu(np.random.default_rng(5).normal(size=(n_items, n_items)), 1)
    kept = np.zeros((n_items, n_items), bool)
    kept[np.ix_(items, items)] = True
    kept = np.triu(kept, 1) & (np.random.default_rng(6).random((n_items, n_items)) < 0.7)
    indptr = np.concatenate(([0], np.cumsum(kept.sum(axis=1))))
    partners = np.nonzero(kept)[1].astype(np.int32)
    return *frozen(indptr, partners, table[kept]), np.where(kept, table, 0.0) - np.where(kept, table, 0.0).T


def test_stored_pairs_come_back_with_their_signs():
    items = np.array([2, 3, 7, 8, 11], np.int32)
    indptr, partners, values, dense = dense_pairs(items, 13)
    shuffled = items[[3, 0, 4, 2, 1]]
    estimate = LogLinearEstimate(np.zeros((1, 13, 1)), np.zeros((1, 1, 0)), indptr, partners, values, 1.0)
    np.testing.assert_array_equal(estimate.potentials(shuffled), dense[np.ix_(shuffled, shuffled)])
    indices = ll.pair_indices(*frozen(items), Pairs(indptr, partners))
    np.testing.assert_array_equal(ll.pair_table(indices, values.copy()), dense[np.ix_(items, items)])
    without = replace(estimate, pair_indptr=np.zeros(14, np.int64), pair_items=partners[:0], pair_values=values[:0])
    assert without.potentials(shuffled).size == 0


@pytest.mark.parametrize("least", [1.0, 3.0, 5.0])
def test_pairs_are_those_of_the_dense_count(least):
    import permrank as pr

    rng = np.random.default_rng(1)
    lists = [rng.permutation(9)[: rng.integers(1, 6)].tolist() for _ in range(40)]
    rankings = pr.Rankings.from_lists(lists, users=range(40))
    dense = np.zeros((9, 9))
    for items in lists:
        dense[np.ix_(items, items)] += 1
    pairs = pairs_of(rankings, least)
    found = [(a, int(b)) for a in range(9) for b in pairs.items[pairs.indptr[a] : pairs.indptr[a + 1]]]
    wanted = [(a, b) for a in range(9) for b in range(a + 1, 9) if dense[a, b] >= least]
    assert found == wanted
    np.testing.assert_array_equal(weights_of_pairs(rankings, pairs), [dense[pair] for pair in wanted])


def test_pairs_are_no_more_than_entries(monkeypatch):
    import permrank as pr

    rng = np.random.default_rng(1)
    rankings = pr.Rankings.from_lists([rng.permutation(40)[:12].tolist() for _ in range(60)], users=range(60))
    assert ll_lists.usual_cooccurrence(rankings) == 5
    monkeypatch.setattr(ll_lists, "_FEWEST_PAIRS", 1)
    monkeypatch.setattr(ll_lists, "_MOST_PAIRS", 200)  # less than there are entries
    least = ll_lists.usual_cooccurrence(rankings)
    assert least > 5
    assert pairs_of(rankings, least).items.size <= 200 < pairs_of(rankings, least - 1).items.size


def test_long_lists_are_counted_by_a_part_of_their_items():
    import permrank as pr

    n = MOST_PARTNERS + 76
    rankings = pr.Rankings.from_lists([list(range(n)), list(range(n - 1, -1, -1))], users=["a", "b"])
    pairs = pairs_of(rankings, 0.5)
    weights = weights_of_pairs(rankings, pairs)
    np.testing.assert_allclose(weights.sum(), n * (n - 1), rtol=0.01)


def test_places_in_a_list_with_ties_are_the_mean_over_their_orders():
    items, levels = frozen(np.array([7, 2, 11, 3], np.int32), np.array([0, 1, 1, 2], np.int32))
    indptr, partners, values, dense = dense_pairs(np.sort(np.append(items, 8)), 13)
    coefficients = np.random.default_rng(2).normal(size=(13, 2))
    basis = np.random.default_rng(3).normal(size=(5, 2))
    energies = np.empty(5)
    args = (8, coefficients[8], items, levels, coefficients[items], basis, Pairs(indptr, partners), values, energies)
    assert position_energies(*args) == 5

    def at(order, place):
        full = np.insert(order, place, 8)
        return log_linear_energy(full, coefficients, basis, dense)

    orders = [items, items[[0, 2, 1, 3]]]
    for place in range(5):
        wanted = np.mean([at(order, place) - at(order, 0) for order in orders])
        np.testing.assert_allclose(energies[place], wanted, rtol=0, atol=1e-10)


def test_an_item_that_is_on_the_list_is_taken_from_it_first():
    items, strict = frozen(np.array([7, 2, 8, 3], np.int32), np.arange(4, dtype=np.int32))
    indptr, partners, values, _ = dense_pairs(np.sort(items), 13)
    coefficients, basis = np.random.default_rng(2).normal(size=(13, 1)), np.array([[0.75], [0.25], [-0.25], [-0.75]])
    (rest,) = frozen(items[[0, 1, 3]])
    with_it, without = np.empty(5), np.empty(5)
    tail = (basis, Pairs(indptr, partners), values)
    n = position_energies(8, coefficients[8], items, strict, coefficients[items], *tail, with_it)
    assert n == position_energies(8, coefficients[8], rest, strict[:3], coefficients[rest], *tail, without) == 4
    np.testing.assert_allclose(with_it[:4], without[:4], rtol=0, atol=1e-12)
