"""A Metropolis step of the thresholds between ratings, with utilities integrated out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Float64Array

# A step is proposed with at least this precision: the noise of utilities has about 1.
_LEAST_INFORMATION = 0.01


class Proposal(NamedTuple):
    """Log-likelihood at a point, and the normal distribution of a step from there: mean, factor of the precision."""

    value: float
    centre: Float64Array
    lower: Float64Array

    @classmethod
    def of(cls, sums: Float64Array, at: Float64Array) -> Proposal:
        """From what `families.thurstone.kernels.items.threshold_sums` gives at a point, over all blocks."""
        n = at.size
        beside = sums[1 + 2 * n : 3 * n]
        information = np.diag(sums[1 + n : 1 + 2 * n]) + np.diag(beside, 1) + np.diag(beside, -1)
        # Where all agree, the likelihood does not bend, but for rounding.
        values, vectors = np.linalg.eigh(np.nan_to_num(information))
        values = np.maximum(values, _LEAST_INFORMATION)
        lower = np.linalg.cholesky(np.einsum("ik,k,jk->ij", vectors, values, vectors))
        centre = at + np.linalg.solve(lower.T, np.linalg.solve(lower, np.nan_to_num(sums[1 : 1 + n])))
        return cls(float(sums[0]), centre, np.asarray(lower, np.float64))

    def draw(self, rng: np.random.Generator) -> Float64Array:
        """A point."""
        return np.asarray(self.centre + np.linalg.solve(self.lower.T, rng.normal(size=self.centre.size)))

    def log_density(self, point: Float64Array) -> float:
        """Of a point, constants left out."""
        away = np.einsum("ij,i->j", self.lower, point - self.centre)
        return float(np.sum(np.log(np.diag(self.lower))) - 0.5 * np.sum(away**2))
