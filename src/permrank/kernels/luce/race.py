"""Questions about one Plackett-Luce distribution (paper, §3, eq. 1), answered through the exponential race.

Let item i arrive at an exponential time of rate w_i = e^{s_i}. The order of arrival is Plackett-Luce
distributed, and given the arrival time of one item the others come before it or not independently of each
other, so that

    P(position of i = p) = ∫ w_i e^{-w_i t} P(N_{-i}(t) = p) dt,

where N_{-i}(t), the number of others that have arrived by t, is a sum of independent coins with chances
1 - e^{-w_j t} (Poisson-binomial). With x = log t every chance is a function of a_j = e^{x + s_j}, and the
arrival has the density a_i e^{-a_i}. Integrals run over panels of 16 Gauss-Legendre nodes in x, halved until
nothing changes. Here are draws and the first k; `kernels/luce/ranks.py` has the position of one item.
"""

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import gumbel, many_exponentials

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# Between e^-60 and e^4.2 = 67 times its mean time an arrival is open; outside, p or 1 - p is below 1e-25.
_EARLIEST, _LATEST = -60.0, 4.2
# A larger gap between neighbouring scores than this changes no answer by more than n² e^-100.
_WIDEST_GAP = 100.0
# Nobody waits longer than e^600 times as long as the first.
_LONGEST = 600.0
# Tails of a count that are left out weigh less than e^-37 = 1e-16.
TAIL = 37.0
# Halving panels of 16 nodes divides the error by up to 2^32: after a change of 1e-6 what is left is rounding.
CHANGE = 1e-6
# Panels of 12 standard deviations leave at most 1e-6, of 6 at most 1e-13 (measured for n from 3 to 5,000).
WIDEST_PANEL, NARROWEST_PANEL = 12.0, 0.1
# Nodes are dealt to this many sums, added in order: the same bits for any number of threads.
CHUNKS = 16


@njit(error_model="numpy", parallel=True)
def gumbel_rankings(scores, key, size):
    """`size` rankings drawn from the Plackett-Luce distribution of scores (n,), best first: int32 (size, n).

    Sorts s_i + Gumbel, largest first. Draw d uses counters d n ... d n + n - 1 of the stream of `key`: it
    does not depend on `size` or on threads.
    """
    n = scores.size
    rankings = np.empty((size, n), dtype=np.int32)
    for draw in prange(size):
        keys = np.empty(n)
        for i in range(n):
            keys[i] = -(scores[i] + gumbel(key, draw * n + i))
        rankings[draw] = np.argsort(keys)
    return rankings


@njit(error_model="numpy", parallel=True)
def gumbel_ranks(scores, turns, keys, chosen):
    """Ranks, from 0, of some items in rankings drawn by `gumbel_rankings`, one of each key: int32 (size, n_chosen).

    Draw d is from the row turns[d] of scores, (n_rows, n).
    """
    n = scores.shape[1]
    ranks, means = np.empty((turns.size, chosen.size), np.int32), np.empty(scores.shape)
    for row in prange(scores.shape[0]):  # mean times of arrival, e^{-s}, in units of the least
        top = -np.inf
        for i in range(n):
            top = max(top, scores[row, i])
        for i in range(n):
            means[row, i] = math.exp(min(top - scores[row, i], _LONGEST))
    for draw in prange(turns.size):
        times = np.empty(n)
        many_exponentials(keys[draw], times)
        for i in range(n):
            times[i] *= means[turns[draw], i]
        for c in range(chosen.size):
            own, before = times[chosen[c]], 0
            for i in range(n):
                before += times[i] < own
            ranks[draw, c] = before
    return ranks


@njit(error_model="numpy")
def log_times(scores):
    """Items by score, best first, and the log of their mean arrival times, from 0 up, wide gaps narrowed."""
    order = np.argsort(-scores)
    times = np.zeros(scores.size)
    for j in range(1, scores.size):
        times[j] = times[j - 1] + min(scores[order[j - 1]] - scores[order[j]], _WIDEST_GAP)
    return order, times


@njit(error_model="numpy")
def open_range(times, x):
    """[first, last): items whose arrival by log time x is open; all before have arrived, none after."""
    return np.searchsorted(times, x - _LATEST), np.searchsorted(times, x - _EARLIEST)


