"""Where a new item enters a list whose order is kept (paper, §3.2.2, one community), ties treated exactly.

Let A_b be the total worth of block b and all below it, R_b what is below it, x the worth of the candidate.
Against the list alone, whose probability is the sum over all positions for the candidate,

    P(x just before block b) = Π_{c<b} P(T_c before R_c + x) / P(T_c before R_c) · x / (A_b + x),

as blocks after the candidate are not touched by it. Without ties the ratio is A_c / (A_c + x), and
neighbouring positions have the odds O_j = A_j / (A_{j+1} + x), as in §3.2.2. Inside a block T of m items, with R
below it, the candidate stands after exactly j of them, 0 < j < m, with probability

    Σ_{S in T, |S| = j} P(S comes first) · x / (w(T - S) + W + x) · P(T - S before R)   over P(T before R),

S coming first among T, R and x, in any order. Beyond MOST_SUBSETS items the sum over subsets is one over
arrival times: given that the first of R arrives at v, the candidate at τ < v, those of T that were before τ
are counted by independent coins with chances (1 - e^{-w τ}) / (1 - e^{-w v}). All sums have positive terms;
worths stay in the log domain.
"""

import math

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.luce.likelihood import log_block_probability
from permrank.kernels.luce.race import count_distribution
from permrank.kernels.sets import log_add

# Subsets of m items cost 2^m m (1 ms at 12 items), the double integral 2 ms at 12, 30 ms at 100, 1 s at 800.
MOST_SUBSETS = 12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# A panel of 16 nodes over 6 standard deviations of the count, at most 1.5 in log time, errs by 1e-13 (`race.py`).
_DEVIATIONS, _WIDEST = 6.0, 1.5
# What is left out has a probability below 1e-15; the arrival of an item after 36 mean times has 2e-16.
_NOTHING, _LATEST = 1e-15, math.log(36.0)
# The first arrival below the block: a trapezoid rule in log time for a log-concave bump, to e^-32 of its peak.
_DROP = 32.0
# Ends of the distribution of a count that are left out.
_DROPPED = 1e-25
# A candidate that reaches a block with less probability than this is not looked for inside it.
_UNLIKELY = -50.0


@njit(error_model="numpy")
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
            log_totals[b] = log_add(log_totals[b], scores[i])
        if starts[b + 1] - starts[b] == 1:
            log_alone[b] = scores[starts[b]] - log_totals[b]
        else:
            log_alone[b] = log_block_probability(scores[starts[b] : starts[b + 1]], log_totals[b + 1])
    return starts[: n_blocks + 1], log_totals, log_alone


@njit(error_model="numpy")
def _inside_by_subsets(scores, log_rest, log_alone, candidate, inside):
    """inside[j] = P(x after exactly j of the block) over P(T before R), 0 < j < m; by the subsets of T."""
    m = scores.size
    full = (1 << m) - 1
    log_sums = np.empty(full + 1)  # log(w(S) + W)
    before = np.empty(full + 1)  # log P(S before R)
    log_sums[0], before[0] = log_rest, 0.0
    terms = np.empty(m)
    for subset in range(1, full + 1):
        lowest = 0
        while not subset >> lowest & 1:
            lowest += 1
        log_sums[subset] = log_add(log_sums[subset & (subset - 1)], scores[lowest])
        largest, n = -np.inf, 0
        for t in range(m):
            if subset >> t & 1:
                terms[n] = scores[t] + before[subset ^ (1 << t)]
                largest = max(largest, terms[n])
                n += 1
        total = 0.0
        for k in range(n):
            total += math.exp(terms[k] - largest)
        before[subset] = largest + math.log(total) - log_sums[subset]
    first = np.empty(full + 1)  # log P(S comes first)
    first[0] = 0.0
    inside[:] = 0.0
    for subset in range(1, full):
        largest, n = -np.inf, 0
        for t in range(m):
            if subset >> t & 1:
                left = full ^ subset | (1 << t)
                terms[n] = first[subset ^ (1 << t)] + scores[t] - log_add(log_sums[left], candidate)
                largest = max(largest, terms[n])
                n += 1
        total = 0.0
        for k in range(n):
            total += math.exp(terms[k] - largest)
        first[subset] = largest + math.log(total)
        after = full ^ subset
        log_next = candidate - log_add(log_sums[after], candidate)
        inside[n] += math.exp(first[subset] + log_next + before[after] - log_alone)


@njit(error_model="numpy")
def _arrived(log_a):
    """1 - e^{-a}."""
    return 1.0 if log_a > 4.0 else -math.expm1(-math.exp(log_a))  # e^-e^4 is nothing beside 1


@njit(error_model="numpy")
def _moments(scores, bottoms, s):
    """Mean, variance and slope d mean / ds of the count at log time s; chances are divided by bottoms (m,)."""
    mean, variance, slope = 0.0, 0.0, 0.0
    for t in range(scores.size):
        chance = min(_arrived(scores[t] + s) / bottoms[t], 1.0)
        mean += chance
        variance += chance * (1.0 - chance)
        a = math.exp(min(scores[t] + s, 4.0))
        # d log(1 - e^-a) / d log a
        slope += chance * (1.0 if a < 1e-15 else a / math.expm1(a))
    return mean, variance, slope


