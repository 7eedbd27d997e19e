"""Log-linear models over whole rankings (§4): some items are ranked beside others whose order is given."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_choice, require_int, require_seed
from permrank.core.distribution import RankingDistribution
from permrank.errors import InputError, NotSupportedError
from permrank.families.log_linear.kernels.arguments import Schedule, Terms
from permrank.families.log_linear.kernels.moves import INSERTION, MOVES, draw_orders
from permrank.families.log_linear.kernels.subsets import exact_draws, exact_expectations
from permrank.families.log_linear.likelihood import log_normaliser
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int32Array, Int64Array, Named

# States of the exact sum over subsets and positions: a quarter of a million take some tens of milliseconds.
_MOST_STATES, _MOST_FREE = 2**18, 16
# Sweeps of heat baths, one step for each item, before the first draw of a chain and between two. On lists of 50 with
# parameters as learnt, R-hat was below 1.01 after 20, and draws 4 sweeps apart were nearly uncorrelated.
_BURN_IN, _THIN = 50, 4


class Question(NamedTuple):
    """Items that are asked about ("free"), and others whose order is given ("context"), under one draw.

    Attributes
    ----------
    free, context : float64 (k, B) and (n, B)
        Coefficients of position functions.
    basis : float64 (k + n, B)
    pair : float64 (k + n, k + n), or (0, 0)
        λ, free items first.
    """

    free: Float64Array
    context: Float64Array
    basis: Float64Array
    pair: Float64Array

    @property
    def exact(self) -> bool:
        """Whether all rankings can be summed over."""
        k = len(self.free)
        return k <= _MOST_FREE and (len(self.context) + 1) << k <= _MOST_STATES

    def arrays(self) -> Any:
        """In the form of `families.log_linear.kernels.subsets`."""
        k, n = len(self.free), len(self.context)
        rows = self.pair[:k] if self.pair.size else np.zeros((k, k + n))
        return self.free, self.context, self.basis, rows[:, :k].copy(), rows[:, k:].copy()

    def expectations(self) -> tuple[Float64Array, Float64Array, Float64Array, float]:
        """P(before), P(rank) and P(position) of the free items, and log Z; see `exact_expectations`."""
        k, n = len(self.free), len(self.context)
        before, ranks, positions = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, n + 1))
        log_z = exact_expectations(*(*self.arrays(), before, ranks, positions))
        return before, ranks, positions, float(log_z)

    def entering(self, levels: Int32Array) -> Question:
        """The last of the free items is asked about, and the others become a list; ties count with their means."""
        n, pair = len(self.free) - 1, self.pair
        if pair.size:
            beside = tie_means(pair[n, :n], levels)
            pair = np.zeros_like(pair)
            pair[0, 1:], pair[1:, 0] = beside, -beside
        return Question(self.free[n:].copy(), tie_means(self.free[:n], levels), self.basis, pair)

    def log_sum(self, order: Int64Array) -> float:
        """log Σ e^{-E} over all ways in which the context may stand among the free items in a given order."""
        free, context, basis, pair, beside = self.arrays()
        own, beside = free[order] @ basis.T, beside[order]
        k, n = beside.shape
        fixed = np.stack([np.sum(context * basis[i : i + n], axis=1) for i in range(k + 1)], axis=1)
        inside = np.triu(pair[np.ix_(order, order)], 1).sum()
        passed = np.concatenate((np.zeros((k, 1)), -np.cumsum(beside, axis=1)), axis=1)
        before = np.concatenate((np.zeros((1, n)), np.cumsum(beside, axis=0)), axis=0)
        table = np.full((k + 1, n + 1), -np.inf)
        table[0, 0] = inside
        for i in range(k + 1):
            for j in range(n + 1):
                at = i + j - 1
                if i:
                    table[i, j] = np.logaddexp(table[i, j], table[i - 1, j] + own[i - 1, at] + passed[i - 1, j])
                if j:
                    table[i, j] = np.logaddexp(table[i, j], table[i, j - 1] + fixed[j - 1, i] + before[i, j - 1])
        return float(table[k, n])


class LogLinear(RankingDistribution):
    """P(ranking) ∝ exp{ Σ_i s_{π_i} g(i) + Σ_{i<j} λ_{π_i π_j} } (§4.5), averaged over draws of s.

    Parameters
    ----------
    questions : list of Question
        One for each draw.
    window : int
        Length of the sublists that some moves of chains permute.
    """

    _nanoseconds = 70.0  # 4 n moves, each over n positions

    def __init__(self, questions: list[Question], window: int) -> None:
        self.questions, self.window = questions, window

    @property
    def n_items(self) -> int:
        """Number of items that are asked about."""
        return len(self.questions[0].free)

    def _prefers(self, first: int, second: int) -> float:
        """Exact for about a dozen items; so is `_top`."""
        if self.questions[0].exact:
            return float(np.mean([question.expectations()[0][first, second] for question in self.questions]))
        return super()._prefers(first, second)

    def _top(self, k: int) -> Float64Array:
        k = min(k, self.n_items)
        if self.questions[0].exact:
            every = [question.expectations()[1][:, :k].sum(axis=1) for question in self.questions]
            return np.asarray(np.mean(every, axis=0))
        return super()._top(k)

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Exact (§4.4): g is that of the longer list everywhere, and inside a tie all items count with their mean."""
        if len(self.questions[0].context):
            raise InputError("an item enters a list that is asked about as a whole; give all items of the list")
        positions = [question.entering(levels).expectations()[2][0] for question in self.questions]
        return np.asarray(np.mean(positions, axis=0))

    def sample(self, size: int = 1, seed: int = 0, *, move: str | None = None) -> Int32Array:
        """Draw rankings: exactly for about a dozen items, else, or with a ``move``, from chains."""
        require_int("size", size, 0)
        require_seed(seed)
        return self._sample(int(size), int(seed), move)

    def _sample(self, size: int, seed: int, move: str | None = None) -> Int32Array:
        """Orders of the free items, the draws of the coefficients taking turns."""
        if size == 0 or self.n_items == 0:
            return np.zeros((size, self.n_items), np.int32)
        turns = np.random.default_rng(seed).permutation(len(self.questions))[:size]
        out = []
        for turn, d in enumerate(turns):
            question, n_drawn = self.questions[d], len(range(turn, size, len(turns)))
            key = stream_key(seed, int(d))
            if question.exact and move is None:
                out.append(exact_draws(*(*question.arrays(), key, n_drawn)))
            else:
                out.append(self.chains(question, 1, n_drawn, seed + int(d), move)[0][0])
        order = np.argsort(np.concatenate([np.arange(len(part)) for part in out]), kind="stable")
        drawn = np.concatenate(out)[order]
        return np.asarray(drawn[drawn < self.n_items].reshape(size, -1))

    def chains(
        self, question: Question, n_chains: int, size: int, seed: int, move: str | None = None
    ) -> tuple[Array, Float64Array]:
        """Orders (n_chains, size, k + n) and energies of Markov chains with one move, or with heat baths."""
        k, n = len(question.free), len(question.context)
        if move is not None:
            require_choice("move", move, tuple(MOVES))
            if n:
                raise InputError(
                    f"move={move!r} moves every item, and {n} that the user has listed are not among those asked for, "
                    "so they would stay; give them too, or ask for user None, or without a move"
                )
        rng = np.random.default_rng([seed, 1])
        start = np.empty((n_chains, k + n), np.int64)
        for row in start:
            # The context in its order, the free items scattered among it.
            row[:] = rng.permutation(k + n)
            row[row >= k] = np.arange(k, k + n)
        unary = np.concatenate((question.free, question.context))
        terms, schedule = Terms(unary, question.basis, question.pair), Schedule(_BURN_IN * k, _THIN * k, size)
        kind = MOVES[move] if move else INSERTION
        orders, energies = draw_orders(start, k, kind, self.window, terms, stream_key(seed, 3), schedule)
        return orders, energies

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of the items; exact for up to 16 of them."""
        logs = []
        for question in self.questions:
            if question.exact:
                log_z = question.expectations()[3]
            elif len(question.context):
                raise NotSupportedError(
                    f"the probability of an order of {self.n_items} items beside a list cannot be summed; ask for the "
                    f"items of the list too, or for {_MOST_FREE} items or fewer"
                )
            else:
                log_z = log_normaliser(question.free, question.basis, question.pair).value
            logs.append(question.log_sum(order) - log_z)
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def tie_means(rows: Float64Array, levels: Array) -> Float64Array:
    """Every row replaced by the mean of those of its tie; levels: (n,), not decreasing."""
    if not len(rows):
        return rows
    first = np.flatnonzero(np.diff(levels, prepend=levels[0] - 1))
    sizes = np.diff(first, append=len(rows))
    means = np.add.reduceat(rows, first, axis=0) / sizes.reshape(-1, *(1,) * (rows.ndim - 1))
    return np.asarray(np.repeat(means, sizes, axis=0))


def chain_summary(draws: dict[Any, Any]) -> pl.DataFrame:
    """R-hat (rank-normalised, split) and effective sample sizes of named quantities, each (n_chains, n_draws).

    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), by ArviZ. A quantity that never changes has neither.
    """
    try:
        stats: Any = importlib.import_module("arviz_stats.base").array_stats
    except ImportError as error:
        raise NotSupportedError("diagnostics need ArviZ: pip install 'permrank[mcmc]'") from error
    rows, axes = [], {"chain_axis": 0, "draw_axis": 1}
    for name, values in draws.items():
        array = np.asarray(values, np.float64)
        row: Named = {"quantity": str(name), "mean": float(array.mean())}
        row |= dict.fromkeys(("r_hat", "ess_bulk", "ess_tail"))
        if array.min() != array.max():
            row["r_hat"] = float(stats.rhat(array, **axes))
            row["ess_bulk"] = float(stats.ess(array, **axes, method="bulk"))
            row["ess_tail"] = float(stats.ess(array, **axes, method="tail", prob=(0.05, 0.95)))
        rows.append(row)
    return pl.DataFrame(rows, schema={"quantity": pl.String} | dict.fromkeys(list(rows[0])[1:], pl.Float64))
