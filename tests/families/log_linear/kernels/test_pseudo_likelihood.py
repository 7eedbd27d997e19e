"""Likelihoods of lists and their gradients against enumeration and differences."""

import itertools

import numpy as np
import pytest

from permrank.families.log_linear.kernels import pseudo_likelihood as pl
from permrank.families.log_linear.kernels.arguments import Orders, Pairs, Positions
from permrank.families.log_linear.lists import partners_of
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled
from permrank.testing.oracles import log_linear_energy, random_log_linear

N = 5
WIDTH = 3


def direct(structure, order, unary, basis, pair):
    """Log pseudo-likelihood of one list, every local distribution written out."""

    def weight(order):
        return -log_linear_energy(order, unary, basis, pair)

    order, here, total = list(order), weight(order), 0.0
    if structure == pl.BY_RELOCATION:
        for item in order:
            rest = [other for other in order if other != item]
            total += here - np.logaddexp.reduce([weight([*rest[:j], item, *rest[j:]]) for j in range(N)])
    elif structure == pl.BY_SWAPS:
        for i, j in itertools.combinations(range(N), 2):
            other = list(order)
            other[i], other[j] = other[j], other[i]
            total += here - np.logaddexp(here, weight(other))
    else:
        width = N if structure == pl.EXACT else WIDTH
        for start in range(N + 1 - width):
            inside = itertools.permutations(order[start : start + width])
            others = [[*order[:start], *local, *order[start + width :]] for local in inside]
            total += here - np.logaddexp.reduce([weight(other) for other in others])
    return total


ITEMS = np.arange(N, dtype=np.int32)
KEPT = np.triu(np.ones((N, N), bool), 1)
KEPT[1, 3] = False  # a pair without a parameter
INDPTR = np.concatenate(([0], np.cumsum(KEPT.sum(axis=1))))
PARTNERS = np.nonzero(KEPT)[1].astype(np.int32)
STARTS = np.zeros(N + 1, np.int64)
BLOCKS = np.array([0, 0, 1])  # one list, and none in the first block


def orders_of(indptr, items, orders, weights, levels=None):
    """Lists of different users, strict unless there are levels."""
    levels = np.concatenate([np.arange(n, dtype=np.int32) for n in np.diff(indptr)]) if levels is None else levels
    return Orders(*frozen(indptr, items, orders, levels, weights, np.arange(weights.size)))


def evaluate(structure, order, unary, basis, values, weight=1.0, paired=True):
    pairs = (INDPTR, PARTNERS, values) if paired else (np.zeros(N + 1, np.int64), PARTNERS[:0], values[:0])
    of_entries, of_pairs = np.zeros(unary.shape), np.zeros((2, pairs[2].size))
    lists, positions = orders_of(np.array([0, N]), ITEMS, order, np.array([weight])), Positions(STARTS, basis)
    given = Pairs(*frozen(*pairs[:2]))
    width = N if structure == pl.BY_RELOCATION else WIDTH
    value = pl.list_likelihoods(
        BLOCKS, structure, width, lists, unary, positions, given, partners_of(given), pairs[2], of_entries, of_pairs
    )[0]
    return value, of_entries, of_pairs.sum(axis=0)


