"""With the items' worths fixed (paper, §3.2): memberships, likelihoods of lists, draws, and the first k positions.

The membership θ of a user has the Dirichlet(α) prior. Its mode in softmax coordinates, where that density is
Π_z θ_z^{α_z}, is the only maximum of a concave function, reached by θ_z <- (Σ_i Q_i(z) + α_z) / (n + Σ α).
"""

import math

import numpy as np

from permrank.families.latent.kernels.stages import BY_LIST, n_stages, stage_inverses
from permrank.kernels.jit import njit, prange
from permrank.kernels.sets import n_members
from permrank.kernels.streams import derive, uniform


@njit(error_model="numpy")
def stage_probabilities(items, levels, start, stop, worths, ties):
    """p_i^z of the stages of one list that say something: float64 (n_stages, K)."""
    n = n_stages(levels, start, stop)
    table = np.empty((stop - start, worths.shape[1]))
    stage_inverses(levels, items, start, stop, worths, ties, table)
    for i in range(n):
        for z in range(worths.shape[1]):
            table[i, z] *= worths[items[start + i], z]
    return table[:n]


@njit(error_model="numpy")
def _mode(table, weights, prior, max_iter, tol, theta):
    """EM for θ with items fixed; table (n, K), weights (n,). Overwrites theta (K,), which is where it starts."""
    n_communities = prior.size
    counts = np.empty(n_communities)
    for _ in range(max_iter):
        for z in range(n_communities):
            counts[z] = prior[z]
        for i in range(table.shape[0]):
            total = 0.0
            for z in range(n_communities):
                total += theta[z] * table[i, z]
            scale = weights[i] / total
            for z in range(n_communities):
                counts[z] += scale * theta[z] * table[i, z]
        total, moved = counts.sum(), 0.0
        for z in range(n_communities):
            new = counts[z] / total
            moved = max(moved, abs(new - theta[z]))
            theta[z] = new
        if moved < tol:
            break


@njit(error_model="numpy")
def _posterior(table, weights, prior, theta):
    """P(z | list) with one community a user: θ_z ∝ prior_z Π_i p_i^z."""
    logs = np.log(prior / prior.sum())
    for i in range(table.shape[0]):
        logs += weights[i] * np.log(table[i])
    theta[:] = np.exp(logs - logs.max())
    theta /= theta.sum()


@njit(error_model="numpy", parallel=True)
def memberships(lists, worths, prior, rules, max_iter, tol):
    """P(z | user) for every user, (n_users, K): the mode at the head of this file, or the posterior with `BY_LIST`.

    Lists and rules as in `latent_statistics`; prior (K,): α, or the shares of the communities with `BY_LIST`. A user
    without a stage has the mean of the prior.
    """
    user_indptr, indptr, items, levels, weights = lists
    n_users = user_indptr.size - 1
    thetas = np.empty((n_users, prior.size))
    for u in prange(n_users):
        first, last = indptr[user_indptr[u]], indptr[user_indptr[u + 1]]
        table, weight = np.empty((last - first, prior.size)), np.empty(last - first)
        n = 0
        for r in range(user_indptr[u], user_indptr[u + 1]):
            part = stage_probabilities(items, levels, indptr[r], indptr[r + 1], worths, rules.ties)
            table[n : n + part.shape[0]] = part
            weight[n : n + part.shape[0]] = weights[r]
            n += part.shape[0]
        thetas[u] = prior / prior.sum()
        if n > 0 and rules.mixing == BY_LIST:
            _posterior(table[:n], weight[:n], prior, thetas[u])
        elif n > 0:
            _mode(table[:n], weight[:n], prior, max_iter, tol, thetas[u])
    return thetas


@njit(error_model="numpy")
def _urn_log_estimate(table, prior, n_draws, key):
    """log E_θ Π_i Σ_z θ_z p_i^z by Pólya's urn, and the relative standard error of the estimate.

    A draw goes through the stages: stage i has probability Σ_z (n_z + α_z) p_i^z / (i + Σ α) given the communities of
    the stages before, and its own community is drawn from the terms of that sum. Products average to the integral
    exactly (sequential importance sampling, unbiased).
    """
    n, n_communities = table.shape
    logs = np.empty(n_draws)
    counts, cumulative = np.empty(n_communities), np.empty(n_communities)
    mass = prior.sum()
    for d in range(n_draws):
        counts[:] = prior
        log_weight = 0.0
        for i in range(n):
            total = 0.0
            for z in range(n_communities):
                total += counts[z] * table[i, z]
                cumulative[z] = total
            log_weight += math.log(total / (mass + i))
            draw, z = total * uniform(key, d * n + i), 0
            while z < n_communities - 1 and cumulative[z] < draw:
                z += 1
            counts[z] += 1.0
        logs[d] = log_weight
    largest = logs.max()
    relative = np.exp(logs - largest)
    mean = relative.mean()
    return largest + math.log(mean), relative.std() / (mean * math.sqrt(n_draws))


@njit(error_model="numpy")
def _log_mixture(table, shares):
    """log Σ_z π_z Π_i p_i^z of one list; table (n, K)."""
    logs = np.log(shares)
    for i in range(table.shape[0]):
        logs += np.log(table[i])
    return logs.max() + math.log(np.exp(logs - logs.max()).sum())


@njit(error_model="numpy", parallel=True)
def integrated_log_likelihoods(indptr, items, levels, worths, prior, ties, mixing, n_draws, key):
    """log P(ranking) of somebody new, the membership integrated out, and its standard error: (n_rankings, 2).

    `BY_LIST`: `_log_mixture`, exact. By stage: `_urn_log_estimate` over the Dirichlet(prior), with n_draws draws
    from the stream of (key, ranking).
    """
    out = np.zeros((indptr.size - 1, 2))
    for r in prange(indptr.size - 1):
        table = stage_probabilities(items, levels, indptr[r], indptr[r + 1], worths, ties)
        if mixing == BY_LIST:
            out[r, 0] = _log_mixture(table, prior / prior.sum())
        elif table.shape[0] > 0:
            out[r] = _urn_log_estimate(table, prior, n_draws, derive(key, r))
    return out


@njit(error_model="numpy", parallel=True)
def given_log_likelihoods(indptr, items, levels, worths, theta, ties, mixing):
    """log P(ranking) for given memberships theta (n_rankings, K): Π_i Σ_z θ_z p_i^z, or Σ_z θ_z Π_i p_i^z `BY_LIST`."""
    out = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        table = stage_probabilities(items, levels, indptr[r], indptr[r + 1], worths, ties)
        if mixing == BY_LIST:
            out[r] = _log_mixture(table, np.maximum(theta[r], 1e-300))  # a share of nothing stays nothing
        else:
            for i in range(table.shape[0]):
                out[r] += math.log((theta[r] * table[i]).sum())
    return out


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
        if reached[chosen] == 0.0 or n_members(chosen) >= k:
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
