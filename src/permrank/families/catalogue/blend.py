"""What is set by held-out entries: the weighting of the factors, and how much each part of the blend counts.

Of some people a fifth of the entries is held out. A blend is judged by the NDCG of these over the whole catalogue,
gains being the grades. Settings are compared on the same people, so that one is taken for better than another only if
the mean difference exceeds its standard error: otherwise the parts count alike, which is hard to beat by weights that
are estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from permrank.families.catalogue.entries import Entries
from permrank.families.catalogue.kernels.rows import add_standardised, found_gains
from permrank.ragged import owners, positions
from permrank.randomness import generator, stream_key
from permrank.types import Array, Float64Array, Int64Array

# Share of a judge's entries that is held out, and the first items of a ranking that count.
_SHARE, _DEPTH = 0.2, 20
# Judges: as many as score so many (user, item) pairs, within these bounds.
_PAIRS, _FEWEST, _MOST = 80_000_000, 200, 2000
# Users are scored in blocks of so many (user, item) pairs: 4 bytes each.
_BLOCK = 1 << 23


class Scorer(Protocol):
    """What scores all items for anybody: a part of a blend."""

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""

    def contributions(self, entries: Entries, item: int) -> tuple[Float64Array, Float64Array]:
        """What each entry of one user adds to the score of an item, and to the mean score of all: (n_entries,) each."""

    def usual(self, entries: Entries, shares: Float64Array, item: int) -> float:
        """What an entry of grade 1 adds to an item beyond the mean of all, on average over all people's entries.

        shares: (n_items,), of all people's entries; they add up to 1.
        """


class Judges(NamedTuple):
    """People by whom settings are judged: what is left of their entries, and what was held out."""

    users: Int64Array
    known: Entries
    hidden: Entries
    n_items: int


def hold_out_entries(entries: Entries, n_items: int, seed: int) -> tuple[Entries, Judges] | None:
    """All entries but those held out, and the judges; None if nobody has five entries."""
    lengths = np.diff(entries.indptr)
    able = np.flatnonzero(lengths >= round(1 / _SHARE))
    if able.size == 0:
        return None
    rng = generator(stream_key(seed, 31))
    n_judges = int(np.clip(_PAIRS // n_items, _FEWEST, _MOST))
    users = np.sort(rng.permutation(able)[:n_judges])
    judged = np.zeros(entries.n_users, bool)
    judged[users] = True
    owner = owners(entries.indptr)
    # The first entries of a random order of each judge's are held out.
    order = np.lexsort((rng.random(owner.size), owner))
    place = np.empty(owner.size, np.int64)
    place[order] = positions(entries.indptr)
    hidden = judged[owner] & (place < np.round(_SHARE * lengths)[owner])
    known = entries.keep(~hidden)
    return known, Judges(users, known.take(users), entries.keep(hidden).take(users), n_items)


def gains(rows: Array, judges: Judges, first: int) -> Float64Array:
    """NDCG of what is hidden from each judge of a block that begins with ``first``; what they know is left out.

    The scores of what they know are overwritten.
    """
    users = np.arange(first, first + len(rows))
    depth = min(_DEPTH, rows.shape[1] - 1) or 1
    return np.asarray(found_gains(rows, tuple(judges.known.take(users)), tuple(judges.hidden.take(users)), depth))


def blocks(n_users: int, n_items: int) -> list[Int64Array]:
    """Runs of users whose rows fit into a bounded memory."""
    size = max(1, _BLOCK // max(n_items, 1))
    return [np.arange(first, min(first + size, n_users)) for first in range(0, n_users, size)]


def standardised_sum(parts: Sequence[Array], weights: Sequence[float]) -> Array:
    """Σ weight (row - mean) / deviation over the parts: float32."""
    out = np.zeros_like(parts[0], np.float32)
    for rows, weight in zip(parts, weights, strict=True):
        if weight != 0.0:
            add_standardised(np.ascontiguousarray(rows, np.float32), float(weight), out)
    return out


def judged(parts: Sequence[Scorer], mixtures: Sequence[Sequence[float]], judges: Judges) -> Float64Array:
    """NDCG of each judge under each mixture of the parts, which have ``rows``: (n_mixtures, n_judges)."""
    out = np.zeros((len(mixtures), judges.users.size))
    for block in blocks(judges.users.size, judges.n_items):
        rows = [part.rows(judges.known.take(block)) for part in parts]
        for number, mixture in enumerate(mixtures):
            out[number, block] = gains(standardised_sum(rows, mixture), judges, int(block[0]))
    return out
