"""Annealed importance sampling (Neal 2001) of the normaliser of a log-linear model, forwards and backwards.

The path goes from a Plackett-Luce distribution q, whose normaliser is known, to the model:
log f_β = (1 - β) log q - β E. With equal worths q is uniform. Every step is a heat bath of one item over all its
positions (a single pass for both parts). Forward runs start from exact draws of q and underestimate log Z on average,
reverse runs start from draws of the model and overestimate it: the two bracket it (Grosse, Ghahramani, Adams 2015).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.log_linear.kernels.energy import (
    draw_state,
    energy,
    insert,
    insertion_energies,
    softmax_of_energies,
)
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, gumbel, uniform


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
def _heat_bath(order, beta, n_steps, unary, basis, pair, worths, key):
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
def _run(order, forward, n_levels, n_steps, unary, basis, pair, worths, key):
    """Sum of -E - log q on the way from q to the model, or back: the log-weight of a run."""
    total = 0.0
    for t in range(n_levels):
        level = t if forward else n_levels - t
        _heat_bath(order, level / n_levels, n_steps, unary, basis, pair, worths, derive(key, level))
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
        out[r] = _run(order, forward, n_levels, n_steps, unary, basis, pair, worths, own)
    return out