@njit(error_model="numpy")
def _add_arrivals(scores, candidate, y, weight, counts, inside):
    """Add weight ∫ x e^{-x τ} P(count = j) dτ over τ < e^y to inside[j]."""
    m = scores.size
    bottoms, chances, scores = np.ones(m), np.empty(m), scores.copy()
    if y < np.inf:
        for t in range(m):
            # So far down chances are proportional to time, whatever the worth; this far nothing underflows.
            scores[t] = max(scores[t], -300.0 - y)
            bottoms[t] = _arrived(scores[t] + y)
    high = min(y, _LATEST - candidate)
    # Early on the candidate is first: x τ times the mean count bounds what is left out.
    low, end = -80.0 - max(candidate, scores.max()), high
    while end - low > 0.1:
        s = 0.5 * (low + end)
        mean, _, _ = _moments(scores, bottoms, s)
        if s + candidate + math.log(mean + 1e-300) < math.log(_NOTHING):
            low = s
        else:
            end = s
    while low < high:
        mean, variance, slope = _moments(scores, bottoms, low)
        if m - mean < 1e-15 * m:
            return  # all have arrived
        step = _WIDEST
        for _ in range(2):  # by the left end, then by the middle of that step
            if slope > 0.0:
                # 1e-24: no need to follow what is lost in rounding; 1e-3: never stand still
                step = min(step, _DEVIATIONS * math.sqrt(max(variance, 1e-24)) / slope + 1e-3)
            _, variance, slope = _moments(scores, bottoms, low + 0.5 * min(step, high - low))
        stop = min(low + step, high)
        half = 0.5 * (stop - low)
        for node in range(_NODES.size):
            s = low + half * (1.0 + _NODES[node])
            density = weight * half * _WEIGHTS[node] * math.exp(s + candidate - math.exp(s + candidate))
            if density > 1e-20:
                for t in range(m):
                    chances[t] = min(_arrived(scores[t] + s) / bottoms[t], 1.0)
                first, last = count_distribution(chances, _DROPPED, counts)
                for j in range(max(first, 1), min(last, m - 1) + 1):
                    inside[j] += density * counts[j]
        low = stop


@njit(error_model="numpy")
def _log_bump(scores, y):
    """log of e^y e^{-e^y} Π_t (1 - e^{-w_t e^y}): density in y = log v of the first arrival below, T before it."""
    total = y - math.exp(y)
    for t in range(scores.size):
        log_a = scores[t] + y
        total += log_a if log_a < -36.0 else 0.0 if log_a > 4.0 else math.log(-math.expm1(-math.exp(log_a)))
    return total


@njit(error_model="numpy")
def _inside_by_arrivals(scores, log_rest, candidate, inside):
    """`_inside_by_subsets` by quadrature over the arrivals of the candidate and of the first of the rest."""
    inside[:] = 0.0
    counts = np.empty(scores.size + 1)
    if log_rest == -np.inf:
        # Nothing is below: all of the block arrives in the end.
        largest = scores.max()
        _add_arrivals(scores - largest, candidate - largest, np.inf, 1.0, counts, inside)
        return
    scores, candidate = scores - log_rest, candidate - log_rest
    # The bump in y is log-concave with its peak at 0 < y < log(1 + m); golden section is good enough for its middle.
    low, high = -1.0, math.log(2.0 + scores.size)
    while high - low > 1e-3:
        left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
        if _log_bump(scores, left) < _log_bump(scores, right):
            low = left
        else:
            high = right
    middle = 0.5 * (low + high)
    peak = _log_bump(scores, middle)
    bend = 2.0 * peak - _log_bump(scores, middle - 0.05) - _log_bump(scores, middle + 0.05)
    step = min(0.15, 0.6 * 0.05 / math.sqrt(max(bend, 1e-12)))
    n_low, n_high = 0, 0
    while _log_bump(scores, middle - (n_low + 1) * step) > peak - _DROP:
        n_low += 1
    while _log_bump(scores, middle + (n_high + 1) * step) > peak - _DROP:
        n_high += 1
    # Where everybody has long arrived, it does not matter when the first below does.
    late = max(4.0 - scores.min(), _LATEST - candidate)
    total, late_total = 0.0, 0.0
    for k in range(-n_low, n_high + 1):
        y = middle + k * step
        weight = math.exp(_log_bump(scores, y) - peak)
        total += weight
        if y < late:
            _add_arrivals(scores, candidate, y, weight, counts, inside)
        else:
            late_total += weight
    if late_total > 0.0:
        _add_arrivals(scores, candidate, np.inf, late_total, counts, inside)
    inside /= total


@njit(error_model="numpy")
def insertion_probabilities(levels, scores, candidate):
    """P(a new item with score `candidate` enters at position j of a list of n): float64 (n + 1,), sums to one.

    levels int32 (n,), not decreasing, equal for tied items; scores float64 (n,) of the list's items, best
    first. Position j has j of the list's items before the candidate, in whatever order tied ones are. The
    equations are at the head of this file.
    """
    starts, log_totals, log_alone = _blocks(levels, scores)
    probabilities = np.zeros(scores.size + 1)
    log_before = 0.0  # log Π_{c<b} P(T_c before R_c + x) / P(T_c before R_c)
    for b in range(log_alone.size):
        start, stop = starts[b], starts[b + 1]
        log_with = log_add(log_totals[b], candidate)
        probabilities[start] = math.exp(log_before + candidate - log_with)
        if stop - start == 1:
            log_before += log_totals[b] - log_with
            continue
        block, log_rest = scores[start:stop], log_totals[b + 1]
        if log_before > _UNLIKELY:
            inside = np.empty(stop - start)  # P(x after exactly j of the block) over P(T before R), 0 < j < m
            if block.size <= MOST_SUBSETS:
                _inside_by_subsets(block, log_rest, log_alone[b], candidate, inside)
            else:
                _inside_by_arrivals(block, log_rest, candidate, inside)
            for j in range(1, stop - start):
                probabilities[start + j] = math.exp(log_before) * inside[j]
        log_before += log_block_probability(block, log_add(log_rest, candidate)) - log_alone[b]
    probabilities[scores.size] = math.exp(log_before)
    return probabilities / probabilities.sum()  # one but for rounding and the quadrature of blocks
