"""What the lists of one user say at given scores: log-likelihood, derivatives in the scores, Hessian in the factors.

Scores are linear in the user's vector, so the factors of a user's items are gathered once, a column for each factor;
steps then change the scores without a look at the items.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.columns import add_gram, combined, gather_columns
from permrank.kernels.jit import njit
from permrank.kernels.luce.likelihood import BRESLOW, EXACT, PARTITION, ranking_statistics
from permrank.kernels.streams import normal
from permrank.posterior.kernels.choices import NARROW, exponentials, strict_choices, tied_choices
from permrank.posterior.kernels.odds import odds_statistics, odds_value


class UserLists(NamedTuple):
    """Arrays for the n entries of one user, all rankings one after the other, and K factors.

    Attributes
    ----------
    columns, centres : (K, n)
        Factors of the entries' items; of every stage the mean of its items, times the choices made.
    intercepts, scores, change : (n,)
        Intercepts of the items, the present scores, how much a step changes them.
    made, expected : (n,)
        Choices of each entry, and how many were expected at these scores.
    worths, exposure, own : (n,)
        e^score in units of the largest of the ranking; of the first entry of a block the expected choices for one unit
        of worth at its stage, of all items below the block; expected choices of an entry at its own block's stage.
    weights : (n,)
        For sums.
    powers, bits : (n,)
        The same memory, for exponentials.
    """

    columns: Any
    centres: Any
    intercepts: Any
    scores: Any
    change: Any
    made: Any
    expected: Any
    worths: Any
    exposure: Any
    own: Any
    weights: Any
    powers: Any
    bits: Any


@njit(error_model="numpy")
def gathered_lists(lists, u, theta):
    """Room for user u, with the factors of the items listed."""
    start, stop = lists.indptr[lists.user_indptr[u]], lists.indptr[lists.user_indptr[u + 1]]
    n, n_factors = stop - start, theta.shape[1] - 1
    columns, flat = np.empty((2, n_factors, n)), np.empty((10, n))
    own = columns[0]
    gather_columns(theta, lists.items, start, n, own)
    for e in range(n):
        flat[0, e] = theta[lists.items[start + e], n_factors]
    bits = flat[9].view(np.int64)
    return UserLists(
        own, columns[1], flat[0], flat[1], flat[2], flat[3], flat[4], flat[5], flat[6], flat[7], flat[8], flat[9], bits
    )


@njit(error_model="numpy")
def set_scores(of_user, user):
    """Scores of the entries: b_y + W_u H_y."""
    n = of_user.scores.size
    combined(of_user.columns, n, user, of_user.scores)
    for e in range(n):
        of_user.scores[e] += of_user.intercepts[e]


@njit(error_model="numpy")
def _stage_shares(levels, ties, scores, expected, worths, exposure, own):
    """Split the expected choices of the entries of a ranking by stage, for the Hessian.

    ``expected`` of an entry is Σ over stages up to its block of its share there. At the stage of block T an item
    below T has the share w_e * exposure, with the same exposure for all of them, and the shares of a stage add up to
    the choices made in it (|T|; 1 under PARTITION; 0 for a last block that says nothing). Fills worths, exposure (of
    the first entry of a block) and own.
    """
    n = scores.size
    largest = -np.inf
    for e in range(n):
        largest = max(largest, scores[e])
    below = np.empty(n + 1)
    below[n] = 0.0
    for i in range(n - 1, -1, -1):
        worths[i] = math.exp(scores[i] - largest)
        below[i] = below[i + 1] + worths[i]
    so_far = 0.0
    first = 0
    while first < n:
        end = first + 1
        while end < n and levels[end] == levels[first]:
            end += 1
        choices = 1.0 if ties == PARTITION else float(end - first)
        if end == n and (ties == EXACT or end - first == 1):
            choices = 0.0
        mine = 0.0
        for i in range(first, end):
            own[i] = max(0.0, expected[i] - worths[i] * so_far)
            mine += own[i]
        rest = below[end]
        exposure[first] = max(0.0, choices - mine) / rest if rest > 0.0 else 0.0
        so_far += exposure[first]
        first = end


@njit(error_model="numpy")
def _own_shares(levels, worths, exposure, own):
    """`_stage_shares` where an item of the block has the share of all below it: strict lists, and Breslow's ties."""
    at_stage = 0.0
    for e in range(own.size):
        if e == 0 or levels[e] != levels[e - 1]:
            at_stage = exposure[e]
        own[e] = worths[e] * at_stage


