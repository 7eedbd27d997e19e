"""Items in parts: what shards of users say about the items of each, and the steps of these.

There are two forms with the same bits, and the smaller one travels. *Sums*: a shard gives those of its blocks for each
item, (K + 1)(K + 4) / 2 numbers. *Entries*: residual and curvature of every entry, two numbers, and the draws of the
users who have one, K numbers each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from permrank.data.item_view import ItemView, entries_by_item
from permrank.kernels.factored.arguments import NOTHING_KEPT, Entries, Items, Kept, Noise
from permrank.kernels.factored.items import add_block_sums, item_steps, item_sums, steps_from_sums
from permrank.kernels.lists import Lists
from permrank.learning.shards import Exchanged, blocks_by_entries, joined
from permrank.ragged import frozen, indptr_of, owners
from permrank.types import Array, Float64Array, Int32Array, Int64Array


class ItemPart(NamedTuple):
    """Consecutive items, and who mentions them if entries travel.

    Attributes
    ----------
    rows : slice
        The items among all.
    bounds : int64 (n_blocks + 1,)
        Of every block of users those who mention the items, numbered among all who do.
    view : ItemView
        The entries of each item, among those that arrive.
    owner : int32 (n_entries,)
        The user of each, in the order of the view.
    """

    rows: slice
    bounds: Int64Array
    view: ItemView
    owner: Int32Array

    def steps(self, values: Sequence[Array], given: Items, noise: Noise, kept: Kept) -> Float64Array:
        """Steps of the items from what all shards have for them."""
        if isinstance(values[0], tuple):
            residual, curvature, draws = joined(values)
            entries = Entries(residual, curvature)
            return np.asarray(item_steps(self.bounds, self.view, self.owner, draws, given, entries, noise, kept))
        sums = np.zeros(values[0].shape[1:])
        for by_block in values:
            add_block_sums(by_block, sums)
        return np.asarray(steps_from_sums(sums, given, noise, kept))


class Exchange(NamedTuple):
    """How items are cut, and what of the users' entries travels.

    Attributes
    ----------
    cuts : int64 (n_parts + 1,)
    by_entries : bool
    """

    cuts: Int64Array
    by_entries: bool

    @classmethod
    def of(cls, items: Int32Array, n_rows: int, n_columns: int, n_parts: int, *, by_entries: bool) -> Exchange:
        """Parts of about as much work each: the system of an item costs about as much as K entries."""
        counts = np.bincount(items, minlength=n_rows)
        return cls(blocks_by_entries(indptr_of(counts + n_columns), min(n_parts, n_rows)), by_entries)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.cuts.size - 1

    def parts(self, lists: Lists, bounds: Int64Array) -> list[ItemPart]:
        """The parts of these lists of users in blocks with these bounds."""
        nobody = np.zeros(0, np.int64), ItemView(np.zeros(1, np.int64), np.zeros(0, np.int32)), np.zeros(0, np.int32)
        made = []
        owner = owners(lists.indptr[lists.user_indptr], np.int32) if self.by_entries else np.zeros(0, np.int32)
        for first, last in pairwise(self.cuts.tolist()):
            if not self.by_entries:
                made.append(ItemPart(slice(first, last), *nobody))
                continue
            entries = _mentions(lists, first, last)
            users, number = _distinct(owner[entries])
            view = entries_by_item(lists.items[entries] - np.int32(first), last - first)
            within = np.searchsorted(users, bounds)
            made.append(ItemPart(slice(first, last), within, view, number[view.entries]))
        return made

    def values(self, bounds: Int64Array, lists: Lists, draws: Float64Array, found: Entries) -> Iterator[object]:
        """What a shard has for each part: arrays that may not be written, so that they are not copied."""
        if self.by_entries:
            owner = owners(lists.indptr[lists.user_indptr], np.int32)
        for first, last in pairwise(self.cuts.tolist()):
            if self.by_entries:
                entries = _mentions(lists, first, last)
                users, _ = _distinct(owner[entries])
                yield tuple(frozen(found.residual[entries], found.curvature[entries], draws[users]))
            else:
                (sums,) = frozen(item_sums(bounds, lists, draws, found, first, last))
                yield sums


def _mentions(lists: Lists, first: int, last: int) -> Int64Array:
    """Entries of the items from ``first`` to ``last``."""
    return np.flatnonzero((lists.items >= first) & (lists.items < last))


def _distinct(ascending: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Distinct values, and the number among them of each."""
    new = np.ones(ascending.size, bool)
    new[1:] = ascending[1:] != ascending[:-1]
    return ascending[new], np.cumsum(new, dtype=np.int32) - np.int32(1)


def _part_steps(
    precision: Float64Array, noise: Noise, keep: bool, part: ItemPart, values: Sequence[Array], theta: Float64Array,
    centre: Float64Array,
) -> tuple[Float64Array, ...]:  # fmt: skip
    """Steps of the items of a part, and what is kept of them."""
    kept = Kept(np.empty_like(theta), np.empty(len(theta))) if keep else NOTHING_KEPT
    noise = noise._replace(before=part.rows.start)
    return part.steps(values, Items(theta, centre, precision), noise, kept), kept.steps, kept.variance


def steps_of_parts(
    exchanged: Exchanged, parts: Sequence[ItemPart], given: Items, noise: Noise, kept: Kept
) -> Float64Array:
    """Steps of all items; fills ``kept``."""
    columns = ([array[part.rows] for part in parts] for array in (given.theta, given.centre))
    job = partial(_part_steps, given.precision, noise, kept.variance.size > 0)
    made = exchanged.map(job, parts, *columns)
    steps, kept.steps[:], kept.variance[:] = joined(list(made))
    return np.asarray(steps)
