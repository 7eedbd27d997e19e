"""Central rankings: exact where that is possible, by local search with a bound where it is not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from permrank.families.mallows.kernels.kemeny import exact_order, order_cost, searched_order
from permrank.types import Float64Array, Int64Array, Key

# 2^14 sets of 14 items take some milliseconds, and EM asks for an order in every sweep.
MOST_EXACT = 14
_N_KICKS = 20


class CentralOrder(NamedTuple):
    """An order, its cost, and by how much at most a better one could be cheaper (0: it is the best)."""

    order: Int64Array
    cost: float
    gap: float


def kemeny_order(above: Float64Array, key: Key, start: Int64Array | None = None) -> CentralOrder:
    """Order the items so that the weight of the pairs it contradicts is least.

    A best order follows the strict majorities between the strong components of the majority graph (Truchon 1998), so
    each component is ordered by itself: exactly if it is small, by local search otherwise. A searched component
    cannot be cheaper than the sum of its minorities.

    Parameters
    ----------
    above : float64 (n, n)
        Weight of those who want i before j.
    key : uint64
        Of the random moves of the search.
    start : int64 (n,), optional
        An order to begin the search with; the result is not worse.
    """
    n = above.shape[0]
    if start is None:
        start = np.argsort(-(above - above.T).sum(axis=1), kind="stable")
    order, gap = [], 0.0
    for members in _components_in_order(above):
        part = np.ascontiguousarray(above[np.ix_(members, members)])
        if members.size <= MOST_EXACT:
            order.append(members[exact_order(part)] if members.size > 1 else members)
            continue
        inside = np.full(n, -1)
        inside[members] = np.arange(members.size)
        begin = inside[start]
        searched = searched_order(part, np.ascontiguousarray(begin[begin >= 0]), key, _N_KICKS)
        order.append(members[searched])
        gap += order_cost(part, searched) - float(np.minimum(part, part.T).sum()) / 2.0
    best = np.concatenate(order)
    return CentralOrder(best, float(order_cost(above, best)), float(gap))


def _components_in_order(above: Float64Array) -> list[Int64Array]:
    """Strong components of the graph of strict majorities, each before those that it beats."""
    # Majorities that differ by rounding only are none.
    wins = above > above.T + 1e-9 * (1.0 + above + above.T)
    n_components, labels = connected_components(csr_array(wins.astype(np.int8)), directed=True, connection="strong")
    beats = np.zeros((n_components, n_components), bool)
    first, second = np.nonzero(wins)
    beats[labels[first], labels[second]] = True
    np.fill_diagonal(beats, False)
    beaten_by = beats.sum(axis=0)
    ready = [int(c) for c in np.flatnonzero(beaten_by == 0)]
    order = []
    while ready:
        component = ready.pop(0)
        order.append(np.flatnonzero(labels == component))
        for other in np.flatnonzero(beats[component]):
            beaten_by[other] -= 1
            if beaten_by[other] == 0:
                ready.append(int(other))
    return order
