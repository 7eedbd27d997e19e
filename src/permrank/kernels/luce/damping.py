"""Plackett-Luce with damping factors, the Benter model of strict rankings, in linear time (paper, §3.1).

P(ranking) = Π_i e^{ρ_i s_i} / Σ_{j>=i} e^{ρ_i s_j} with ρ_1 >= ρ_2 >= ... >= 0. Every stage has its own ρ, so that
the running sums of plain Plackett-Luce do not apply: the paper is silent on the cost, which naively is n². Around a
middle factor m and a middle score c the exponential is a short sum of products,

    e^{ρ (s - c)} = e^{m (s - c)} Σ_k [(ρ - m)^k / k!] (s - c)^k,

of which one side belongs to the stage and the other to the item. A running sum for each power k then gives all the
denominators, and another all the gradients, for n times the number of terms; and that depends on the spread of ρ s,
not on n. (Chebyshev nodes in ρ would need a quarter fewer terms, but an exp for each; powers need none.) Where the
spread is too large the stages are cut into panels of neighbouring ρ, and where a panel has few stages they are summed
one by one. Every e^{ρ_i s_j} is kept to a relative error of 1e-11, hence every probability, however small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, gumbel

Array = NDArray[Any]

# The largest |ρ - m| |s - c| of a panel. Terms of size e^z cancel down to e^-z: 2e-16 e^{2z} = 7e-13 for z = 4.
_WIDEST = 4.0
# What the truncated series may lack, relative to its sum; 30 terms for z = 4.
_TRUNCATION = 1e-12
_MOST_TERMS = 30
_INVERSE = 1.0 / np.arange(1.0, _MOST_TERMS + 2.0)
# A run of equal ρ is a panel of its own if it has at least 1/8 of the stages: at most 8 more passes, of one term each.
_LONG_RUN = 8
# An exp of a stage summed alone costs as much as 2 terms, two exp and a log of a panel as 8 (measured: 5 and 2.5 ns).
_TERMS_AN_EXP, _TERMS_AN_ITEM = 2, 8
# 1 / log2(1 + i) falls by .37, .13, .07 at first: those stages may cost less alone than by the terms they add.
_TOP_STAGES = 4
# Rankings are dealt to at most this many blocks whatever the number of threads: the bits do not depend on it.
_MOST_BLOCKS = 256


def damping_sequence(kind: str | Sequence[float] | Array, n: int) -> NDArray[np.float64]:
    """ρ_1 .. ρ_n: ones for "none", 1 / log2(1 + i) for "log", or the values given (paper, §3.1).

    The paper's example is 1 / log(1 + i), "natural_log"; base 2 makes ρ_1 = 1, as the scale belongs to the scores.
    Values that are too few are continued with the last one. They are not checked here.
    """
    if isinstance(kind, str) and kind == "none":
        return np.ones(n)
    if isinstance(kind, str) and kind == "log":
        return np.asarray(1.0 / np.log2(2.0 + np.arange(n)))
    if isinstance(kind, str) and kind == "natural_log":
        return np.asarray(1.0 / np.log(2.0 + np.arange(n)))
    values = np.asarray(kind, dtype=np.float64)
    return np.asarray(values[np.minimum(np.arange(n), values.size - 1)])


@njit(error_model="numpy")
def n_terms(z):
    """Terms of Σ_k x^k / k! that give e^x to a relative error of 1e-12 for all |x| <= z; z at most 4."""
    k, rest = 0, math.exp(z)  # rest = e^z z^k / k!, the first term left out over the least sum, e^-z
    while rest > _TRUNCATION * (1.0 - z / (k + 1.0)) and k < _MOST_TERMS:
        k += 1
        rest *= z / k
    return max(k, 1)


@njit(error_model="numpy")
def suffix_extremes(scores, tops, bottoms):
    """Largest and smallest score from each position to the end; tops and bottoms: (n,), written."""
    top, bottom = scores[-1], scores[-1]
    for j in range(scores.size - 1, -1, -1):
        top, bottom = max(top, scores[j]), min(bottom, scores[j])
        tops[j], bottoms[j] = top, bottom


@njit(error_model="numpy")
def next_panel(damping, tops, bottoms, last, n):
    """The longest panel of stages first .. last of a ranking of n: first, the middle of its ρ, its number of terms.

    Panels are taken from the end of the list, where ρ changes least and the scores left span least. A long run of
    equal ρ is a panel of one term. No terms at all means that the stages are better summed one by one.
    """
    first, run = last, last
    lowest, highest, z = damping[last], damping[last], 0.0
    before_run = (lowest, highest, z)
    for i in range(last - 1, -1, -1):
        if damping[i] == damping[i + 1]:
            if run < last and (run - i + 1) * _LONG_RUN >= n:
                first = run + 1  # leave the run to the next panel
                lowest, highest, z = before_run
                break
        else:
            if run == last and (run - i) * _LONG_RUN >= n:
                break
            run, before_run = i, (lowest, highest, z)
        low, high = min(lowest, damping[i]), max(highest, damping[i])
        wider = 0.25 * (high - low) * (tops[i] - bottoms[i])
        if not wider <= _WIDEST:  # so written, a nan ends the panel too
            break
        if i < _TOP_STAGES and n_terms(wider) > n_terms(z) + _TERMS_AN_EXP:
            break
        first, lowest, highest, z = i, low, high, wider
    terms, n_stages, n_left = n_terms(z), last - first + 1, n - first
    if _TERMS_AN_EXP * n_stages * (n_left - n_stages / 2) < (terms + _TERMS_AN_ITEM) * n_left:
        terms = 0
    return first, 0.5 * (lowest + highest), terms


@njit(error_model="numpy")
def _back(scores, damping, tops, panel, sums, worths, inverses, means):
    """Denominators of the stages of a panel, from the last to the first; returns Σ_i log p_i(i).

    With y = (s - c) / t in [-1, 1] and x = (ρ_i - m) t, sums[k] = Σ_{j>=i} e^{m (s_j - top_i)} y_j^k and
    d_i = Σ_k (x^k / k!) sums[k] is the denominator over e^{ρ_i c + m (top_i - c)}: as top_i is the largest score left,
    nothing overflows. means[i] = Σ_j p_i(j) s_j is the same sum with y^{k+1}. Writes for the way forth
    inverses[i] = 1 / d_i and worths[j] = e^{m (s_j - top_j)}.
    """
    first, last, terms, middle, centre, half = panel
    scale = 1.0 / half if half > 0.0 else 0.0
    log_likelihood, product, top = 0.0, 1.0, tops[-1]
    sums[:] = 0.0
    for j in range(scores.size - 1, first - 1, -1):
        if tops[j] > top:
            sums *= math.exp(middle * (top - tops[j]))
            top = tops[j]
        y, power = (scores[j] - centre) * scale, math.exp(middle * (scores[j] - top))
        x, weight, before = (damping[j] - middle) * half, 1.0, 0.0
        worths[j] = power
        total, moment = 0.0, 0.0
        for k in range(terms + 1):
            sums[k] += power
            power *= y
            total += weight * sums[k]
            moment += before * sums[k]
            before = weight
            weight *= x * _INVERSE[k]
        if j <= last:
            inverses[j] = 1.0 / total
            means[j] = centre + half * moment * inverses[j]
            log_likelihood += damping[j] * (scores[j] - centre) - middle * (top - centre)
            product *= total  # between e^-4 and n e^4
            if product > 1e150 or product < 1e-150:
                log_likelihood -= math.log(product)
                product = 1.0
    return log_likelihood - math.log(product)


@njit(error_model="numpy")
def _forth(scores, damping, tops, panel, sums, squares, worths, inverses, expected, curvature):
    """Add Σ_i ρ_i p_i(j) to expected[j] and Σ_i ρ_i² p_i(j) to curvature[j], over the stages i <= j of a panel.

    p_i(j) = e^{m (s_j - top_i)} Σ_k y_j^k v_ik with v_ik = (x_i^k / k!) / d_i, so that sums[k] = Σ_{i<=j} ρ_i v_ik
    e^{m (top_j - top_i)} serves j, and all later j if it follows the fall of top_j. squares[k] has ρ_i² in place of
    ρ_i. Names as in `_back`.
    """
    first, last, terms, middle, centre, half = panel
    scale = 1.0 / half if half > 0.0 else 0.0
    sums[:], squares[:] = 0.0, 0.0
    top = tops[first]
    for j in range(first, scores.size):
        if tops[j] < top:
            factor = math.exp(middle * (tops[j] - top))
            sums *= factor
            squares *= factor
            top = tops[j]
        rho, weight = (damping[j], damping[j] * inverses[j]) if j <= last else (0.0, 0.0)
        x = (rho - middle) * half
        y, power = (scores[j] - centre) * scale, worths[j]
        total, total_squares = 0.0, 0.0
        for k in range(terms):
            sums[k] += weight
            squares[k] += rho * weight
            weight *= x * _INVERSE[k]
            total += power * sums[k]
            total_squares += power * squares[k]
            power *= y
        expected[j] += total
        curvature[j] += total_squares


@njit(error_model="numpy")
def _one_by_one(scores, damping, tops, first, last, worths, means, expected, curvature):
    """What `_back` and `_forth` do, an exp for each stage and each item left to it."""
    log_likelihood = 0.0
    for i in range(first, last + 1):
        rho, total, moment = damping[i], 0.0, 0.0
        for j in range(i, scores.size):
            worths[j] = math.exp(rho * (scores[j] - tops[i]))
            total += worths[j]
            moment += worths[j] * (scores[j] - tops[i])
        for j in range(i, scores.size):
            share = rho * (worths[j] / total)
            expected[j] += share
            curvature[j] += rho * share
        means[i] = tops[i] + moment / total
        log_likelihood += rho * (scores[i] - tops[i]) - math.log(total)
    return log_likelihood


@njit(error_model="numpy")
def damped_ranking(scores, damping, work, sums, expected, curvature):
    """One ranking, its last panel first. work: (5, n); sums: (2, terms + 1).

    work[4] receives Σ_j p_i(j) s_j, of which the derivative in ρ_i is made: s_i - Σ_j p_i(j) s_j.
    """
    n = scores.size
    tops, bottoms, worths, inverses, means = work[0, :n], work[1, :n], work[2, :n], work[3, :n], work[4, :n]
    expected[:], curvature[:] = 0.0, 0.0
    means[n - 1] = scores[n - 1]
    suffix_extremes(scores, tops, bottoms)
    log_likelihood, last = 0.0, n - 2
    while last >= 0:
        first, middle, terms = next_panel(damping, tops, bottoms, last, n)
        if terms == 0:
            log_likelihood += _one_by_one(scores, damping, tops, first, last, worths, means, expected, curvature)
        else:
            centre, half = 0.5 * (tops[first] + bottoms[first]), 0.5 * (tops[first] - bottoms[first])
            panel = (first, last, terms, middle, centre, half)
            back, forth, squares = sums[0, : terms + 1], sums[0, :terms], sums[1, :terms]
            log_likelihood += _back(scores, damping, tops, panel, back, worths, inverses, means)
            _forth(scores, damping, tops, panel, forth, squares, worths, inverses, expected, curvature)
        last = first - 1
    return log_likelihood


@njit(error_model="numpy")
def _blocks(indptr):
    """Bounds of blocks of rankings with about as many entries each, (n_blocks + 1,), and the longest length."""
    longest, n_entries = 1, indptr[-1] - indptr[0]
    for r in range(indptr.size - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    n_blocks = min(_MOST_BLOCKS, max(1, n_entries // longest))
    bounds = np.searchsorted(indptr[:-1], indptr[0] + np.arange(n_blocks + 1) * (n_entries / n_blocks))
    bounds[0], bounds[n_blocks] = 0, indptr.size - 1
    return bounds, longest


@njit(error_model="numpy", parallel=True)
def damped_statistics(indptr, scores, damping, chosen, expected, curvature):
    """log P(ranking) = Σ_i [ρ_i s_i - log Σ_{j>=i} e^{ρ_i s_j}], its gradient, and a bound of its curvature (§3.1).

    With p_i(j) = e^{ρ_i s_j} / Σ_{l>=i} e^{ρ_i s_l}, the chance of entry j at stage i,

    * chosen[j] = ρ_j and expected[j] = Σ_{i<=j} ρ_i p_i(j): the gradient in the score of j is chosen - expected;
    * curvature[j] = Σ_{i<=j} ρ_i² p_i(j), at least minus the second derivative, Σ_{i<=j} ρ_i² p_i(j) (1 - p_i(j)).

    The last stage of a ranking is certain and is left out. indptr: (n_rankings + 1,); scores: (n_entries,), best first;
    damping: as long as the longest ranking or longer, not negative; the three others: (n_entries,), written. Returns
    log P, (n_rankings,), for any finite scores and with the same bits for any number of threads.
    """
    log_likelihood = np.empty(indptr.size - 1)
    bounds, longest = _blocks(indptr)
    for b in prange(bounds.size - 1):
        work, sums = np.empty((5, longest)), np.empty((2, _MOST_TERMS + 1))
        for r in range(bounds[b], bounds[b + 1]):
            start, stop = indptr[r], indptr[r + 1]
            log_likelihood[r] = 0.0
            if stop > start:
                log_likelihood[r] = damped_ranking(
                    scores[start:stop], damping, work, sums, expected[start:stop], curvature[start:stop]
                )
                for e in range(start, stop - 1):
                    chosen[e] = damping[e - start]
                chosen[stop - 1] = 0.0
    return log_likelihood


@njit(error_model="numpy", parallel=True)
def damped_rankings(scores, turns, damping, key):
    """Rankings drawn stage by stage: at stage i the largest ρ_i s_j + Gumbel noise of those left, n²/2 steps each.

    scores: (rows, n); turns: (size,), the row of each draw; damping: (n,) or longer. Returns int32 (size, n), best
    first.
    """
    n = scores.shape[1]
    orders = np.empty((turns.size, n), np.int32)
    for d in prange(turns.size):
        stream, counter, own = derive(key, d), 0, orders[d]
        for j in range(n):
            own[j] = j
        for i in range(n - 1):
            best, index = -np.inf, i
            for j in range(i, n):
                value = damping[i] * scores[turns[d], own[j]] + gumbel(stream, counter)
                counter += 1
                if value > best:
                    best, index = value, j
            own[i], own[index] = own[index], own[i]
    return orders
