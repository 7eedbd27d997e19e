"""Parts of rankings for validation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.errors import InputError
from permrank.ragged import indptr_of
from permrank.randomness import Seed, generator
from permrank.rankings.build import renumbered
from permrank.rankings.rankings import Rankings
from permrank.types import BoolArray


class Parts(NamedTuple):
    """Two parts of the same rankings, over the same users and items."""

    train: Rankings
    test: Rankings


def hold_out(rankings: Rankings, share: float = 0.2, *, min_length: int = 3, seed: Seed = 0) -> Parts:
    """Hold out a share of the entries of every ranking, at random; at least one, and never all.

    Parameters
    ----------
    rankings : Rankings
    share : float
        Between 0 and 1.
    min_length : int
        Shorter rankings stay whole in the training part.
    seed : int, None or numpy.random.Generator

    Returns
    -------
    train, test : Rankings
        Over the same users and items.

    Examples
    --------
    >>> import permrank as pr
    >>> train, test = pr.hold_out(pr.Rankings.from_lists({"ann": list("abcde"), "bob": ["a"]}), 0.4)
    >>> train.n_entries, test.n_entries, test.n_users
    (4, 2, 2)
    """
    held = held_out_entries(rankings, share, min_length=min_length, seed=seed)
    return Parts(keep_entries(rankings, ~held), keep_entries(rankings, held))


def held_out_entries(rankings: Rankings, share: float, *, min_length: int = 3, seed: Seed = 0) -> BoolArray:
    """Mark the entries that `hold_out` puts into the test part."""
    if not 0 < share < 1:
        raise InputError(f"share={share!r}, expected a number between 0 and 1")
    lengths, owner = rankings.lengths, rankings.entry_rankings()
    order = np.lexsort((generator(seed).random(rankings.n_entries), owner))
    position = np.empty(rankings.n_entries, np.int64)
    position[order] = np.arange(rankings.n_entries) - rankings.indptr[owner]
    wanted = np.clip(np.round(share * lengths), 1, np.maximum(lengths - 1, 1)).astype(np.int64)
    wanted[lengths < max(min_length, 2)] = 0
    return np.asarray(position < wanted[owner])


def keep_entries(rankings: Rankings, keep: BoolArray) -> Rankings:
    """Only these entries, all users and all items; rankings that lose all their entries are dropped."""
    n_rankings = rankings.n_rankings
    left = np.add.reduceat(keep, rankings.indptr[:-1], dtype=np.int64) if n_rankings else np.zeros(0, np.int64)
    kept = left > 0
    indptr = indptr_of(left[kept])
    return rankings._with(
        user_indptr=indptr_of(kept)[rankings.user_indptr], indptr=indptr, items=rankings.items[keep],
        levels=renumbered(rankings.levels[keep], indptr), weights=rankings.weights[kept], **rankings._attached(keep),
    )  # fmt: skip
