"""One person beside an order that is common to all: a Gaussian posterior of the person's own scores.

The prior of the scores is a normal distribution around the common ones, x ~ N(m, τ² I), and every choice that the
person makes is one of Plackett-Luce: P(c | S) = e^{x_c} / Σ_{j in S} e^{x_j}. The posterior is taken as normal around
its mode, with the curvature there (Laplace). Only items that the person has spoken of leave the prior, so that what is
solved is as small as what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permrank.types import Float64Array, Int64Array

_MOST_STEPS, _TOL = 50, 1e-8


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

    Tied items are each chosen from their tier and all that is below it.

    Examples
    --------
    >>> import numpy as np
    >>> found = person_posterior([[[0], [1]]], np.zeros(3), 1.0)
    >>> bool(found.mean[0] > 0 > found.mean[1]), float(found.mean[2])
    (True, 0.0)
    """
    spoken = np.unique([item for tiers in lists for tier in tiers for item in tier]).astype(np.int64)
    place = {int(item): at for at, item in enumerate(spoken)}
    chosen, among = [], []
    for tiers in lists:
        for at, tier in enumerate(tiers[:-1]):
            available = np.zeros(spoken.size, bool)
            available[[place[item] for below in tiers[at:] for item in below]] = True
            for item in tier:
                chosen.append(place[item])
                among.append(available)
    mean = np.array(prior_mean, np.float64)
    centre = mean[spoken]
    if not chosen:
        return PersonPosterior(mean, spoken, np.eye(spoken.size) * prior_scale**2, prior_scale)
    mask, picks = np.array(among), np.bincount(chosen, minlength=spoken.size).astype(np.float64)
    precision = 1.0 / prior_scale**2

    def evaluated(x: Float64Array) -> tuple[float, Float64Array]:
        scores = np.where(mask, x[None], -np.inf)
        top = scores.max(axis=1, keepdims=True)
        weight = np.exp(scores - top)
        total = weight.sum(axis=1, keepdims=True)
        value = (
            float(picks @ x) - float(np.sum(top + np.log(total))) - 0.5 * precision * float(np.sum((x - centre) ** 2))
        )
        return value, np.asarray(weight / total)

    x, (value, shares) = centre.copy(), evaluated(centre)
    for _ in range(_MOST_STEPS):
        gradient = picks - shares.sum(axis=0) - precision * (x - centre)
        step = np.linalg.solve(_curvature(shares, precision), gradient)
        size = 1.0
        while True:
            moved = x + size * step
            found = evaluated(moved)
            if found[0] >= value - 1e-12 or size < 1e-6:
                break
            size /= 2.0
        x, (value, shares) = moved, found
        if np.abs(size * step).max() < _TOL:
            break
    mean[spoken] = x
    covariance = np.asarray(np.linalg.inv(_curvature(shares, precision)), np.float64)
    return PersonPosterior(mean, spoken, covariance, prior_scale)


def _curvature(shares: Float64Array, precision: float) -> Float64Array:
    """Minus the second derivatives: Σ (diag p - p pᵀ) over the choices, and the precision of the prior."""
    return np.asarray(np.diag(shares.sum(axis=0) + precision) - shares.T @ shares)
