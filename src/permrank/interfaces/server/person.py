"""One person beside an order that is common to all: a Gaussian posterior of the person's own scores.

The prior of the scores is a normal distribution around a given mean, x ~ N(m, τ² I). What the person says is a set of
comparisons: of a ranking, those of every tier with the next. In each, the better one is named with probability
Φ((x_a - x_b) / λ), λ² = 8 / π, which is nearly the logistic 1 / (1 + exp(x_b - x_a)) of Plackett-Luce (their largest
difference is .02). The posterior is the normal one of expectation propagation (Minka, 2001), exact for one
comparison. The mode with its curvature would say too little: after one answer, with τ = 5, that it was right with
probability .77, where .93 is true.

Only items that the person has spoken of leave the prior, so that what is solved is as small as what was said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from permrank.types import Float64Array, Int64Array

_MOST_SWEEPS, _TOL, _DAMPING = 60, 1e-5, 0.7
_NOISE = math.sqrt(8.0 / math.pi)
"""λ: standard deviation of the normal noise of a comparison that is most like a logistic one (MacKay, 1992)."""


def strength_of(prior_scale: float, variance: float = 0.0) -> float:
    """By how much scores of people are larger than those of the group, of which people are draws.

    A group's scores predict a person's choices with all differences between people averaged over: σ(Δ) is the mean of
    Φ((k Δ + sqrt(2) τ z) / λ), z standard normal, if k² = 1 + 2 τ² / λ². Of scores that are known with an error of this
    variance less is left.

    Examples
    --------
    >>> round(strength_of(5.0), 2), strength_of(0.0)
    (4.54, 1.0)
    """
    return math.sqrt((1.0 + 2.0 * (prior_scale / _NOISE) ** 2) / (1.0 + 2.0 * variance / _NOISE**2))


def one_answer(prior_scale: float) -> float:
    """How likely one answer of a person names the better of two items, if nothing else is known: 1/2 + atan(√2 τ/λ)/π.

    Examples
    --------
    >>> round(one_answer(5.0), 3), one_answer(0.0)
    (0.929, 0.5)
    """
    return 0.5 + math.atan(math.sqrt(2.0) * prior_scale / _NOISE) / math.pi


@dataclass(frozen=True, eq=False)
class PersonPosterior:
    """Normal posterior of a person's scores: the mean of all, and the covariance of those that were spoken of.

    Attributes
    ----------
    mean : float64 (n_items,)
    spoken : int64 (d,)
        Items that the person has spoken of, ascending.
    covariance : float64 (d, d)
        Of these; the others are independent, and have the variance of the prior.
    prior_scale : float
        τ.
    """

    mean: Float64Array
    spoken: Int64Array
    covariance: Float64Array
    prior_scale: float

    def covariance_of(self, items: Int64Array) -> Float64Array:
        """Covariance of some items: (n, n)."""
        found = np.diag(np.full(items.size, self.prior_scale**2))
        place = np.full(self.mean.size, -1)
        place[self.spoken] = np.arange(self.spoken.size)
        own = np.flatnonzero(place[items] >= 0)
        found[np.ix_(own, own)] = self.covariance[np.ix_(place[items[own]], place[items[own]])]
        return found

    @property
    def variance(self) -> Float64Array:
        """Variance of every score: (n_items,)."""
        found = np.full(self.mean.size, self.prior_scale**2)
        found[self.spoken] = np.diag(self.covariance)
        return found


def person_posterior(
    lists: Sequence[Sequence[Sequence[int]]], prior_mean: Float64Array, prior_scale: float
) -> PersonPosterior:
    """The posterior of one person's scores given rankings (tiers of item indices, best first).

    Examples
    --------
    >>> import numpy as np
    >>> found = person_posterior([[[0], [1]]], np.zeros(3), 1.0)
    >>> bool(found.mean[0] > 0 > found.mean[1]), float(found.mean[2])
    (True, 0.0)
    """
    spoken = np.unique([item for tiers in lists for tier in tiers for item in tier]).astype(np.int64)
    mean, n = np.array(prior_mean, np.float64), spoken.size
    compared = [(a, b) for tiers in lists for above, below in itertools.pairwise(tiers) for a in above for b in below]
    if not compared:
        return PersonPosterior(mean, spoken, np.eye(n) * prior_scale**2, prior_scale)
    better, worse = np.searchsorted(spoken, np.array(compared, np.int64).T)
    gap = mean[spoken[better]] - mean[spoken[worse]]  # the deviations from the prior's mean are solved for
    precision, shift, moved = np.zeros(better.size), np.zeros(better.size), np.full(n, np.inf)
    for _ in range(_MOST_SWEEPS):
        covariance = _covariance(better, worse, precision, n, prior_scale)
        before, moved = (
            moved,
            covariance @ (np.bincount(better, shift, minlength=n) - np.bincount(worse, shift, minlength=n)),
        )
        if np.abs(moved - before).max() < _TOL * prior_scale:
            break
        variance = covariance[better, better] + covariance[worse, worse] - 2.0 * covariance[better, worse]
        # Without the comparison itself (the cavity), and then with what it exactly says (the tilted moments).
        without = 1.0 / (1.0 / variance - precision)
        centre = without * ((moved[better] - moved[worse]) / variance - shift)
        total = np.sqrt(_NOISE**2 + without)
        z = (gap + centre) / total
        ratio = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - log_ndtr(z))
        tilted = centre + without * ratio / total
        spread = without - (without / total) ** 2 * ratio * (z + ratio)
        precision += _DAMPING * (1.0 / spread - 1.0 / without - precision)
        shift += _DAMPING * (tilted / spread - centre / without - shift)
    mean[spoken] += moved
    return PersonPosterior(mean, spoken, covariance, prior_scale)


def _covariance(better: Int64Array, worse: Int64Array, precision: Float64Array, n: int, scale: float) -> Float64Array:
    """Inverse of the prior's precision and that of all comparisons."""
    total = np.zeros((n, n))
    np.add.at(total, (better, worse), -precision)
    total += total.T
    total[np.diag_indices(n)] = 1.0 / scale**2 - total.sum(axis=1)
    return np.asarray(np.linalg.inv(total), np.float64)
