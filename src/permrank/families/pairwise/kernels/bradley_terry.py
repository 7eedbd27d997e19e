"""Sums over pairs for Bradley-Terry models with ties, by items: parallel, the same bits for any number of threads.

With d = s_y - s_x and n comparisons of y and x, w of them won by y, l lost and t tied, the log-likelihoods are

    Davidson      w d/2 - l d/2 + t log ν - n log(e^{d/2} + e^{-d/2} + ν)
    Rao-Kupper    -(w + t) log(1 + θ e^{-d}) - (l + t) log(1 + θ e^{d}) + t log(θ² - 1)

with ν = 0, or θ = 1, for data without ties: both are then Bradley and Terry's model. Either is concave in the scores
and log ν, or log θ.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.logistic import logistic, softplus

DAVIDSON, RAO_KUPPER = 0, 1


@njit(parallel=True, error_model="numpy")
def bradley_terry_sums(rows, partners, wins, losses, ties, scores, log_tie, form):
    """Per item: half its pairs' log-likelihood, chosen, expected, slope and curvature by the tie parameter.

    The gradient by a score is chosen - expected, and expected e^(t - s) is what Hunter's (2004) minorising function
    has: e^s <- e^s chosen / expected never lowers the likelihood. The last two columns are halves too, since every
    pair is seen from both its items. `log_tie` is log ν or log θ.
    """
    n_items = rows.size - 1
    out = np.zeros((n_items, 5))
    # An unused tie parameter is log ν = -inf or log θ = 0; t log(θ² - 1) is then left out, there being no t.
    log_gap = log_tie + math.log(2.0 * math.sinh(log_tie)) if form == RAO_KUPPER and log_tie > 0.0 else 0.0
    for y in prange(n_items):
        value, chosen, expected, slope, bend = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(rows[y], rows[y + 1]):
            w, l, t = wins[k], losses[k], ties[k]  # noqa: E741
            d = scores[y] - scores[partners[k]]
            n = w + l + t
            if form == DAVIDSON:
                top = max(0.5 * abs(d), log_tie)
                up, down, level = math.exp(0.5 * d - top), math.exp(-0.5 * d - top), math.exp(log_tie - top)
                total = up + down + level
                value += 0.5 * d * (w - l) - n * (top + math.log(total))
                p = level / total
                if t > 0.0:
                    value += t * log_tie
                chosen += w + 0.5 * t
                expected += n * (up / total + 0.5 * p)
                slope += t - n * p
                bend += n * p * (1.0 - p)
            else:
                a, b = logistic(log_tie - d), logistic(log_tie + d)
                value += t * log_gap - (w + t) * softplus(log_tie - d) - (l + t) * softplus(log_tie + d)
                chosen += w + t
                expected += (w + t) * (1.0 - a) + (l + t) * b
                slope -= (w + t) * a + (l + t) * b
                bend += (w + t) * a * (1.0 - a) + (l + t) * b * (1.0 - b)
                if t > 0.0:
                    slope += t * (1.0 + 1.0 / math.tanh(log_tie))
                    bend += t / math.sinh(log_tie) ** 2
        out[y, 0], out[y, 1], out[y, 2] = 0.5 * value, chosen, expected
        out[y, 3], out[y, 4] = 0.5 * slope, 0.5 * bend
    return out
