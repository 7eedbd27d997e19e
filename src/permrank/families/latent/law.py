"""Rankings by members of several communities, in which every item has a worth."""

from __future__ import annotations

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.families.latent.kernels.insertion import latent_insertion_probabilities
from permrank.families.latent.kernels.membership import given_log_likelihoods, latent_rankings, top_by_subsets
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE
from permrank.kernels.luce.race import top_probabilities
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int32Array, Int64Array

# 2^14 sets of items times K take milliseconds; beyond, the first k positions are drawn.
_MOST_SUBSETS = 14


class Communities(RankingDistribution):
    """P(ranking) is the mean over fits f of Π_i Σ_z θ_fz p_i^z (§3.2), or with `BY_LIST` of Σ_z θ_fz Π_i p_i^z.

    p_i^z is the choice of the i-th item among those left, in proportion to its worth in community z.

    Parameters
    ----------
    worths : float64 (n_fits, K, n)
        At most 1.
    theta : float64 (n_fits, K)
        P(z).
    mixing : int
        ``BY_STAGE``: a community for every choice; ``BY_LIST``: one for the whole list.
    ties : int
        How a tie in a list is taken, as in `families.latent.kernels.stages`.
    """

    _n_draws = 40_000  # standard errors below 0.5 / sqrt(40,000) = 0.0025
    _nanoseconds = 0.8

    def __init__(self, worths: Float64Array, theta: Float64Array, mixing: int, ties: int) -> None:
        self.worths, self.theta, self.mixing, self.ties = worths, theta, mixing, ties

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.worths.shape[2])

    def _prefers(self, first: int, second: int) -> float:
        """Closed form for two items and with `BY_LIST`; else from 40,000 draws, since stages of others come between."""
        if self.n_items > 2 and self.mixing == BY_STAGE:
            return super()._prefers(first, second)
        pair = self.worths[:, :, [first, second]]
        return float(np.mean(np.sum(self.theta * pair[:, :, 0] / pair.sum(axis=2), axis=1)))

    def _top(self, k: int) -> Float64Array:
        """Return the probability of each item to be among the first ``k``.

        Exact with `BY_LIST`, for ``k=1``, and for up to 14 items; else from 40,000 draws, with a standard error below
        0.0025.
        """
        tables, theta, k = self.worths, self.theta, min(k, self.n_items)
        if self.mixing == BY_LIST:
            every = [
                share * top_probabilities(np.log(row), k)
                for table, own in zip(tables, theta, strict=True)
                for row, share in zip(table, own, strict=True)
            ]
            return np.asarray(np.sum(every, axis=0) / len(theta))
        if k == 1:
            return np.asarray(np.einsum("fk,fki->i", theta, tables / tables.sum(axis=2, keepdims=True)) / len(theta))
        if self.n_items <= _MOST_SUBSETS:
            exact = [top_by_subsets(table, own, k) for table, own in zip(tables, theta, strict=True)]
            return np.asarray(np.mean(exact, axis=0))
        self._require_feasible(k)
        drawn = latent_rankings(tables, theta, BY_STAGE, k, stream_key(0), self._n_draws)
        return np.bincount(drawn.ravel(), minlength=self.n_items) / self._n_draws

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Return the probabilities of the positions of the last item, given the order of the others (§3.2.2).

        With `BY_LIST` θ is taken for what is known of the community after that list, and is not updated by it.
        """
        levels, items = frozen(levels, np.arange(levels.size, dtype=np.int32))
        every = []
        for worths, own in zip(self.worths, self.theta, strict=True):
            table = np.ascontiguousarray(worths.T)
            every.append(latent_insertion_probabilities(levels, items, table, own, table[-1], self.ties, self.mixing))
        return np.asarray(np.mean(every, axis=0))

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings, exactly."""
        return np.asarray(latent_rankings(self.worths, self.theta, self.mixing, self.n_items, stream_key(seed), size))

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of all items."""
        n = self.n_items
        ranked = order.astype(np.int32)
        lists = frozen(np.array([0, n]), ranked, np.arange(n, dtype=np.int32))
        logs = [
            given_log_likelihoods(*lists, np.ascontiguousarray(worths.T), own[None], self.ties, self.mixing)[0]
            for worths, own in zip(self.worths, self.theta, strict=True)
        ]
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))
