"""Log-probabilities of rankings of new people under Thurstone's model, by GHK."""

from __future__ import annotations

import numpy as np

from permrank.families.thurstone.estimate import ThurstoneEstimate
from permrank.families.thurstone.kernels.orthants import ghk
from permrank.posterior.estimate import Evidence
from permrank.ragged import frozen, indptr_of, ranges
from permrank.randomness import stream_key
from permrank.types import Float64Array

# Lattices with shifts of their own, by which the error is measured; points of each for every draw at first, how many
# times they are doubled at most where the error is too large.
_GROUPS, _POINTS, _DOUBLED = 8, 1, 9


def log_likelihoods(estimate: ThurstoneEstimate, evidence: Evidence, error: float) -> tuple[Float64Array, Float64Array]:
    """Values and standard errors, with the user integrated over the prior."""
    rankings = evidence.rankings
    values, errors = np.zeros(rankings.n_rankings), np.zeros(rankings.n_rankings)
    left, n_points = np.arange(rankings.n_rankings), _POINTS
    longest = int(rankings.lengths.max(initial=1))
    alphas, coordinates = np.sqrt(_primes(longest)) % 1.0, estimate.coordinates(evidence, alone=True)
    used, numbers = np.unique(evidence.items, return_inverse=True)
    theta, variances, shares = (
        np.ascontiguousarray(array, np.float64)
        for array in (estimate.item_draws[:, :, used], estimate.noise_variances[:, :, used], estimate.shares)
    )
    logs = np.log(np.maximum(shares, 1e-300))
    for doubled in range(_DOUBLED + 1):
        first = rankings.indptr[left]
        entries, indptr = ranges(first, first + rankings.lengths[left]), indptr_of(rankings.lengths[left])
        lists = frozen(indptr, numbers[entries].astype(np.int32), rankings.levels[entries])
        centres, key = np.ascontiguousarray(estimate.centres(coordinates[left])), stream_key(estimate.seed, 4, doubled)
        groups = ghk(*lists, theta, variances, logs, centres, alphas, _GROUPS, n_points, key)
        most = groups.max(axis=1)
        parts = np.exp(groups - np.where(np.isfinite(most), most, 0.0)[:, None])
        mean = parts.mean(axis=1)
        values[left] = most + np.log(mean)
        errors[left] = parts.std(axis=1, ddof=1) / np.sqrt(_GROUPS) / mean
        left, n_points = left[errors[left] > error], 2 * n_points
        if left.size == 0:
            break
    return values, errors


def _primes(n: int) -> Float64Array:
    """The first n primes."""
    limit = max(16, int(n * (np.log(n + 1) + np.log(np.log(n + 2) + 1)) * 1.3) + 10)
    sieve = np.ones(limit, bool)
    sieve[:2] = False
    for i in range(2, int(limit**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.flatnonzero(sieve)[:n].astype(np.float64)