@pytest.mark.parametrize("structure", [pl.BY_RELOCATION, pl.BY_SWAPS, pl.BY_WINDOWS, pl.EXACT])
@pytest.mark.parametrize("paired", [True, False])
def test_values_are_those_of_enumeration_and_gradients_those_of_differences(structure, paired):
    for seed in range(4):
        unary, basis, pair = random_log_linear(N, 2, seed)
        pair = np.where(KEPT | KEPT.T, pair, 0.0) if paired else np.zeros((N, N))
        values = pair[KEPT]
        order = np.random.default_rng(seed).permutation(N)
        value, of_items, of_pairs = evaluate(structure, order, unary, basis, values, paired=paired)
        np.testing.assert_allclose(value, direct(structure, order, unary, basis, pair), rtol=0, atol=1e-10)
        heavy = evaluate(structure, order, unary, basis, values, 2.5, paired)
        np.testing.assert_allclose(heavy[0], value, rtol=1e-12)
        np.testing.assert_allclose(heavy[1], 2.5 * of_items, rtol=0, atol=1e-12)
        step = 1e-5
        for a, k in itertools.product(range(N), range(2)):
            moved = np.zeros_like(unary)
            moved[a, k] = step
            up = evaluate(structure, order, unary + moved, basis, values, paired=paired)[0]
            down = evaluate(structure, order, unary - moved, basis, values, paired=paired)[0]
            np.testing.assert_allclose(of_items[a, k], (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
        for place in range(of_pairs.size):
            moved = np.zeros_like(values)
            moved[place] = step
            up = evaluate(structure, order, unary, basis, values + moved)[0]
            down = evaluate(structure, order, unary, basis, values - moved)[0]
            np.testing.assert_allclose(of_pairs[place], (up - down) / (2 * step), rtol=1e-6, atol=1e-8)


def test_statistics_are_averaged_over_the_orders_of_ties():
    basis = np.array([[0.8], [0.3], [-0.1], [-0.4], [-0.6]])
    order, levels = np.array([4, 1, 0, 3, 2]), np.array([0, 1, 1, 1, 2], np.int32)
    of_entries, of_pairs = np.zeros((N, 1)), np.zeros((2, PARTNERS.size))
    pairs = Pairs(*frozen(INDPTR, PARTNERS))
    lists = orders_of(np.array([0, N]), ITEMS, order, np.array([2.0]), levels)
    pl.list_statistics(BLOCKS, lists, Positions(STARTS, basis), pairs, of_entries, of_pairs)
    orders = [(4, *tied, 2) for tied in itertools.permutations((1, 0, 3))]
    signs = np.mean([[[np.sign(o.index(b) - o.index(a)) for b in range(N)] for a in range(N)] for o in orders], axis=0)
    np.testing.assert_allclose(
        of_entries[:, 0], [2 * np.mean([basis[o.index(a), 0] for o in orders]) for a in range(N)]
    )
    np.testing.assert_allclose(of_pairs.sum(axis=0), 2 * signs[KEPT], rtol=0, atol=1e-12)


def long_lists(n_lists, n, most, values, unary):
    """Lists of n in the same order, of different items; the same pairs of each have parameters."""
    order = np.random.default_rng(4).permutation(n)
    kept = np.triu(np.ones((n, n), bool), 1)
    row, column = np.nonzero(kept)
    pairs = Pairs(
        *frozen(
            np.concatenate(([0], np.cumsum(np.tile(kept.sum(axis=1), n_lists)))),
            np.concatenate([column + r * n for r in range(n_lists)]).astype(np.int32),
        )
    )
    items = np.arange(n_lists * n, dtype=np.int32)
    lists = orders_of(np.arange(n_lists + 1) * n, items, np.tile(order, n_lists), np.ones(n_lists))
    basis, starts = np.linspace(1.0, -1.0, n)[:, None], np.zeros(n + 1, np.int64)
    of_entries, of_pairs = np.zeros((n_lists * n, 1)), np.zeros((2, pairs.items.size))
    found = pl.list_likelihoods(
        np.array([0, 1, n_lists]), pl.BY_RELOCATION, most, lists, np.tile(unary, (n_lists, 1)),
        Positions(starts, basis), pairs, partners_of(pairs), np.tile(values, n_lists), of_entries, of_pairs,
    )  # fmt: skip
    potentials = np.zeros((n, n))
    potentials[row, column], potentials[column, row] = values, -values
    return found, of_entries, of_pairs.sum(axis=0), (order, basis, potentials)


def all_relocations(unary, order, basis, potentials):
    """The whole sum, from the energies of every item at every position."""
    total = 0.0
    for source, item in enumerate(order):
        others = np.delete(order, source)
        moved = (unary[item, 0] - unary[others, 0]) * -np.diff(basis[:, 0]) + 2.0 * potentials[item, others]
        weights = np.concatenate(([0.0], -np.cumsum(moved)))
        total += weights[source] - np.logaddexp.reduce(weights)
    return total


def test_some_relocations_of_a_long_list_count_for_all():
    n, n_lists, most = 47, 60, 32
    rng = np.random.default_rng(5)
    unary, values = rng.normal(size=(n, 1)), 0.1 * rng.normal(size=n * (n - 1) // 2)
    found, of_entries, of_pairs, rest = long_lists(n_lists, n, most, values, unary)
    wanted = all_relocations(unary, *rest)
    np.testing.assert_allclose(long_lists(n_lists, n, n, values, unary)[0], wanted, rtol=1e-9)
    assert found.std() > 0.001 * abs(wanted)  # not the same positions of every list
    np.testing.assert_allclose(found.mean(), wanted, rtol=0, atol=4.0 * found.std() / np.sqrt(n_lists))
    step = 1e-4
    up, down = (long_lists(n_lists, n, most, values, unary + sign * step * np.eye(n)[:, :1])[0] for sign in (1, -1))
    np.testing.assert_allclose(of_entries[::n, 0], (up - down) / (2 * step), rtol=1e-5, atol=1e-7)
    moved = step * (np.arange(values.size) == 3)
    up, down = (long_lists(n_lists, n, most, values + sign * moved, unary)[0] for sign in (1, -1))
    np.testing.assert_allclose(of_pairs[3 :: values.size], (up - down) / (2 * step), rtol=1e-5, atol=1e-7)
