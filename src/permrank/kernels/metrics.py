"""Ranking metrics over ragged lists; the formulas are in docs/metrics.md.

Entries ``indptr[u]:indptr[u + 1]`` belong to list u, in any order. Equal scores stand for a random order of their
entries, and every metric here is its *expected value* over these orders, in closed form: no order of the input, and no
random number, enters the result. What cannot be measured (nothing relevant, nothing to order) is NaN.
"""

import math

import numpy as np

from permrank.kernels.jit import njit, prange

# Columns of `graded_metrics`.
NDCG, NDCG_LINEAR, ERR, RECIPROCAL_RANK, AVERAGE_PRECISION, PRECISION, RECALL, OVERLAP, HIT_RATE = range(9)
N_GRADED = 9
# Columns of `order_metrics`.
TAU_B, SPEARMAN, PAIRS_RIGHT = range(3)
N_ORDER = 3


@njit(error_model="numpy")
def stable_sort(values, order, spare):
    """Sort indices by their values, upwards and stable; return how many pairs stood wrong before (Knight 1966)."""
    n, swaps, width = order.size, 0, 8
    for left in range(0, n, width):  # short runs by insertion, then merged two by two
        for position in range(left + 1, min(left + width, n)):
            moved, gap = order[position], position
            while gap > left and values[order[gap - 1]] > values[moved]:
                order[gap] = order[gap - 1]
                gap -= 1
            order[gap] = moved
            swaps += position - gap
    while width < n:
        for left in range(0, n, 2 * width):
            middle, right = min(left + width, n), min(left + 2 * width, n)
            a, b = left, middle
            for position in range(left, right):
                if a < middle and (b >= right or values[order[a]] <= values[order[b]]):
                    spare[position] = order[a]
                    a += 1
                else:
                    spare[position] = order[b]
                    b += 1
                    swaps += middle - a
        for position in range(n):
            order[position] = spare[position]
        width *= 2
    return swaps


@njit(error_model="numpy")
def _end_of_tie(values, begin):
    """First position after the run of equal values that begins at `begin`."""
    end = begin + 1
    while end < values.size and values[end] == values[begin]:
        end += 1
    return end


@njit(error_model="numpy")
def _discounted_gains(grades, scores, discounts, k, out):
    """sum_{p < k} E[gain at p] / log2(p + 2) for the gains 2^g - 1 and g: a tied entry has the mean of its block."""
    begin = 0
    out[0] = out[1] = 0.0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        exponential = linear = discount = 0.0
        for p in range(begin, end):
            exponential += 2.0 ** grades[p] - 1.0
            linear += grades[p]
            if p < k:
                discount += discounts[p]
        out[0] += exponential / (end - begin) * discount
        out[1] += linear / (end - begin) * discount
        begin = end


@njit(error_model="numpy")
def _expected_reciprocal_rank(grades, scores, top_grade, k, means):
    """sum_p R_p / (p + 1) prod_{q < p} (1 - R_q) with R = (2^g - 1) / 2^top_grade (Chapelle et al. 2009).

    In a random order of a block the reader passes its first j entries with the probability e_j / C(m, j), e_j being the
    elementary symmetric polynomial of the 1 - R: the means m_j follow by m_j <- (1 - j/t) m_j + j/t (1 - R_t) m_{j-1}.
    """
    total, passed, begin = 0.0, 1.0, 0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        most = min(end, k) - begin
        means[0] = 1.0
        for j in range(most):
            means[j + 1] = 0.0
        for t in range(1, end - begin + 1):
            on = 1.0 - (2.0 ** grades[begin + t - 1] - 1.0) / 2.0**top_grade
            for j in range(min(t, most), 0, -1):
                means[j] = (1.0 - j / t) * means[j] + j / t * on * means[j - 1]
        for j in range(most):
            total += passed * (means[j] - means[j + 1]) / (begin + j + 1)
        passed *= means[most]
        begin = end
    return total


