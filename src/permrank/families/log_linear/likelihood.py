"""Log-probabilities of rankings under log-linear models, with their errors.

The normaliser is exact for short lists, and bracketed by annealing for long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.factors import prior_draws
from permrank.families.log_linear.kernels.arguments import Schedule, Terms
from permrank.families.log_linear.kernels.energy import energy
from permrank.families.log_linear.kernels.moves import INSERTION, annealed_log_weights, draw_orders
from permrank.families.log_linear.kernels.subsets import prefix_sums
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Key

# 2^16 states of 16 items take some tens of milliseconds.
LONGEST_EXACT = 16
_NO_STARTS = 4  # chains from which reverse runs start and to which the first distribution is fitted
# The likelihood of a new person's list: draws of the items that are used, and vectors of the person for each.
_ITEM_DRAWS, _USER_DRAWS = 8, 8


class LogNormaliser(NamedTuple):
    """log Z of a list, with what is known about its error.

    Attributes
    ----------
    value : float
        The best single number: between the two sides, or exact.
    error : float
        Standard error of the value, half the distance of the two sides included; 0 if exact.
    low, high : float
        Estimates from forward runs (too low on average) and from reverse runs (too high on average).
    """

    value: float
    error: float
    low: float
    high: float


def log_normaliser(
    unary: Float64Array,
    basis: Float64Array,
    pair: Float64Array,
    *,
    key: int | Key = 0,
    exact: bool = True,
    n_runs: int = 64,
    n_levels: int = 200,
) -> LogNormaliser:
    """log Σ e^{-E} over all rankings of a list; arrays as in kernels/energy.py.

    Parameters
    ----------
    unary, basis : float64 (n, B)
    pair : float64 (n, n), or (0, 0) for no pairwise part
    key : int
        Seed of the runs.
    exact : bool
        Whether lists of up to 16 items are summed over exactly.
    n_runs : int
        Forward runs, and as many reverse ones.
    n_levels : int
        Distributions on the way, with a sweep of heat baths at each.
    """
    n = len(unary)
    if exact and n <= LONGEST_EXACT:
        nothing, inside = np.empty((0, basis.shape[1])), pair if pair.size else np.zeros((n, n))
        value = float(prefix_sums(unary, nothing, basis, inside, np.empty((n, 0)))[-1, 0]) if n else 0.0
        return LogNormaliser(value, 0.0, value, value)
    draws = model_draws(unary, basis, pair, n_runs, key)
    terms = unary, basis, pair, fitted_worths(draws)
    weights = annealed_log_weights(draws[:n_runs], n_runs, n_levels, n, *terms, stream_key(key, 1))
    low, low_error = _log_mean(weights[:n_runs])
    high, high_error = _log_mean(-weights[n_runs:])
    # A run and its reverse are equally informative; half their distance is what neither can exclude.
    value = 0.5 * (low - high)
    error = float(np.sqrt(0.25 * (low_error**2 + high_error**2) + (0.5 * (-high - low)) ** 2))
    return LogNormaliser(value, error, low, -high)


def model_draws(unary: Float64Array, basis: Float64Array, pair: Float64Array, size: int, key: int | Key) -> Array:
    """At least ``size`` nearly independent rankings drawn by heat baths, from a few chains: (size or more, n)."""
    n = len(unary)
    rng = np.random.default_rng([int(key), n])
    start = np.stack([rng.permutation(n) for _ in range(_NO_STARTS)])
    per_chain = -(-size // _NO_STARTS)
    schedule = Schedule(50 * n, 5 * n, max(per_chain, 50))
    orders, _ = draw_orders(start, n, INSERTION, 0, Terms(unary, basis, pair), stream_key(key, 2), schedule)
    # One draw of each chain in turn: the first rows are then as far apart as there are chains.
    return np.ascontiguousarray(orders.transpose(1, 0, 2).reshape(-1, n))


def fitted_worths(orders: Array, n_sweeps: int = 30) -> Float64Array:
    """Worths of a Plackett-Luce distribution fitted to rankings of all items: Hunter's (2004) MM, a choice a priori."""
    n_lists, n = orders.shape
    worths = np.ones(n)
    for _ in range(n_sweeps):
        tails = np.cumsum(worths[orders][:, ::-1], axis=1)[:, ::-1]
        exposure = np.cumsum(1.0 / tails[:, : n - 1], axis=1)
        exposure = np.concatenate((exposure, exposure[:, -1:]), axis=1) if n > 1 else np.ones((n_lists, 1))
        chosen = n_lists - np.bincount(orders[:, -1], minlength=n)
        worths = (chosen + 1.0) / (np.bincount(orders.ravel(), exposure.ravel(), minlength=n) + 1.0)
        worths /= worths.mean()
    return np.asarray(worths)


