"""Factored Plackett-Luce, §3.1: the pass over the items (that over the users is in factored.py)."""

from __future__ import annotations

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward, trace_of_inverse
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal


@njit(error_model="numpy", parallel=True)
def item_steps(
    view_indptr, view_entries, user_of_entry, users, theta, centre, precision, residual, curvature, key, draw, variance
):
    """Newton steps of all items at once given the users, with the curvature's diagonal blocks; (n_items, K + 1).

    Λ_y = precision + Σ c x xᵀ, step Λ^-1 (Σ g x - precision (θ_y - centre_y)), x = (W_u, 1); c is the expected number
    of choices, which bounds the Hessian of all items together, so that the joint step does not overshoot. With
    ``draw`` noise from N(0, Λ^-1) is added. centre: (n_items, K + 1), prior means; precision: (K + 1,).
    variance: (n_items,), written, or empty: what the item's own uncertainty adds to the variance of its score for a
    user with factors of variance one, the trace of Λ_y^-1.
    """
    n_items, size = theta.shape
    n_factors = size - 1
    steps = np.empty((n_items, size))
    for y in prange(n_items):
        system, step = np.zeros((size, size)), np.empty(size)
        for k in range(size):
            step[k] = precision[k] * (centre[y, k] - theta[y, k])
            system[k, k] = precision[k]
        for index in range(view_indptr[y], view_indptr[y + 1]):
            e = view_entries[index]
            user, g, c = users[user_of_entry[e]], residual[e], curvature[e]
            for k in range(n_factors):
                step[k] += g * user[k]
                part = c * user[k]
                for m in range(k + 1):
                    system[k, m] += part * user[m]
                system[n_factors, k] += part
            step[n_factors] += g
            system[n_factors, n_factors] += c
        cholesky(system, size)
        forward(system, step, size)
        if draw:
            stream = derive(key, y)
            for k in range(size):
                step[k] += normal(stream, k)
        backward(system, step, size)
        steps[y] = step
        if variance.size > 0:
            variance[y] = trace_of_inverse(system, step, size)
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
