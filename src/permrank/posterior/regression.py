"""Prior means as regressions on what is known beforehand: popularity, co-listing, features.

Rows θ_y (users' factors, items' factors, intercepts) are N(x_y Γ, 1 / precision). Coefficients of a few columns, which
are known to matter, have a fixed ridge. Those of features are shrunk by scales that are learnt, one for each group of
columns g (the values of an attribute):

    Γ_jk ~ N(0, v_g(j) / precision_k),   sqrt(v_g) ~ half-Cauchy(t),   t ~ half-Cauchy(1).

So a group that tells nothing has a scale near 0 and costs next to nothing, however many there are, and one that tells
much is hardly shrunk. All conditionals are conjugate (half-Cauchy as a mixture of inverse gammas; Makalic and Schmidt
2016), and each is drawn once a sweep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from permrank.learning.linear_algebra import one_blas_thread
from permrank.types import BoolArray, Float64Array, Int64Array

# Variances of coefficients in those of what is regressed: beyond these nothing changes.
_LEAST_VARIANCE, _MOST_VARIANCE = 1e-8, 1e4
# In a regression none is below this part of what one column of noise would seem to tell, 1 / n: near 0 coefficients and
# their scale would hold each other there for hundreds of sweeps, though the factors have begun to depend on the column.
_LEAST_OF_NOISE = 0.25


class Scales(NamedTuple):
    """Learnt variances of the coefficients of a block: by group, and what they are drawn with.

    Attributes
    ----------
    groups, mixing : float64 (n_groups,)
        v_g, and the a_g of v_g ~ IG(1/2, 1 / a_g), a_g ~ IG(1/2, 1 / t²).
    whole, whole_mixing : float
        t² ~ IG(1/2, 1 / b), and b ~ IG(1/2, 1).
    """

    groups: Float64Array
    mixing: Float64Array
    whole: float
    whole_mixing: float

    @classmethod
    def start(cls, n_groups: int) -> Scales:
        """Wide: what tells much is seen at once, and what tells nothing is shrunk soon."""
        return cls(np.ones(n_groups), np.ones(n_groups), 1.0, 1.0)

    def drawn(
        self,
        squares: Float64Array,
        counts: Float64Array,
        rng: np.random.Generator,
        least: float = _LEAST_VARIANCE,
    ) -> Scales:
        """All of them in turn, given the sum of squares of each group's coefficients and their number."""
        groups = _inverse_gamma((1.0 + counts) / 2.0, 1.0 / self.mixing + squares / 2.0, rng)
        groups = np.clip(groups, least, _MOST_VARIANCE)
        mixing = _inverse_gamma(np.ones(groups.size), 1.0 / self.whole + 1.0 / groups, rng)
        shape = np.array((1.0 + groups.size) / 2.0)
        whole = float(_inverse_gamma(shape, np.array(1.0 / self.whole_mixing + np.sum(1.0 / mixing)), rng))
        whole = min(max(whole, _LEAST_VARIANCE), _MOST_VARIANCE)
        whole_mixing = float(_inverse_gamma(np.array(1.0), np.array(1.0 + 1.0 / whole), rng))
        return Scales(groups, mixing, whole, whole_mixing)

    def packed(self) -> Float64Array:
        """As one array."""
        return np.concatenate((self.groups, self.mixing, [self.whole, self.whole_mixing]))

    @classmethod
    def unpacked(cls, values: Float64Array) -> Scales:
        """From what `packed` gave."""
        n = (values.size - 2) // 2
        return cls(values[:n].copy(), values[n : 2 * n].copy(), float(values[-2]), float(values[-1]))


def least_variance(n_rows: float) -> float:
    """The least that a variance of coefficients is drawn with in a regression of so many rows."""
    return max(_LEAST_VARIANCE, _LEAST_OF_NOISE / max(n_rows, 1.0))


def product(left: Float64Array, right: Float64Array) -> Float64Array:
    """A product of matrices with the same bits for any number of threads."""
    with one_blas_thread():
        return np.asarray(left @ right)


def _inverse_gamma(shape: Float64Array, rate: Float64Array, rng: np.random.Generator) -> Float64Array:
    return np.asarray(rate / rng.standard_gamma(shape))


