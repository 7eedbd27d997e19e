"""What kernels of log-linear models are given, grouped by meaning (see also posterior/kernels/arguments.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pairs(NamedTuple):
    """Pairs of items a < b with a parameter: those of a are ``items[indptr[a]:indptr[a + 1]]``, ascending."""

    indptr: Any
    items: Any


class Partners(NamedTuple):
    """The same with all partners of every item: those of a are ``items[indptr[a]:indptr[a + 1]]``, ascending.

    stored: (2 n_pairs,), the number of the pair, whose parameter is that of the smaller item before the larger.
    """

    indptr: Any
    items: Any
    stored: Any


class Positions(NamedTuple):
    """Position functions for every length of list: those of length n are ``table[start[n]:start[n] + n]``."""

    start: Any
    table: Any


class Orders(NamedTuple):
    """Lists with their items ascending, and for every position the number of its item among those of the list.

    Attributes
    ----------
    indptr : (n_lists + 1,)
    items, orders, levels : (n_entries,)
        levels: the tie group of each position.
    weights, owners : (n_lists,)
        owners: the index of the user of each list.
    """

    indptr: Any
    items: Any
    orders: Any
    levels: Any
    weights: Any
    owners: Any

    def entry_users(self) -> NDArray[np.int64]:
        """Index of the user of each entry."""
        return np.repeat(self.owners, np.diff(self.indptr))


class Terms(NamedTuple):
    """Minus the energy of a ranking: unary (n, B) times basis (n, B), plus pair (n, n), or (0, 0) without pairs."""

    unary: Any
    basis: Any
    pair: Any


class Schedule(NamedTuple):
    """Of a chain the order after ``burn_in`` steps is kept, and then every ``thin``-th until there are ``size``."""

    burn_in: Any
    thin: Any
    size: Any


class Moves(NamedTuple):
    """One kind of move, the width of its sublists, and the number of steps: as many as a list has items if 0."""

    move: Any
    width: Any
    n_steps: Any


class Candidates(NamedTuple):
    """Items that might enter the lists: those of user u from bounds[u] on; own (n, B) are their coefficients."""

    bounds: Any
    items: Any
    own: Any
