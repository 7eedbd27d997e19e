"""Rankings of given items under communities: draws, and the chance of the first k positions (paper, §3.2).

By stage, a community is drawn anew for every position and chooses among the items left; by list, it is drawn once.
Tables hold one or several fits of the model, which share the probability evenly.
"""

import numpy as np

from permrank.families.latent.kernels.stages import BY_LIST
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, uniform


@njit(error_model="numpy")
def _pick(weights, left, n_left, draw):
    """Index in left[:n_left] of the item chosen with probability proportional to its weight; draw in (0, 1)."""
    total = 0.0
    for j in range(n_left):
        total += weights[left[j]]
    threshold, running = draw * total, 0.0
    for j in range(n_left - 1):
        running += weights[left[j]]
        if running >= threshold:
            return j
    return n_left - 1


@njit(error_model="numpy", parallel=True)
def latent_rankings(tables, thetas, mixing, n_positions, key, size):
    """The first n_positions of `size` rankings drawn from P(π | u): int32 (size, n_positions), best first.

    tables (F, K, n): worths of the n items in each of F fits; thetas (F, K): P(z | u). O(n) a position; draw d reads
    the stream of (key, d) only, so it does not depend on `size` or on threads.
    """
    n_fits, n_communities, n = tables.shape
    rankings = np.empty((size, n_positions), dtype=np.int32)
    communities = np.arange(n_communities)
    for d in prange(size):
        own = derive(key, d)
        fit = min(int(uniform(own, 0) * n_fits), n_fits - 1)
        left = np.arange(n)
        z = _pick(thetas[fit], communities, n_communities, uniform(own, 1))
        for position in range(n_positions):
            if position > 0 and mixing != BY_LIST:
                z = _pick(thetas[fit], communities, n_communities, uniform(own, 2 * position + 1))
            j = _pick(tables[fit, z], left, n - position, uniform(own, 2 * position + 2))
            rankings[d, position] = left[j]
            for later in range(j, n - position - 1):  # keep the order: a choice must not depend on past swaps
                left[later] = left[later + 1]
    return rankings


@njit(error_model="numpy")
def top_by_subsets(table, theta, k):
    """P(item is among the first k) with a community for every stage, exactly: float64 (n,).

    table (K, n), theta (K,). Goes through the sets of items that can hold the first positions, 2^n of them at most,
    each reached with the sum over its last item: O(2^n n K).
    """
    n_communities, n = table.shape
    reached = np.zeros(1 << n)
    reached[0] = 1.0
    top = np.zeros(n)
    for chosen in range(1 << n):
        size = 0
        for i in range(n):
            size += (chosen >> i) & 1
        if reached[chosen] == 0.0 or size >= k:
            continue
        for z in range(n_communities):
            total = 0.0
            for i in range(n):
                if not (chosen >> i) & 1:
                    total += table[z, i]
            share = reached[chosen] * theta[z] / total
            for i in range(n):
                if not (chosen >> i) & 1:
                    top[i] += share * table[z, i]
                    reached[chosen | (1 << i)] += share * table[z, i]
    return top
