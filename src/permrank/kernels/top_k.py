"""Metrics of the best k of a whole catalogue, for many users at once; the formulas are in docs/metrics.md.

Scores of all items are a row for each user. The k-th best of a row is found in one pass with a heap, and only what lies
above it, or ties with it, is sorted. As in `kernels.metrics`, equal scores stand for a random order, and every value is
the expected one: an item with a score above the k-th best is shown, one with the very score of it with the same
probability as all others that have it.
"""

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.metrics import mark_list, stable_sort

# Columns of `shown_metrics`.
NOVELTY, POPULARITY_BIAS = range(2)
# Columns of the counts of a row: candidates, those above the k-th best, those that tie with it.
CANDIDATES, ABOVE, TIED = range(3)
_LOWEST = -1.7976931348623157e308


@njit(error_model="numpy")
def _kth_best(row, k, heap):
    """The k-th largest number of a row (that has so many), -inf left out; the heap has the least on top."""
    size = 0
    for value in row:
        if value == -math.inf:
            continue
        if size < k:  # let it rise
            place = size
            while place > 0 and heap[(place - 1) // 2] > value:
                heap[place] = heap[(place - 1) // 2]
                place = (place - 1) // 2
            heap[place] = value
            size += 1
        elif value > heap[0]:  # let it sink from the top
            place, child = 0, 1
            while child < size:
                if child + 1 < size and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[place] = heap[child]
                place, child = child, 2 * child + 1
            heap[place] = value
    return heap[0]


@njit(error_model="numpy", parallel=True)
def best_items(rows, k):
    """The k items with the largest scores in each row, best first, of equal ones the lower: (n_rows, k), -1 for none.

    An item of score -inf is none.
    """
    items = np.full((rows.shape[0], k), -1)
    for i in prange(rows.shape[0]):
        row, own, n_free = rows[i], items[i], 0
        for value in row:
            n_free += value != -math.inf
        n_best = min(k, n_free)
        if n_best > 0:
            least, n_above = _kth_best(row, n_best, np.empty(n_best)), 0
            for y in range(row.size):
                n_above += row[y] > least
            # Of those that tie with the k-th best the first; then all in order.
            above, tied = 0, 0
            for y in range(row.size):
                if row[y] > least:
                    own[n_above - 1 - above] = y
                    above += 1
                elif row[y] == least and tied < n_best - n_above:
                    own[n_above + tied] = y
                    tied += 1
            # Upwards and stable, from the last to the first; then turned round.
            stable_sort(row, own[:n_above], np.empty(n_above, np.int64))
            for y in range(n_above // 2):
                own[y], own[n_above - 1 - y] = own[n_above - 1 - y], own[y]
    return items


@njit(error_model="numpy", parallel=True)
def select_best(rows, listed_bounds, listed, k, thresholds, counts):
    """Bar what each user has listed (-inf) and find the k-th best score of the others; a row of `counts` a user.

    Fewer than k candidates are all among the best. A score that is not a finite number is the lowest of all.
    """
    for u in prange(rows.shape[0]):
        row = rows[u]
        for i in range(row.size):
            if not math.isfinite(row[i]):
                row[i] = _LOWEST
        for entry in range(listed_bounds[u], listed_bounds[u + 1]):
            row[listed[entry]] = -math.inf
        n = 0
        for i in range(row.size):
            n += row[i] != -math.inf
        reach = min(k, n)
        above = tied = 0
        if reach > 0:
            threshold = _kth_best(row, reach, np.empty(reach))
            for i in range(row.size):
                above += row[i] > threshold
                tied += row[i] == threshold
            thresholds[u] = threshold
        counts[u, CANDIDATES], counts[u, ABOVE], counts[u, TIED] = n, above, tied


@njit(error_model="numpy")
def _ideal(hidden, n_others, reach, ideal):
    """The `reach` best grades of a user: of the hidden items (sorted downwards), and 0 of all others."""
    place, zeros = 0, n_others
    for p in range(reach):
        if zeros > 0 and (place == hidden.size or hidden[place] < 0.0):
            ideal[p] = 0.0
            zeros -= 1
        else:
            ideal[p] = hidden[place]
            place += 1
    cut = ideal[reach - 1]
    above, tied = n_others * (cut < 0.0), n_others * (cut == 0.0)
    for grade in hidden:
        above += grade > cut
        tied += grade == cut
    return cut, above, tied


@njit(error_model="numpy", parallel=True)
def catalogue_metrics(
    rows, thresholds, counts, hidden_bounds, hidden, grades, discounts, k, relevant_from, top_grade, out
):
    """Metrics of `kernels.metrics.graded_metrics` over all candidates, one row of `out` a user, NaN before.

    `hidden` has the items that a user is asked about (-1: one that the model does not know, which is never shown) and
    `grades` theirs, falling; every other candidate has the grade 0.
    """
    for u in prange(rows.shape[0]):
        n_shown = counts[u, ABOVE] + counts[u, TIED]
        own, shown, order = np.zeros(n_shown), np.empty(n_shown), np.empty(n_shown, np.int64)
        first, last = 0, counts[u, ABOVE]
        for i in range(rows.shape[1]):
            if rows[u, i] > thresholds[u]:
                order[first] = i
                first += 1
            elif rows[u, i] == thresholds[u] and counts[u, TIED] > 0:
                order[last] = i
                last += 1
        best = order[: counts[u, ABOVE]]
        stable_sort(rows[u], best, np.empty(best.size, np.int64))
        best[:] = best[::-1].copy()
        worth = np.zeros(rows.shape[1])
        begin, end = hidden_bounds[u], hidden_bounds[u + 1]
        missed = n_relevant = 0
        for entry in range(begin, end):
            n_relevant += grades[entry] >= relevant_from
            if hidden[entry] < 0:
                missed += 1
            else:
                worth[hidden[entry]] = grades[entry]
        for p in range(n_shown):
            shown[p], own[p] = rows[u, order[p]], worth[order[p]]
        n = counts[u, CANDIDATES] + missed
        n_others = n - (end - begin)
        if relevant_from <= 0.0:
            n_relevant += n_others
        reach = min(k, n)
        if reach > 0:
            ideal = np.empty(reach)
            overlap = _ideal(grades[begin:end], n_others, reach, ideal)
            mark_list(own, shown, ideal, n_relevant, overlap, discounts, k, reach, relevant_from, top_grade, out[u])


@njit(error_model="numpy")
def _chance(score, threshold, k, counts):
    """P(an item is among the best k)."""
    if score > threshold:
        return 1.0
    return (min(k, counts[CANDIDATES]) - counts[ABOVE]) / counts[TIED] if score == threshold else 0.0


@njit(error_model="numpy", parallel=True)
def shown_metrics(rows, thresholds, counts, k, values, out):
    """Mean over the best k of each column of `values` (n_items, n), one row of `out` a user, NaN before."""
    for u in prange(rows.shape[0]):
        if counts[u, CANDIDATES] > 0:
            for column in range(values.shape[1]):
                out[u, column] = 0.0
            for i in range(rows.shape[1]):
                if rows[u, i] >= thresholds[u]:
                    chance = _chance(rows[u, i], thresholds[u], k, counts[u])
                    for column in range(values.shape[1]):
                        out[u, column] += chance * values[i, column] / min(k, counts[u, CANDIDATES])


@njit(error_model="numpy", parallel=True)
def never_shown(rows, thresholds, counts, k, missed):
    """Multiply `missed`, P(an item is shown to nobody), by what these users add; ties of each in an order of its own.

    Parallel over items, so that every product is taken in the order of the users.
    """
    for i in prange(rows.shape[1]):
        for u in range(rows.shape[0]):
            if counts[u, CANDIDATES] > 0 and rows[u, i] >= thresholds[u]:
                missed[i] *= 1.0 - _chance(rows[u, i], thresholds[u], k, counts[u])