class Regression:
    """Coefficients of several blocks of columns on the same knowledge, drawn from their conditional posterior.

    Parameters
    ----------
    known : float64 (n, p)
    groups : int64 (p,)
        Group of each column, from 0 on; -1 for those with a fixed ridge, which come first.
    ridge : float
        Precision of those a priori, in rows' worth.
    weights : float64 (n,)
        How much a row counts: 0 for rows of which nothing but the columns is known.
    linked : float64 (n, p), optional
        L times known, if rows have the precision s (I + τ L) instead of I (posterior/links.py).
    within : bool (n,), optional
        Rows that are linked; others have the precision 1.
    """

    def __init__(
        self,
        known: Float64Array,
        groups: Int64Array,
        ridge: float,
        weights: Float64Array,
        linked: Float64Array | None = None,
        within: BoolArray | None = None,
    ) -> None:
        self.known, self.groups, self._ridge = np.ascontiguousarray(known, np.float64), groups, ridge
        self._weights, self._within = weights, None if within is None else weights * within
        self._gram = product((self.known * weights[:, None]).T, self.known)
        self._linked = None if linked is None else np.ascontiguousarray(linked)
        self._linked_gram = 0.0 if self._linked is None else product(self.known.T, self._linked)
        self._within_gram: Float64Array | float = 0.0
        if self._within is not None:
            self._within_gram = product((self.known * self._within[:, None]).T, self.known)
        self.n_groups = int(groups.max(initial=-1)) + 1
        self._least = least_variance(float(np.sum(weights)))
        self._counts = np.bincount(groups[groups >= 0], minlength=self.n_groups).astype(np.float64)

    def sums(self, wanted: Float64Array, tau: float = 0.0, scale: float = 1.0) -> Float64Array:
        """Known columns times their precision times ``wanted`` (n, m): all that matters of it, (p, m).

        tau, scale: τ and s of the links, if there are any.
        """
        weights = self._weights if self._within is None else self._weights + (scale - 1.0) * self._within
        found = product(self.known.T, weights[:, None] * wanted)
        if self._linked is not None:
            found += scale * tau * product(self._linked.T, wanted)
        return found

    def precisions(self, scales: Scales) -> Float64Array:
        """Prior precision of the coefficients of every column, in those of what is regressed: (p,)."""
        prior, learnt = np.full(self.groups.size, self._ridge), self.groups >= 0
        prior[learnt] = 1.0 / scales.groups[self.groups[learnt]]
        return prior

    def posterior(
        self, sums: Float64Array, scales: Scales, tau: float = 0.0, scale: float = 1.0
    ) -> tuple[Float64Array, Float64Array]:
        """Mean of the coefficients, (p, m), and a Cholesky factor L of their precision, (p, p).

        sums: `sums` of columns with the same scales. Where these have precisions around their means, the coefficients
        of column k have ``precision[k] * L @ L.T``.
        """
        gram = self._gram + scale * tau * self._linked_gram + (scale - 1.0) * self._within_gram
        lower = np.linalg.cholesky(gram + np.diag(self.precisions(scales)))
        return np.asarray(cho_solve((lower, True), sums)), np.asarray(lower)

    def drawn(
        self,
        sums: Float64Array,
        precision: Float64Array,
        scales: Scales,
        rng: np.random.Generator | None,
        tau: float = 0.0,
        scale: float = 1.0,
    ) -> tuple[Float64Array, Scales]:
        """Coefficients of one block given its scales, then the scales given these; means if there is no generator."""
        mean, lower = self.posterior(sums, scales, tau, scale)
        if rng is None or not mean.size:
            return mean, scales
        noise = rng.normal(size=mean.shape) / np.sqrt(precision)
        coefficients = mean + solve_triangular(lower, noise, lower=True, trans="T")
        learnt = self.groups >= 0
        squares = np.sum(coefficients[learnt] ** 2 * precision, axis=1)
        summed: Float64Array = np.bincount(self.groups[learnt], squares, minlength=self.n_groups).astype(np.float64)
        return np.asarray(coefficients), scales.drawn(summed, self._counts * precision.size, rng, self._least)

    def means(self, coefficients: Float64Array) -> Float64Array:
        """Prior means of all rows: (n, m)."""
        return product(self.known, coefficients)


def imputed(known: Float64Array, features: Float64Array, seen: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Known columns of rows that were not seen, as their features predict them, and the covariance of the errors.

    Ridge regression on the features of the rows that were seen, its penalty for each column by generalised
    cross-validation. Rows that were seen stay as they are.
    """
    marked = seen > 0
    x, y = features[marked], known[marked]
    p = known.shape[1]
    if features.shape[1] == 0 or marked.all() or not marked.any() or p == 0:
        return known, np.zeros((p, p))
    left, values, right = np.linalg.svd(x, full_matrices=False)
    along, n = left.T @ y, len(x)
    penalties = np.maximum(values.max(initial=0.0), 1e-12) ** 2 * np.logspace(-6, 3, 28)
    shrunk = values[:, None] ** 2 / (values[:, None] ** 2 + penalties)  # (r, n_penalties)
    outside = np.sum(y**2, axis=0) - np.sum(along**2, axis=0)
    errors = np.sum(along[:, :, None] ** 2 * (1.0 - shrunk)[:, None, :] ** 2, axis=0) + outside[:, None]
    best = np.argmin(errors / (n - shrunk.sum(axis=0)) ** 2, axis=1)
    inverse = values[:, None] / np.maximum(values[:, None] ** 2 + penalties[best], 1e-300)
    slopes = right.T @ (along * inverse)
    away = y - x @ slopes
    filled = known.copy()
    filled[~marked] = features[~marked] @ slopes
    return filled, np.asarray(away.T @ away / n)
