"""What a distribution over rankings can be asked."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from permrank.checks import require_int, require_seed
from permrank.errors import InputError
from permrank.types import Float64Array, Int32Array, Int64Array

# Rankings simulated for quantiles of ranks: the ends of an interval are quantiles of so many.
_SIMULATED = 512
# For the probability to be among the first.
_DRAWN = 1024
# Rankings are drawn in blocks of so many entries: 64 MB.
_BLOCK = 2**24
# The most seconds of drawing that a probability may take.
_MOST_SECONDS = 300.0
# Ways to divide what an interval of ranks leaves out between its ends.
_TAILS = 21
# Orders of what is tied in a list that are summed over one by one.
_MOST_ORDERS = 1_000


class RankingDistribution(ABC):
    """P(ranking) over n items, numbered from 0 in the order in which they were given.

    A model gives it for a user and some items (``model.distribution``). The methods here check what they are given, and
    ask those with an underscore: a subclass supplies `n_items`, `_sample` and `_log_probability`; everything else
    follows from them, exactly or from draws, and is overridden where there is a closed form.

    A mixture over draws from a posterior (`LuceMixture`, `DampedLuce`), or over the communities of a user whose list
    has said of them, stands for what is known *after* the user's list. `enter` therefore asks every component for its
    answer given the list, and averages those.

    Examples
    --------
    >>> from permrank.core.luce import LuceMixture
    >>> import numpy as np
    >>> worths = LuceMixture(np.log([[3.0, 2.0, 1.0]]))
    >>> round(worths.prefers(0, 2), 2), worths.top(1).round(2).tolist()
    (0.75, [0.5, 0.33, 0.17])
    >>> float(np.exp(worths.log_probability([0, 1, 2])).round(4))  # 3/6 * 2/3
    0.3333
    """

    _n_draws: ClassVar[int] = 4096
    """For probabilities without a closed form: a standard error of at most 0.5 / sqrt(4096) = 0.008."""
    _nanoseconds: ClassVar[float] = 0.0
    """About what a draw takes, for each of n² where it takes so many steps."""

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Number of items."""

    def prefers(self, first: int, second: int) -> float:
        """Return the probability that one item is ranked before another; 1/2 for an item and itself."""
        one, other = self._index("first", first), self._index("second", second)
        return 0.5 if one == other else self._prefers(one, other)

    def top(self, k: int) -> Float64Array:
        """Return the probability of each item to be among the first ``k``."""
        require_int("k", k, 1)
        return self._top(min(int(k), max(self.n_items, 1)))

    def top_of(self, chosen: ArrayLike, k: int) -> Float64Array:
        """Return the probability of some items to be among the first ``k``, from draws where `top` would take long.

        The standard error of what is drawn is at most 0.5 / sqrt(1024) = 0.016.
        """
        require_int("k", k, 1)
        items = self._indices("chosen", chosen)
        return self._top_of(items, min(int(k), max(self.n_items, 1)))

    def enter(self, levels: ArrayLike) -> Float64Array:
        """Return the probabilities of the positions of the last item, given the order of the others.

        levels: (n - 1,), of the others, not decreasing: they are a list, best first. Position j has j of them before.
        """
        given = np.asarray(levels)
        whole = given.size == 0 or (given.dtype.kind in "iu" and bool((np.diff(given) >= 0).all()))
        if given.shape != (self.n_items - 1,) or not whole:
            raise InputError(
                f"levels has shape {given.shape}, expected {self.n_items - 1} whole numbers that do not decrease: one "
                "for each item but the last"
            )
        dense = np.unique(given, return_inverse=True)[1].astype(np.int32) if given.size else np.zeros(0, np.int32)
        return self._enter(dense)

    def sample(self, size: int = 1, seed: int = 0) -> Int32Array:
        """Draw rankings: (size, n) indices, best first in every row. The same seed gives the same rows."""
        require_int("size", size, 0)
        require_seed(seed)
        return self._sample(int(size), int(seed))

    def rank_quantiles(self, chosen: ArrayLike, probabilities: ArrayLike) -> Int64Array:
        """Quantiles of the ranks, from 0, of some items: (n_chosen, n_probabilities)."""
        items, wanted = self._indices("chosen", chosen), np.asarray(probabilities, np.float64)
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise InputError(f"probabilities={probabilities!r}, expected numbers between 0 and 1")
        return self._rank_quantiles(items, wanted)

    def rank_interval(self, chosen: ArrayLike, probability: float = 0.9) -> Int64Array:
        """The narrowest interval of ranks, from 0, that holds an item's rank with at least this probability.

        Ranks are whole numbers, so that two equal tails leave out less than they may. Of several as narrow the one with
        tails that are most alike; 21 ways to divide the tails are tried. Returns (n_chosen, 2), first and last.
        """
        if not 0.0 < probability < 1.0:
            raise InputError(f"probability={probability!r}, expected a number between 0 and 1")
        tails = np.linspace(0.0, 1.0 - probability, _TAILS)
        quantiles = self.rank_quantiles(chosen, np.concatenate((tails[1:], probability + tails[:-1])))
        ends = np.zeros((len(quantiles), 1), np.int64)
        low = np.hstack((ends, quantiles[:, : _TAILS - 1]))
        high = np.hstack((quantiles[:, _TAILS - 1 :], ends + self.n_items - 1))
        uneven = np.abs(np.arange(_TAILS) - _TAILS // 2)
        best = np.argmin((high - low) * _TAILS + uneven, axis=1)[:, None]
        return np.hstack((np.take_along_axis(low, best, 1), np.take_along_axis(high, best, 1)))

    def log_probability(self, order: ArrayLike) -> float:
        """Log-probability of one ranking of all items: their indices, best first."""
        given = np.asarray(order)
        if given.shape != (self.n_items,) or (np.sort(given) != np.arange(self.n_items)).any():
            raise InputError(f"order={order!r}, expected the indices 0 to {self.n_items - 1}, each once, best first")
        return self._log_probability(given.astype(np.int64))

    # What a distribution supplies

    @abstractmethod
    def _sample(self, size: int, seed: int) -> Int32Array:
        """Draw rankings."""

    @abstractmethod
    def _log_probability(self, order: Int64Array) -> float:
        """Log-probability of one ranking of all items."""

    def _prefers(self, first: int, second: int) -> float:
        before = 0
        for drawn in self._drawn():
            before += int(np.sum(np.argmax(drawn == first, axis=1) < np.argmax(drawn == second, axis=1)))
        return before / self._n_draws

    def _top(self, k: int) -> Float64Array:
        counts = np.zeros(self.n_items, np.int64)
        for drawn in self._drawn():
            counts += np.bincount(drawn[:, :k].ravel(), minlength=self.n_items)
        return counts / self._n_draws

    def _drawn(self) -> Iterator[Int32Array]:
        """Rankings for a probability, in blocks that fit into the memory; of few items all at once."""
        self._require_feasible(self.n_items)
        size = max(1, _BLOCK // max(self.n_items, 1))
        for block, first in enumerate(range(0, self._n_draws, size)):
            yield self._sample(min(size, self._n_draws - first), block)

    def _require_feasible(self, n_positions: int) -> None:
        """Raise if drawing the first positions of as many rankings as a probability needs would take too long."""
        seconds = 1e-9 * self._nanoseconds * self._n_draws * n_positions * self.n_items
        if seconds > _MOST_SECONDS:
            raise InputError(
                f"this probability is a share of {self._n_draws:,} drawn rankings of {self.n_items:,} items, which "
                f"take about {seconds / 60:,.0f} minutes; ask about fewer items: model.prefers(user, item, other) is "
                "about those two alone"
            )

    def _top_of(self, chosen: Int64Array, k: int) -> Float64Array:
        return np.asarray(np.mean(self._sample_ranks(chosen, _DRAWN) < k, axis=0))

    def _enter(self, levels: Int32Array) -> Float64Array:
        """A tie says nothing about the order inside it: all its orders are summed over, each with its probability."""
        n, sizes = self.n_items - 1, np.bincount(levels) if levels.size else np.zeros(0, np.int64)
        n_orders = math.prod(math.factorial(size) for size in sizes.tolist()) if sizes.max(initial=0) < 20 else math.inf
        if n_orders > _MOST_ORDERS:
            raise InputError("the list has ties with too many orders to be summed over; ask about a list without ties")
        blocks = [itertools.permutations(block) for block in np.split(np.arange(n), np.cumsum(sizes)[:-1])]
        orders = [np.fromiter(itertools.chain(*parts), np.int64, n) for parts in itertools.product(*blocks)]
        logs = np.array([[self._log_probability(np.insert(order, j, n)) for j in range(n + 1)] for order in orders])
        worths = np.exp(logs - logs.max()).sum(axis=0)
        return np.asarray(worths / worths.sum())

    def _rank_quantiles(self, chosen: Int64Array, probabilities: Float64Array) -> Int64Array:
        if chosen.size == 0:
            return np.zeros((0, len(probabilities)), np.int64)
        ranks = self._sample_ranks(chosen, _SIMULATED)
        quantiles = np.quantile(ranks, probabilities, axis=0, method="inverted_cdf")
        return np.ascontiguousarray(quantiles.T).astype(np.int64)

    def _sample_ranks(self, chosen: Int64Array, size: int) -> Int32Array:
        """Ranks, from 0, of some items in rankings that are drawn: (size, n_chosen)."""
        orders = self._sample(size, 0)
        ranks = np.empty_like(orders)
        np.put_along_axis(ranks, orders, np.arange(self.n_items, dtype=orders.dtype)[None, :], axis=1)
        return ranks[:, chosen]

    def _indices(self, name: str, values: ArrayLike) -> Int64Array:
        items = np.asarray(values)
        valid = items.size == 0 or (items.dtype.kind in "iu" and items.min() >= 0 and items.max() < self.n_items)
        if items.ndim != 1 or not valid:
            raise InputError(f"{name}={values!r}, expected indices from 0 to {self.n_items - 1}")
        return items.astype(np.int64)

    def _index(self, name: str, value: object) -> int:
        require_int(name, value, 0)
        if not int(value) < self.n_items:  # type: ignore[call-overload]
            raise InputError(f"{name}={value!r}, expected an index from 0 to {self.n_items - 1}")
        return int(value)  # type: ignore[call-overload, no-any-return]
