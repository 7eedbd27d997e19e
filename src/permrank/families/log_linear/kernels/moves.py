"""Moves of Markov chains over rankings, §4.1, and heat baths. Arrays as in energy.py.

Proposals of relocations, swaps and sublists, the paper's, are symmetric and are accepted with min(1, e^{-ΔE}). An
insertion is a relocation whose position is drawn from its conditional distribution: always accepted.

At the end annealed importance sampling (Neal 2001) of the normaliser, forwards and backwards. The path goes from a
Plackett-Luce distribution q, whose normaliser is known, to the model: log f_β = (1 - β) log q - β E. With equal worths
q is uniform. Every step is a heat bath of one item over all its positions (a single pass for both parts). Forward runs
start from exact draws of q and underestimate log Z on average, reverse runs start from draws of the model and
overestimate it: the two bracket it (Grosse, Ghahramani, Adams 2015).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.log_linear.kernels.energy import (
    draw_state,
    energy,
    insert,
    insertion_energies,
    pair_indices,
    pair_table,
    softmax_of_energies,
    swap_energy_delta,
)
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, gumbel, uniform

RELOCATION, SWAP, SUBLIST, INSERTION = 0, 1, 2, 3
MOVES = {"relocation": RELOCATION, "swap": SWAP, "sublist": SUBLIST, "insertion": INSERTION}


@njit(error_model="numpy")
def acceptance(energy_delta):
    """min(1, e^{-ΔE})   (§4.1)."""
    return 1.0 if energy_delta <= 0.0 else math.exp(-energy_delta)


@njit(error_model="numpy")
def _below(key, counter, n):
    """Uniform on 0..n-1."""
    return min(int(uniform(key, counter) * n), n - 1)


@njit(error_model="numpy")
def _swap_steps(order, unary, basis, pair, key, n_steps):
    """Propose to swap two positions each."""
    n = order.size
    for t in range(n_steps):
        first, second = _below(key, 3 * t, n), _below(key, 3 * t + 1, n - 1)
        first, second = (second, first) if second < first else (first, second + 1)
        delta = swap_energy_delta(order, first, second, unary, basis, pair)
        if delta <= 0.0 or uniform(key, 3 * t + 2) < math.exp(-delta):
            order[first], order[second] = order[second], order[first]


@njit(error_model="numpy")
def _sublist_step(order, width, unary, basis, pair, key):
    """Propose an order of a sublist, all width! alike."""
    start = _below(key, width, order.size - width + 1)
    part, basis = order[start : start + width], basis[start : start + width]
    before, old = part.copy(), energy(part, unary, basis, pair)
    for a in range(width - 1, 0, -1):
        b = _below(key, a, a + 1)
        part[a], part[b] = part[b], part[a]
    if not uniform(key, 0) < acceptance(energy(part, unary, basis, pair) - old):
        part[:] = before


@njit(error_model="numpy")
def steps(order, n_free, move, width, unary, basis, pair, key, n_steps):
    """Moves of one chain, in place.

    Only the items numbered below n_free move, the others keep their order among themselves; if that is fewer than all,
    by relocations or insertions.
    """
    n = order.size
    if n < 2:
        return
    if move == SWAP:
        _swap_steps(order, unary, basis, pair, key, n_steps)
        return
    energies, probabilities = np.empty(n), np.empty(n)
    for t in range(n_steps):
        if move == SUBLIST:
            _sublist_step(order, min(width, n), unary, basis, pair, derive(key, t))
            continue
        source = _below(key, 3 * t, n_free)
        if n_free < n:
            item, source = source, 0
            while order[source] != item:
                source += 1
        insertion_energies(order, source, unary, basis, pair, energies)
        if move == INSERTION:
            softmax_of_energies(energies, n, probabilities)
            insert(order, source, draw_state(probabilities, n, uniform(key, 3 * t + 1)))
        else:
            target = _below(key, 3 * t + 1, n)
            if uniform(key, 3 * t + 2) < acceptance(energies[target] - energies[source]):
                insert(order, source, target)


@njit(error_model="numpy", parallel=True)
def draw_orders(start, n_free, move, width, terms, key, schedule):
    """Chains side by side, as `steps`: orders (n_chains, size, n), energies (n_chains, size).

    start: (n_chains, n); terms: `Terms`; schedule: `Schedule`.
    """
    n_chains, n = start.shape
    unary, basis, pair = terms
    orders, energies = np.empty((n_chains, schedule.size, n), np.int64), np.empty((n_chains, schedule.size))
    for c in prange(n_chains):
        order, own = start[c].copy(), derive(key, c)
        for d in range(schedule.size):
            n_steps = schedule.burn_in if d == 0 else schedule.thin
            steps(order, n_free, move, width, unary, basis, pair, derive(own, d), n_steps)
            orders[c, d] = order
            energies[c, d] = energy(order, unary, basis, pair)
    return orders, energies


@njit(error_model="numpy", parallel=True)
def advance_chains(indptr, items, orders, unary, positions, pairs, pair_values, moves, key):
    """Move the chain of every list on, in place.

    positions: `Positions`; pairs: `Pairs`, with their values; moves: `Moves`. A list r owns the entries
    indptr[r]:indptr[r + 1]: items ascending, unary (n_entries, B) in their order, and orders, which says which of them
    stands at each position.
    """
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        n, first = stop - start, positions.start[stop - start]
        pair = pair_table(pair_indices(items[start:stop], pairs), pair_values)
        n_steps = moves.n_steps if moves.n_steps > 0 else n
        steps(
            orders[start:stop], n, moves.move, moves.width, unary[start:stop], positions.table[first : first + n], pair,
            derive(key, r), n_steps,
        )  # fmt: skip


@njit(error_model="numpy")
def luce_log_probability(order, worths):
    """Plackett-Luce: Σ_i log(w_i / Σ_{j >= i} w_j)   (§3, eq. 1)."""
    tail, value = 0.0, 0.0
    for i in range(order.size - 1, -1, -1):
        tail += worths[order[i]]
        value += math.log(worths[order[i]] / tail)
    return value


@njit(error_model="numpy")
def luce_insertion_energies(order, source, worths, tail, out):
    """-log q of the item at ``source`` at each position, relative to the first, the others in their order: one pass.

    Before it passes an item the stage after it chooses from that and all later ones, afterwards from itself and these.
    """
    n, item = order.size, order[source]
    tail[n - 1] = 0.0
    for j in range(n - 2, -1, -1):
        tail[j] = tail[j + 1] + worths[order[j] if j < source else order[j + 1]]
    out[0] = 0.0
    for j in range(n - 1):
        out[j + 1] = out[j] - math.log(tail[j] / (worths[item] + tail[j + 1]))


@njit(error_model="numpy")
def _tempered_heat_bath(order, beta, n_steps, unary, basis, pair, worths, key):
    n = order.size
    tail, of_model, of_luce, p = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for t in range(n_steps):
        source = min(int(uniform(key, 2 * t) * n), n - 1)
        insertion_energies(order, source, unary, basis, pair, of_model)
        luce_insertion_energies(order, source, worths, tail, of_luce)
        for j in range(n):
            of_model[j] = beta * of_model[j] + (1.0 - beta) * of_luce[j]
        softmax_of_energies(of_model, n, p)
        insert(order, source, draw_state(p, n, uniform(key, 2 * t + 1)))


@njit(error_model="numpy")
def _annealed(order, forward, n_levels, n_steps, unary, basis, pair, worths, key):
    """Sum of -E - log q on the way from q to the model, or back: the log-weight of a run."""
    total = 0.0
    for t in range(n_levels):
        level = t if forward else n_levels - t
        _tempered_heat_bath(order, level / n_levels, n_steps, unary, basis, pair, worths, derive(key, level))
        total -= (energy(order, unary, basis, pair) + luce_log_probability(order, worths)) / n_levels
    return total


@njit(error_model="numpy", parallel=True)
def annealed_log_weights(starts, n_runs, n_levels, n_steps, unary, basis, pair, worths, key):
    """Log-weights of forward runs (n_runs,), then of reverse runs from ``starts`` (n_starts, n), draws of the model.

    log Z is near log mean e^w of the first and -log mean e^-w of the second.
    """
    n, out = worths.size, np.empty(n_runs + starts.shape[0])
    for r in prange(out.size):
        own, forward = derive(key, r), r < n_runs
        if forward:
            races = np.empty(n)
            for a in range(n):
                races[a] = -math.log(worths[a]) - gumbel(own, a)
            order = np.argsort(races)
        else:
            order = starts[r - n_runs].copy()
        out[r] = _annealed(order, forward, n_levels, n_steps, unary, basis, pair, worths, own)
    return out
