"""Where a new item enters a list, with communities (paper, §3.2.2), in (n + 1) K steps a candidate.

Only the candidate's K worths x^z are new: all candidates of a user share the denominators D_i^z of the old list. With
p_i = Σ_z θ_z w_i^z / D_i^z, and p'_i the same with D_i^z + x^z, the candidate at position j has the probability

    L_j ∝ Π_{i<j} (p'_i / p_i) c_j,   c_j = Σ_z θ_z x^z / (D_j^z + x^z),   c_n = 1,

and neighbours the odds O_j = L_{j+1} / L_j = (p'_j / p_j) (c_{j+1} / c_j) of the paper. With one community a list the
same holds within each, and L_j = Σ_z P(z | list) Π_{i<j} D_i^z / (D_i^z + x^z) · x^z / (D_j^z + x^z). Items in a tie
share their denominator, and each step through the tie takes the geometric mean of its ratios: the order in which tied
items are stored does not matter.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, stage_inverses
from permrank.kernels.jit import njit, prange
from permrank.kernels.lists import Lists

Array = NDArray[Any]
EXPECTED, MODE = 0, 1
# Candidates are dealt in chunks of this many: enough to make the suffix sums of a list, taken once a chunk, cheap.
_CHUNK = 1024


@njit(error_model="numpy")
def _prepare(levels, items, start, stop, worths, theta, ties):
    """What the candidates of a list share: denominators D (n, K), weights of p'_i and the inverse of p_i (n,)."""
    n, n_communities = stop - start, worths.shape[1]
    denominators, tops, inverse_p = np.empty((n, n_communities)), np.empty((n, n_communities)), np.empty(n)
    stage_inverses(levels, items, start, stop, worths, ties, denominators)
    for i in range(n):
        p = 0.0
        for z in range(n_communities):
            tops[i, z] = theta[z] * worths[items[start + i], z]
            p += tops[i, z] * denominators[i, z]
            denominators[i, z] = 1.0 / denominators[i, z]
        inverse_p[i] = 1.0 / p
    return denominators, tops, inverse_p


@njit(error_model="numpy")
def _positions_by_stage(block_ends, denominators, tops, inverse_p, theta, x, probabilities):
    """L_j for one candidate with worths x (K,), not normalised; block_ends[i] is where the tie of entry i ends."""
    n, n_communities = denominators.shape
    before, i = 1.0, 0
    while i < n:
        end = block_ends[i]
        enters, passes = 0.0, 0.0
        for z in range(n_communities):
            inverse = 1.0 / (denominators[i, z] + x[z])
            enters += theta[z] * x[z] * inverse
            passes += tops[i, z] * inverse
        passes *= inverse_p[i]
        if end - i > 1:
            log_passes = math.log(passes)
            for t in range(i + 1, end):
                other = 0.0
                for z in range(n_communities):
                    other += tops[t, z] / (denominators[i, z] + x[z])
                log_passes += math.log(other * inverse_p[t])
            passes = math.exp(log_passes / (end - i))
        for t in range(i, end):
            probabilities[t] = before * enters
            before *= passes
        i = end
    probabilities[n] = before


@njit(error_model="numpy")
def _positions_by_list(denominators, theta, x, probabilities, before):
    """As `_positions_by_stage`, with one community for the whole list; before (K,) is scratch."""
    n, n_communities = denominators.shape
    before[:] = theta
    for i in range(n):
        enters = 0.0
        for z in range(n_communities):
            step = before[z] / (denominators[i, z] + x[z])
            enters += step * x[z]
            before[z] = step * denominators[i, z]
        probabilities[i] = enters
    probabilities[n] = before.sum()


@njit(error_model="numpy")
def _block_ends(levels, start, stop):
    """For every entry of a list where its tie block ends, counted from the start of the list."""
    ends = np.empty(stop - start, np.int64)
    for i in range(stop - start - 1, -1, -1):
        tied = i + 1 < stop - start and levels[start + i + 1] == levels[start + i]
        ends[i] = ends[i + 1] if tied else i + 1
    return ends


