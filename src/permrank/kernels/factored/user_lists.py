"""What the lists of one user say at given scores: log-likelihood, derivatives in the scores, Hessian in the factors.

Scores are linear in the user's vector, so the rows of a user's items are gathered once; steps then change the scores
without a look at the items.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.factored.choices import NARROW, exponentials, strict_choices, tied_choices
from permrank.kernels.factored.odds import odds_statistics
from permrank.kernels.jit import njit
from permrank.kernels.plackett_luce.likelihood import BRESLOW, EXACT, PARTITION, ranking_statistics
from permrank.kernels.rows import add_gram, add_rows, row_products
from permrank.kernels.streams import normal


class UserLists(NamedTuple):
    """Arrays for the n entries of one user, all rankings one after the other, and K factors.

    Attributes
    ----------
    rows, centres : (n, K)
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

    rows: Any
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
    """Room for user u, with the rows of the items listed."""
    start, stop = lists.indptr[lists.user_indptr[u]], lists.indptr[lists.user_indptr[u + 1]]
    n, n_factors = stop - start, theta.shape[1] - 1
    rows, flat = np.empty((2, n, n_factors)), np.empty((10, n))
    for e in range(n):
        source, row = theta[lists.items[start + e]], rows[0, e]
        for k in range(n_factors):
            row[k] = source[k]
        flat[0, e] = source[n_factors]
    bits = flat[9].view(np.int64)
    return UserLists(
        rows[0], rows[1], flat[0], flat[1], flat[2], flat[3], flat[4], flat[5], flat[6], flat[7], flat[8], flat[9], bits
    )


@njit(error_model="numpy")
def set_scores(of_user, user):
    """Scores of the entries: b_y + W_u H_y."""
    n = of_user.scores.size
    row_products(of_user.rows, n, user, of_user.scores)
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
    """Weighted log-likelihood of the rankings of user u at the present scores; fills the entries' statistics."""
    value, origin = 0.0, lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        if stop == start:
            continue
        levels, a, b = lists.levels[start:stop], start - origin, stop - origin
        part = odds_statistics(levels, edges, of_user, a, b) if ties < 0 else _ranking(levels, ties, of_user, a, b)
        value += lists.weights[r] * part
    return value


@njit(error_model="numpy")
def add_lists_hessian(lists, u, ties, of_user, hessian):
    """Add minus the Hessian of the log-likelihood in the user's factors.

    Σ_e expected_e x xᵀ - Σ_stages v vᵀ / (choices), v = Σ of share * x over the stage: exact for strict rankings and
    for Breslow's ties; for the others the blocks are taken as as many independent choices, which is never
    indefinite. With proportional odds there are no stages.
    """
    weights, rows, centres, n_factors = of_user.weights, of_user.rows, of_user.centres, hessian.shape[0]
    n, origin = weights.size, lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        for e in range(lists.indptr[r] - origin, lists.indptr[r + 1] - origin):
            weights[e] = lists.weights[r] * of_user.expected[e]
    add_gram(rows, n, weights, hessian)
    if ties < 0:
        return
    n_stages, tail = 0, np.empty(n_factors)
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        a, end = lists.indptr[r] - origin, lists.indptr[r + 1] - origin
        tail[:], worth_below = 0.0, 0.0
        while end > a:
            first = end - 1
            while first > a and lists.levels[origin + first - 1] == lists.levels[origin + end - 1]:
                first -= 1
            exposure, centre = of_user.exposure[first], centres[n_stages]
            choices = exposure * worth_below
            for k in range(n_factors):
                centre[k] = exposure * tail[k]
            add_rows(rows[first:], end - first, of_user.own[first:], centre)
            add_rows(rows[first:], end - first, of_user.worths[first:], tail)
            for e in range(first, end):
                choices += of_user.own[e]
                worth_below += of_user.worths[e]
            if choices > 0.0:
                weights[n_stages] = -lists.weights[r] / choices
                n_stages += 1
            end = first
    add_gram(centres, n_stages, weights, hessian)


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
