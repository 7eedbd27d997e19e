"""Ratings by proportional odds: the thresholds between them, and the levels of the users.

A user rates all items a little higher or lower than others do. The level is a coordinate of its own after the factors:
every item has the same loading on it, the standard deviation of the levels, which is learnt, and thresholds have 0. So
no factor is spent on how people use the scale. Thresholds have no factors, and are drawn together given all else.
"""

from __future__ import annotations

import numpy as np

from permrank.posterior.kernels.odds import MOST_CURVED
from permrank.posterior.problem import Problem
from permrank.types import Array, Float64Array

# Standard deviation of the levels at the start: half of what the noise of a rating has.
_FIRST_DEVIATION = 0.9
# Of the prior of a threshold, far wider than any score: it is there for ratings that few have given.
_WIDE = 10.0
# A threshold moves towards its neighbour by at most this part of the gap.
_PART_OF_GAP = 0.5


def started(theta: Float64Array, problem: Problem) -> Float64Array:
    """Items and thresholds at the start: with all scores 0, ratings are as frequent as in the data."""
    n, theta = problem.thresholds.size, theta.copy()
    counts = np.bincount(problem.lists.levels, minlength=n + 1) + 0.5
    above = 1.0 - np.cumsum(counts)[:-1] / counts.sum()
    theta[:-n, -2], theta[-n:] = _FIRST_DEVIATION, 0.0
    theta[-n:, -1] = np.log1p(-above) - np.log(above)
    return theta


def moved_thresholds(scores: Float64Array, sums: Float64Array, noise: Float64Array) -> Float64Array:
    """A Newton step of all thresholds together, and noise with the covariance of their posterior.

    sums: (n, 3), see `posterior.kernels.odds.threshold_sums`; noise: (n,), of standard deviation 1. An entry between
    two thresholds adds log(1 - e^-gap), and an imaginary one stands between any two.
    """
    n = scores.size
    slope = sums[:, 0] - scores / _WIDE**2
    system = np.diag(sums[:, 1] + 1.0 / _WIDE**2)
    gaps, between = np.diff(scores), sums[1:, 2] + 1.0
    over = np.expm1(np.minimum(gaps, MOST_CURVED))
    pull, curvature, i = between / over, between / over * (1.0 + 1.0 / over), np.arange(n - 1)
    slope[1:] += pull
    slope[:-1] -= pull
    system[i, i] += curvature
    system[i + 1, i + 1] += curvature
    system[i + 1, i] -= curvature
    lower = np.linalg.cholesky(system)  # reads the lower triangle only
    step = np.linalg.solve(lower.T, np.linalg.solve(lower, slope) + noise)
    nearer = -np.diff(step) / gaps
    return np.asarray(scores + step * min(1.0, _PART_OF_GAP / max(float(nearer.max(initial=0.0)), 1e-300)))


def settle_levels(theta: Float64Array, modes: Array, draws: Array, means: Float64Array, n_thresholds: int) -> None:
    """Take the mean out of the users' levels and their standard deviation into the loading, in place.

    No rating changes by that, but for what the prior says: a priori levels have mean 0 and deviation 1 around
    ``means``; two imaginary users keep the deviation from 0.
    """
    middle = float(np.mean(draws[:, -1]))
    theta[-n_thresholds:, -1] -= theta[0, -2] * middle
    for users in (modes, draws):
        users[:, -1] -= middle
    away = draws[:, -1] - means
    ratio = float(np.sqrt((np.sum(away**2) + 2.0) / (away.size + 2.0)))
    theta[:-n_thresholds, -2] *= ratio
    for users in (modes, draws):
        users[:, -1] /= ratio
