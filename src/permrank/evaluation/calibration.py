"""Calibration: probabilities of pairs against how often they came true."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.errors import InputError


def reliability(probabilities: Any, outcomes: Any, *, n_bins: int = 10) -> pl.DataFrame:
    """Predicted probabilities against observed frequencies, by bins.

    A pair is turned so that its probability is at least one half; bins of equal width lie between 0.5 and 1.

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
    y = np.where(p == 0.5, 0.5, y)  # nothing was predicted, whichever came first
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
