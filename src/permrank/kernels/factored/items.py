"""Factored Plackett-Luce, §3.1: the pass over the items (that over the users is in users.py).

Given the users, an item y needs two sums over its entries e, with x = (W_u, 1): Σ g_e x and Σ c_e x xᵀ, K + 1 and
(K + 1)(K + 2) / 2 numbers. They are summed by blocks of users, and the blocks in their order. There are two forms with
the same bits: `item_steps` is parallel over items, walks through the entries of each in the order of the users and
keeps the sums of one block at a time; `item_sums` gives the sums of every block, which can be done where the users are,
and `steps_from_sums` adds them up.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward, trace_of_inverse
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal


@njit(error_model="numpy", inline="always")
def _add_entry(user, g, c, sums):
    """sums += (g x, lower triangle of c x xᵀ row by row), x = (user, 1)."""
    n_factors = user.size
    at, last = n_factors + 1, sums.size - n_factors - 1  # where a row of the triangle begins, and the last one
    for k in range(n_factors):
        sums[k] += g * user[k]
        part = c * user[k]
        for m in range(k + 1):
            sums[at + m] += part * user[m]
        sums[last + k] += part
        at += k + 1
    sums[n_factors] += g
    sums[last + n_factors] += c


@njit(error_model="numpy", inline="always")
def _set_entry(user, g, c, sums):
    """`_add_entry` to zeros, which need not be there; at most the sign of a 0 is another."""
    n_factors = user.size
    at, last = n_factors + 1, sums.size - n_factors - 1  # where a row of the triangle begins, and the last one
    for k in range(n_factors):
        sums[k] = g * user[k]
        part = c * user[k]
        for m in range(k + 1):
            sums[at + m] = part * user[m]
        sums[last + k] = part
        at += k + 1
    sums[n_factors] = g
    sums[last + n_factors] = c


@njit(error_model="numpy")
def _add_block(block, sums):
    """sums += block."""
    for i in range(sums.size):
        sums[i] += block[i]


@njit(error_model="numpy")
def _newton_step(sums, items, y, noise, system, step):
    """Λ = precision + Σ c x xᵀ, step = Λ^-1 (Σ g x - precision (θ_y - centre_y)), and noise; L of Λ into system."""
    item, centre, precision, stream = items.theta[y], items.centre[y], items.precision, derive(noise.key, y)
    size = item.size
    at = size
    for k in range(size):
        step[k] = precision[k] * (centre[k] - item[k]) + sums[k]
        for m in range(k + 1):
            system[k, m] = sums[at + m]
        system[k, k] += precision[k]
        at += k + 1
    cholesky(system, size)
    forward(system, step, size)
    if noise.draw:
        for k in range(size):
            step[k] += normal(stream, k)
    backward(system, step, size)


@njit(error_model="numpy", parallel=True)
def item_steps(bounds, view_indptr, view_entries, user_of_entry, users, items, entries, noise, variance):
    """Newton steps of all items at once given the users, with the curvature's diagonal blocks; (n_items, K + 1).

    Λ_y = precision + Σ c x xᵀ, step Λ^-1 (Σ g x - precision (θ_y - centre_y)), x = (W_u, 1); c is the expected number
    of choices, which bounds the Hessian of all items together, so that the joint step does not overshoot. With
    ``draw`` noise from N(0, Λ^-1) is added. bounds: (n_blocks + 1,), users of each block; entries of an item are in the
    order of the users.
    variance: (n_items,), written, or empty: what the item's own uncertainty adds to the variance of its score for a
    user with factors of variance one, the trace of Λ_y^-1.
    """
    n_items, size = items.theta.shape
    steps = np.empty((n_items, size))
    for y in prange(n_items):
        sums, block = np.zeros(size + size * (size + 1) // 2), np.zeros(size + size * (size + 1) // 2)
        b = 0
        for place in range(view_indptr[y], view_indptr[y + 1]):
            e = view_entries[place]
            u = user_of_entry[e]
            if u < bounds[b + 1]:
                _add_entry(users[u], entries.residual[e], entries.curvature[e], block)
                continue
            _add_block(block, sums)
            while u >= bounds[b + 1]:
                b += 1
            _set_entry(users[u], entries.residual[e], entries.curvature[e], block)
        _add_block(block, sums)
        system = np.empty((size, size))
        _newton_step(sums, items, np.int64(y), noise, system, steps[y])
        if variance.size > 0:
            variance[y] = trace_of_inverse(system, block, size)
    return steps


@njit(error_model="numpy", parallel=True)
def item_sums(bounds, lists, users, entries, n_items):
    """Σ g x and the lower triangle of Σ c x xᵀ of every item by block, (n_blocks, n_items, K + 1 + (K + 1)(K + 2) / 2).

    bounds: (n_blocks + 1,), users of each block.
    """
    n_blocks, size = bounds.size - 1, users.shape[1] + 1
    sums = np.zeros((n_blocks, n_items, size + size * (size + 1) // 2))
    for b in prange(n_blocks):
        for u in range(bounds[b], bounds[b + 1]):
            for e in range(lists.indptr[lists.user_indptr[u]], lists.indptr[lists.user_indptr[u + 1]]):
                _add_entry(users[u], entries.residual[e], entries.curvature[e], sums[b, lists.items[e]])
    return sums


@njit(error_model="numpy", parallel=True)
def steps_from_sums(by_block, items, noise, variance):
    """`item_steps` from what `item_sums` gives."""
    n_items, size = items.theta.shape
    steps = np.empty((n_items, size))
    for y in prange(n_items):
        sums, system, scratch = np.zeros(by_block.shape[2]), np.empty((size, size)), np.empty(size)
        for b in range(by_block.shape[0]):
            _add_block(by_block[b, y], sums)
        _newton_step(sums, items, np.int64(y), noise, system, steps[y])
        if variance.size > 0:
            variance[y] = trace_of_inverse(system, scratch, size)
    return steps


@njit(error_model="numpy")
def item_noise(items, n_draws, size, key):
    """Standard normal numbers that belong to the items, whoever asks for them: (n_draws, size, n).

    Those of every second of the ``size`` are minus the ones before, so that their mean is 0.
    """
    out = np.empty((n_draws, size, items.size))
    for i in range(items.size):
        stream = derive(key, items[i])
        for d in range(n_draws):
            for j in range(size):
                out[d, j, i] = normal(stream, d * size + j) if j % 2 == 0 else -out[d, j - 1, i]
    return out
