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
from permrank.kernels.columns import add_gram, add_products, gather_columns
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal

# Entries whose users are gathered at a time: no power of two, or columns would share the lines of a cache.
_PANEL = 136


@njit(error_model="numpy")
def _entries_sums(users, owners, residual, curvature, sums, columns, gram):
    """sums = (Σ g x, lower triangle of Σ c x xᵀ row by row) over some entries of an item, x = (W_u, 1).

    owners: (n,), users of the entries; residual, curvature: (n,), their g and c. columns: (K, _PANEL) and gram: (K, K)
    are for work.
    """
    n_factors = users.shape[1]
    last = sums.size - n_factors - 1  # where the last row of the triangle begins, which is that of the intercept
    gram[:], sums[: n_factors + 1], sums[last:] = 0.0, 0.0, 0.0
    of_g, of_c = sums[:n_factors], sums[last : last + n_factors]
    for start in range(0, owners.size, _PANEL):
        n = min(_PANEL, owners.size - start)
        g, c = residual[start : start + n], curvature[start : start + n]
        gather_columns(users, owners, start, n, columns)
        for e in range(n):
            sums[n_factors] += g[e]
            sums[last + n_factors] += c[e]
        add_gram(columns, n, c, gram)
        add_products(columns, n, g, of_g)
        add_products(columns, n, c, of_c)
    at = n_factors + 1
    for k in range(n_factors):
        for m in range(k + 1):
            sums[at + m] = gram[k, m]
        at += k + 1


@njit(error_model="numpy")
def _add_block(block, sums):
    """sums += block."""
    for i in range(sums.size):
        sums[i] += block[i]


@njit(error_model="numpy")
def _newton_step(sums, items, y, noise, kept, step):
    """Λ = precision + Σ c x xᵀ, step = Λ^-1 (Σ g x - precision (θ_y - centre_y)), and noise; fills ``kept``."""
    item, centre, precision, stream = items.theta[y], items.centre[y], items.precision, derive(noise.key, y)
    size = item.size
    system, at = np.empty((size, size)), size
    for k in range(size):
        step[k] = precision[k] * (centre[k] - item[k]) + sums[k]
        for m in range(k + 1):
            system[k, m] = sums[at + m]
        system[k, k] += precision[k]
        at += k + 1
    cholesky(system, size)
    forward(system, step, size)
    if kept.variance.size > 0:
        mean = kept.steps[y]
        mean[:] = step
        backward(system, mean, size)
        kept.variance[y] = trace_of_inverse(system, np.empty(size), size)
    if noise.draw:
        for k in range(size):
            step[k] += normal(stream, k)
    backward(system, step, size)