@njit(error_model="numpy")
def _first_relevant(relevant, scores, k, out):
    """E[1 / position of the first relevant entry], 0 beyond k, and P(a relevant entry before k).

    Of the first block with r > 0 relevant ones among its m, the first is at position j if none of the r was before:
    prod_{i < j} (m - r - i) / (m - i).
    """
    begin = 0
    out[0] = out[1] = 0.0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        m, r = end - begin, 0
        for p in range(begin, end):
            r += relevant[p]
        if r > 0:
            none_before, none = 1.0, 1.0
            for j in range(min(m - r + 1, k - begin)):
                here = none_before * r / (m - j)
                out[0] += here / (begin + j + 1)
                none_before -= here
            for j in range(min(end, k) - begin):
                none *= max(m - r - j, 0) / (m - j)
            out[1] = 1.0 - none
            return
        begin = end


@njit(error_model="numpy")
def _relevance_sums(relevant, scores, k, out):
    """E[number of relevant entries before k], and E[sum of the precisions at those]."""
    before, begin = 0.0, 0
    out[0] = out[1] = 0.0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        m, r = end - begin, 0
        for p in range(begin, end):
            r += relevant[p]
        for j in range(min(end, k) - begin):
            others = j * (r - 1.0) / (m - 1.0) if m > 1 else 0.0
            out[0] += r / m
            out[1] += r / m * (before + 1.0 + others) / (begin + j + 1)
        before += r
        begin = end


@njit(error_model="numpy")
def _overlap(grades, scores, k, cut, above, tied):
    """E[share of the first k by score that are among the first k by grade], ties of both in random order.

    The k-th best grade is `cut`; so many of the whole list are above it and at it.
    """
    at_cut = (k - above) / tied
    total, begin = 0.0, 0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        inside = 0.0
        for p in range(begin, end):
            inside += 1.0 if grades[p] > cut else at_cut if grades[p] == cut else 0.0
        total += inside * (min(end, k) - begin) / (end - begin)
        begin = end
    return total / k


@njit(error_model="numpy")
def mark_list(own, shown, ideal, n_relevant, overlap, discounts, k, reach, relevant_from, top_grade, out):
    """Metrics of one list into a row of `graded_metrics`.

    `own` and `shown` are grades and scores by falling score, of the first `reach` entries at least and of all that tie
    with the last of these; `ideal` the `reach` best grades, `n_relevant` of the whole list, `overlap` what `_overlap`
    needs.
    """
    relevant = np.empty(own.size, np.bool_)
    for p in range(own.size):
        relevant[p] = own[p] >= relevant_from
    sums = np.empty(2)
    best = best_linear = 0.0
    for p in range(reach):
        best += (2.0 ** ideal[p] - 1.0) * discounts[p]
        best_linear += ideal[p] * discounts[p]
    _discounted_gains(own, shown, discounts, k, sums)
    if best > 0.0:
        out[NDCG] = sums[0] / best
    if best_linear > 0.0:
        out[NDCG_LINEAR] = sums[1] / best_linear
    out[ERR] = _expected_reciprocal_rank(own, shown, top_grade, k, np.empty(reach + 1))
    out[OVERLAP] = _overlap(own, shown, reach, overlap[0], overlap[1], overlap[2])
    if n_relevant > 0:
        _first_relevant(relevant, shown, k, sums)
        out[RECIPROCAL_RANK], out[HIT_RATE] = sums
        _relevance_sums(relevant, shown, k, sums)
        out[PRECISION] = sums[0] / reach
        out[RECALL] = sums[0] / n_relevant
        out[AVERAGE_PRECISION] = sums[1] / n_relevant


