"""What is in a data set: in a few numbers, and as a notebook shows it; which items can be compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permrank.markup import html_table
from permrank.ragged import indptr_of, new_blocks
from permrank.rankings.rankings import Rankings
from permrank.types import Int32Array, Int64Array, Named

_SHOWN, _LONGEST = 5, 10  # of the lists in a notebook


@dataclass(frozen=True)
class Description:
    """Counts and shapes of a `Rankings`.

    Attributes
    ----------
    anonymous : bool
        Whether the rankings are ballots without voters. Then equal ones are one, ``n_users`` and ``n_rankings`` are the
        numbers of distinct ballots, and ``total_weight`` is that of the voters.
    n_users, n_rankings, n_items, n_entries : int
    total_weight : float
        Rankings counted with their weights.
    total_count : float
        Entries counted as often as they were taken up: the number of clicks behind sets without order.
    order : {"strict", "with ties", "sets without order"}
    n_unranked_items : int
        Items that no ranking mentions.
    min_length, median_length, mean_length, max_length
        Of rankings, each counted with its weight except for the extremes.
    tied_share : float
        Share of the entries that stand in a tie block of two or more.
    largest_tie : int
        Entries in the largest tie block.
    density : float
        Entries over users times items.
    connected : bool
        Whether every item was ranked, directly or by a chain, both above and below every other:
        the condition for a maximum-likelihood estimate without a prior.
    n_components, largest_component : int
        Strong components of the comparison graph, and the items in the largest.
    """

    anonymous: bool
    n_users: int
    n_rankings: int
    n_items: int
    n_entries: int
    total_weight: float
    total_count: float
    order: str
    n_unranked_items: int
    min_length: int
    median_length: float
    mean_length: float
    max_length: int
    tied_share: float
    largest_tie: int
    density: float
    connected: bool
    n_components: int
    largest_component: int

    def to_dict(self) -> Named:
        """All numbers by name."""
        return asdict(self)

    def to_frame(self) -> pl.DataFrame:
        """Two columns, ``quantity`` and ``value``, as text."""
        rows = self.to_dict()
        return pl.DataFrame({"quantity": list(rows), "value": [_text(value) for value in rows.values()]})

    def __str__(self) -> str:
        width = max(len(name) for name in self.to_dict())
        return "\n".join(f"{name:<{width}}  {_text(value)}" for name, value in self.to_dict().items())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not isinstance(value, float):
        return f"{value:,}"
    if value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.1f}"


def describe(rankings: Rankings) -> Description:
    """Describe a data set in time linear in its entries."""
    lengths = rankings.lengths
    blocks = _block_sizes(rankings)
    components = strong_components(rankings)
    empty = lengths.size == 0
    weights = rankings.weights
    return Description(
        anonymous=rankings.anonymous,
        n_users=rankings.n_users,
        n_rankings=rankings.n_rankings,
        n_items=rankings.n_items,
        n_entries=rankings.n_entries,
        total_weight=float(weights.sum()),
        total_count=float(rankings.n_entries if rankings.counts is None else rankings.counts.sum(dtype=np.float64)),
        order="sets without order" if not rankings.has_order else "with ties" if rankings.has_ties else "strict",
        n_unranked_items=int((np.bincount(rankings.items, minlength=rankings.n_items) == 0).sum()),
        min_length=0 if empty else int(lengths.min()),
        median_length=0.0 if empty else _weighted_median(lengths, weights),
        mean_length=0.0 if empty else float(np.average(lengths, weights=weights)),
        max_length=0 if empty else int(lengths.max()),
        tied_share=0.0 if empty else float(blocks[blocks > 1].sum() / rankings.n_entries),
        largest_tie=0 if empty else int(blocks.max()),
        density=0.0 if empty else rankings.n_entries / (rankings.n_users * rankings.n_items),
        connected=components.connected,
        n_components=components.sizes.size,
        largest_component=int(components.sizes[0]) if components.sizes.size else 0,
    )


def _block_sizes(rankings: Rankings) -> np.ndarray:
    first = np.flatnonzero(new_blocks(rankings.levels, rankings.indptr))
    return np.diff(first, append=rankings.n_entries)


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    half = total[-1] / 2
    index = int(np.searchsorted(total, half))
    if total[index] == half and index + 1 < values.size:
        return float(values[order[index]] + values[order[index + 1]]) / 2
    return float(values[order[index]])


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


def html_of(rankings: Rankings) -> str:
    """What there is, and the first lists, best first; a tie has "=" between its items."""
    rows = []
    for ranking in range(min(_SHOWN, rankings.n_rankings)):
        user = rankings.user_ids[int(rankings.ranking_users[ranking])]
        rows.append([str(user), f"{rankings.weights[ranking]:g}", _list(rankings, ranking)])
    left = rankings.n_rankings - len(rows)
    notes = [f"and {left:,} more"] if left > 0 else []
    header = ["ballot" if rankings.anonymous else "user", "weight", "list"]
    return html_table(header, rows, title=repr(rankings), notes=notes)


def _list(rankings: Rankings, ranking: int) -> str:
    begin, end = int(rankings.indptr[ranking]), int(rankings.indptr[ranking + 1])
    parts: list[Any] = []
    for entry in islice(range(begin, end), _LONGEST):
        if entry > begin:
            parts.append("=" if rankings.levels[entry] == rankings.levels[entry - 1] else ">")
        parts.append(rankings.item_ids[int(rankings.items[entry])])
    return " ".join(map(str, parts)) + (" …" if end - begin > _LONGEST else "")