def _log_mean(logs: Float64Array) -> tuple[float, float]:
    """Log of the mean of exponentials, and its standard error."""
    top = float(logs.max())
    weights = np.exp(logs - top)
    mean = float(weights.mean())
    return top + float(np.log(mean)), float(weights.std() / (mean * np.sqrt(logs.size)))


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
        inside = log_normaliser(unary[start:stop].copy(), basis[start:stop].copy(), own)
        value += inside.value + (float(pair[start:stop, stop:].sum()) if pair.size else 0.0)
        error = float(np.hypot(error, inside.error))
        start = stop
    return value, error


def log_likelihoods(
    estimate: LogLinearEstimate, rankings: Rankings, items: Array, position: str | Sequence[float], seed: int
) -> tuple[Float64Array, Float64Array]:
    """Log-probability of each ranking and its error; items in the numbering of the model.

    With factors the user is integrated out by importance sampling from the posterior of swaps.
    """
    if not estimate.n_factors:
        logs, nobody = np.zeros((rankings.n_rankings, 1)), np.zeros((rankings.n_rankings, 1, 0))
        errors = _add_log_probabilities(estimate, rankings, items, position, 0, nobody, logs)
        return logs[:, 0], errors[:, 0]
    parts = []
    for d in np.unique(np.linspace(0, len(estimate.item_draws) - 1, _ITEM_DRAWS).round().astype(int)):
        theta, key = estimate.item_draws[d], stream_key(seed, int(d))
        drawn, logs = prior_draws(rankings, items, theta, estimate.n_factors, position, _USER_DRAWS, key)
        parts.append((logs, _add_log_probabilities(estimate, rankings, items, position, int(d), drawn, logs)))
    logs, errors = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    mean = weights.mean(axis=1)
    spread = weights.std(axis=1) / (mean * np.sqrt(logs.shape[1]))
    share = weights / weights.sum(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(mean)), np.hypot(spread, np.sqrt(np.sum((share * errors) ** 2, axis=1)))


def _add_log_probabilities(
    estimate: LogLinearEstimate, rankings: Rankings, items: Array, position: str | Sequence[float], draw: int,
    users: Float64Array, logs: Float64Array,
) -> Float64Array:  # fmt: skip
    """Add log P(ranking | user) for some vectors of each ranking's user, (n_rankings, size, K); returns the errors."""
    k, theta, errors = estimate.n_factors, np.asarray(estimate.item_draws[draw], np.float64), np.zeros_like(logs)
    sums: dict[bytes, LogNormaliser] = {}  # without factors, lists of the same items have the same
    for r in range(rankings.n_rankings):
        part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
        own, levels = items[part], rankings.levels[part]
        rows, basis, pair = theta[own], estimate.basis(own.size, position), estimate.potentials(own)
        unary = np.repeat(rows[None, :, k:], len(users[r]), axis=0)
        unary[:, :, 0] += estimate.personal_weight * users[r] @ rows[:, :k].T
        name = np.sort(own).tobytes()
        for j, coefficients in enumerate(unary):
            if k or name not in sums:
                sums[name] = log_normaliser(coefficients, basis, pair)
            above, error = log_weight(levels, coefficients, basis, pair)
            logs[r, j] = logs[r, j] - sums[name].value + above
            errors[r, j] = np.hypot(error, sums[name].error)
    return errors
