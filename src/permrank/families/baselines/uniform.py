"""Every ranking is as likely as every other."""

from __future__ import annotations

import math

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.randomness import generator
from permrank.types import Float64Array, Int32Array, Int64Array


class Uniform(RankingDistribution):
    """P(ranking) = 1 / n!.

    Parameters
    ----------
    n_items : int
    """

    def __init__(self, n_items: int) -> None:
        self._n_items = n_items

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self._n_items

    def _prefers(self, first: int, second: int) -> float:
        """Return 1/2."""
        return 0.5

    def _top(self, k: int) -> Float64Array:
        """Return k / n for each of n items."""
        return np.full(self.n_items, min(k, self.n_items) / max(self.n_items, 1))

    def _enter(self, levels: Int32Array) -> Float64Array:
        """Return 1 / (n + 1) for each position of a list of n."""
        return np.full(self.n_items, 1.0 / self.n_items)

    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw orders."""
        rows = np.tile(np.arange(self.n_items, dtype=np.int32), (size, 1))
        return np.asarray(generator(seed).permuted(rows, axis=1))

    def _log_probability(self, order: Int64Array) -> float:
        """Return -log n!."""
        return -math.lgamma(order.size + 1.0)
