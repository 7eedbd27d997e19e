"""Which items can be compared: the graph of who was ranked above whom."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permrank.ragged import indptr_of
from permrank.rankings.rankings import Rankings
from permrank.types import Int32Array, Int64Array


class Components(NamedTuple):
    """Strong components of the graph "somebody ranked this above that".

    Attributes
    ----------
    labels : int32 (n_items,)
        Component of each item; 0 is the largest.
    sizes : int64 (n_components,)
        Items in each component, largest first.
    """

    labels: Int32Array
    sizes: Int64Array

    @property
    def connected(self) -> bool:
        """Whether a maximum-likelihood estimate exists for all items together (Ford 1957, Hunter 2004)."""
        return self.sizes.size <= 1

    @property
    def outside(self) -> Int64Array:
        """Items that are not in the largest component."""
        return np.flatnonzero(self.labels != 0)


def strong_components(rankings: Rankings, *, ties_connect: bool = False) -> Components:
    """Strong components over items.

    Neighbouring tie blocks are joined through a node of their own, so that the graph has no more
    edges than twice the entries, however large the blocks.

    Parameters
    ----------
    rankings : Rankings
    ties_connect : bool
        Whether a tie is evidence that its items are close (as Breslow's and Efron's likelihoods take
        it): it then joins them both ways.
    """
    n = rankings.n_items
    owner = rankings.entry_rankings()
    n_levels = rankings.last_levels.astype(np.int64) + 1
    first_block = indptr_of(n_levels)
    block = first_block[owner] + rankings.levels
    is_last = rankings.levels == (n_levels - 1)[owner]
    is_first = rankings.levels == 0
    items = rankings.items.astype(np.int64)
    # Node n + b stands for the gap under block b.
    above = [items[~is_last], n + block[~is_last]]
    below = [n + block[~is_first] - 1, items[~is_first]]
    sources, targets = [above[0], below[0]], [above[1], below[1]]
    if ties_connect:
        tie = n + int(first_block[-1]) + block
        sources += [items, tie]
        targets += [tie, items]
    source, target = np.concatenate(sources), np.concatenate(targets)
    n_nodes = n + int(first_block[-1]) * (2 if ties_connect else 1)
    graph = coo_array((np.ones(source.size, np.int8), (source, target)), shape=(n_nodes, n_nodes)).tocsr()
    _, components = connected_components(graph, directed=True, connection="strong")
    present, labels = np.unique(components[:n], return_inverse=True)
    sizes = np.bincount(labels, minlength=present.size)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return Components(rank[labels].astype(np.int32), sizes[order])
