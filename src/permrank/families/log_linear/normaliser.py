"""The normaliser of a log-linear model: exact for short lists, bracketed by annealing for long ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.families.log_linear.kernels.annealing import annealed_log_weights
from permrank.families.log_linear.kernels.arguments import Mixture, Schedule, Terms
from permrank.families.log_linear.kernels.moves import (
    INFORMED,
    INSERTION,
    N_MOVES,
    RELOCATION,
    SUBLIST,
    SWAP,
    WINDOW,
    draw_orders,
)
from permrank.families.log_linear.kernels.subsets import block_log_sum
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

# 2^16 states of 16 items take some tens of milliseconds.
LONGEST_EXACT = 16
MOVES = {
    "relocation": RELOCATION, "swap": SWAP, "sublist": SUBLIST, "window": WINDOW, "insertion": INSERTION,
    "informed": INFORMED,
}  # fmt: skip
_NO_STARTS = 4  # chains from which reverse runs start and to which the first distribution is fitted


def only(move: str) -> Float64Array:
    """Cumulative weights of the moves of a chain that makes one of them alone."""
    return np.cumsum(np.eye(N_MOVES)[MOVES[move]])


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
    first: str = "plackett-luce",
    n_runs: int = 64,
    n_levels: int = 200,
) -> LogNormaliser:
    """log Σ e^{-E} over all rankings of a list; arrays as in `kernels.log_linear`.

    Parameters
    ----------
    unary, basis : float64 (n, B)
    pair : float64 (n, n), or (0, 0) for no pairwise part
    key : int
        Seed of the runs.
    exact : bool
        Whether lists of up to 16 items are summed over exactly.
    first : {"plackett-luce", "uniform"}
        Where annealing begins: a Plackett-Luce distribution fitted to draws of the model, or all rankings alike.
    n_runs : int
        Forward runs, and as many reverse ones.
    n_levels : int
        Distributions on the way, with a sweep of heat baths at each.
    """
    n = len(unary)
    if exact and n <= LONGEST_EXACT:
        value = float(block_log_sum(np.arange(n), 0, unary, basis, pair)) if n else 0.0
        return LogNormaliser(value, 0.0, value, value)
    draws = model_draws(unary, basis, pair, n_runs, key)
    worths = fitted_worths(draws) if first == "plackett-luce" else np.ones(n)
    weights = annealed_log_weights(
        draws[:n_runs], n_runs, n_levels, max(n, 1), unary, basis, pair, worths, stream_key(key, 1)
    )
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
    orders, _ = draw_orders(
        start, n, Mixture(only("insertion"), 3), Terms(unary, basis, pair), stream_key(key, 2), schedule
    )
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
