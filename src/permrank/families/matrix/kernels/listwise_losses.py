"""Losses over whole lists: ListNet's cross-entropy, squared error of ratings, and CofiRank's bound on NDCG.

Every kernel writes the gradient in the scores, (n_entries,), and returns the losses of the rankings, (n_rankings,),
both times the weight of the ranking. Entries of a ranking lie best first.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange


@njit(error_model="numpy", parallel=True)
def top_one_divergence(indptr, weights, relevance, scores, gradient):
    """Σ_j p_j log(p_j / q_j), p and q the softmax of relevances and of scores (Cao et al. 2007, top-one probabilities).

    ListNet's cross-entropy less the entropy of p, which no score changes: never negative, zero for a perfect fit.
    """
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        if stop == start:
            continue
        highest, largest = relevance[start], scores[start]
        for e in range(start + 1, stop):
            highest, largest = max(highest, relevance[e]), max(largest, scores[e])
        wanted, given = 0.0, 0.0
        for e in range(start, stop):
            wanted += math.exp(relevance[e] - highest)
            given += math.exp(scores[e] - largest)
        log_wanted, log_given = highest + math.log(wanted), largest + math.log(given)
        total = 0.0
        for e in range(start, stop):
            log_p, log_q = relevance[e] - log_wanted, scores[e] - log_given
            p = math.exp(log_p)
            total += p * (log_p - log_q)
            gradient[e] = weights[r] * (math.exp(log_q) - p)
        values[r] = weights[r] * total
    return values


@njit(error_model="numpy", parallel=True)
def squared_errors(indptr, weights, relevance, ridge, scores, gradient):
    """min_a Σ_j (r_j - a - s_j)² + ridge a²: squared error with an offset of the list's own, which is solved for.

    With e = r - s this is Σ e² - (Σ e)² / (n + ridge); an infinite ridge leaves the offset out.
    """
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        total, squares = 0.0, 0.0
        for e in range(start, stop):
            error = relevance[e] - scores[e]
            total += error
            squares += error * error
        offset = total / (stop - start + ridge)
        values[r] = weights[r] * (squares - total * offset)
        for e in range(start, stop):
            gradient[e] = -2.0 * weights[r] * (relevance[e] - scores[e] - offset)
    return values


@njit(error_model="numpy")
def project_on_permutahedron(z, discounts):
    """The point of the convex hull of all orders of ``discounts`` that is nearest to z; discounts do not rise.

    Sort z, take from it the falling sequence that is nearest to sorted z - discounts (pool adjacent violators), and
    undo the sort: O(n log n) (Blondel, Teboul, Berthet, Djolonga 2020).
    """
    n = z.size
    order = np.argsort(-z)
    level, size = np.empty(n), np.empty(n, np.int64)
    n_pools = 0
    for i in range(n):
        level[n_pools], size[n_pools] = z[order[i]] - discounts[i], 1
        n_pools += 1
        while n_pools > 1 and level[n_pools - 2] <= level[n_pools - 1]:
            a, b = size[n_pools - 2], size[n_pools - 1]
            level[n_pools - 2] = (a * level[n_pools - 2] + b * level[n_pools - 1]) / (a + b)
            size[n_pools - 2] = a + b
            n_pools -= 1
    out = np.empty(n)
    i = 0
    for pool in range(n_pools):
        for _ in range(size[pool]):
            out[order[i]] = z[order[i]] - level[pool]
            i += 1
    return out


@njit(error_model="numpy", parallel=True)
def ndcg_bound(indptr, weights, levels, gains, truncation, smoothing, scores, gradient):
    """CofiRank's convex bound on 1 - NDCG: max over orders π of 1 - NDCG(π) + <c, s_π - s> (Weimer et al. 2007).

    With c the discounts 1 / log2(1 + position) of DCG, cut after ``truncation`` positions, the cost of putting entry j
    at position p is c_p (s_j - n g_j / ideal DCG): the assignment is solved by sorting. Scores are measured in units of
    1 / n, and the bound is n times that of 1 - NDCG, so that scores of lists of any length have a margin of about one.
    Where entries are tied, s is compared with the mean of c over the tie, and the bound still holds.
    With a smoothing μ > 0 the maximum goes over the whole hull of the orders of c and loses μ/2 (‖v‖² - ‖c‖²) at v:
    smooth, still a bound, and solved by one projection.
    """
    values = np.zeros(indptr.size - 1)
    for r in prange(indptr.size - 1):
        start, stop = indptr[r], indptr[r + 1]
        n = stop - start
        discounts = np.zeros(n)
        ideal, norm = 0.0, 0.0
        for p in range(min(n, truncation)):
            discounts[p] = 1.0 / math.log2(p + 2.0)
            ideal += discounts[p] * gains[start + p]
            norm += discounts[p] * discounts[p]
        if n < 2 or ideal <= 0.0:
            gradient[start:stop] = 0.0
            continue
        z = np.empty(n)
        for i in range(n):
            z[i] = scores[start + i] - n * gains[start + i] / ideal
        if smoothing > 0.0:
            worst = project_on_permutahedron(z / smoothing, discounts)
        else:
            worst = np.empty(n)
            worst[np.argsort(-z)] = discounts
        total, squares = 1.0 * n, 0.0
        for i in range(n):
            total += worst[i] * z[i]
            squares += worst[i] * worst[i]
        first = 0
        while first < n:
            end = first + 1
            while end < n and levels[start + end] == levels[start + first]:
                end += 1
            mean = np.mean(discounts[first:end])
            for i in range(first, end):
                total -= mean * scores[start + i]
                gradient[start + i] = weights[r] * (worst[i] - mean)
            first = end
        values[r] = weights[r] * (total - 0.5 * smoothing * (squares - norm))
    return values