@njit(error_model="numpy")
def _count_moments(times, x):
    """Mean and variance of N(e^x), and the slope d mean / dx = sum_j a_j e^{-a_j}."""
    first, last = open_range(times, x)
    mean, variance, slope = float(first), 0.0, 0.0
    for j in range(first, last):
        a = math.exp(x - times[j])
        stays = math.exp(-a)
        arrives = -math.expm1(-a)
        mean += arrives
        variance += arrives * stays
        slope += a * stays
    return mean, variance, slope


@njit(error_model="numpy")
def _poisson_exponent(mean, k):
    """Chernoff's E = mean - k + k log(k / mean): a sum of coins is beyond k with probability below e^-E."""
    if k <= 0.0:
        return mean
    if mean <= 0.0:
        return np.inf
    return mean - k + k * math.log(k / mean)


@njit(error_model="numpy")
def _window(times, k):
    """[low, high] in log time: before low P(N >= k), after high P(N <= k) are below 1e-16.

    The better of three bounds: Chernoff's for those arrived and for those not arrived, and Bernstein's.
    """
    n = times.size
    ends = np.array([times[0] - TAIL - math.log(n), times[-1] + _LATEST])
    for side in range(2):
        outer, inner = ends[side], ends[1 - side]
        while abs(inner - outer) > 0.05:  # an end may lie a little too far out
            x = 0.5 * (inner + outer)
            mean, variance, _ = _count_moments(times, x)
            distance = k - mean if side == 0 else mean - k
            exponent = 0.0
            if distance > 0.0:
                exponent = max(_poisson_exponent(mean, k), _poisson_exponent(n - mean, n - k))
                exponent = max(exponent, 0.5 * distance**2 / (variance + distance / 3.0))
            if exponent > TAIL:
                outer = x
            else:
                inner = x
        ends[side] = outer
    return ends[0], ends[1]


@njit(error_model="numpy")
def quadrature(times, low, high, width):
    """Nodes and weights of Gauss-Legendre panels over [low, high] in log time.

    A panel spans at most `width` standard deviations of the count, each sqrt(var N) / (d mean / dx) in log
    time, and at most width / 4 in log time, the scale of a single arrival.
    """
    edges, n_panels = np.empty(16), 0
    edges[0] = low
    while edges[n_panels] < high:
        step, ahead = 0.25 * width, 0.0
        for _ in range(2):  # by the left end, then by where that step would lead
            _, variance, slope = _count_moments(times, edges[n_panels] + ahead)
            if slope > 0.0:
                step = min(step, width * math.sqrt(variance) / slope + 1e-3)  # 1e-3: never stand still
            ahead = step
        n_panels += 1
        if n_panels == edges.size:
            longer = np.empty(2 * n_panels)
            longer[:n_panels] = edges
            edges = longer
        edges[n_panels] = min(edges[n_panels - 1] + step, high)
    nodes, weights = np.empty(16 * n_panels), np.empty(16 * n_panels)
    for panel in range(n_panels):
        half = 0.5 * (edges[panel + 1] - edges[panel])
        for node in range(16):
            nodes[16 * panel + node] = edges[panel] + half * (1.0 + _NODES[node])
            weights[16 * panel + node] = half * _WEIGHTS[node]
    return nodes, weights


@njit(error_model="numpy")
def add_up(parts, total):
    """Replace total (size,) by the sum of parts (CHUNKS, size), in order; returns the largest change."""
    change = 0.0
    for i in range(total.size):
        value = 0.0
        for chunk in range(parts.shape[0]):
            value += parts[chunk, i]
        change = max(change, abs(value - total[i]))
        total[i] = value
    return change


@njit(error_model="numpy")
def count_distribution(chances, least, counts):
    """P(m heads) of independent coins (n,) into counts (n + 1,); returns the range [first, last] that is written.

    Ends below ``least`` are dropped as they appear: O(sqrt n) numbers stay, and the error is below n times it.
    """
    first, last = 0, 0
    counts[0] = 1.0
    for chance in chances:
        last += 1
        counts[last] = 0.0
        stays = 1.0 - chance
        for m in range(last, first, -1):
            counts[m] = stays * counts[m] + chance * counts[m - 1]
        counts[first] *= stays
        while first < last and counts[first] < least:
            first += 1
        while last > first and counts[last] < least:
            last -= 1
    return first, last


@njit(error_model="numpy")
def _toss(counts, chance):
    """Distribution of a count (kept below counts.size) after one more coin."""
    stays = 1.0 - chance
    for m in range(counts.size - 1, 0, -1):
        counts[m] = stays * counts[m] + chance * counts[m - 1]
    counts[0] *= stays


