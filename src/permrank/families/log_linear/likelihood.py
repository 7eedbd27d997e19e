"""Log-probabilities of rankings under log-linear models, with their errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.factors import prior_draws
from permrank.families.log_linear.kernels.energy import energy
from permrank.families.log_linear.kernels.subsets import many_log_sums
from permrank.families.log_linear.normaliser import LONGEST_EXACT, log_normaliser
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

# The likelihood of a new person's list: draws of the items that are used, and vectors of the person for each.
_ITEM_DRAWS, _USER_DRAWS = 8, 8


def log_weight(levels: Array, unary: Float64Array, basis: Float64Array, pair: Float64Array) -> tuple[float, float]:
    """Log of the summed e^{-E} of all orders that agree with the ties, and its error.

    What stands in a tie takes its positions in some order, and pairs across ties are fixed: a product over ties.
    """
    if int(levels[-1]) == len(levels) - 1:
        return -float(energy(np.arange(len(levels)), unary, basis, pair)), 0.0
    value, error, start = 0.0, 0.0, 0
    for size in np.bincount(levels):
        stop = start + int(size)
        own = pair[start:stop, start:stop].copy() if pair.size else pair
        found = log_normaliser(unary[start:stop].copy(), basis[start:stop].copy(), own)
        value += found.value + (float(pair[start:stop, stop:].sum()) if pair.size else 0.0)
        error = float(np.hypot(error, found.error))
        start = stop
    return value, error


def without_factors(
    estimate: LogLinearEstimate, rankings: Rankings, items: Int64Array, position: str | Sequence[float]
) -> tuple[Float64Array, Float64Array]:
    """Values and errors, (n_rankings,) each; items in the numbering of the model."""
    known: dict[bytes, tuple[float, float]] = {}
    values, errors = np.zeros(rankings.n_rankings), np.zeros(rankings.n_rankings)
    for r in range(rankings.n_rankings):
        part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
        own, levels = items[part], rankings.levels[part]
        unary = estimate.coefficients(own, None)[0]
        pair = estimate.potentials(own)
        name = np.sort(own).tobytes()
        if name not in known:
            found = log_normaliser(unary, estimate.basis(own.size, position), pair)
            known[name] = found.value, found.error
        above, error = log_weight(levels, unary, estimate.basis(own.size, position), pair)
        values[r] = above - known[name][0]
        errors[r] = np.hypot(error, known[name][1])
    return values, errors


def with_factors(
    estimate: LogLinearEstimate, rankings: Rankings, items: Array, position: str | Sequence[float], seed: int
) -> tuple[Float64Array, Float64Array]:
    """Values and errors with the user integrated out by importance sampling from the posterior of swaps."""
    kept = np.unique(np.linspace(0, len(estimate.item_draws) - 1, _ITEM_DRAWS).round().astype(int))
    parts = [_integrands(estimate, rankings, items, position, seed, int(d)) for d in kept]
    logs, errors = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    mean = weights.mean(axis=1)
    spread = weights.std(axis=1) / (mean * np.sqrt(logs.shape[1]))
    share = weights / weights.sum(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(mean)), np.hypot(spread, np.sqrt(np.sum((share * errors) ** 2, axis=1)))


def _integrands(
    estimate: LogLinearEstimate, rankings: Rankings, items: Array, position: str | Sequence[float], seed: int, draw: int
) -> tuple[Float64Array, Float64Array]:
    """log P(ranking | user) + log prior / density of some vectors of each ranking's user, and errors: (n, size)."""
    theta, key = estimate.item_draws[draw], stream_key(seed, draw)
    k = estimate.n_factors
    drawn, logs = prior_draws(rankings, items, theta, k, position, _USER_DRAWS, key)
    theta, errors = np.asarray(theta, np.float64), np.zeros_like(logs)
    for r in range(rankings.n_rankings):
        part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
        own, levels = items[part], rankings.levels[part]
        rows, basis = theta[own], estimate.basis(own.size, position)
        pair = estimate.potentials(own)
        unary = (estimate.personal_weight * drawn[r] @ rows[:, :k].T + rows[:, k])[:, :, None].copy()
        if own.size <= LONGEST_EXACT:
            logs[r] -= many_log_sums(unary, basis, pair)
        for j, coefficients in enumerate(unary):
            above, errors[r, j] = log_weight(levels, coefficients, basis, pair)
            logs[r, j] += above
            if own.size > LONGEST_EXACT:
                below = log_normaliser(coefficients, basis, pair)
                logs[r, j] -= below.value
                errors[r, j] = np.hypot(errors[r, j], below.error)
    return logs, errors