@njit(error_model="numpy")
def _ranking(levels, ties, of_user, a, b):
    """log P of the ranking of the entries a to b; fills choices made, expected ones and their shares by stage."""
    n, scores, made, expected = b - a, of_user.scores[a:b], of_user.made[a:b], of_user.expected[a:b]
    worths, exposure, own = of_user.worths[a:b], of_user.exposure[a:b], of_user.own[a:b]
    lowest, largest, total = scores[0], scores[0], 0.0
    for e in range(n):
        lowest, largest = min(lowest, scores[e]), max(largest, scores[e])
        total += scores[e]
    strict = levels[n - 1] == n - 1
    if largest - lowest >= NARROW or (ties != BRESLOW and (not strict or ties == PARTITION)):
        value = ranking_statistics(levels, scores, np.int64(0), n, ties, made, expected)
        _stage_shares(levels, ties, scores, expected, worths, exposure, own)
        return value
    exponentials(scores, n, largest, of_user.powers, of_user.bits, worths)
    last = 1 if n == 1 or levels[n - 2] != levels[n - 1] else 0  # a single last item is certain
    value = total - last * scores[n - 1] - (n - last) * largest
    if strict:
        value -= strict_choices(n, worths, exposure, expected)
    else:
        value -= tied_choices(levels, n, worths, exposure, expected)
    _own_shares(levels, worths, exposure, own)
    for e in range(n):
        made[e] = 1.0
    made[n - 1] -= last
    return value


@njit(error_model="numpy")
def lists_statistics(lists, u, ties, edges, of_user):
    """Weighted log-likelihood of the rankings of user u at the present scores; fills the entries' statistics.

    ties, edges: see users.py.
    """
    value, origin = 0.0, lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        if stop == start:
            continue
        levels, a, b = lists.levels[start:stop], start - origin, stop - origin
        if ties is not None:
            value += lists.weights[r] * _ranking(levels, ties, of_user, a, b)
        if edges is not None:
            value += lists.weights[r] * odds_statistics(levels, edges, of_user, a, b)
    return value


@njit(error_model="numpy")
def lists_value(lists, u, ties, edges, of_user):
    """The log-likelihood of `lists_statistics` alone; what that has filled is no longer there."""
    if edges is None:
        return lists_statistics(lists, u, ties, edges, of_user)
    value, origin = 0.0, lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        value += lists.weights[r] * odds_value(lists.levels[start:stop], edges, of_user, start - origin, stop - origin)
    return value


@njit(error_model="numpy")
def _stage_centres(first, last, of_user, begins, stage):
    """Fill the centres of the stages of the ranking of the entries from ``first`` to ``last``, the last stage first.

    A centre is Σ of share * x over the items of the stage. begins: whether a block begins with the entry; stage: number
    of the ranking's first centre. Four factors at a time: each waits for its own sum.
    """
    columns, centres, worths, own = of_user.columns, of_user.centres, of_user.worths, of_user.own
    most = columns.shape[0] - 1
    for k in range(0, most + 1, 4):
        i, j, m = min(k + 1, most), min(k + 2, most), min(k + 3, most)
        a, b, c, d = columns[k], columns[i], columns[j], columns[m]
        of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0  # the block
        in_a, in_b, in_c, in_d = 0.0, 0.0, 0.0, 0.0  # worths so far
        to_a, to_b, to_c, to_d = 0.0, 0.0, 0.0, 0.0  # worths below the block
        number = stage
        for e in range(last - 1, first - 1, -1):
            share, worth = own[e], worths[e]
            of_a, of_b, of_c, of_d = of_a + share * a[e], of_b + share * b[e], of_c + share * c[e], of_d + share * d[e]
            in_a, in_b, in_c, in_d = in_a + worth * a[e], in_b + worth * b[e], in_c + worth * c[e], in_d + worth * d[e]
            if begins[e]:
                exposure = of_user.exposure[e]
                centres[k, number], centres[i, number] = of_a + exposure * to_a, of_b + exposure * to_b
                centres[j, number], centres[m, number] = of_c + exposure * to_c, of_d + exposure * to_d
                of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
                to_a, to_b, to_c, to_d = in_a, in_b, in_c, in_d
                number += 1