@njit(error_model="numpy")
def _others_below(chances, k):
    """P(sum_{j != i} coin_j < k) for every coin i: float64 (n,). Chances (n,) must not increase.

    Coins above 1/2 are few where this matters, and their leave-one-out sums come from prefixes and suffixes.
    The others are taken out of the distribution of all, B_m = (1 - p) A_m + p A_{m-1}: stable for p <= 1/2.
    """
    n = chances.size
    if k >= n:
        return np.ones(n)
    below = np.empty(n)
    heavy = 0
    while heavy < n and chances[heavy] > 0.5:
        heavy += 1
    prefixes = np.zeros((heavy + 1, k))
    prefixes[0, 0] = 1.0
    for i in range(heavy):
        prefixes[i + 1] = prefixes[i]
        _toss(prefixes[i + 1], chances[i])
    suffix = np.zeros(k)
    suffix[0] = 1.0
    for i in range(heavy, n):
        _toss(suffix, chances[i])
    for i in range(heavy - 1, -1, -1):
        cumulative, total = 0.0, 0.0
        for m in range(k):
            cumulative += suffix[m]
            total += cumulative * prefixes[i, k - 1 - m]
        below[i] = total
        _toss(suffix, chances[i])
    at_most = np.cumsum(suffix)
    for i in range(heavy, n):
        ratio = -chances[i] / (1.0 - chances[i])
        power, total = 1.0, 0.0
        for m in range(k - 1, -1, -1):
            total += power * at_most[m]
            power *= ratio
            if abs(power) < 1e-18:
                break
        below[i] = total / (1.0 - chances[i])
    return below


@njit(error_model="numpy")
def _add_top_node(times, k, late, x, weight, out):
    """Add weight a_i e^{-a_i} P(fewer than k others counted) to out (n,).

    Counted are those that have arrived by e^x, or, if `late`, those that have not.
    """
    first, last = open_range(times, x)
    n_open = last - first
    k_open = k - (times.size - last if late else first)
    if n_open == 0 or k_open <= 0:
        return
    chances, density = np.empty(n_open), np.empty(n_open)
    largest = 0.0
    for j in range(n_open):
        # The surest coin first: the earliest arrival, or the latest absence.
        log_a = x - times[last - 1 - j if late else first + j]
        a = math.exp(log_a)
        chances[j] = math.exp(-a) if late else -math.expm1(-a)
        density[j] = weight * math.exp(log_a - a)
        largest = max(largest, density[j])
    if largest < 1e-20:
        return
    below = _others_below(chances, k_open)
    for j in range(n_open):
        out[last - 1 - j if late else first + j] += density[j] * below[j]


@njit(error_model="numpy", parallel=True)
def _top_integrals(times, k, late, nodes, weights):
    """∫ a_i e^{-a_i} P(fewer than k others counted) dx, in parts to be added up: float64 (CHUNKS, n)."""
    parts = np.zeros((CHUNKS, times.size))
    for chunk in prange(CHUNKS):
        for node in range(chunk, nodes.size, CHUNKS):
            _add_top_node(times, k, late, nodes[node], weights[node], parts[chunk])
    return parts


@njit(error_model="numpy")
def top_probabilities(scores, k):
    """P(item i is among the first k) for scores (n,): float64 (n,), summing to min(k, n).

    P_i = ∫ w_i e^{-w_i t} P(N_{-i}(t) < k) dt. For k > n/2 its complement is found from those not yet
    arrived, so a node costs O(n min(k, n - k)). Before the window of the k-th arrival the inner probability
    is 1, after it 0.
    """
    n = scores.size
    if k <= 0:
        return np.zeros(n)
    if k >= n:
        return np.ones(n)
    order, times = log_times(scores)
    late = 2 * k > n
    low, high = _window(times, k)
    inside, width, change = np.zeros(n), WIDEST_PANEL, np.inf
    while change > CHANGE and width >= NARROWEST_PANEL:
        nodes, weights = quadrature(times, low, high, width)
        change = add_up(_top_integrals(times, n - k if late else k, late, nodes, weights), inside)
        width *= 0.5
    top = np.empty(n)
    for j in range(n):
        if late:
            value = 1.0 - inside[j] - math.exp(-math.exp(min(high - times[j], 7.0)))  # e^-e^7 is 0
        else:
            value = inside[j] - math.expm1(-math.exp(min(low - times[j], 7.0)))
        top[order[j]] = min(max(value, 0.0), 1.0)
    return top
