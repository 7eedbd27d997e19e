"""Moves of Markov chains over rankings, §4.1, and better ones. Arrays as in `kernels.log_linear`.

Each move has a pure function that gives its probabilities, from which tests build the transition matrix, and a step
that draws from them. Proposals of relocations, swaps and sublists, the paper's, are symmetric and are accepted with
min(1, e^{-ΔE}); the others are heat baths, or have the acceptance of their own docstring.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.log_linear.kernels.energy import (
    energy,
    insert,
    insertion_energies,
    insertion_energy_delta,
    pair_indices,
    pair_table,
    softmax_of_energies,
    swap_energy_delta,
)
from permrank.families.log_linear.kernels.subsets import _members, exact_draws
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, uniform

RELOCATION, SWAP, WINDOW, INSERTION, INFORMED, SUBLIST = 0, 1, 2, 3, 4, 5
N_MOVES = 6


@njit(error_model="numpy")
def acceptance(energy_delta):
    """min(1, e^{-ΔE})   (§4.1)."""
    return 1.0 if energy_delta <= 0.0 else math.exp(-energy_delta)


@njit(error_model="numpy")
def insertion_probabilities(order, source, unary, basis, pair, energies, probabilities):
    """Heat bath of one item over all n positions, the others keeping their order: P(position), by a single pass."""
    n = order.size
    others = np.empty(n - 1, order.dtype)
    others[:source] = order[:source]
    others[source:] = order[source + 1 :]
    insertion_energies(others, n - 1, order[source], unary, basis, pair, energies)
    softmax_of_energies(energies, n, probabilities)


@njit(error_model="numpy")
def informed_weights(order, position, unary, basis, pair, weights):
    """Weights e^{-ΔE/2} of swapping the item at one position with each other (0 at the position itself), and their sum.

    Locally balanced proposals (Zanella 2020) with the balancing function sqrt: with the same position for the way back,
    a proposal is accepted with min(1, sum here / sum there). O(n) position-wise, O(n²) with pairs.
    """
    total = 0.0
    for m in range(order.size):
        weights[m] = 0.0
        if m != position:
            delta = swap_energy_delta(order, min(m, position), max(m, position), unary, basis, pair)
            weights[m] = math.exp(min(-0.5 * delta, 600.0))
            total += weights[m]
    return total


@njit(error_model="numpy")
def _below(key, counter, n):
    """Uniform on 0..n-1."""
    return min(int(uniform(key, counter) * n), n - 1)


@njit(error_model="numpy")
def _two_positions(key, counter, n):
    """Two different positions, the smaller one first."""
    first, second = _below(key, counter, n), _below(key, counter + 1, n - 1)
    return (second, first) if second < first else (first, second + 1)


@njit(error_model="numpy")
def swap_steps(order, unary, basis, pair, key, n_steps):
    """Metropolis steps that swap two positions each; returns how many were accepted."""
    accepted = 0
    n = order.size
    if n < 2:
        return 0
    for t in range(n_steps):
        first, second = _two_positions(key, 3 * t, n)
        delta = swap_energy_delta(order, first, second, unary, basis, pair)
        if delta <= 0.0 or uniform(key, 3 * t + 2) < math.exp(-delta):
            order[first], order[second] = order[second], order[first]
            accepted += 1
    return accepted


@njit(error_model="numpy")
def _relocation_step(order, unary, basis, pair, key, counter):
    source = _below(key, counter, order.size)
    target = _below(key, counter + 1, order.size)
    if uniform(key, counter + 2) < acceptance(insertion_energy_delta(order, source, target, unary, basis, pair)):
        insert(order, source, target)


@njit(error_model="numpy")
def _draw(probabilities, n, u):
    for j in range(n - 1):
        u -= probabilities[j]
        if u < 0.0:
            return j
    return n - 1


@njit(error_model="numpy")
def insertion_step(order, source, unary, basis, pair, u, energies, probabilities):
    """Put the item at ``source`` to a position drawn from its conditional distribution; always accepted."""
    insertion_probabilities(order, source, unary, basis, pair, energies, probabilities)
    insert(order, source, _draw(probabilities, order.size, u))


@njit(error_model="numpy")
def window_step(order, start, width, unary, basis, pair, key):
    """Draw the order of a sublist from its conditional distribution: the heat bath over width! orders by subsets."""
    members = order[start : start + width].copy()
    local, own = _members(members, unary, pair)
    nothing, beside = np.empty((0, basis.shape[1])), np.empty((width, 0))
    drawn = exact_draws(local, nothing, basis[start : start + width], own, beside, key, np.int64(1))
    for a in range(width):
        order[start + a] = members[drawn[0, a]]


@njit(error_model="numpy")
def sublist_energy(order, start, width, unary, basis, pair):
    """Energy of the items of a sublist at their positions and among themselves, all of E that their order changes."""
    total = 0.0
    for i in range(start, start + width):
        for k in range(basis.shape[1]):
            total -= unary[order[i], k] * basis[i, k]
        if pair.shape[0] > 0:
            for j in range(i + 1, start + width):
                total -= pair[order[i], order[j]]
    return total


@njit(error_model="numpy")
def _sublist_step(order, start, width, unary, basis, pair, key):
    """Propose an order of a sublist, all width! alike, and accept it with min(1, e^{-ΔE})."""
    before = order[start : start + width].copy()
    old = sublist_energy(order, start, width, unary, basis, pair)
    for a in range(width - 1, 0, -1):
        b = _below(key, a, a + 1)
        order[start + a], order[start + b] = order[start + b], order[start + a]
    new = sublist_energy(order, start, width, unary, basis, pair)
    if not uniform(key, 0) < acceptance(new - old):
        for a in range(width):
            order[start + a] = before[a]


@njit(error_model="numpy")
def _informed_step(order, unary, basis, pair, key, counter, here, there):
    n = order.size
    position = _below(key, counter, n)
    total = informed_weights(order, position, unary, basis, pair, here)
    u = uniform(key, counter + 1) * total
    other = -1
    for m in range(n):
        if m != position:
            other = m
            u -= here[m]
            if u < 0.0:
                break
    order[position], order[other] = order[other], order[position]
    back = informed_weights(order, position, unary, basis, pair, there)
    if uniform(key, counter + 2) * back > total:
        order[position], order[other] = order[other], order[position]


@njit(error_model="numpy")
def mixed_steps(order, mixture, width, unary, basis, pair, key, n_steps):
    """Steps of moves drawn by their weights; mixture: (N_MOVES,), cumulative. A list of one item has no moves."""
    n = order.size
    if n < 2:
        return
    energies, probabilities = np.empty(n), np.empty(n)
    width = min(width, n)
    for t in range(n_steps):
        u = uniform(key, 4 * t)
        counter = 4 * t + 1
        if u < mixture[RELOCATION]:
            _relocation_step(order, unary, basis, pair, key, counter)
        elif u < mixture[SWAP]:
            first, second = _two_positions(key, counter, n)
            delta = swap_energy_delta(order, first, second, unary, basis, pair)
            if uniform(key, counter + 2) < acceptance(delta):
                order[first], order[second] = order[second], order[first]
        elif u < mixture[WINDOW]:
            start = _below(key, counter, n - width + 1)
            window_step(order, start, width, unary, basis, pair, derive(key, t))
        elif u < mixture[INSERTION]:
            source = _below(key, counter, n)
            insertion_step(order, source, unary, basis, pair, uniform(key, counter + 1), energies, probabilities)
        elif u < mixture[INFORMED]:
            _informed_step(order, unary, basis, pair, key, counter, energies, probabilities)
        else:
            start = _below(key, counter, n - width + 1)
            _sublist_step(order, start, width, unary, basis, pair, derive(key, t))


@njit(error_model="numpy")
def _free_steps(order, n_free, unary, basis, pair, key, n_steps):
    n = order.size
    energies, probabilities = np.empty(n), np.empty(n)
    for t in range(n_steps):
        item = _below(key, 2 * t, n_free)
        source = 0
        while order[source] != item:
            source += 1
        insertion_step(order, source, unary, basis, pair, uniform(key, 2 * t + 1), energies, probabilities)


@njit(error_model="numpy")
def _one_chain(order, n_free, mixture, terms, key, schedule, orders, energies):
    unary, basis, pair = terms
    for d in range(energies.size):
        n_steps = schedule.burn_in if d == 0 else schedule.thin
        if n_free == order.size:
            mixed_steps(order, mixture.weights, mixture.width, unary, basis, pair, derive(key, d), n_steps)
        else:
            _free_steps(order, n_free, unary, basis, pair, derive(key, d), n_steps)
        orders[d] = order
        energies[d] = energy(order, unary, basis, pair)


@njit(error_model="numpy", parallel=True)
def draw_orders(start, n_free, mixture, terms, key, schedule):
    """Chains side by side: orders (n_chains, size, n), energies (n_chains, size).

    start: (n_chains, n); mixture: `Mixture`; terms: `Terms`; schedule: `Schedule`. Only the items numbered below n_free
    move, the others keep their order among themselves; if that is fewer than all, every step is a heat bath of one item
    over all its positions.
    """
    n_chains, n = start.shape
    orders, energies = np.empty((n_chains, schedule.size, n), np.int64), np.empty((n_chains, schedule.size))
    for c in prange(n_chains):
        _one_chain(start[c].copy(), n_free, mixture, terms, derive(key, c), schedule, orders[c], energies[c])
    return orders, energies


@njit(error_model="numpy")
def _advance(items, order, unary, basis, pairs, pair_values, moves, key):
    n, move = order.size, moves.move
    n_steps = moves.n_steps if moves.n_steps > 0 else n
    size = n if pairs.items.size > 0 else 0
    indices = np.empty((size, size), np.int64)
    pair_indices(items[:size], pairs.indptr, pairs.items, indices)
    pair = pair_table(indices, size, pair_values)
    if move == SWAP:
        swap_steps(order, unary, basis, pair, key, n_steps)
    elif move == INSERTION:
        _free_steps(order, n, unary, basis, pair, key, n_steps)
    else:
        mixture = np.zeros(N_MOVES)
        mixture[move:] = 1.0
        mixed_steps(order, mixture, moves.width, unary, basis, pair, key, n_steps)


@njit(error_model="numpy", parallel=True)
def advance_chains(indptr, items, orders, unary, positions, pairs, pair_values, moves, key):
    """Move the chain of every list on, in place.

    positions: `Positions`; pairs: `Pairs`, with their values; moves: `Moves`. A list r owns the entries
    indptr[r]:indptr[r + 1]: items ascending, unary (n_entries, B) in their order, and orders, which says which of them
    stands at each position.
    """
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        first = positions.start[stop - start]
        _advance(
            items[start:stop], orders[start:stop], unary[start:stop], positions.table[first : first + stop - start],
            pairs, pair_values, moves, derive(key, r),
        )  # fmt: skip
