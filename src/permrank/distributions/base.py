"""What a distribution over rankings can be asked."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod

import numpy as np

from permrank.errors import InputError
from permrank.types import Float64Array, Int32Array, Int64Array

# Rankings simulated for quantiles of ranks: the ends of an interval are quantiles of so many.
_SIMULATED = 512
# Draws for probabilities without a closed form: a standard error of at most 0.5 / sqrt(4096) = 0.008.
N_DRAWS = 4096
# Orders of what is tied in a list that are summed over one by one.
_MOST_ORDERS = 1_000


class RankingDistribution(ABC):
    """P(ranking) over n items, numbered from 0 in the order in which they were given.

    A model gives it for a user and some items (``model.distribution``). A subclass supplies `n_items`, `sample` and
    `log_probability`; everything else follows from them, exactly or from draws, and is overridden where there is a
    closed form.

    Examples
    --------
    >>> from permrank.distributions.luce import LuceMixture
    >>> import numpy as np
    >>> worths = LuceMixture(np.log([[3.0, 2.0, 1.0]]))
    >>> round(worths.prefers(0, 2), 2), worths.top(1).round(2).tolist()
    (0.75, [0.5, 0.33, 0.17])
    >>> float(np.exp(worths.log_probability([0, 1, 2])).round(4))  # 3/6 * 2/3
    0.3333
    """

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Number of items."""

    @abstractmethod
    def sample(self, size: int, seed: int = 0) -> Int32Array:
        """Draw rankings: (size, n) indices, best first in every row. The same seed gives the same rows."""

    @abstractmethod
    def log_probability(self, order: object) -> float:
        """Log-probability of one ranking of all items: their indices, best first."""

    def prefers(self, first: int, second: int) -> float:
        """Return the probability that one item is ranked before another."""
        drawn = self.sample(N_DRAWS)
        return float(np.mean(np.argmax(drawn == first, axis=1) < np.argmax(drawn == second, axis=1)))

    def top(self, k: int) -> Float64Array:
        """Return the probability of each item to be among the first ``k``."""
        drawn = self.sample(N_DRAWS)
        return np.bincount(drawn[:, :k].ravel(), minlength=self.n_items) / len(drawn)

    def enter(self, levels: Int32Array) -> Float64Array:
        """Return the probabilities of the places of the last item, given the order of the others.

        levels: (n - 1,), of the others, not decreasing: they are a list, best first. Place j has j of them before it.
        A tie says nothing about the order inside it: all its orders are summed over, each with its probability.
        """
        n, sizes = self.n_items - 1, np.bincount(levels) if levels.size else np.zeros(0, np.int64)
        n_orders = math.prod(math.factorial(size) for size in sizes.tolist()) if sizes.max(initial=0) < 20 else math.inf
        if n_orders > _MOST_ORDERS:
            raise InputError("the list has ties with too many orders to be summed over; ask about a list without ties")
        blocks = [itertools.permutations(block) for block in np.split(np.arange(n), np.cumsum(sizes)[:-1])]
        orders = [
            np.concatenate(parts).astype(np.int64) if n else np.zeros(0, np.int64)
            for parts in itertools.product(*blocks)
        ]
        logs = np.array([[self.log_probability(np.insert(order, j, n)) for j in range(n + 1)] for order in orders])
        worths = np.exp(logs - logs.max()).sum(axis=0)
        return np.asarray(worths / worths.sum())

    def rank_quantiles(self, chosen: Int64Array, probabilities: Float64Array) -> Int64Array:
        """Quantiles of the ranks, from 0, of some items: (n_chosen, n_probabilities); here of 512 draws."""
        if chosen.size == 0:
            return np.zeros((0, len(probabilities)), np.int64)
        orders = self.sample(_SIMULATED)
        ranks = np.empty_like(orders)
        np.put_along_axis(ranks, orders, np.arange(self.n_items, dtype=orders.dtype)[None, :], axis=1)
        found = np.quantile(ranks[:, chosen], probabilities, axis=0, method="inverted_cdf")
        return np.ascontiguousarray(found.T).astype(np.int64)

    def _order(self, order: object) -> Int64Array:
        """A ranking of all items as indices; anything else raises."""
        found = np.asarray(order)
        if found.shape != (self.n_items,) or (np.sort(found) != np.arange(self.n_items)).any():
            raise InputError(f"order={order!r}, expected the indices 0 to {self.n_items - 1}, each once, best first")
        return found.astype(np.int64)
