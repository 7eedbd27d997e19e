"""Scores of entries from factors, and the way back: passes, each parallel over rows that nobody else writes.

A row of ``theta`` (n_items, K + 1) is an item, its K factors and then its intercept; a row of ``users`` (n_users, K) is
a user. The score of an entry is s_e = b_y + W_u H_y (paper, §2).
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange


@njit(error_model="numpy", parallel=True)
def entry_scores(first_of_user, items, users, theta):
    """s_e = b_y + Σ_k W_uk H_ky of all entries, (n_entries,).

    first_of_user: (n_users + 1,), entries of user u are first_of_user[u]:first_of_user[u + 1].
    """
    n_factors = users.shape[1]
    scores = np.empty(items.size)
    for u in prange(first_of_user.size - 1):
        for e in range(first_of_user[u], first_of_user[u + 1]):
            row = theta[items[e]]
            total = row[n_factors]
            for k in range(n_factors):
                total += users[u, k] * row[k]
            scores[e] = total
    return scores


@njit(error_model="numpy", parallel=True)
def user_gradients(first_of_user, items, theta, residual):
    """Σ_e residual_e H_y over the entries of each user, (n_users, K)."""
    n_factors = theta.shape[1] - 1
    out = np.zeros((first_of_user.size - 1, n_factors))
    for u in prange(first_of_user.size - 1):
        for e in range(first_of_user[u], first_of_user[u + 1]):
            row, g = theta[items[e]], residual[e]
            for k in range(n_factors):
                out[u, k] += g * row[k]
    return out


@njit(error_model="numpy", parallel=True)
def item_gradients(bounds, first_of_user, items, users, residual, n_items):
    """Σ_e residual_e (W_u, 1) over the entries of each item in each block of users: (n_blocks, n_items, K + 1).

    bounds: (n_blocks + 1,), users of each block.
    """
    n_factors = users.shape[1]
    out = np.zeros((bounds.size - 1, n_items, n_factors + 1))
    for b in prange(bounds.size - 1):
        for u in range(bounds[b], bounds[b + 1]):
            for e in range(first_of_user[u], first_of_user[u + 1]):
                y, g = items[e], residual[e]
                for k in range(n_factors):
                    out[b, y, k] += g * users[u, k]
                out[b, y, n_factors] += g
    return out
