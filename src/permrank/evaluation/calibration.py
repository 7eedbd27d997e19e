"""Calibration: probabilities of pairs against how often they came true."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from permrank.checks import require_int
from permrank.errors import InputError


def reliability(probabilities: ArrayLike, outcomes: ArrayLike, *, n_bins: int = 10) -> pl.DataFrame:
    """Predicted probabilities against observed frequencies, by bins.

    A pair is turned so that its probability is at least one half; bins of equal width lie between 0.5 and 1. A pair
    with a probability of one half is left out: nothing was predicted, so that nothing can be right or wrong.

    Parameters
    ----------
    probabilities : float (n,)
        P(first before second) of pairs.
    outcomes : float (n,)
        1 where the first came before, else 0.
    n_bins : int

    Returns
    -------
    polars.DataFrame
        ``predicted`` and ``observed`` (means), ``error`` (standard error of ``observed``), ``n``; no empty bins.

    Examples
    --------
    >>> import permrank as pr
    >>> bins = pr.metrics.reliability([0.9, 0.9, 0.1, 0.9], [1, 1, 0, 0])
    >>> bins.select("predicted", "observed", "n").row(0)
    (0.9, 0.75, 4)
    >>> round(pr.metrics.calibration_error(bins), 3)
    0.15
    """
    require_int("n_bins", n_bins, 1)
    p, y = np.asarray(probabilities, np.float64), np.asarray(outcomes, np.float64)
    if p.shape != y.shape or p.ndim != 1:
        raise InputError(f"{p.size} probabilities and {y.size} outcomes; give one for each pair")
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"{p[~((p >= 0) & (p <= 1))][0]} is not a probability")
    turned = p < 0.5
    p, y = np.where(turned, 1.0 - p, p), np.where(turned, 1.0 - y, y)
    p, y = p[p > 0.5], y[p > 0.5]
    bin_of = np.minimum((2.0 * (p - 0.5) * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(bin_of, minlength=n_bins)
    kept = n > 0
    predicted = np.bincount(bin_of, p, minlength=n_bins)[kept] / n[kept]
    observed = np.bincount(bin_of, y, minlength=n_bins)[kept] / n[kept]
    error = np.sqrt(observed * (1.0 - observed) / n[kept])
    return pl.DataFrame({"predicted": predicted, "observed": observed, "error": error, "n": n[kept]})


def calibration_error(bins: pl.DataFrame) -> float:
    """Mean over pairs of the gap between ``predicted`` and ``observed`` of the pair's bin; NaN without pairs."""
    if bins.is_empty():
        return float("nan")
    gap = np.abs(bins["predicted"].to_numpy() - bins["observed"].to_numpy())
    return float(np.average(gap, weights=bins["n"].to_numpy()))


def calibration_by_chance(bins: pl.DataFrame) -> float:
    """What `calibration_error` would be on average if the probabilities were right, for so many pairs.

    Σ_b n_b / n sqrt(2 p_b (1 - p_b) / (π n_b)): frequencies of few pairs differ from their probability.

    Examples
    --------
    >>> import numpy as np
    >>> import permrank as pr
    >>> bins = pr.metrics.reliability(np.full(1000, 0.7), np.arange(1000) < 700)
    >>> round(pr.metrics.calibration_by_chance(bins), 4)
    0.0116
    """
    if bins.is_empty():
        return float("nan")
    p, n = bins["predicted"].to_numpy(), bins["n"].to_numpy()
    return float(np.average(np.sqrt(2.0 * p * (1.0 - p) / (np.pi * n)), weights=n))


def pair_log_loss(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Mean of -log2 P(what came true) over pairs, in bits: 1 for a coin, 0 for certainty that is right.

    A proper score: on average nothing is better than the true probabilities, and one half for every pair gains nothing.
    No pair costs more than 20 bits.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.pair_log_loss([0.5, 0.5], [1, 0])
    1.0
    >>> round(pr.metrics.pair_log_loss([0.9, 0.2], [1, 0]), 3)
    0.237
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(outcomes, np.float64)
    if p.size == 0:
        return float("nan")
    return float(np.mean(np.minimum(-np.log2(np.maximum(np.where(y > 0.5, p, 1.0 - p), 1e-300)), 20.0)))
