"""Sums over rankings for communities that choose stage by stage, or list by list (paper, §3.2).

With the worths w_y^z = e^{s_y^z} tabulated, a list of n items costs O(n K) and no exp:

    A_i^z = A_{i+1}^z + w_i^z,   p_i^z = w_i^z / A_i^z,   Q_i(z) = θ_z p_i^z / Σ_y θ_y p_i^y   (§3.2.1).

The last stage has probability 1 under every community and is left out. A block of m tied items is m choices that
share one denominator, A_{below} + f B with B the worth of the block: f = 1 is Breslow's, f = (m + 1) / 2m is the mean
of Efron's m denominators, so that the order in which tied items are stored cannot matter.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange

Array = NDArray[Any]

BY_STAGE, BY_LIST = 0, 1
BRESLOW, EFRON = 0, 1


class Rules(NamedTuple):
    """The treatment of ties, and whether communities are of stages or of lists."""

    ties: int
    mixing: int


@njit(error_model="numpy")
def _shared(m, ties):
    """f: the part of a block of m tied items that is available on average while it is chosen."""
    if m == 1 or ties == BRESLOW:
        return 1.0
    return 0.5 * (m + 1) / m


@njit(error_model="numpy")
def stage_inverses(levels, items, start, stop, worths, ties, inverse):
    """1 / denominator of every stage of one list, from its end (§3.2, the recursion of A); equal inside a tie.

    levels, items: of all entries; start, stop: the list's; worths: (n_items, K). Writes inverse[: stop - start].
    """
    n_communities = worths.shape[1]
    tail, block = np.zeros(n_communities), np.empty(n_communities)
    last = stop - 1
    while last >= start:
        first = last
        while first > start and levels[first - 1] == levels[last]:
            first -= 1
        if first == last:
            item = items[last]
            for z in range(n_communities):
                tail[z] += worths[item, z]
                inverse[last - start, z] = 1.0 / tail[z]
        else:
            block[:] = 0.0
            for e in range(first, last + 1):
                item = items[e]
                for z in range(n_communities):
                    block[z] += worths[item, z]
            shared = _shared(last - first + 1, ties)
            for z in range(n_communities):
                inverse[first - start, z] = 1.0 / (tail[z] + shared * block[z])
                tail[z] += block[z]
            for e in range(first + 1, last + 1):
                for z in range(n_communities):
                    inverse[e - start, z] = inverse[first - start, z]
        last = first - 1


@njit(error_model="numpy")
def n_stages(levels, start, stop):
    """Stages that say something: all entries but a last one that stands alone."""
    if stop - start > 1 and levels[stop - 1] == levels[stop - 2]:
        return stop - start
    return max(stop - start - 1, 0)


@njit(error_model="numpy")
def _list_log_likelihoods(levels, items, start, stop, worths, inverse, weight, out):
    """Add weight Σ_i log p_i^z to out[z]; products of stages are kept in [1e-250, 1] between logarithms."""
    n_communities = worths.shape[1]
    product = np.ones(n_communities)
    for e in range(start, start + n_stages(levels, start, stop)):
        item, smallest = items[e], 1.0
        for z in range(n_communities):
            product[z] *= worths[item, z] * inverse[e - start, z]
            smallest = min(smallest, product[z])
        if smallest < 1e-150:  # a factor is above 1e-87, see `worth_table`
            for z in range(n_communities):
                out[z] += weight * math.log(product[z])
                product[z] = 1.0
    for z in range(n_communities):
        out[z] += weight * math.log(product[z])


@njit(error_model="numpy")
def _responsibilities(worth, inverse, mixture, weight, out):
    """out[z] = weight Q_i(z); returns Σ_z θ_z p_i^z (§3.2.1, E-step)."""
    total = 0.0
    for z in range(mixture.size):
        out[z] = mixture[z] * worth[z] * inverse[z]
        total += out[z]
    scale = weight / total
    for z in range(mixture.size):
        out[z] *= scale
    return total


@njit(error_model="numpy")
def _one_list(lists, r, worths, inverse, mixture, outer, rules, counts, chosen, available):
    """Add list r to counts (K,), chosen and available (n_items, K); returns Σ_i log Σ_z θ_z p_i^z."""
    levels, items, mixing, n_communities = lists.levels, lists.items, rules.mixing, mixture.size
    start, stop, weight = lists.indptr[r], lists.indptr[r + 1], lists.weights[r]
    exposure, added, q = np.zeros(n_communities), np.empty(n_communities), np.empty(n_communities)
    end = start + n_stages(levels, start, stop)
    logs, product = 0.0, 1.0
    if mixing == BY_LIST:
        for z in range(n_communities):
            q[z] = weight * mixture[z]
    e = start
    while e < end:
        last = e
        while last + 1 < end and levels[last + 1] == levels[e]:
            last += 1
        added[:] = 0.0
        here = inverse[e - start]
        for t in range(e, last + 1):
            item = items[t]
            if mixing == BY_STAGE:
                product *= _responsibilities(worths[item], here, mixture, weight, q)
                if product > 1e150 or product < 1e-150:
                    logs += math.log(product)
                    product = 1.0
                for z in range(n_communities):
                    counts[z] += q[z]
            for z in range(n_communities):
                added[z] += q[z] * here[z]
                chosen[item, z] += outer * q[z]
        shared = _shared(last - e + 1, rules.ties)
        for t in range(e, last + 1):
            item = items[t]
            for z in range(n_communities):
                available[item, z] += outer * (exposure[z] + shared * added[z])
        for z in range(n_communities):
            exposure[z] += added[z]
        e = last + 1
    if end < stop:
        item = items[end]
        for z in range(n_communities):
            available[item, z] += outer * exposure[z]
    return weight * (logs + math.log(product))


@njit(error_model="numpy", parallel=True)
def latent_statistics(bounds, lists, outer, worths, mixture, rules):
    """E-step over all users, and the sums that the M-step needs (§3.2.1), in O(n_entries K).

    bounds (n_blocks + 1,): users of each block; the weights of the lists: how often the user gave each; outer
    (n_users,): how many such users there are; worths (n_items, K); mixture (n_users, K): weights of the communities,
    positive. Returns

    * value (n_users,): Σ_i log Σ_z θ_z p_i^z, or log Σ_z θ_z Π_i p_i^z with `BY_LIST`;
    * counts (n_users, K): Σ_i Q_i(z), or the posterior of the one community with `BY_LIST`;
    * by block, to be added up: chosen (n_blocks, n_items, K): Σ Q over stages that choose the item; available
      (n_blocks, n_items, K): Σ Q / A over stages in which it could be chosen. w <- chosen / available never lowers the
      bound (Hunter's MM, weighted).

    The same bits for any number of threads.
    """
    user_indptr, indptr, items, levels, weights = lists
    ties, mixing = rules.ties, rules.mixing
    n_users, n_communities = mixture.shape
    n_blocks, longest = bounds.size - 1, 0
    for r in range(indptr.size - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    value, counts = np.zeros(n_users), np.zeros((n_users, n_communities))
    chosen = np.zeros((n_blocks, worths.shape[0], n_communities))
    available = np.zeros((n_blocks, worths.shape[0], n_communities))
    for b in prange(n_blocks):
        inverse = np.empty((longest, n_communities))
        logs, member = np.empty(n_communities), np.empty(n_communities)
        for u in range(bounds[b], bounds[b + 1]):
            member[:] = mixture[u]
            if mixing == BY_LIST:
                logs[:] = 0.0
                for r in range(user_indptr[u], user_indptr[u + 1]):
                    stage_inverses(levels, items, indptr[r], indptr[r + 1], worths, ties, inverse)
                    _list_log_likelihoods(levels, items, indptr[r], indptr[r + 1], worths, inverse, weights[r], logs)
                largest, total = logs.max(), 0.0
                for z in range(n_communities):
                    member[z] = mixture[u, z] * math.exp(logs[z] - largest)
                    total += member[z]
                for z in range(n_communities):
                    member[z] /= total
                    counts[u, z] = member[z]
                value[u] = largest + math.log(total)
            for r in range(user_indptr[u], user_indptr[u + 1]):
                if mixing == BY_STAGE or user_indptr[u + 1] - user_indptr[u] > 1:
                    stage_inverses(levels, items, indptr[r], indptr[r + 1], worths, ties, inverse)
                value[u] += _one_list(
                    lists, r, worths, inverse, member, outer[u], rules, counts[u], chosen[b], available[b]
                )
    return value, counts, chosen, available


def worth_table(scores: Array) -> Array:
    """e^{s - max} by community, (n_items, K); nothing below e^-200, where a choice is as good as impossible."""
    return np.asarray(np.exp(np.maximum(scores - scores.max(axis=0), -200.0)))
