"""The Plackett-Luce likelihood of rankings with ties, and the statistics that learning needs (paper, §3).

With worths w = exp(score), a ranking without ties is a sequence of choices among what is left,
P = Π_p w_p / A_p with A_p = A_{p+1} + w_p (§3, eq. 1, and the recursion of A in §3.2). A tie block T, all of
it before the items of total worth W that follow, is treated in one of four ways: see `stage_statistics`.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.sets import log_add

EXACT = 0
EFRON = 1
BRESLOW = 2
PARTITION = 3

# A product of tail sums is kept in [1e-150, 1e150], and exp(-300) > 1e-131: one more factor cannot underflow.
_NARROW = 300.0
# Up to here the 2^m subsets of a block cost less than quadrature (measured at m = 7: 1.7 µs against 5 µs).
_MOST_ENUMERATED = 7
# exp(80 * 7) is far from overflow, so subset sums need no logarithms up to this |log(w / W)|.
_ENUMERABLE = 80.0
# Below W exp(-230) a worth only multiplies the integral: 1 - exp(-a x) = a x to all digits, as x < exp(40).
_LOWEST_LOG_RATE, _HIGHEST_LOG_RATE = -230.0, 600.0
# Nodes are placed until the integrand is exp(-32) = 1e-14 of its peak; aliasing is held to exp(-30) = 1e-13.
_DROP, _ALIASING = 32.0, 30.0
# First trapezoid step: in standard deviations of the peak, and at most what exp(-e^y) allows.
_STEP, _LONGEST_STEP = 0.75, 0.29


@njit(error_model="numpy")
def _log_sum(scores, first, stop):
    """Logarithm of Σ_{first <= t < stop} exp(s_t)."""
    if stop == first + 1:
        return scores[first]
    largest = scores[first]
    for t in range(first + 1, stop):
        largest = max(largest, scores[t])
    total = 0.0
    for t in range(first, stop):
        total += math.exp(scores[t] - largest)
    return largest + math.log(total)


@njit(error_model="numpy")
def _subset_sums(rates, own):
    """Sum over all orders of a small block through its 2^m subsets.

    H(S) = Σ_{t in S} H(S - t) / (1 + a(S)) is the probability of emptying S before the rest, over Π a_t. The
    way back gives the probability that S was ever what remained, hence own[t], the expected number of times
    that t is chosen. Returns log(P / Π a_t) and the expected number of times that the rest is chosen.
    """
    m = rates.size
    full = (1 << m) - 1
    inverse, forward = np.empty(full + 1), np.empty(full + 1)
    backward = np.zeros(full + 1)
    inverse[0], forward[0], backward[full] = 0.0, 1.0, 1.0
    for subset in range(1, full + 1):
        total, ways = 1.0, 0.0
        for t in range(m):
            if subset >> t & 1:
                total += rates[t]
                ways += forward[subset ^ (1 << t)]
        inverse[subset] = 1.0 / total
        forward[subset] = ways / total
    own[:m] = 0.0
    rest = 0.0
    for subset in range(full, 0, -1):
        passed = backward[subset] * inverse[subset]
        exposure = passed * (forward[subset] / forward[full])
        rest += exposure
        for t in range(m):
            if subset >> t & 1:
                backward[subset ^ (1 << t)] += passed
                own[t] += rates[t] * exposure
    return math.log(forward[full]), rest


@njit(error_model="numpy")
def _newton_terms(rates, x):
    """g', -g'' and g''' at y = log x: 1 - x + Σ r, x - Σ r', -x + Σ r'' with r = z / (e^z - 1), z = a x.

    Derivatives are in y: r' = r (1 - z - r).
    """
    slope, curvature, third = 1.0 - x, x, -x
    for t in range(rates.size):
        z = rates[t] * x
        if z < 0.03125:
            r = 1.0 - z * (0.5 - z * (1.0 / 12.0))
        else:
            e = math.exp(-z)
            r = z * e / (1.0 - e)
        change = r * (1.0 - z - r)
        slope += r
        curvature -= change
        third += change * (1.0 - z - 2.0 * r) - r * z
    return slope, curvature, third


@njit(error_model="numpy")
def _node(rates, x, complement):
    """One node: log Π_t (1 - e^{-z_t}), Σ_t r_t and complement[t] = 1 - r_t; z = a x, r = z / (e^z - 1)."""
    log_product, product, total = 0.0, 1.0, 0.0
    for t in range(rates.size):
        z = rates[t] * x
        if z < 0.03125:  # 2^-5: the series lose less than 1e-15, the closed forms cancel
            product *= z * (1 - z / 2 * (1 - z / 3 * (1 - z / 4 * (1 - z / 5 * (1 - z / 6 * (1 - z / 7))))))
            square = z * z
            short = z * 0.5 - square / 12.0 * (1.0 - square / 60.0 * (1.0 - square / 42.0))
            complement[t] = short
            total += 1.0 - short
        else:
            e = math.exp(-z)
            r = z * e / (1.0 - e)
            product *= 1.0 - e
            complement[t] = 1.0 - r
            total += r
        if product < 1e-150:
            log_product += math.log(product)
            product = 1.0
    return log_product + math.log(product), total


@njit(error_model="numpy")
def _add_node(rates, x, weight, complement, own, second):
    """own += weight (1 - r), and, unless it is empty, the lower half of second += weight (rr' + diag(dr / dy))."""
    for t in range(rates.size):
        own[t] += weight * complement[t]
    for t in range(second.shape[0]):
        second[t, t] += weight * (1.0 - complement[t]) * (complement[t] - rates[t] * x)
        for u in range(t + 1):
            second[t, u] += weight * complement[t] * complement[u]


@njit(error_model="numpy")
def _march(rates, y, step, start, peak, complement, own, second):
    """Add nodes y, y + step, ... until the integrand has died; start is g one step before y, or nan.

    Returns Σ of weights exp(g - peak), Σ weight Σ r, and the largest curvature (minus a second difference of g)
    times the digits still wanted there. own and second: see `_add_node`.
    """
    total, rest, worst = 0.0, 0.0, 0.0
    before, previous = np.nan, start
    while True:
        x = math.exp(y)
        log_product, ratios = _node(rates, x, complement)
        g = y - x + log_product
        curvature = (2.0 * previous - before - g) * (_ALIASING - peak + previous)
        if curvature > worst:  # false for nan
            worst = curvature
        weight = math.exp(g - peak)
        total += weight
        rest += weight * ratios
        _add_node(rates, x, weight, complement, own, second)
        if not g >= peak - _DROP:  # so written, a nan ends the loop too
            return total, rest, worst
        before, previous = previous, g
        y += step


@njit(error_model="numpy")
def _mode(rates):
    """Where g of `_integrate_block` is largest, to a fifth of its width, and a first trapezoid step."""
    # g' = 0 means x = 1 + Σ r with 0 < r < 1, so that 1 < x < 1 + m; r = 1 - z/2 + ... gives the first guess.
    n = 1.0 + rates.size
    low, high, y = 0.0, math.log(n), math.log(max(1.0, n / (1.0 + 0.5 * np.sum(rates))))
    while True:
        slope, curvature, third = _newton_terms(rates, math.exp(y))
        if not (slope * slope >= 0.04 * curvature and high - low > 1e-9):  # a nan ends the loop too
            # The curvature grows to one side of a skewed peak: a fit of max_u (1 + skew u) (1 - u² / 60).
            skew = abs(third) / curvature**1.5
            steepest = curvature * (1.0 + 14.0 * skew**2 / (1.0 + 4.0 * skew))
            return y, min(_STEP / math.sqrt(steepest), _LONGEST_STEP)
        if slope > 0.0:
            low = y
        else:
            high = y
        y += slope / curvature
        if y <= low or y >= high:
            y = 0.5 * (low + high)


@njit(error_model="numpy")
def _integrate_block(rates, own, second):
    """∫_0^1 Π_t (1 - v^{a_t}) dv, its logarithm, by the trapezoid rule in y, where v = exp(-e^y).

    The integrand is exp g(y), g(y) = y - e^y + Σ_t log(1 - exp(-a_t e^y)), with one peak and no heavy tail. A
    stretch of curvature κ that lies d below the peak is aliased with relative size exp(-d - 2π² / (κ h²));
    the step h is halved, keeping all nodes, until that is below exp(-30) at every node. For exp(-e^y), where
    κ = d, this asks for h = 0.29; a narrow peak needs some 26 nodes. Returns also Σ E[r_t], r_t as in `_node`
    under the normalised integrand; own[t] = 1 - E[r_t]. The lower half of second is E[dr / dy] on the diagonal plus
    the covariance of r, the second derivatives in log a (Louis, 1982); it may be empty.
    """
    y, step = _mode(rates)
    complement = np.empty(rates.size)
    log_product, rest = _node(rates, math.exp(y), complement)
    peak = y - math.exp(y) + log_product
    own[:], second[:] = 0.0, 0.0
    _add_node(rates, math.exp(y), 1.0, complement, own, second)
    total, worst = 1.0, 0.0
    for h in (step, -step):
        part, ratios, curvature = _march(rates, y + h, h, peak, peak, complement, own, second)
        total += part
        rest += ratios
        worst = max(worst, curvature)
    while worst > 2.0 * math.pi**2:
        worst *= 0.25
        for h in (step, -step):
            part, ratios, curvature = _march(rates, y + 0.5 * h, h, np.nan, peak, complement, own, second)
            total += part
            rest += ratios
            worst = max(worst, 0.25 * curvature)
        step *= 0.5
    own /= total
    for t in range(second.shape[0]):
        for u in range(t + 1):
            second[t, u] = second[t, u] / total - own[t] * own[u]
    return peak + math.log(total * step), rest / total


@njit(error_model="numpy")
def _exact_block(scores, log_rest, own):
    """P(the block comes before the rest), its logarithm, for two items or more.

    P = ∫_0^1 Π_t (1 - v^{w_t / W}) dv: the last of the block arrives before the first of the rest in a race
    of exponential clocks of rates w. own[t] = w_t E[arrival of t], and the second result is W E[arrival of
    the last]: the statistics of the complete data. By Fisher's identity 1 - own[t] = ∂ log P / ∂ s_t.
    """
    m = scores.size
    rates = np.empty(m)
    widest, outside, log_product = 0.0, 0.0, 0.0
    for t in range(m):
        log_rate = scores[t] - log_rest
        widest = max(widest, abs(log_rate))
        log_product += log_rate
        outside += min(0.0, log_rate - _LOWEST_LOG_RATE)
        rates[t] = math.exp(min(max(log_rate, _LOWEST_LOG_RATE), _HIGHEST_LOG_RATE))
    if m <= _MOST_ENUMERATED and widest < _ENUMERABLE:
        log_ways, rest = _subset_sums(rates, own)
        return log_product + log_ways, rest
    log_probability, rest = _integrate_block(rates, own, np.empty((0, 0)))
    if outside < 0.0:
        for t in range(m):
            own[t] *= math.exp(min(0.0, scores[t] - log_rest - _LOWEST_LOG_RATE))
    return log_probability + outside, rest


@njit(error_model="numpy")
def log_block_probability(scores, log_rest):
    """P(all items of a tie block come before items of total worth exp(log_rest)), its logarithm.

    scores: (m,); log_rest = -inf means that nothing follows. See `EXACT` in `stage_statistics`.
    """
    if scores.size == 0 or log_rest == -np.inf:
        return 0.0
    if scores.size == 1:
        return scores[0] - log_add(scores[0], log_rest)
    log_probability, _ = _exact_block(scores, log_rest, np.empty(scores.size))
    return log_probability


@njit(error_model="numpy")
def _linear_block(scores, first, stop, n_left, log_total, log_block, ties):
    """One block under the treatments with a closed form; A = exp(log_total), B = exp(log_block).

    Returns its log-probability, and A times the exposures of an item of the block and of one that follows.
    """
    m = stop - first
    if ties == PARTITION:
        # Σ over non-empty subsets S of N items of mean_S w is Σ w (2^N - 1) / N.
        log_subsets = n_left * math.log(2.0) + math.log1p(-(2.0**-n_left)) - math.log(n_left)
        return log_block - math.log(m) - log_total - log_subsets, 1.0, 1.0
    log_likelihood = 0.0
    for t in range(first, stop):
        log_likelihood += scores[t] - log_total
    if m == 1 or ties != EFRON:
        return log_likelihood, float(m), float(m)
    share = math.exp(log_block - log_total) / m
    own, rest, product = 0.0, 0.0, 1.0
    for j in range(m):
        left = 1.0 - j * share
        own += (1.0 - j / m) / left
        rest += 1.0 / left
        product *= left
        if product < 1e-150:
            log_likelihood -= math.log(product)
            product = 1.0
    return log_likelihood - math.log(product), own, rest


@njit(error_model="numpy")
def block_curvature(scores, log_rest, log_total, ties, second):
    """Second derivatives of a block's log-probability in its scores, (m, m), while the worth W of the rest is fixed.

    With b = w / A and a_j = 1 - (B / A) j / m they are those of `stage_statistics`: -δ b Σ_j c_j + b b' Σ_j c_j², where
    c_j is (1 - j / m) / a_j for `EFRON`, m times 1 for `BRESLOW` and 1 for `PARTITION`, which has log B as well.
    Returns the sum of the first derivatives: minus the one in log W, as moving all scores and log W changes nothing.
    """
    m = scores.size
    if ties == EXACT and m > 1:
        rates, own = np.empty(m), np.empty(m)
        for t in range(m):
            rates[t] = math.exp(min(max(scores[t] - log_rest, _LOWEST_LOG_RATE), _HIGHEST_LOG_RATE))
        _, rest = _integrate_block(rates, own, second)
        for t in range(m):
            second[t, t:] = second[t:, t]
        return rest
    log_block = _log_sum(scores, 0, m)
    share, chosen = math.exp(log_block - log_total), 1.0 if ties == PARTITION else float(m)
    exposure, squares = (1.0, 1.0) if ties == PARTITION else (chosen, chosen)
    if ties == EFRON and m > 1:
        exposure, squares = 0.0, 0.0
        for j in range(m):
            left = (1.0 - j / m) / (1.0 - share * j / m)
            exposure += left
            squares += left * left
    for t in range(m):
        worth, own = math.exp(scores[t] - log_total), math.exp(scores[t] - log_block)
        for u in range(m):
            second[t, u] = squares * worth * math.exp(scores[u] - log_total)
            if ties == PARTITION:
                second[t, u] -= own * math.exp(scores[u] - log_block)
        second[t, t] += (own if ties == PARTITION else 0.0) - exposure * worth
    return chosen - exposure * share


@njit(error_model="numpy")
def _tied_ranking(levels, scores, start, stop, ties, chosen, expected):
    """Any ranking, any finite scores, in the log domain; two exp an entry. See `stage_statistics`."""
    log_likelihood, log_tail, last = 0.0, -np.inf, stop
    while last > start:  # last block first: log_tail is the running sum of what follows
        first = last - 1
        while first > start and levels[first - 1] == levels[last - 1]:
            first -= 1
        log_block = _log_sum(scores, first, last)
        log_total = log_add(log_block, log_tail)
        m = last - first
        log_exposure = -np.inf
        if last == stop and (m == 1 or ties == EXACT):
            expected[first:last] = 0.0
        elif ties == EXACT and m > 1:
            value, rest = _exact_block(scores[first:last], log_tail, expected[first:last])
            log_likelihood += value
            # rest is 0 when W is nothing beside the block
            log_exposure = math.log(max(rest, 1e-300)) - log_tail
        else:
            value, own, rest = _linear_block(scores, first, last, stop - first, log_total, log_block, ties)
            log_likelihood += value
            log_exposure = math.log(rest) - log_total
            for t in range(first, last):
                expected[t] = own * math.exp(scores[t] - log_total)
        chosen[first] = log_exposure  # kept here for the way back
        log_tail, last = log_total, first
    log_exposure, first = -np.inf, start
    while first < stop:
        last = first + 1
        while last < stop and levels[last] == levels[first]:
            last += 1
        next_exposure = log_add(chosen[first], log_exposure) if chosen[first] > -np.inf else log_exposure
        counted = last < stop or (last - first > 1 and ties != EXACT)
        log_block = _log_sum(scores, first, last) if ties == PARTITION else 0.0
        for t in range(first, last):
            expected[t] += math.exp(scores[t] + log_exposure)
            chosen[t] = 0.0 if not counted else math.exp(scores[t] - log_block) if ties == PARTITION else 1.0
        log_exposure, first = next_exposure, last
    return log_likelihood


@njit(error_model="numpy")
def _strict_ranking(scores, start, stop, largest, chosen, expected):
    """A ranking without ties whose scores span less than 300: one exp an entry, logs of whole products."""
    tail, product, log_likelihood = math.exp(scores[stop - 1] - largest), 1.0, 0.0
    chosen[stop - 1], expected[stop - 1] = tail, 0.0
    for e in range(stop - 2, start - 1, -1):
        worth = math.exp(scores[e] - largest)
        tail += worth
        chosen[e], expected[e] = worth, 1.0 / tail
        log_likelihood += scores[e] - largest
        product *= tail
        if product > 1e150 or product < 1e-150:
            log_likelihood -= math.log(product)
            product = 1.0
    exposure = 0.0
    for e in range(start, stop):
        exposure += expected[e]
        expected[e] = chosen[e] * exposure
        chosen[e] = 1.0
    chosen[stop - 1] = 0.0
    return log_likelihood - math.log(product)


@njit(error_model="numpy")
def _is_strict(levels, start, stop):
    """Whether no two entries of a ranking share a level."""
    ties = 0
    for e in range(start + 1, stop):
        ties += levels[e] == levels[e - 1]
    return ties == 0


@njit(error_model="numpy")
def ranking_statistics(levels, scores, start, stop, ties, chosen, expected):
    """`stage_statistics` of one ranking, entries start to stop; the quick way where it is right."""
    if stop == start:
        return 0.0
    lowest, largest = scores[start], scores[start]
    for e in range(start + 1, stop):
        lowest, largest = min(lowest, scores[e]), max(largest, scores[e])
    if largest - lowest < _NARROW and ties != PARTITION and _is_strict(levels, start, stop):
        return _strict_ranking(scores, start, stop, largest, chosen, expected)
    return _tied_ranking(levels, scores, start, stop, ties, chosen, expected)


@njit(error_model="numpy", parallel=True)
def stage_statistics(indptr, levels, scores, ties, chosen, expected):
    """Likelihood of every ranking, and how often each entry is chosen and is expected to be (paper, §3).

    A ranking of blocks T_1 .. T_L has log P = Σ_l log P(T_l | what is left). With m = |T|, B = Σ_T w, W the
    worth of what follows, A = B + W and N items left, log P(T) is (the paper leaves ties to future work)

    * `EXACT`: log ∫_0^1 Π_T (1 - v^{w_t / W}) dv, the sum over all orders of T; 0 for the last block;
    * `EFRON`: Σ_T s - Σ_{j<m} log(A - B j / m);
    * `BRESLOW`: Σ_T s - m log A;
    * `PARTITION`: log(B / m) - log(A (2^N - 1) / N), which sums to one over the non-empty subsets of what is
      left (Truyen, Phung and Venkatesh, 2011). It is a law over ordered partitions: on rankings without ties
      it differs from Plackett-Luce by a constant, its gradient does not.

    Under all four a last block of one item counts nothing. The gradient of log P in an entry's score is
    chosen - expected, and w <- w Σ chosen / Σ expected never lowers the likelihood (Hunter, 2004; for `EXACT`
    it is EM with the arrival times of an exponential race missing).

    indptr: (n_rankings + 1,); levels, scores: (n_entries,), best first; chosen, expected: (n_entries,), both
    written. Returns log P, (n_rankings,). Relative error of P below 1e-10 for any finite scores.
    """
    log_likelihood = np.empty(indptr.size - 1)
    for r in prange(indptr.size - 1):
        log_likelihood[r] = ranking_statistics(levels, scores, indptr[r], indptr[r + 1], ties, chosen, expected)
    return log_likelihood
