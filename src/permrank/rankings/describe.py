"""What is in a data set: in a few numbers, and as a notebook shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from permrank.markup import html_table
from permrank.ragged import new_blocks
from permrank.rankings.connectivity import strong_components
from permrank.rankings.rankings import Rankings
from permrank.types import Named

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
