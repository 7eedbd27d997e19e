"""Ranking metrics over ragged lists; the formulas are in docs/metrics.md.

Entries ``indptr[u]:indptr[u + 1]`` belong to list u, in any order. Equal scores stand for a random order of their
entries, and every metric here is its *expected value* over these orders, in closed form: no order of the input, and no
random number, enters the result. What cannot be measured (nothing relevant, nothing to order) is NaN.
"""

import math

import numpy as np
from numba import njit, prange

# Columns of `graded_metrics`.
NDCG, NDCG_LINEAR, ERR, RECIPROCAL_RANK, AVERAGE_PRECISION, PRECISION, RECALL, OVERLAP = range(8)
# Columns of `order_metrics`.
TAU_B, SPEARMAN, PAIRS_RIGHT = range(3)


@njit(cache=True, nogil=True, error_model="numpy")
def _end_of_tie(values, begin):
    """First place after the run of equal values that begins at `begin`."""
    end = begin + 1
    while end < values.size and values[end] == values[begin]:
        end += 1
    return end


@njit(cache=True, nogil=True, error_model="numpy")
def _discounted_gains(grades, scores, discounts, k, out):
    """sum_{p < k} E[gain at p] / log2(p + 2) for the gains 2^g - 1 and g: a tied entry has the mean of its block."""
    begin = 0
    out[:] = 0.0
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


@njit(cache=True, nogil=True, error_model="numpy")
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
        means[1 : most + 1] = 0.0
        for t in range(1, end - begin + 1):
            on = 1.0 - (2.0 ** grades[begin + t - 1] - 1.0) / 2.0**top_grade
            for j in range(min(t, most), 0, -1):
                means[j] = (1.0 - j / t) * means[j] + j / t * on * means[j - 1]
        for j in range(most):
            total += passed * (means[j] - means[j + 1]) / (begin + j + 1)
        passed *= means[most]
        begin = end
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _reciprocal_rank(relevant, scores, k):
    """E[1 / place of the first relevant entry], 0 beyond k: it is at place j of a block if at none before."""
    begin = 0
    while begin < min(k, scores.size):
        end = _end_of_tie(scores, begin)
        m, r = end - begin, 0
        for p in range(begin, end):
            r += relevant[p]
        if r > 0:
            total, none_before = 0.0, 1.0
            for j in range(min(m - r + 1, k - begin)):
                here = none_before * r / (m - j)
                total += here / (begin + j + 1)
                none_before -= here
            return total
        begin = end
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _relevance_sums(relevant, scores, k, out):
    """E[number of relevant entries before k], and E[sum of the precisions at those]."""
    before, begin = 0.0, 0
    out[:] = 0.0
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


@njit(cache=True, nogil=True, error_model="numpy")
def _overlap(grades, ideal, scores, k):
    """E[share of the first k by score that are among the first k by grade], ties of both in random order."""
    cut = ideal[k - 1]
    above = tied = 0
    for p in range(ideal.size):
        above += ideal[p] > cut
        tied += ideal[p] == cut
    at_cut = (k - above) / tied
    total, begin = 0.0, 0
    while begin < k:
        end = _end_of_tie(scores, begin)
        inside = 0.0
        for p in range(begin, end):
            inside += 1.0 if grades[p] > cut else at_cut if grades[p] == cut else 0.0
        total += inside * (min(end, k) - begin) / (end - begin)
        begin = end
    return total / k


@njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def graded_metrics(indptr, grades, scores, discounts, k, relevant_from, top_grade):
    """Metrics of the first k places, one row a list; columns NDCG to OVERLAP. `discounts` is 1 / log2(2, 3, ...)."""
    out = np.full((indptr.size - 1, 8), np.nan)
    for u in prange(indptr.size - 1):
        n = indptr[u + 1] - indptr[u]
        if n == 0:
            continue
        order = np.argsort(-scores[indptr[u] : indptr[u + 1]])
        own_scores, own = np.empty(n), np.empty(n)
        relevant = np.empty(n, np.bool_)
        n_relevant = 0
        for p in range(n):
            own_scores[p] = scores[indptr[u] + order[p]]
            own[p] = grades[indptr[u] + order[p]]
            relevant[p] = own[p] >= relevant_from
            n_relevant += relevant[p]
        ideal = np.sort(own)[::-1]
        sums, best, reach = np.empty(2), np.zeros(2), min(k, n)
        for p in range(reach):
            best[0] += (2.0 ** ideal[p] - 1.0) * discounts[p]
            best[1] += ideal[p] * discounts[p]
        _discounted_gains(own, own_scores, discounts, k, sums)
        for gain in range(2):
            if best[gain] > 0.0:
                out[u, NDCG + gain] = sums[gain] / best[gain]
        out[u, ERR] = _expected_reciprocal_rank(own, own_scores, top_grade, k, np.empty(reach + 1))
        out[u, OVERLAP] = _overlap(own, ideal, own_scores, reach)
        if n_relevant > 0:
            out[u, RECIPROCAL_RANK] = _reciprocal_rank(relevant, own_scores, k)
            _relevance_sums(relevant, own_scores, k, sums)
            out[u, PRECISION] = sums[0] / reach
            out[u, RECALL] = sums[0] / n_relevant
            out[u, AVERAGE_PRECISION] = sums[1] / n_relevant
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_counting_inversions(values, spare):
    """Sort upwards in place and return the number of pairs that stood the wrong way round (Knight 1966)."""
    n, swaps, width = values.size, 0, 8
    for left in range(0, n, width):  # short runs by insertion, then merged two by two
        for place in range(left + 1, min(left + width, n)):
            value, gap = values[place], place
            while gap > left and values[gap - 1] > value:
                values[gap] = values[gap - 1]
                gap -= 1
            values[gap] = value
            swaps += place - gap
    while width < n:
        for left in range(0, n, 2 * width):
            middle, right = min(left + width, n), min(left + 2 * width, n)
            a, b = left, middle
            for place in range(left, right):
                if a < middle and (b >= right or values[a] <= values[b]):
                    spare[place] = values[a]
                    a += 1
                else:
                    spare[place] = values[b]
                    b += 1
                    swaps += middle - a
        values[:] = spare
        width *= 2
    return swaps


@njit(cache=True, nogil=True, error_model="numpy")
def _tied_pairs(sorted_values):
    """Number of pairs of equal values."""
    pairs, begin = 0, 0
    while begin < sorted_values.size:
        end = _end_of_tie(sorted_values, begin)
        pairs += (end - begin) * (end - begin - 1) // 2
        begin = end
    return pairs


@njit(cache=True, nogil=True, error_model="numpy")
def _rank_correlation(truth_by_score, sorted_truth, sorted_scores):
    """Pearson's correlation of mid-ranks; 0 if all scores are equal."""
    n, middle = truth_by_score.size, (truth_by_score.size - 1) / 2.0
    # Truths are mostly a few stars: look their mid-ranks up among the different ones only.
    values, ranks = np.empty(n), np.empty(n)
    n_values = begin = 0
    while begin < n:
        end = _end_of_tie(sorted_truth, begin)
        values[n_values], ranks[n_values] = sorted_truth[begin], (begin + end - 1) / 2.0 - middle
        n_values += 1
        begin = end
    product = of_truth = of_scores = 0.0
    begin = 0
    while begin < n:
        end = _end_of_tie(sorted_scores, begin)
        by_score = (begin + end - 1) / 2.0 - middle
        for p in range(begin, end):
            by_truth = ranks[np.searchsorted(values[:n_values], truth_by_score[p])]
            product += by_score * by_truth
            of_truth += by_truth * by_truth
            of_scores += by_score * by_score
        begin = end
    return product / math.sqrt(of_truth * of_scores) if of_scores > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def order_metrics(indptr, truth, scores):
    """Agreement of two orders, one row a list; columns TAU_B to PAIRS_RIGHT. NaN where all truths are equal."""
    out = np.full((indptr.size - 1, 3), np.nan)
    for u in prange(indptr.size - 1):
        n = indptr[u + 1] - indptr[u]
        if n < 2:
            continue
        order = np.argsort(scores[indptr[u] : indptr[u + 1]])
        own_scores, own = np.empty(n), np.empty(n)
        for p in range(n):
            own_scores[p] = scores[indptr[u] + order[p]]
            own[p] = truth[indptr[u] + order[p]]
        by_score = own.copy()
        tied_scores = tied_both = 0
        begin = 0
        while begin < n:  # sorted inside ties of the score: such pairs are not the wrong way round
            end = _end_of_tie(own_scores, begin)
            if end - begin > 1:
                own[begin:end] = np.sort(own[begin:end])
                tied_scores += (end - begin) * (end - begin - 1) // 2
                tied_both += _tied_pairs(own[begin:end])
            begin = end
        wrong = _sort_counting_inversions(own, np.empty(n))
        pairs = n * (n - 1) // 2
        asked = pairs - _tied_pairs(own)
        if asked == 0:
            continue
        undecided = tied_scores - tied_both
        right = asked - undecided - wrong
        told = pairs - tied_scores
        out[u, TAU_B] = (right - wrong) / (math.sqrt(asked) * math.sqrt(told)) if told > 0 else 0.0
        out[u, SPEARMAN] = _rank_correlation(by_score, own, own_scores)
        out[u, PAIRS_RIGHT] = (right + 0.5 * undecided) / asked
    return out
