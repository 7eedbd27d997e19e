"""Standard errors of item scores from the observed information."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.types import Float64Array

# A dense matrix of 5,000 x 5,000 takes 200 MB and half a minute to invert.
_MOST_ITEMS = 5_000
# Quasi standard errors look at all pairs in every sweep.
_MOST_PAIRED = 1_000


def require_few(n: int) -> None:
    """Raise if the matrix that standard errors need would be too large."""
    if n > _MOST_ITEMS:
        raise InputError(f"standard errors of {n} items need a matrix of {n} x {n}; select at most {_MOST_ITEMS}")


def quasi_errors(covariance: Float64Array) -> pl.Series:
    """Roots of `quasi_variances`, all null where there are none or too many items."""
    n = covariance.shape[0]
    quasi = quasi_variances(covariance) if n <= _MOST_PAIRED else None
    return pl.Series([None] * n if quasi is None else np.sqrt(quasi), dtype=pl.Float64)


def roots(variances: Float64Array) -> pl.Series:
    """Square roots, null where there is no positive number: not at a maximum, or nothing is known."""
    good = np.isfinite(variances) & (variances > 0)
    return pl.Series(np.sqrt(np.where(good, variances, 1.0))).set(pl.Series(~good), None)


def inverse_information(information: Float64Array, n_flat: int) -> Float64Array:
    """Covariance of all parameters; the first ``n_flat`` of them are known up to a common constant only."""
    # The likelihood is flat along (1, ..., 1): without a prior fill that direction, invert, and take it out again.
    ones = np.zeros_like(information)
    ones[:n_flat, :n_flat] = 1.0 / max(n_flat, 1)
    try:
        return np.asarray(np.linalg.inv(information + ones) - ones)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "standard errors do not exist: the data say nothing about some scores, or too little for the digits of a "
            "computer; use a prior, or leave out items that were ranked once or twice"
        ) from error


def quasi_variances(covariance: Float64Array) -> Float64Array | None:
    """q > 0 with q_i + q_j close to var(s_i - s_j): least squares of the logarithms (Firth, de Menezes 2004).

    Returns None for fewer than three items, where they are not determined, and where the fit fails.
    """
    n = covariance.shape[0]
    if n < 3:
        return None
    diagonal = np.diag(covariance)
    wanted = diagonal[:, None] + diagonal[None, :] - 2.0 * covariance
    np.fill_diagonal(wanted, 1.0)
    if not (np.isfinite(wanted) & (wanted > 0)).all():
        return None
    target = np.log(wanted)
    # The contrast variances of item i average to about q_i + mean q: a good start, kept positive.
    mean = (wanted.sum(axis=1) - 1.0) / (n - 1)
    logs = np.log(np.maximum(mean - mean.mean() / 2, 0.05 * mean))
    damping, loss = 1e-3, np.inf
    for _ in range(200):
        variances = np.exp(logs)
        total = variances[:, None] + variances[None, :]
        residual = np.log(total) - target
        np.fill_diagonal(residual, 0.0)
        share = variances[:, None] / total
        np.fill_diagonal(share, 0.0)
        gradient = (share * residual).sum(axis=1)
        normal = share * share.T
        normal[np.diag_indices(n)] = (share**2).sum(axis=1) * (1.0 + damping) + 1e-12
        step = np.linalg.solve(normal, gradient)
        candidate = logs - np.clip(step, -2.0, 2.0)
        new_loss = _log_loss(candidate, target)
        if new_loss <= min(loss, _log_loss(logs, target)):
            logs, loss, damping = candidate, new_loss, damping / 5
            if np.abs(step).max() < 1e-10:
                break
        else:
            damping *= 10
            if damping > 1e12:
                break
    return np.asarray(np.exp(logs))


def _log_loss(logs: Float64Array, target: Float64Array) -> float:
    variances = np.exp(logs)
    residual = np.log(variances[:, None] + variances[None, :]) - target
    np.fill_diagonal(residual, 0.0)
    return float((residual**2).sum())
