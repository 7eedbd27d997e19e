"""Every move leaves the target as it is: by transition matrices, and by chi-square with a control that must fail."""

import itertools
from functools import partial

import numpy as np
import pytest

from laws import p_value
from permrank.families.log_linear.kernels import moves as moves
from permrank.families.log_linear.kernels.arguments import Moves, Pairs, Positions, Schedule, Terms
from permrank.families.log_linear.kernels.energy import (
    energy,
    insert,
    insertion_energies,
    softmax_of_energies,
    swap_energy_delta,
)
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled
from permrank.testing.oracles import log_linear_energy, log_linear_target, random_log_linear

N = 4


def of_one_nat(unary, basis, pair):
    """The model with its energies scaled to a standard deviation of 1: chains then mix, and no ranking is too rare."""
    full = pair if pair.size else np.zeros((N, N))
    spread = np.std([log_linear_energy(order, unary, basis, full) for order in itertools.permutations(range(N))])
    return unary / spread, basis, pair / spread


MODELS = {
    "pairwise": of_one_nat(*random_log_linear(N, 2, 11)),
    "position-wise": of_one_nat(*random_log_linear(N, 2, 12)[:2], np.zeros((0, 0))),
}


def swapped(order, first, second):
    order = list(order)
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def positions_row(order, model, move):
    """Relocations, proposed all alike, and insertions, by their conditional distribution."""
    out = {}
    for source in range(N):
        energies, probabilities = np.empty(N), np.empty(N)
        insertion_energies(np.array(order), source, *model, energies)
        softmax_of_energies(energies, N, probabilities)
        if move == moves.RELOCATION:
            probabilities = np.array([moves.acceptance(value - energies[source]) for value in energies]) / N
        for target in range(N):
            moved = np.array(order)
            insert(moved, source, target)
            out[tuple(moved)] = out.get(tuple(moved), 0) + probabilities[target] / N
        out[order] += (1 - probabilities.sum()) / N
    return out


def swap_row(order, model):
    out = {}
    pairs = list(itertools.combinations(range(N), 2))
    for first, second in pairs:
        accepted = moves.acceptance(swap_energy_delta(np.array(order), first, second, *model)) / len(pairs)
        to = swapped(order, first, second)
        out[to] = out.get(to, 0) + accepted
        out[order] = out.get(order, 0) + 1 / len(pairs) - accepted
    return out


def sublist_row(order, model, width=3):
    """Any order of a sublist is proposed, all alike, and accepted with min(1, e^{-ΔE})."""
    out = {}
    orders = list(itertools.permutations(range(width)))
    part = 1 / (N - width + 1) / len(orders)
    for start in range(N - width + 1):
        inside = model[1][start : start + width]
        old = energy(np.array(order[start : start + width]), model[0], inside, model[2])
        for local in orders:
            to = (*order[:start], *(order[start + i] for i in local), *order[start + width :])
            new = energy(np.array(to[start : start + width]), model[0], inside, model[2])
            accepted = part * moves.acceptance(new - old)
            out[to] = out.get(to, 0) + accepted
            out[order] = out.get(order, 0) + part - accepted
    return out


ROWS = {
    "relocation": partial(positions_row, move=moves.RELOCATION),
    "swap": swap_row,
    "sublist": sublist_row,
    "insertion": partial(positions_row, move=moves.INSERTION),
}


def transition_matrix(row, model, orders):
    place = {order: i for i, order in enumerate(orders)}
    matrix = np.zeros((len(orders), len(orders)))
    for order in orders:
        for to, p in row(order, model).items():
            matrix[place[order], place[to]] += p
    return matrix


def target_of(model):
    unary, basis, pair = model
    return log_linear_target(unary, basis, pair if pair.size else np.zeros((N, N)))


@pytest.mark.parametrize("name", MODELS)
def test_every_move_leaves_the_target_invariant(name):
    model = MODELS[name]
    orders, target, _ = target_of(model)
    assert ROWS.keys() == moves.MOVES.keys()
    for row in ROWS.values():
        matrix = transition_matrix(row, model, orders)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(target @ matrix, target, rtol=0, atol=1e-12)
        assert (np.linalg.matrix_power(matrix, 60) > 0).all()  # and every ranking is reached
    wrong = np.abs(target @ transition_matrix(swap_row, (1.2 * model[0], *model[1:]), orders) - target)
    assert wrong.max() > 1e-4


@pytest.mark.parametrize("move", moves.MOVES)
@pytest.mark.parametrize("name", MODELS)
def test_draws_of_every_move_pass_a_chi_square_test_that_a_control_fails(name, move):
    unary, basis, pair = MODELS[name]
    start = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    terms, schedule = Terms(unary, basis, pair), Schedule(100, 20, 10_000)
    drawn, energies = moves.draw_orders(start, N, moves.MOVES[move], 3, terms, np.uint64(9), schedule)
    orders, target, _ = target_of(MODELS[name])
    assert p_value(drawn.reshape(-1, N), dict(zip(orders, target, strict=True))) > 1e-4
    control = target_of((1.2 * unary, basis, 1.2 * pair))[1]
    assert p_value(drawn.reshape(-1, N), dict(zip(orders, control, strict=True))) < 1e-6
    full = pair if pair.size else np.zeros((N, N))
    np.testing.assert_allclose(energies[1, 7], log_linear_energy(drawn[1, 7], unary, basis, full), rtol=1e-12)


@pytest.mark.parametrize("move", [moves.RELOCATION, moves.INSERTION])
def test_only_free_items_move_and_they_do_so_as_they_should(move):
    unary, basis, pair = MODELS["pairwise"]
    start = np.array([[0, 1, 2, 3]] * 2)
    terms, schedule = Terms(unary, basis, pair), Schedule(100, 20, 10_000)
    drawn, _ = moves.draw_orders(start, 2, move, 3, terms, np.uint64(9), schedule)
    orders, target, _ = target_of(MODELS["pairwise"])
    allowed = {order: p for order, p in zip(orders, target, strict=True) if order.index(2) < order.index(3)}
    assert p_value(drawn.reshape(-1, N), allowed) > 1e-4


def test_chains_of_lists_move_on_by_their_own_streams():
    """Persistent chains of the same list and key agree, whatever else is advanced beside them."""
    indptr, items = np.array([0, 3, 6]), np.array([0, 1, 2, 0, 1, 2], np.int32)
    unary, basis = np.tile(np.array([[0.5], [0.0], [-0.5]]), (2, 1)), np.array([[2 / 3], [0.0], [-2 / 3]])
    positions = Positions(np.zeros(4, np.int64), basis)
    indptr, items, *pairs = frozen(indptr, items, np.zeros(4, np.int64), np.zeros(0, np.int32))
    beside = positions, Pairs(*pairs), np.zeros(0)
    short, few = frozen(indptr[:2], items)
    both, one = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 1, 2])
    for sweep, move in enumerate(4 * list(moves.MOVES.values())):
        one_move = Moves(move, 3, 0)
        moves.advance_chains(indptr, items, both, unary, *beside, one_move, np.uint64(sweep))
        moves.advance_chains(short, few, one, unary, *beside, one_move, np.uint64(sweep))
        np.testing.assert_array_equal(both[:3], one)
        assert sorted(both[3:]) == [0, 1, 2]
