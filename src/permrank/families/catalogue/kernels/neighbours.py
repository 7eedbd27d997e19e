"""Neighbours of items: a linear filter on who takes up what, the largest weights of every item."""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange

# Items are shared out to so many tasks: fixed, so that no bit depends on the number of threads.
_TASKS = 64


@njit(error_model="numpy", parallel=True)
def nearest_neighbours(users, items, user_scale, item_scale, power, most):
    """P_ij = (f_i f_j Σ_u g_u x_ui x_uj)^power for j != i, the ``most`` largest of every i.

    users: (indptr, items, values), entries by user. items: (indptr, users, values), the same entries by item.
    user_scale: g, (n_users,); item_scale: f, (n_items,). Returns the number of neighbours of every item (n_items,),
    and their indices and weights, (n_items, most); of equal weights the lower index goes first.
    """
    n_items = items[0].size - 1
    count = np.zeros(n_items, np.int64)
    index = np.zeros((n_items, most), np.int32)
    weight = np.zeros((n_items, most), np.float32)
    for task in prange(_TASKS):
        sums = np.zeros(n_items, np.float64)
        found = np.empty(n_items, np.int32)
        for i in range(task, n_items, _TASKS):
            n_found = 0
            for p in range(items[0][i], items[0][i + 1]):
                u = items[1][p]
                share = user_scale[u] * items[2][p]
                for q in range(users[0][u], users[0][u + 1]):
                    j = users[1][q]
                    if sums[j] == 0.0:
                        found[n_found] = j
                        n_found += 1
                    sums[j] += share * users[2][q]
            chosen = np.sort(found[:n_found])
            values = np.empty(n_found)
            for place in range(n_found):
                j = chosen[place]
                values[place] = 0.0 if j == i else -sums[j] * item_scale[j]
                sums[j] = 0.0
            order = np.argsort(values, kind="mergesort")
            kept = min(most, n_found - 1)  # the item itself is last
            count[i] = kept
            for place in range(kept):
                index[i, place] = chosen[order[place]]
                weight[i, place] = (-values[order[place]] * item_scale[i]) ** power
    return count, index, weight