@njit(error_model="numpy")
def _graded(grades, scores, discounts, k, relevant_from, top_grade, out):
    """Sort one list both ways, and mark it."""
    n = grades.size
    order, spare = np.arange(n), np.empty(n, np.int64)
    shown, own, ideal = np.empty(n), np.empty(n), np.empty(n)
    stable_sort(grades, order, spare)
    n_relevant = 0
    for p in range(n):
        ideal[p] = grades[order[n - 1 - p]]
        n_relevant += ideal[p] >= relevant_from
    stable_sort(scores, order, spare)
    for p in range(n):
        shown[p], own[p] = scores[order[n - 1 - p]], grades[order[n - 1 - p]]
    reach = min(k, n)
    cut = ideal[reach - 1]
    above = tied = 0
    for p in range(n):
        above += ideal[p] > cut
        tied += ideal[p] == cut
    mark_list(own, shown, ideal, n_relevant, (cut, above, tied), discounts, k, reach, relevant_from, top_grade, out)


@njit(error_model="numpy", parallel=True)
def graded_metrics(indptr, grades, scores, discounts, k, relevant_from, top_grade, out):
    """Metrics of the first k positions, one row of `out` a list; columns NDCG to HIT_RATE.

    `out` comes filled with NaN, `discounts` is 1 / log2(2, 3, ...).
    """
    for u in prange(indptr.size - 1):
        first, last = indptr[u], indptr[u + 1]
        if last > first:
            _graded(grades[first:last], scores[first:last], discounts, k, relevant_from, top_grade, out[u])


@njit(error_model="numpy")
def _middle_ranks(sorted_values, order, ranks):
    """Ranks of indices less their mean, ties sharing theirs; returns the sum of squares, and the pairs of equals."""
    middle, squares, tied, begin = (order.size - 1) / 2.0, 0.0, 0, 0
    while begin < order.size:
        end = _end_of_tie(sorted_values, begin)
        rank = (begin + end - 1) / 2.0 - middle
        tied += (end - begin) * (end - begin - 1) // 2
        for p in range(begin, end):
            ranks[order[p]] = rank
            squares += rank * rank
        begin = end
    return squares, tied


@njit(error_model="numpy")
def _ordered(truth, scores, out):
    """Metrics of one list into a row of `order_metrics`."""
    n = truth.size
    order, spare = np.arange(n), np.empty(n, np.int64)
    by_truth, by_score, values = np.empty(n), np.empty(n), np.empty(n)
    stable_sort(truth, order, spare)
    for p in range(n):
        values[p] = truth[order[p]]
    pairs = n * (n - 1) // 2
    of_truth, tied = _middle_ranks(values, order, by_truth)
    asked = pairs - tied
    if asked == 0:
        return
    stable_sort(scores, order, spare)  # inside ties of the score still by truth: such pairs do not stand wrong
    for p in range(n):
        values[p] = scores[order[p]]
    of_scores, tied = _middle_ranks(values, order, by_score)
    told, undecided, begin = pairs - tied, tied, 0
    while begin < n:
        end = _end_of_tie(values, begin)
        same = begin
        for p in range(begin + 1, end + 1):  # runs of equal truth inside the tie were not asked about
            if p == end or truth[order[p]] != truth[order[same]]:
                undecided -= (p - same) * (p - same - 1) // 2
                same = p
        begin = end
    wrong = stable_sort(truth, order, spare)
    right = asked - undecided - wrong
    out[PAIRS_RIGHT] = (right + 0.5 * undecided) / asked
    if told == 0:
        out[TAU_B] = out[SPEARMAN] = 0.0
        return
    out[TAU_B] = (right - wrong) / (math.sqrt(asked) * math.sqrt(told))
    product = 0.0
    for p in range(n):
        product += by_truth[p] * by_score[p]
    out[SPEARMAN] = product / math.sqrt(of_truth * of_scores)


@njit(error_model="numpy", parallel=True)
def order_metrics(indptr, truth, scores, out):
    """Agreement of two orders, one row of `out` a list; columns TAU_B to PAIRS_RIGHT.

    `out` comes filled with NaN, which stays where all truths are equal.
    """
    for u in prange(indptr.size - 1):
        first, last = indptr[u], indptr[u + 1]
        if last > first + 1:
            _ordered(truth[first:last], scores[first:last], out[u])
