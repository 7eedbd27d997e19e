"""Where a new item enters a list whose order is kept (paper, §3.2.2, one community), ties treated exactly.

Let A_b be the total worth of block b and all below it, R_b what is below it, x the worth of the candidate.
Against the list alone, whose probability is the sum over all places for the candidate,

    P(x just before block b) = Π_{c<b} P(T_c before R_c + x) / P(T_c before R_c) · x / (A_b + x),

as blocks after the candidate are not touched by it. Without ties the ratio is A_c / (A_c + x), and
neighbouring places have the odds O_j = A_j / (A_{j+1} + x), as in §3.2.2. All sums and products are in the
log domain.
"""

import math

import numpy as np
from numba import njit, prange

from permrank.kernels.plackett_luce import log_block_probability


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):
    """log(e^a + e^b) for finite b; a may be -inf."""
    if a > b:
        return a + math.log1p(math.exp(b - a))
    return b + math.log1p(math.exp(a - b))


@njit(cache=True, nogil=True, error_model="numpy")
def _blocks(levels, scores):
    """What a list's candidates share: block starts (B + 1,), log A_b (B + 1,), log P(T_b before R_b) (B,)."""
    n = levels.size
    starts = np.empty(n + 1, dtype=np.int64)
    n_blocks = 0
    for i in range(n):
        if i == 0 or levels[i] != levels[i - 1]:
            starts[n_blocks] = i
            n_blocks += 1
    starts[n_blocks] = n
    log_totals, log_alone = np.empty(n_blocks + 1), np.empty(n_blocks)
    log_totals[n_blocks] = -np.inf
    for b in range(n_blocks - 1, -1, -1):
        log_totals[b] = log_totals[b + 1]
        for i in range(starts[b], starts[b + 1]):
            log_totals[b] = _log_add(log_totals[b], scores[i])
        if starts[b + 1] - starts[b] == 1:
            log_alone[b] = scores[starts[b]] - log_totals[b]
        else:
            log_alone[b] = log_block_probability(scores[starts[b] : starts[b + 1]], log_totals[b + 1])
    return starts[: n_blocks + 1], log_totals, log_alone


@njit(cache=True, nogil=True, error_model="numpy")
def _passed_and_inside(scores, log_rest, log_total, log_alone, candidate):
    """For a block T of several items: log P(T before R + x) and P(x strictly inside T), over P(T before R).

    P(inside) = P(T + x before R) - P(x first) P(T before R) - P(T before R + x) P(x before R). Below the last
    block there is nothing: P(T + x before R) = P(x before R) = 1. The difference can cancel, hence the clip.
    """
    together = np.empty(scores.size + 1)
    together[: scores.size] = scores
    together[scores.size] = candidate
    log_passed = log_block_probability(scores, _log_add(log_rest, candidate)) - log_alone
    log_first = candidate - _log_add(log_total, candidate)
    log_before_rest = candidate - _log_add(log_rest, candidate)
    inside = math.exp(log_block_probability(together, log_rest) - log_alone)
    inside -= math.exp(log_first) + math.exp(log_passed + log_before_rest)
    return log_passed, max(inside, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _insert(starts, log_totals, log_alone, scores, candidate):
    """`insertion_probabilities` from what `_blocks` returns."""
    n_blocks = log_alone.size
    places = np.zeros(scores.size + 1)
    log_before = 0.0  # log Π_{c<b} P(T_c before R_c + x) / P(T_c before R_c)
    for b in range(n_blocks):
        start, stop = starts[b], starts[b + 1]
        log_with = _log_add(log_totals[b], candidate)
        places[start] = math.exp(log_before + candidate - log_with)
        if stop - start == 1:
            log_before += log_totals[b] - log_with
            continue
        log_passed, inside = _passed_and_inside(
            scores[start:stop], log_totals[b + 1], log_totals[b], log_alone[b], candidate
        )
        # A tie says nothing about the order inside it: nothing speaks for one inner place over another.
        for place in range(start + 1, stop):
            places[place] = math.exp(log_before) * inside / (stop - start - 1)
        log_before += log_passed
    places[scores.size] = math.exp(log_before)
    return places / places.sum()  # one but for rounding and the quadrature of blocks


@njit(cache=True, nogil=True, error_model="numpy")
def insertion_probabilities(levels, scores, candidate):
    """P(a new item with score `candidate` enters at place j of a list of n): float64 (n + 1,), sums to one.

    levels int32 (n,), not decreasing, equal for tied items; scores float64 (n,) of the list's items, best
    first. Place j has j of the list's items before the candidate. The equation is at the head of this file;
    what enters strictly inside a block of m tied items, see `_passed_and_inside`, is spread evenly over its m
    - 1 inner places.
    """
    starts, log_totals, log_alone = _blocks(levels, scores)
    return _insert(starts, log_totals, log_alone, scores, candidate)


@njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def expected_positions(levels, scores, candidates):
    """Mean place, sum_j j P(place = j) of `insertion_probabilities`, of candidates (c,): float64 (c,)."""
    starts, log_totals, log_alone = _blocks(levels, scores)
    expected = np.empty(candidates.size)
    for c in prange(candidates.size):
        places = _insert(starts, log_totals, log_alone, scores, candidates[c])
        total = 0.0
        for j in range(places.size):
            total += j * places[j]
        expected[c] = total
    return expected
