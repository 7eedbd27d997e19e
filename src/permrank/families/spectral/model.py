"""Spectral analysis of ranking data: effects of single items, of pairs, and what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.ranker import ItemScores, OneOrderRanker
from permrank.errors import InputError, NotSupportedError
from permrank.families.spectral.kernels import (
    Partition,
    dimension,
    isotypic_components,
    partitions,
    permutations,
    ranking_marginals,
)
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

# 7! = 5,040 orders, whose convolution takes a second; 8! would take a minute.
_MOST_DECOMPOSED = 7
# The table of pairs by pairs of positions has n^4 / 4 numbers.
_MOST_PAIRED = 40
_MOST_ITEMS = 150  # 150! is still a float


@dataclass(frozen=True, eq=False)
class Marginals(ItemScores):
    """What `SpectralAnalysis` computes; see its attributes."""

    first_order: Float64Array
    unordered: Float64Array
    ordered: Float64Array
    sums_of_squares: Float64Array


class SpectralAnalysis(OneOrderRanker):
    """Spectral analysis of rankings (Diaconis 1989): how much is said by single items, by pairs, by more.

    The counts f(π) of all orders of n items are a sum of orthogonal parts f_λ, one for each partition λ of n. (n) is
    the constant, (n-1, 1) the effect of single items at single positions, (n-2, 2) that of unordered pairs at pairs of
    positions beyond it, (n-2, 1, 1) that of ordered pairs, and so on. For n <= 7 all parts are found, exactly; for more
    items these first four.

    A tie is spread evenly over its orders, and for n <= 7 so is a list that leaves items out over the orders that
    agree with it. As a ranker it orders by the mean position.

    Attributes
    ----------
    scores_ : float64 (n_items,)
        Expected share of the other items that an item comes before.
    first_order_ : float64 (n_items, n_items)
        Weight of the rankings that have an item (row) at a position (column).
    unordered_, ordered_ : float64 (n_pairs, n_pairs)
        Effects of pairs of items (rows, in the order of the ids) at pairs of positions (columns), up to 40 items.
    sums_of_squares_ : float64 (n_parts,)
        Σ_π f_λ(π)² of each part, in the order of `components`.

    Examples
    --------
    >>> import permrank as pr, polars as pl
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]], weights=[5, 4, 2])
    >>> model = pr.SpectralAnalysis().fit(ballots)
    >>> dict(model.components().select("component", pl.col("share").round(2)).rows())
    {'(3)': None, '(2,1)': 0.99, '(1,1,1)': 0.01}
    """

    needs_order = True
    assumes = "nothing: it describes counts of orders by effects of items, pairs and more"
    takes = "rankings of few items, complete if more than 7; ties, weights"
    reference = "Diaconis (1989), A generalization of spectral analysis"
    estimate_type = Marginals
    first_order_ = Learnt[Float64Array]()
    unordered_ = Learnt[Float64Array]()
    ordered_ = Learnt[Float64Array]()
    sums_of_squares_ = Learnt[Float64Array]()

    def _learn(self, rankings: Rankings) -> Marginals:
        n = rankings.n_items
        total = float(rankings.weights.sum())
        if n <= _MOST_DECOMPOSED:
            counts = order_counts(rankings)
            orders = permutations(n)
            levels = np.tile(np.arange(n, dtype=np.int32), len(orders))
            arrays = frozen(np.arange(len(orders) + 1) * n, orders.ravel().astype(np.int32), levels, counts)
        else:
            _require_complete(rankings)
            arrays = frozen(rankings.indptr, rankings.items, rankings.levels, rankings.weights)
        first, together, apart = ranking_marginals(arrays[0], arrays[1], arrays[2], arrays[3], n, n <= _MOST_PAIRED)
        unordered, ordered = pair_effects(together, apart, n)
        if n <= _MOST_DECOMPOSED:
            squares = np.sum(isotypic_components(counts)[1] ** 2, axis=1)
        else:
            squares = _first_squares(rankings, first, unordered, ordered)
        scores = 1.0 - first @ np.arange(n) / (total * max(n - 1, 1))
        return Marginals(scores, first, unordered, ordered, squares)

    # What there is to see

    def components(self) -> pl.DataFrame:
        """Parts of the counts: how much each of them varies.

        Returns
        -------
        polars.DataFrame
            ``component``, the partition; ``dimension`` of the space it lies in; ``mean_square`` of f_λ over all n!
            orders; ``by_chance``, what that would be if everybody drew a complete order at random; ``share`` of the
            variance of the counts (null for the constant). Over 7 items all other parts are one row, the rest;
            that row and the shares are missing if there are ties.
        """
        fitted: Fitted[Marginals] = self.fitted_
        n, squares = fitted.rankings.n_items, fitted.estimate.sums_of_squares
        shapes = _shapes(n)
        sizes = [float(dimension(shape)) ** 2 for shape in shapes]
        names = [f"({','.join(map(str, shape))})" for shape in shapes]
        n_orders = float(math.factorial(n))
        if len(names) < squares.size:
            names.append("rest")
            sizes.append(n_orders - sum(sizes))
        mean = squares / n_orders
        chance = np.array(sizes) / n_orders * (fitted.rankings.weights.sum() / n_orders)
        varying = squares[1:]
        share: list[float | None] = [None] * len(names)
        if sum(sizes) == n_orders and varying.sum() > 0:
            share[1:] = (varying / varying.sum()).tolist()
        columns = {"component": names, "dimension": sizes, "mean_square": mean, "by_chance": chance, "share": share}
        return pl.DataFrame(columns, schema_overrides={"share": pl.Float64})

    def first_order(self) -> pl.DataFrame:
        """Items by positions: ``item``, ``rank``, ``share`` of the rankings, and ``effect``, the count beyond N / n."""
        fitted: Fitted[Marginals] = self.fitted_
        n, total, first = fitted.rankings.n_items, float(fitted.rankings.weights.sum()), fitted.estimate.first_order
        return pl.DataFrame(
            {
                "item": fitted.item_ids.take(np.repeat(np.arange(n), n)),
                "rank": np.tile(np.arange(1, n + 1), n),
                "share": first.ravel() / total,
                "effect": first.ravel() - total / n,
            }
        )

    def unordered_pairs(self) -> pl.DataFrame:
        """Pairs of items at pairs of positions, in either order, largest effects first.

        The effect is the sum of f_(n-2,2) over the orders that have the two items at the two positions: what the pair
        does together beyond what its items do by themselves. Columns ``item``, ``other``, ``rank``, ``other_rank``,
        ``effect``.
        """
        fitted: Fitted[Marginals] = self.fitted_
        return _pairs(fitted, fitted.estimate.unordered)

    def ordered_pairs(self) -> pl.DataFrame:
        """Pairs of items at pairs of positions, largest effects of f_(n-2,1,1) first.

        As `unordered_pairs`, with ``item`` at ``rank`` and ``other`` at ``other_rank``; the other way round has minus
        the effect.
        """
        fitted: Fitted[Marginals] = self.fitted_
        return _pairs(fitted, fitted.estimate.ordered)

    def projection(self, component: Partition) -> pl.DataFrame:
        """Return f_λ of all n! orders, n <= 7: ``ranking`` (ids, best first), ``count`` and ``value``.

        Parameters
        ----------
        component : tuple of int
            A partition of the number of items, for example ``(3, 2)``.
        """
        fitted: Fitted[Marginals] = self.fitted_
        n = fitted.rankings.n_items
        if n > _MOST_DECOMPOSED:
            raise NotSupportedError(f"the parts are found for up to {_MOST_DECOMPOSED} items, not {n}; select some")
        shapes = partitions(n)
        if component not in shapes:
            raise InputError(f"component={component!r}, expected one of {', '.join(map(str, shapes))}")
        counts = order_counts(fitted.rankings)
        value = isotypic_components(counts)[1][shapes.index(component)]
        ids = np.asarray(fitted.item_ids.ids.to_list())[permutations(n)]
        return pl.DataFrame({"ranking": ids.tolist(), "count": counts, "value": value})

    def _check(self, fitted: Fitted[Marginals]) -> None:
        super()._check(fitted)
        n = fitted.rankings.n_items
        n_pairs = n * (n - 1) // 2 if n <= _MOST_PAIRED else 0
        n_parts = len(_shapes(n)) + (n > _MOST_DECOMPOSED and not fitted.rankings.has_ties)
        shapes = {
            "first_order": (n, n),
            "unordered": (n_pairs, n_pairs),
            "ordered": (n_pairs, n_pairs),
            "sums_of_squares": (n_parts,),
        }
        for name, shape in shapes.items():
            values = getattr(fitted.estimate, name)
            if np.shape(values) != shape or values.dtype != np.float64:
                raise InputError(f"{name}_ has shape {np.shape(values)}, expected {shape} of float64")


def _pairs(fitted: Fitted[Marginals], effects: Float64Array) -> pl.DataFrame:
    n = fitted.rankings.n_items
    if n > _MOST_PAIRED:
        raise NotSupportedError(f"effects of pairs are found for up to {_MOST_PAIRED} items, not {n}; select some")
    first, second = np.triu_indices(n, 1)
    rows, columns = (part.ravel() for part in np.indices(effects.shape))
    order = np.argsort(-np.abs(effects.ravel()), kind="stable")
    rows, columns = rows[order], columns[order]
    return pl.DataFrame(
        {
            "item": fitted.item_ids.take(first[rows]),
            "other": fitted.item_ids.take(second[rows]),
            "rank": first[columns] + 1,
            "other_rank": second[columns] + 1,
            "effect": effects.ravel()[order],
        }
    )


def _shapes(n: int) -> list[Partition]:
    """Partitions of the parts that are distinguished."""
    if n <= _MOST_DECOMPOSED:
        return partitions(n)
    return [(n,), (n - 1, 1), (n - 2, 2), (n - 2, 1, 1)] if n <= _MOST_PAIRED else [(n,), (n - 1, 1)]


def order_counts(rankings: Rankings) -> Float64Array:
    """Counts of all n! orders; a ranking that many orders agree with is spread evenly over them."""
    n = rankings.n_items
    orders = permutations(n)
    positions = np.argsort(orders, axis=1)
    radix = n ** np.arange(n)[::-1]  # orders are sorted, so their digits find them
    codes = orders @ radix
    counts = np.zeros(len(orders))
    for r in range(rankings.n_rankings):
        part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
        items, levels = rankings.items[part], rankings.levels[part]
        if items.size == n and levels[-1] == n - 1:
            counts[np.searchsorted(codes, items @ radix)] += rankings.weights[r]
            continue
        agrees = np.ones(len(orders), bool)
        for level in range(int(levels[-1])):
            above = positions[:, items[levels == level]].max(axis=1)
            agrees &= above < positions[:, items[levels == level + 1]].min(axis=1)
        counts[agrees] += rankings.weights[r] / np.count_nonzero(agrees)
    return counts


def pair_effects(together: Float64Array, apart: Float64Array, n: int) -> tuple[Float64Array, Float64Array]:
    """Marginals of pairs less what single items explain: the parts (n-2, 2) and (n-2, 1, 1).

    h({y, x}) is freed of the best u_y + u_x, and a(y, x) = -a(x, y) of the best u_y - u_x, for every pair of positions:
    the functions on pairs fall into (n) + (n-1, 1) + (n-2, 2), the antisymmetric ones into (n-1, 1) + (n-2, 1, 1).
    """
    if n < 3:  # a pair is all there is
        return np.zeros_like(together), np.zeros_like(apart)
    first, second = np.triu_indices(n, 1)
    incidence = np.zeros((n, first.size))
    incidence[first, np.arange(first.size)] = incidence[second, np.arange(first.size)] = 1.0
    signed = incidence.copy()
    signed[second, np.arange(first.size)] = -1.0
    if together.size == 0:
        return together, apart
    sums = incidence @ together
    levels = (sums - sums.sum(axis=0) / (2 * n - 2)) / (n - 2)
    return together - incidence.T @ levels, apart - signed.T @ (signed @ apart) / n


def _first_squares(
    rankings: Rankings, first: Float64Array, unordered: Float64Array, ordered: Float64Array
) -> Float64Array:
    """Sums of squares of the first parts and of the rest: (d_λ / n!) |effects|² (Plancherel's formula)."""
    n, total = rankings.n_items, float(rankings.weights.sum())
    # Each effect of an ordered pair stands for four: either order of the items, and of the positions.
    norms = [total**2, np.sum((first - total / n) ** 2), np.sum(unordered**2), 4.0 * np.sum(ordered**2)]
    shapes = _shapes(n)
    logs = [math.log(dimension(shape)) - math.lgamma(n + 1.0) for shape in shapes]
    squares = [math.exp(log) * norm for log, norm in zip(logs, norms, strict=False)]
    if not rankings.has_ties:  # the orders of a tie are too many to be counted
        squares.append(max(float(np.sum(rankings.merged().weights ** 2)) - sum(squares), 0.0))
    return np.array(squares)


def _require_complete(rankings: Rankings) -> None:
    n = rankings.n_items
    if n > _MOST_ITEMS:
        raise InputError(f"the table of items by positions of {n} items is too large; select at most {_MOST_ITEMS}")
    short = np.flatnonzero(rankings.lengths != n)
    if short.size:
        raise InputError(
            f"ranking {short[0]} lists {rankings.lengths[short[0]]} of {n} items; with more than "
            f"{_MOST_DECOMPOSED} items every ranking must be complete: put the others last with "
            "rankings.with_unlisted_last(), or select items that everybody ranked"
        )
