"""Sums over pairs for the pairwise latent-class model: P(y before x | u) = Σ_z θ_uz π_yz / (π_yz + π_xz).

A list of n is broken into its pairs of different levels, each weighing 2 / n, so that a list counts as its n - 1
choices do. Of a list with more than `max_pairs` pairs as many are drawn, the same in every sweep, and weigh
accordingly more.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import bits, derive


@njit(error_model="numpy")
def _pair(start, n, draw, key):
    """Entries of pair `draw`: of all pairs in order (key 0), or drawn at random, the earlier entry first."""
    if key == np.uint64(0):
        # The pairs in the order (0, 1), (0, 2), (1, 2), (0, 3), ...: draw = j (j - 1) / 2 + i with i < j.
        j = np.int64((1.0 + math.sqrt(8.0 * draw + 1.0)) / 2.0)
        i = draw - j * (j - 1) // 2
        return start + i, start + j
    i = np.int64(bits(key, 2 * draw) % np.uint64(n))
    j = np.int64(bits(key, 2 * draw + 1) % np.uint64(n - 1))
    j += j >= i
    return start + min(i, j), start + max(i, j)


@njit(parallel=True, error_model="numpy")
def latent_preference_sums(bounds, lists, outer, worths, mixture, max_pairs, key, before):
    """E-step: log-likelihoods (n_users,), counts (n_users, K); chosen and expected by block (n_blocks, n_items, K).

    bounds: (n_blocks + 1,), users of each block; lists: `Lists`; outer: weights of users; before: rankings of others
    before the first, whose streams of random pairs are not these. Hunter's update of a worth is π <- π chosen /
    expected, summed over the blocks; memberships follow the counts.
    """
    user_indptr, indptr, items, levels, weights = lists
    n_users, n_communities = mixture.shape
    n_blocks, n_items = bounds.size - 1, worths.shape[0]
    value, counts = np.zeros(n_users), np.zeros((n_users, n_communities))
    chosen = np.zeros((n_blocks, n_items, n_communities))
    expected = np.zeros((n_blocks, n_items, n_communities))
    for b in prange(n_blocks):
        share, joint = np.empty(n_communities), np.empty(n_communities)
        for u in range(bounds[b], bounds[b + 1]):
            for r in range(user_indptr[u], user_indptr[u + 1]):
                n = indptr[r + 1] - indptr[r]
                n_pairs = n * (n - 1) // 2
                n_seen, stream = n_pairs, np.uint64(0)
                if n_pairs > max_pairs:
                    n_seen, stream = max_pairs, derive(key, before + r) | np.uint64(1)
                for draw in range(n_seen):
                    first, second = _pair(indptr[r], n, draw, stream)
                    if levels[first] == levels[second]:
                        continue
                    y, x = items[first], items[second]
                    weight = weights[r] * 2.0 / n * (n_pairs / n_seen)
                    total = 0.0
                    for z in range(n_communities):
                        share[z] = worths[y, z] / (worths[y, z] + worths[x, z])
                        joint[z] = mixture[u, z] * share[z]
                        total += joint[z]
                    value[u] += weight * math.log(total)
                    for z in range(n_communities):
                        own = weight * joint[z] / total
                        counts[u, z] += own
                        own *= outer[u]
                        chosen[b, y, z] += own
                        expected[b, y, z] += own * share[z]
                        expected[b, x, z] += own * (1.0 - share[z])
    return value, counts, chosen, expected
