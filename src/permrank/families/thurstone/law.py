"""Rankings by normal utilities, averaged over draws: of known people given what they list, of new people by GHK."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from permrank.core.distribution import RankingDistribution
from permrank.families.thurstone.estimate import ThurstoneEstimate
from permrank.families.thurstone.kernels.chains import chain_log_probabilities
from permrank.families.thurstone.kernels.orthants import ghk
from permrank.posterior.estimate import Evidence
from permrank.ragged import frozen, indptr_of, ranges
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int32Array, Int64Array


class NormalUtilities(RankingDistribution):
    """P(ranking) = mean over d of P(x_dσ(1) > x_dσ(2) > ...), x_di ~ N(means_di, deviations_di²), independent given d.

    Parameters
    ----------
    means, deviations : float64 (n_draws, n)
        A deviation of 0 is a utility that is known under this draw.

    Examples
    --------
    >>> import numpy as np
    >>> utilities = NormalUtilities(np.array([[1.0, 0.0]]), np.array([[0.6, 0.8]]))
    >>> round(utilities.prefers(0, 1), 4), round(float(np.exp(utilities.log_probability([0, 1]))), 4)
    (0.8413, 0.8413)
    """

    def __init__(self, means: Float64Array, deviations: Float64Array) -> None:
        self.means, self.deviations = means, deviations

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.means.shape[1])

    def _prefers(self, first: int, second: int) -> float:
        """Return the mean over draws of Φ(difference / deviation of the difference)."""
        return float(np.mean(self._before(first, second)))

    def _before(self, first: int, second: int) -> Float64Array:
        gap = self.means[:, first] - self.means[:, second]
        deviation = np.hypot(self.deviations[:, first], self.deviations[:, second])
        known = np.where(gap == 0.0, 0.5, gap > 0.0)
        return np.asarray(np.where(deviation > 0.0, ndtr(gap / np.where(deviation > 0.0, deviation, 1.0)), known))

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings, exactly; draws take turns."""
        rng = np.random.default_rng(seed)
        rows = np.resize(rng.permutation(len(self.means)), size)
        x = self.means[rows] + self.deviations[rows] * rng.normal(size=(size, self.n_items))
        return np.argsort(-x, axis=1, kind="stable").astype(np.int32)

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Where all others are known their order is that of every draw; else see the base class."""
        if self.deviations[:, :-1].any():
            return super()._enter(levels)
        others = -np.sort(-self.means[:, :-1], axis=1)
        mean, deviation = self.means[:, -1:], self.deviations[:, -1:]
        known = np.where(others == mean, 0.5, others < mean)
        z = (mean - others) / np.where(deviation > 0.0, deviation, 1.0)
        above = np.where(deviation > 0.0, ndtr(z), known)  # that the last item lies above each
        ends = np.ones((len(above), 1))
        parts = np.diff(np.concatenate((np.zeros_like(ends), above, ends), axis=1), axis=1)
        return np.asarray(np.maximum(parts, 0.0).mean(axis=0))

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of all items, by integration along the ranking (error below 1e-3)."""
        means = np.ascontiguousarray(self.means[:, order])
        logs = chain_log_probabilities(means, np.ascontiguousarray(self.deviations[:, order]))
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


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
