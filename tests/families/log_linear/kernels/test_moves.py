"""Every move leaves the target as it is: by transition matrices, and by chi-square with a control that must fail."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from permrank.families.log_linear.kernels import moves as moves
from permrank.families.log_linear.kernels.arguments import Mixture, Moves, Pairs, Positions, Schedule, Terms
from permrank.families.log_linear.kernels.energy import insert, insertion_energy_delta, swap_energy_delta
from permrank.families.log_linear.kernels.subsets import exact_expectations
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


def relocation_row(order, model):
    out = {}
    for source, target in itertools.product(range(N), repeat=2):
        delta = insertion_energy_delta(np.array(order), source, target, *model)
        accepted = moves.acceptance(delta) / N**2
        moved = np.array(order)
        insert(moved, source, target)
        out[tuple(moved)] = out.get(tuple(moved), 0) + accepted
        out[order] = out.get(order, 0) + 1 / N**2 - accepted
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


def window_row(order, model, width=3):
    """Heat bath over the orders of each sublist, their probabilities from sums over subsets."""
    unary, basis, pair = model
    out = {}
    for start in range(N - width + 1):
        members = list(order[start : start + width])
        table = pair[np.ix_(members, members)] if pair.size else np.zeros((width, width))
        args = unary[members], np.empty((0, unary.shape[1])), basis[start : start + width].copy(), table
        scratch = np.empty((width, width)), np.empty((width, width)), np.empty((width, 1))
        log_z = exact_expectations(*args, np.empty((width, 0)), *scratch)
        for local in itertools.permutations(range(width)):
            to = (*order[:start], *(members[i] for i in local), *order[start + width :])
            p = np.exp(-log_linear_energy(local, args[0], args[2], table) - log_z)
            out[to] = out.get(to, 0) + p / (N - width + 1)
    return out


def insertion_row(order, model):
    out = {}
    for source in range(N):
        probabilities = np.empty(N)
        moves.insertion_probabilities(np.array(order), source, *model, np.empty(N), probabilities)
        for target in range(N):
            moved = np.array(order)
            insert(moved, source, target)
            out[tuple(moved)] = out.get(tuple(moved), 0) + probabilities[target] / N
    return out


def informed_row(order, model):
    out = {order: 0.0}
    for place in range(N):
        here, there = np.empty(N), np.empty(N)
        total = moves.informed_weights(np.array(order), place, *model, here)
        for other in range(N):
            if other != place:
                to = swapped(order, place, other)
                back = moves.informed_weights(np.array(to), place, *model, there)
                p = here[other] / total / N
                accepted = min(1.0, total / back)
                out[to] = out.get(to, 0) + p * accepted
                out[order] += p * (1 - accepted)
    return out


def sublist_row(order, model, width=3):
    """Any order of a sublist is proposed, all alike, and accepted with min(1, e^{-ΔE})."""
    out = {}
    orders = list(itertools.permutations(range(width)))
    part = 1 / (N - width + 1) / len(orders)
    for start in range(N - width + 1):
        old = moves.sublist_energy(np.array(order), start, width, *model)
        for local in orders:
            to = (*order[:start], *(order[start + i] for i in local), *order[start + width :])
            accepted = part * moves.acceptance(moves.sublist_energy(np.array(to), start, width, *model) - old)
            out[to] = out.get(to, 0) + accepted
            out[order] = out.get(order, 0) + part - accepted
    return out


ROWS = {
    moves.RELOCATION: relocation_row,
    moves.SWAP: swap_row,
    moves.WINDOW: window_row,
    moves.INSERTION: insertion_row,
    moves.INFORMED: informed_row,
    moves.SUBLIST: sublist_row,
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
def test_every_move_alone_and_mixed_leaves_the_target_invariant(name):
    model = MODELS[name]
    orders, target, _ = target_of(model)
    matrices = [transition_matrix(ROWS[move], model, orders) for move in range(moves.N_MOVES)]
    weights = np.array([0.3, 0.2, 0.1, 0.2, 0.1, 0.1])
    for matrix in [*matrices, np.tensordot(weights, matrices, axes=1)]:
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(target @ matrix, target, rtol=0, atol=1e-12)
        assert (np.linalg.matrix_power(matrix, 60) > 0).all()  # and every ranking is reached
    wrong = np.abs(target @ transition_matrix(swap_row, (1.2 * model[0], *model[1:]), orders) - target)
    assert wrong.max() > 1e-4


def chi_square_p(orders, target, drawn):
    place = {order: i for i, order in enumerate(orders)}
    counts = np.bincount([place[tuple(row)] for row in drawn.tolist()], minlength=len(orders))
    expected = target * len(drawn)
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), len(orders) - 1))


@pytest.mark.parametrize("move", [*range(moves.N_MOVES), "mixed"])
@pytest.mark.parametrize("name", MODELS)
def test_draws_of_every_move_pass_a_chi_square_test_that_a_control_fails(name, move):
    unary, basis, pair = MODELS[name]
    mixture = np.cumsum([1 / 6] * 6 if move == "mixed" else np.eye(moves.N_MOVES)[move])
    start = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    terms, schedule = Terms(unary, basis, pair), Schedule(100, 20, 10_000)
    drawn, energies = moves.draw_orders(start, N, Mixture(mixture, 3), terms, np.uint64(9), schedule)
    orders, target, _ = target_of(MODELS[name])
    assert chi_square_p(orders, target, drawn.reshape(-1, N)) > 1e-4
    control = target_of((1.2 * unary, basis, 1.2 * pair))[1]
    assert chi_square_p(orders, control, drawn.reshape(-1, N)) < 1e-6
    full = pair if pair.size else np.zeros((N, N))
    np.testing.assert_allclose(energies[1, 7], log_linear_energy(drawn[1, 7], unary, basis, full), rtol=1e-12)


def test_only_free_items_move_and_they_do_so_as_they_should():
    unary, basis, pair = MODELS["pairwise"]
    start, mixture = np.array([[0, 1, 2, 3]] * 2), np.cumsum(np.eye(moves.N_MOVES)[moves.INSERTION])
    terms, schedule = Terms(unary, basis, pair), Schedule(100, 20, 10_000)
    drawn, _ = moves.draw_orders(start, 2, Mixture(mixture, 3), terms, np.uint64(9), schedule)
    orders, target, _ = target_of(MODELS["pairwise"])
    kept = [i for i, order in enumerate(orders) if order.index(2) < order.index(3)]
    allowed = [orders[i] for i in kept]
    assert chi_square_p(allowed, target[kept] / target[kept].sum(), drawn.reshape(-1, N)) > 1e-4


def test_chains_of_lists_move_on_by_their_own_streams():
    """Persistent chains of the same list and key agree, whatever else is advanced beside them."""
    indptr, items = np.array([0, 3, 6]), np.array([0, 1, 2, 0, 1, 2], np.int32)
    unary, basis = np.tile(np.array([[0.5], [0.0], [-0.5]]), (2, 1)), np.array([[2 / 3], [0.0], [-2 / 3]])
    positions = Positions(np.zeros(4, np.int64), basis)
    indptr, items, *pairs = frozen(indptr, items, np.zeros(4, np.int64), np.zeros(0, np.int32))
    beside = positions, Pairs(*pairs), np.zeros(0)
    short, few = frozen(indptr[:2], items)
    both, one = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 1, 2])
    for sweep in range(4 * moves.N_MOVES):
        one_move = Moves(sweep % moves.N_MOVES, 3, 0)
        moves.advance_chains(indptr, items, both, unary, *beside, one_move, np.uint64(sweep))
        moves.advance_chains(short, few, one, unary, *beside, one_move, np.uint64(sweep))
        np.testing.assert_array_equal(both[:3], one)
        assert sorted(both[3:]) == [0, 1, 2]
