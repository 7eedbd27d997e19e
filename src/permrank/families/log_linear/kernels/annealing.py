"""Annealed importance sampling (Neal 2001) of the normaliser of a log-linear model, forwards and backwards.

The path goes from a Plackett-Luce distribution q, whose normaliser is known, to the model:
log f_β = (1 - β) log q - β E. With equal worths q is uniform. Every step is a heat bath of one item over all its
positions (a single pass for both parts). Forward runs start from exact draws of q and underestimate log Z on average,
reverse runs start from draws of the model and overestimate it: the two bracket it (Grosse, Ghahramani, Adams 2015).
"""

from __future__ import annotations

import math

import numpy as np

from permrank.families.log_linear.kernels.energy import energy, insert, insertion_energies, softmax_of_energies
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
def luce_insertion_energies(others, n_others, item, worths, tail, out):
    """-log q of an item at each position among others, relative to the first: a single pass.

    Before it passes others[j] the stage after the item chooses from others[j:], afterwards from it and others[j + 1:].
    """
    tail[n_others] = 0.0
    for j in range(n_others - 1, -1, -1):
        tail[j] = tail[j + 1] + worths[others[j]]
    out[0] = 0.0
    for j in range(n_others):
        out[j + 1] = out[j] - math.log(tail[j] / (worths[item] + tail[j + 1]))


@njit(error_model="numpy")
def _heat_bath(order, beta, n_steps, unary, basis, pair, worths, key):
    n = order.size
    others, tail = np.empty(n - 1, order.dtype), np.empty(n)
    of_model, of_luce, mixed, p = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for t in range(n_steps):
        source = min(int(uniform(key, 2 * t) * n), n - 1)
        others[:source] = order[:source]
        others[source:] = order[source + 1 :]
        insertion_energies(others, n - 1, order[source], unary, basis, pair, of_model)
        luce_insertion_energies(others, n - 1, order[source], worths, tail, of_luce)
        for j in range(n):
            mixed[j] = beta * of_model[j] + (1.0 - beta) * of_luce[j]
        softmax_of_energies(mixed, n, p)
        u, target = uniform(key, 2 * t + 1), n - 1
        for j in range(n):
            u -= p[j]
            if u < 0.0:
                target = j
                break
        insert(order, source, target)


@njit(error_model="numpy")
def _gap(order, unary, basis, pair, worths):
    """-E - log q, what the weight of a run is made of."""
    return -energy(order, unary, basis, pair) - luce_log_probability(order, worths)


@njit(error_model="numpy")
def _forward_run(n_levels, n_steps, unary, basis, pair, worths, key):
    n = worths.size
    keys = np.empty(n)
    for a in range(n):
        keys[a] = -math.log(worths[a]) - gumbel(key, a)
    order = np.argsort(keys)
    total = 0.0
    for level in range(n_levels):
        total += _gap(order, unary, basis, pair, worths) / n_levels
        _heat_bath(order, (level + 1) / n_levels, n_steps, unary, basis, pair, worths, derive(key, level))
    return total


@njit(error_model="numpy")
def _reverse_run(order, n_levels, n_steps, unary, basis, pair, worths, key):
    total = 0.0
    for level in range(n_levels, 0, -1):
        _heat_bath(order, level / n_levels, n_steps, unary, basis, pair, worths, derive(key, level))
        total += _gap(order, unary, basis, pair, worths) / n_levels
    return total


@njit(error_model="numpy", parallel=True)
def annealed_log_weights(starts, n_runs, n_levels, n_steps, unary, basis, pair, worths, key):
    """Log-weights of forward runs (n_runs,), then of reverse runs from ``starts`` (n_starts, n), draws of the model.

    log Z is near log mean e^w of the first and -log mean e^-w of the second.
    """
    out = np.empty(n_runs + starts.shape[0])
    for r in prange(out.size):
        if r < n_runs:
            out[r] = _forward_run(n_levels, n_steps, unary, basis, pair, worths, derive(key, r))
        else:
            out[r] = _reverse_run(
                starts[r - n_runs].copy(), n_levels, n_steps, unary, basis, pair, worths, derive(key, r)
            )
    return out
