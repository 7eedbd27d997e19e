"""Every ranking is as likely as every other."""

from __future__ import annotations

import math

import numpy as np

from permrank.distributions.base import RankingDistribution
from permrank.randomness import generator
from permrank.types import Float64Array, Int32Array


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

    def prefers(self, first: int, second: int) -> float:
        """Return 1/2."""
        return 0.5

    def top(self, k: int) -> Float64Array:
        """Return k / n for each of n items."""
        return np.full(self.n_items, min(k, self.n_items) / max(self.n_items, 1))

    def enter(self, levels: Int32Array) -> Float64Array:
        """Return 1 / (n + 1) for each place of a list of n."""
        return np.full(self.n_items, 1.0 / self.n_items)

    def sample(self, size: int, seed: int = 0) -> Int32Array:
        """Draw orders."""
        rows = np.tile(np.arange(self.n_items, dtype=np.int32), (size, 1))
        return np.asarray(generator(seed).permuted(rows, axis=1))

    def log_probability(self, order: object) -> float:
        """Return -log n!."""
        return -math.lgamma(self._order(order).size + 1.0)