@njit(error_model="numpy")
def _item_step(y, bounds, view, owner, users, items, entries, noise, kept, step):
    """`item_steps` for item y."""
    first, stop = view.indptr[y], view.indptr[y + 1]
    n, size = stop - first, items.theta.shape[1]
    owners, g, c = owner[first:stop], np.empty(n), np.empty(n)
    for i in range(n):
        e = view.entries[first + i]
        g[i], c[i] = entries.residual[e], entries.curvature[e]
    sums, block = np.zeros(size + size * (size + 1) // 2), np.empty(size + size * (size + 1) // 2)
    columns, gram, start, b = np.empty((size - 1, _PANEL)), np.empty((size - 1, size - 1)), 0, 0
    while start < n:
        while owners[start] >= bounds[b + 1]:
            b += 1
        end = start + 1
        while end < n and owners[end] < bounds[b + 1]:
            end += 1
        _entries_sums(users, owners[start:end], g[start:end], c[start:end], block, columns, gram)
        _add_block(block, sums)
        start = end
    _newton_step(sums, items, y, noise, kept, step)


@njit(error_model="numpy", parallel=True)
def item_steps(bounds, view, owner, users, items, entries, noise, kept):
    """Newton steps of all items at once given the users, with the curvature's diagonal blocks; (n_items, K + 1).

    Λ_y = precision + Σ c x xᵀ, step Λ^-1 (Σ g x - precision (θ_y - centre_y)), x = (W_u, 1); c is the expected number
    of choices, which bounds the Hessian of all items together, so that the joint step does not overshoot. With
    ``draw`` noise from N(0, Λ^-1) is added. bounds: (n_blocks + 1,), users of each block; entries of an item are in the
    order of the users, and ``owner`` (n_entries,) has the user of each. kept: written, unless its arrays are empty.
    """
    steps = np.empty(items.theta.shape)
    for y in prange(steps.shape[0]):
        _item_step(np.int64(y), bounds, view, owner, users, items, entries, noise, kept, steps[y])
    return steps


@njit(error_model="numpy")
def _block_sums(first, last, lists, users, entries, sums):
    """`item_sums` of the users from ``first`` to ``last``: their entries by item, then as one item's."""
    start, stop = lists.indptr[lists.user_indptr[first]], lists.indptr[lists.user_indptr[last]]
    n, n_items, n_factors = stop - start, sums.shape[0], users.shape[1]
    begins = np.zeros(n_items + 1, np.int64)
    for e in range(start, stop):
        begins[lists.items[e] + 1] += 1
    for y in range(n_items):
        begins[y + 1] += begins[y]
    at, owners, g, c = begins.copy(), np.empty(n, np.int32), np.empty(n), np.empty(n)
    for u in range(first, last):
        for e in range(lists.indptr[lists.user_indptr[u]], lists.indptr[lists.user_indptr[u + 1]]):
            i = at[lists.items[e]]
            owners[i], g[i], c[i] = u, entries.residual[e], entries.curvature[e]
            at[lists.items[e]] += 1
    columns, gram = np.empty((n_factors, _PANEL)), np.empty((n_factors, n_factors))
    for y in range(n_items):
        a, b = begins[y], begins[y + 1]
        if b > a:
            _entries_sums(users, owners[a:b], g[a:b], c[a:b], sums[y], columns, gram)


@njit(error_model="numpy", parallel=True)
def item_sums(bounds, lists, users, entries, n_items):
    """Σ g x and the lower triangle of Σ c x xᵀ of every item by block, (n_blocks, n_items, K + 1 + (K + 1)(K + 2) / 2).

    bounds: (n_blocks + 1,), users of each block.
    """
    n_blocks, size = bounds.size - 1, users.shape[1] + 1
    sums = np.zeros((n_blocks, n_items, size + size * (size + 1) // 2))
    for b in prange(n_blocks):
        _block_sums(bounds[b], bounds[b + 1], lists, users, entries, sums[b])
    return sums


@njit(error_model="numpy")
def _summed_step(y, by_block, items, noise, kept, step):
    """`steps_from_sums` for item y."""
    sums = np.zeros(by_block.shape[2])
    for b in range(by_block.shape[0]):
        _add_block(by_block[b, y], sums)
    _newton_step(sums, items, y, noise, kept, step)


@njit(error_model="numpy", parallel=True)
def steps_from_sums(by_block, items, noise, kept):
    """`item_steps` from what `item_sums` gives."""
    steps = np.empty(items.theta.shape)
    for y in prange(steps.shape[0]):
        _summed_step(np.int64(y), by_block, items, noise, kept, steps[y])
    return steps


@njit(error_model="numpy")
def _noise_of(streams, number, out):
    """A normal number of each stream into the first row, and minus it into the second, if there is one."""
    for i in range(streams.size):
        out[0, i] = normal(streams[i], number)
    if out.shape[0] > 1:
        out[1] = -out[0]


@njit(error_model="numpy", parallel=True)
def item_noise(items, n_draws, size, key):
    """Standard normal numbers that belong to the items, whoever asks for them: (n_draws, size, n).

    Those of every second of the ``size`` are minus the ones before, so that their mean is 0.
    """
    out, streams, half = np.empty((n_draws, size, items.size)), np.empty(items.size, np.uint64), (size + 1) // 2
    for i in range(items.size):
        streams[i] = derive(key, items[i])
    for pair in prange(n_draws * half):
        d, j = pair // half, 2 * (pair % half)
        _noise_of(streams, d * size + j, out[d, j : j + 2])
    return out