@njit(error_model="numpy")
def latent_insertion_probabilities(levels, items, worths, theta, candidate, ties, mixing):
    """P(a new item enters a list of n at position j): float64 (n + 1,), sums to one. The equation heads this file.

    levels, items: of the list; worths (n_items, K); theta (K,): P(z | user); candidate (K,): worths of the new item.
    """
    probabilities = np.empty(items.size + 1)
    denominators, tops, inverse_p = _prepare(levels, items, np.int64(0), items.size, worths, theta, ties)
    if mixing == BY_LIST:
        _positions_by_list(denominators, theta, candidate, probabilities, np.empty(theta.size))
    else:
        ends = _block_ends(levels, np.int64(0), items.size)
        _positions_by_stage(ends, denominators, tops, inverse_p, theta, candidate, probabilities)
    return probabilities / probabilities.sum()


@njit(error_model="numpy")
def _summary(probabilities, position):
    """Of the n items of a list, how many the candidate is expected to come before; or n - mode, and its likelihood.

    For `MODE` the fraction is L_j <= 1 of the best position: it orders candidates at the same position (§3.2.2).
    """
    n = probabilities.size - 1
    if position == EXPECTED:
        total, moment = 0.0, 0.0
        for j in range(n + 1):
            total += probabilities[j]
            moment += j * probabilities[j]
        return n - moment / total
    best = 0
    for j in range(1, n + 1):
        if probabilities[j] > probabilities[best]:
            best = j
    return n - best + probabilities[best]


@njit(error_model="numpy", parallel=True)
def _scores(jobs, lists, worths, memberships, candidates, rules, position):
    """`insertion_scores` over jobs (J, 3) of (row, first candidate, last candidate)."""
    user_indptr, indptr, items, levels, _ = lists
    n_communities = worths.shape[1]
    scores = np.zeros(candidates.size)
    for job in prange(jobs.shape[0]):
        u, first, last = jobs[job]
        theta, before = memberships[u], np.empty(n_communities)
        length = 0
        for r in range(user_indptr[u], user_indptr[u + 1]):
            start, stop = indptr[r], indptr[r + 1]
            length += stop - start + (1 if position == MODE else 0)
            probabilities = np.empty(stop - start + 1)
            ends = _block_ends(levels, start, stop)
            denominators, tops, inverse_p = _prepare(levels, items, start, stop, worths, theta, rules.ties)
            for c in range(first, last):
                x = worths[candidates[c]]
                if rules.mixing == BY_STAGE:
                    _positions_by_stage(ends, denominators, tops, inverse_p, theta, x, probabilities)
                else:
                    _positions_by_list(denominators, theta, x, probabilities, before)
                scores[c] += _summary(probabilities, position)
        for c in range(first, last):
            scores[c] /= max(length, 1)
    return scores


def insertion_scores(
    lists: Lists,
    worths: Array,
    memberships: Array,
    candidate_indptr: Array,
    candidates: Array,
    rules: Rules,
    position: int,
) -> Array:
    """Share of a user's listed items that each candidate is expected to come before, in [0, 1] (§3.2.2).

    Lists and rules as in `latent_statistics`; memberships (n_users, K); candidates[candidate_indptr[u] :
    candidate_indptr[u + 1]] are item indices for user u. `EXPECTED`: Σ over lists of n - E(position), over the number
    of entries. `MODE`: the paper's rule, n - position, a fraction for its likelihood. Returns (n_candidates,); parallel
    over users and chunks of their candidates; memory is that of the answer.
    """
    starts = [np.arange(a, b, _CHUNK) for a, b in itertools.pairwise(candidate_indptr)]
    users = np.repeat(np.arange(len(starts)), [part.size for part in starts])
    firsts = np.concatenate(starts) if starts else np.zeros(0, np.int64)
    lasts = np.minimum(firsts + _CHUNK, candidate_indptr[1:][users])
    jobs = np.stack([users, firsts, lasts], axis=1).astype(np.int64)
    scores: Array = _scores(jobs, lists, worths, memberships, candidates, rules, position)
    return scores


@njit(error_model="numpy", parallel=True)
def position_log_probabilities(lists, worths, memberships, candidates, first, last, rules):
    """log P(the candidate of each list enters it from position `first` to position `last`), (n_lists,).

    memberships (n_lists, K); candidates, first, last (n_lists,).
    """
    _, indptr, items, levels, _ = lists
    out = np.empty(indptr.size - 1)
    for r in prange(indptr.size - 1):
        part = slice(indptr[r], indptr[r + 1])
        probabilities = latent_insertion_probabilities(
            levels[part], items[part], worths, memberships[r], worths[candidates[r]], rules.ties, rules.mixing
        )
        out[r] = math.log(max(probabilities[first[r] : last[r] + 1].sum(), 1e-300))
    return out