@njit(error_model="numpy")
def add_lists_hessian(lists, u, ties, of_user, hessian):
    """Add minus the Hessian of the log-likelihood in the user's factors.

    Σ_e expected_e x xᵀ - Σ_stages v vᵀ / (choices), v = Σ of share * x over the stage: exact for strict rankings and
    for Breslow's ties; for the others the blocks are taken as as many independent choices, which is never
    indefinite. With proportional odds (no ties) there are no stages.
    """
    weights, n, origin = of_user.weights, of_user.weights.size, lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        for e in range(lists.indptr[r] - origin, lists.indptr[r + 1] - origin):
            weights[e] = lists.weights[r] * of_user.expected[e]
    add_gram(of_user.columns, n, weights, hessian)
    if ties is not None:
        n_stages = _set_stages(lists, u, of_user)
        add_gram(of_user.centres, n_stages, weights, hessian)


@njit(error_model="numpy")
def _set_stages(lists, u, of_user):
    """Fill the centres of all stages and their weights, minus 1 / choices; returns how many they are."""
    weights, n, origin = of_user.weights, of_user.weights.size, lists.indptr[lists.user_indptr[u]]
    n_stages, begins = np.int64(0), np.empty(n, np.bool_)
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        first, last = lists.indptr[r] - origin, lists.indptr[r + 1] - origin
        stage, in_block, worth_below, worth_so_far = n_stages, 0.0, 0.0, 0.0
        for e in range(last - 1, first - 1, -1):
            in_block += of_user.own[e]
            worth_so_far += of_user.worths[e]
            begins[e] = e == first or lists.levels[origin + e - 1] != lists.levels[origin + e]
            if begins[e]:
                choices = in_block + of_user.exposure[e] * worth_below
                weights[n_stages] = -lists.weights[r] / choices if choices > 0.0 else 0.0
                n_stages, in_block, worth_below = n_stages + 1, 0.0, worth_so_far
        _stage_centres(first, last, of_user, begins, stage)
    return n_stages


@njit(error_model="numpy")
def add_stage_noise(lists, u, of_user, stream, number):
    """Add noise to the choices made with the covariance by which their curvature exceeds the Hessian.

    Items move side by side with curvatures Λ (items.py), not the Hessian H of all of them together. Noise of covariance
    Λ then leaves draws that are too close together; with 2 Λ - H it is that of the posterior, H^-1, if that is Gaussian
    (matrix splitting). Λ - H = Σ_stages v vᵀ / choices, v the shares of the entries: one normal number a stage, those
    of the stream from ``number`` on.
    """
    origin, below = lists.indptr[lists.user_indptr[u]], of_user.weights
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        first, n, root = lists.indptr[r] - origin, lists.indptr[r + 1] - origin, math.sqrt(lists.weights[r])
        if root == 0.0:
            continue
        so_far, rest = 0.0, 0.0
        for e in range(n - 1, first - 1, -1):
            below[e] = rest
            rest += of_user.worths[e]
        while first < n:
            end, mine, exposure = first, 0.0, of_user.exposure[first]
            while end < n and lists.levels[origin + end] == lists.levels[origin + first]:
                mine += of_user.own[end]
                end += 1
            choices = mine + exposure * below[end - 1]
            z = normal(stream, number + first) / math.sqrt(choices) if choices > 0.0 else 0.0
            for e in range(first, end):
                of_user.made[e] += (of_user.own[e] * z + of_user.worths[e] * so_far) / root
            so_far += exposure * z
            first = end
