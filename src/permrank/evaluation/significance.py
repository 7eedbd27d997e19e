"""Whether a difference could be chance: paired randomisation test, bootstrap intervals, Holm's correction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from permrank.checks import require_int
from permrank.errors import InputError
from permrank.kernels.resampling import resampled_means, signed_sums
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Float64Array

_MOST_DRAWS = 100_000


def randomisation_test(differences: ArrayLike, *, n_draws: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p-value of paired differences having no sign of their own.

    p = (1 + number of draws whose Σ ± d is as far from 0 as Σ d is) / (1 + n_draws), signs being fair and independent.

    Parameters
    ----------
    differences : float (n,)
        One per person; multiply by a weight where persons count differently.
    n_draws : int
    seed : int

    Examples
    --------
    >>> from permrank.evaluation.significance import randomisation_test
    >>> randomisation_test([0.0, 0.0, 0.0])
    1.0
    >>> randomisation_test([0.1, 0.3, 0.2, 0.1, 0.4, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.4]) < 0.001
    True
    """
    require_int("n_draws", n_draws, 1, _MOST_DRAWS)
    (values,) = frozen(np.asarray(differences, np.float64))
    _finite(values)
    # Sums in another order differ by rounding; what is equal up to that has been reached.
    reached = abs(float(values.sum())) * (1.0 - 1e-12) - 1e-300
    sums = signed_sums(values, stream_key(seed), int(n_draws))
    return float((1 + np.count_nonzero(np.abs(sums) >= reached)) / (1 + n_draws))


def bootstrap_interval(
    values: ArrayLike, weights: ArrayLike | None = None, *, level: float = 0.95, n_draws: int = 2_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile interval of a (weighted) mean over persons drawn with replacement.

    Parameters
    ----------
    values : float (n,)
    weights : float (n,), optional
    level : float
    n_draws, seed : int

    Examples
    --------
    >>> from permrank.evaluation.significance import bootstrap_interval
    >>> low, high = bootstrap_interval([0.1, 0.9, 0.4, 0.6, 0.5])
    >>> 0.1 < low < 0.5 < high < 0.9
    True
    """
    require_int("n_draws", n_draws, 1, _MOST_DRAWS)
    if not 0 < level < 1:
        raise InputError(f"level={level!r}, expected a number between 0 and 1")
    found = np.asarray(values, np.float64)
    found, weights = frozen(found, np.ones(found.size) if weights is None else np.asarray(weights, np.float64))
    _finite(found)
    if found.size == 0:
        return float("nan"), float("nan")
    means = resampled_means(found, weights, stream_key(seed), int(n_draws))
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def holm(p_values: ArrayLike) -> Float64Array:
    """Return p-values corrected for having looked at all of them (Holm 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1, and none becomes smaller than the one before.

    Examples
    --------
    >>> from permrank.evaluation.significance import holm
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    out = np.empty(p.size)
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return out


def _finite(values: Float64Array) -> None:
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InputError("values must be a list of finite numbers; leave out people who have none")
