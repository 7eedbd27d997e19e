"""Variances of means over people, splits and fits, and intervals of means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from permrank.errors import InputError
from permrank.types import Float64Array

# Columns of which one has all the weight do not differ.
_ROUNDING = 1e-12


class Variance(NamedTuple):
    """A mean, and parts of its variance.

    Attributes
    ----------
    mean : float
    people, people_df : float
        Of the choice of people, and its degrees of freedom; one more is the effective number of people.
    columns, noise : float
        What the means of single columns vary by, and how much of it is to be expected if columns had no effect.
    """

    mean: float
    people: float
    people_df: float
    columns: float
    noise: float


def variance_of(values: Float64Array, weights: Float64Array) -> Variance:
    """Return the variance of the weighted mean over people of their means over columns; NaN is no value.

    Person i has the weight w_i, in all 1, and each of its c_i values w_i / c_i. Then the mean is Σ_s π_s D_s, with D_s
    the mean of column s and π_s its weight, and person i contributes G_is = (w_i / c_i) (d_is - D_s) to column s. With
    G_i = Σ_s G_is,

    - people: Σ_i G_i² / (1 - Σ w_i²), which is s²/n for equal weights;
    - columns: Σ_s π_s² (D_s - D)² / (1 - Σ π_s²), the same of columns;
    - noise: Σ_s Σ_i (G_is - π_s G_i)² / (1 - Σ w_i²) / (1 - Σ π_s²), the expectation of the one before if only people
      differ. Of people who are in all columns it is the interaction, of people in one column each all there is.

    Parameters
    ----------
    values : float (n_people, n_columns)
    weights : float (n_people,)
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    share = np.where(counts > 0, weights, 0.0)
    if not share.sum() > 0.0:
        return Variance(np.nan, np.nan, -1.0, 0.0, 0.0)
    share = share / share.sum()
    cells = np.where(known, (share / np.maximum(counts, 1))[:, None], 0.0)
    column_share = cells.sum(axis=0)
    filled = np.where(known, values, 0.0)
    means = np.einsum("is,is->s", cells, filled) / np.where(column_share > 0, column_share, 1.0)
    mean = float(column_share @ means)
    parts = cells * (filled - means)
    whole = parts.sum(axis=1)
    squares = float(share @ share)
    df = squares**2 / float(np.sum(share**4)) - 1.0
    rest = 1.0 - squares if df > _ROUNDING else np.nan  # one person has no variance
    people, spread = float(whole @ whole) / rest, 1.0 - float(column_share @ column_share)
    if spread <= _ROUNDING:
        return Variance(mean, people, df, 0.0, 0.0)
    columns = float(np.sum((column_share * (means - mean)) ** 2)) / spread
    noise = float(np.sum((parts - np.outer(whole, column_share)) ** 2)) / rest / spread
    return Variance(mean, people, df, columns, noise)


def interval(values: ArrayLike, weights: ArrayLike | None = None, *, level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval of a (weighted) mean over people; NaN for fewer than two.

    Degrees of freedom are (Σ w_i²)² / Σ w_i⁴ - 1: n - 1 for equal weights, fewer where some weigh more.

    Parameters
    ----------
    values : float (n,)
    weights : float (n,), optional
    level : float

    Examples
    --------
    >>> from permrank.evaluation.significance import interval
    >>> low, high = interval([0.1, 0.9, 0.4, 0.6, 0.5])
    >>> round(low, 3), round(high, 3)
    (0.138, 0.862)
    """
    if not 0 < level < 1:
        raise InputError(f"level={level!r}, expected a number between 0 and 1")
    found = np.asarray(values, np.float64)
    given = np.ones(found.size) if weights is None else np.asarray(weights, np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise InputError("values must be a list of finite numbers; leave out people who have none")
    part = variance_of(found[:, None], given)
    return around(part.mean, part.people, part.people_df, (1.0 - level) / 2.0)


def around(mean: float, variance: float, df: float, tail: float) -> tuple[float, float]:
    """Return the interval of a mean that leaves out so much of Student's distribution on either side."""
    if not (df > 0.0 and variance >= 0.0):
        return float("nan"), float("nan")
    reach = float(-stdtrit(df, tail)) * float(np.sqrt(variance)) if variance > 0.0 else 0.0
    return mean - reach, mean + reach
