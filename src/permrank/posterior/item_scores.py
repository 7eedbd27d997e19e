"""Priors on item scores, and the closed or one-dimensional updates that MM needs of them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import wrightomega

from permrank.types import Float64Array


class Flat(NamedTuple):
    """No prior: maximum likelihood."""

    def value(self, scores: Float64Array) -> float:
        """Log-density."""
        return 0.0

    def gradient(self, scores: Float64Array) -> Float64Array:
        """Of the log-density."""
        return np.zeros_like(scores)

    def curvature(self, scores: Float64Array) -> Float64Array:
        """Minus the second derivative of the log-density."""
        return np.zeros_like(scores)

    def maximise(self, scores: Float64Array, chosen: Float64Array, expected: Float64Array) -> Float64Array:
        """argmax_t chosen t - expected e^(t - scores) + log prior(t), item by item: e^t = e^s chosen / expected."""
        return np.asarray(scores + np.log(chosen / expected))

    def centred(self, scores: Float64Array) -> Float64Array:
        """Only differences mean anything: take the mean out."""
        return np.asarray(scores - scores.mean())


class GaussianPrior(NamedTuple):
    """Scores are normal around a centre.

    Attributes
    ----------
    scale : float
        Standard deviation.
    centre : float, or float64 (n_items,)
    """

    scale: float
    centre: Float64Array | float = 0.0

    def value(self, scores: Float64Array) -> float:
        """Log-density, constants left out."""
        away = scores - self.centre
        return -0.5 * float(away @ away) / self.scale**2

    def gradient(self, scores: Float64Array) -> Float64Array:
        """Of the log-density."""
        return -(scores - self.centre) / self.scale**2

    def curvature(self, scores: Float64Array) -> Float64Array:
        """Minus the second derivative of the log-density."""
        return np.full_like(scores, 1.0 / self.scale**2)

    def maximise(self, scores: Float64Array, chosen: Float64Array, expected: Float64Array) -> Float64Array:
        """argmax_t chosen t - expected e^(t - scores) - (t - centre)² / 2 scale².

        With E = expected e^-scores and p = 1 / scale² the slope chosen + p centre - E e^t - p t vanishes at
        t = u - log(E / p), where e^u + u = chosen / p + log(E / p): e^u is Wright's omega of the right side.
        """
        precision = 1.0 / self.scale**2
        chosen = chosen + precision * self.centre
        log_ratio = np.log(np.maximum(expected, 1e-300)) - scores - np.log(precision)
        wanted = chosen / precision + log_ratio
        power = wrightomega(wanted)
        # Each of the two loses digits where the other is used, and the logarithm fails once e^u underflows.
        u = np.where(wanted < 1.0, wanted - power, np.log(np.maximum(power, 0.5)))
        return np.asarray(np.where(expected > 0, u - log_ratio, chosen / precision))

    def centred(self, scores: Float64Array) -> Float64Array:
        """The prior fixes the level: nothing to do."""
        return scores


class GammaPrior(NamedTuple):
    """Worths are Gamma distributed with this shape and the rate shape - 1 (mode 1).

    Attributes
    ----------
    shape : float
        Above 1.
    """

    shape: float

    def value(self, scores: Float64Array) -> float:
        """Log-density of the worths, constants left out."""
        return (self.shape - 1.0) * float(np.sum(scores - np.exp(scores)))

    def gradient(self, scores: Float64Array) -> Float64Array:
        """Of the log-density of the worths, by the scores."""
        return (self.shape - 1.0) * (1.0 - np.exp(scores))

    def curvature(self, scores: Float64Array) -> Float64Array:
        """Minus the second derivative, by the scores."""
        return (self.shape - 1.0) * np.exp(scores)

    def maximise(self, scores: Float64Array, chosen: Float64Array, expected: Float64Array) -> Float64Array:
        """e^t = (chosen + shape - 1) / (expected e^-s + rate)   (Caron and Doucet 2012)."""
        extra = self.shape - 1.0
        return np.asarray(np.log((chosen + extra) / (expected * np.exp(-scores) + extra)))

    def centred(self, scores: Float64Array) -> Float64Array:
        """The prior fixes the level: nothing to do."""
        return scores


Prior: TypeAlias = Flat | GaussianPrior | GammaPrior
