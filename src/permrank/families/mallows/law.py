"""Mixtures of Mallows models: rankings near the centre of a community are more likely."""

from __future__ import annotations

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.errors import InputError
from permrank.families.mallows.kernels.mallows import (
    Centres,
    Draws,
    Listed,
    completions,
    log_normalisers,
    repeated_insertion,
    spearman_rankings,
)
from permrank.families.mallows.kernels.mallows_lists import list_log_likelihoods
from permrank.ragged import frozen
from permrank.randomness import generator, stream_key
from permrank.types import Float64Array, Int32Array, Int64Array

# Steps of summing over all orders that agree with a list, some hundred milliseconds; longer sums are estimated.
MOST_WORK = 2**22
# Draws for the probability of an order where that is too much.
_N_DRAWS = 1_000


class MallowsMixture(RankingDistribution):
    """P(ranking of all items) = Σ_z share_z e^{-θ_z d(ranking, centre_z)} / Z(θ_z); some of the items are asked about.

    Parameters
    ----------
    items : int64 (n,)
        Those that are asked about, among all.
    shares, centres, dispersions : (K,), (K, n_all), (K,)
    precedence : float64 (K, n_all, n_all)
        P(the item at position i of the centre comes before that at position j).
    kendall : bool
        Distance of Kendall, or else the sum of squared differences of positions.
    """

    def __init__(
        self,
        items: Int64Array,
        shares: Float64Array,
        centres: Int64Array,
        dispersions: Float64Array,
        precedence: Float64Array,
        *,
        kendall: bool,
    ) -> None:
        self.items, self.shares, self.centres, self.dispersions = items, shares, centres, dispersions
        self.precedence, self.kendall = precedence, kendall

    @property
    def n_items(self) -> int:
        """Number of items that are asked about."""
        return int(self.items.size)

    def _prefers(self, first: int, second: int) -> float:
        """Return the probability that one item is ranked before another, in closed form."""
        one, other = np.argsort(self.centres, axis=1)[:, self.items[[first, second]]].T
        return float(self.shares @ self.precedence[np.arange(one.size), one, other])

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings of all items by repeated insertion, and keep the given ones in their order."""
        share = self.shares
        drawn = generator(seed).choice(share.size, size=size, p=share / share.sum())
        draw = repeated_insertion if self.kendall else spearman_rankings
        orders = np.empty((size, self.centres.shape[1]), np.int64)
        for z in range(share.size):
            rows = np.flatnonzero(drawn == z)
            orders[rows] = draw(self.centres[z], self.dispersions[z], stream_key(seed, z), rows.size)
        index = np.full(orders.shape[1], -1, np.int32)
        index[self.items] = np.arange(self.n_items)
        asked = index[orders]
        return np.asarray(asked[asked >= 0].reshape(size, self.n_items))

    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of the items; exact where the orders of all items can be summed over."""
        listed = self.items[order]
        n, positions = self.centres.shape[1], np.argsort(self.centres, axis=1)
        if self.kendall:
            levels = np.arange(listed.size, dtype=np.int32)
            lists = Listed(*frozen(np.array([0, listed.size]), listed.astype(np.int32), levels))
            log_z = np.stack([log_normalisers(theta, n) for theta in self.dispersions])
            centres = Centres(self.centres, positions, self.dispersions)
            logs = list_log_likelihoods(lists, centres, log_z, Draws(stream_key(0), _N_DRAWS), MOST_WORK)[0][0]
        elif self.n_items < n:
            raise InputError(
                f"with distance='spearman' an order of {self.n_items} of {n} items has no known probability; ask for "
                "all of them"
            )
        else:
            logs = np.array([_spearman_log(listed, *each) for each in zip(positions, self.dispersions, strict=True)])
        with np.errstate(divide="ignore"):
            return float(np.logaddexp.reduce(np.log(self.shares / self.shares.sum()) + logs))


def _spearman_log(listed: Int64Array, positions: Int64Array, theta: float) -> float:
    """Log-probability of a complete ranking: -θ Σ_i (i - position of item i in the centre)² - log Z."""
    squares = np.sum((np.arange(listed.size) - positions[listed]) ** 2)
    return float(-theta * squares - np.log(completions(float(theta), positions.size, -1, -1)[0][0]))
