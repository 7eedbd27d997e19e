"""The passes of a sweep over shards of users: utilities and users given items, and what items need of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from permrank.families.thurstone.kernels.conditioning import Population
from permrank.families.thurstone.kernels.items import (
    completed_scatter,
    draw_rated,
    slot_terms,
    squares_by_item,
    threshold_sums,
)
from permrank.families.thurstone.kernels.orders import Statements
from permrank.families.thurstone.kernels.users import Rounds, move_users
from permrank.kernels.lists import Lists
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.posterior.kernels.arguments import NO_MEANS, Entries, Items, Noise
from permrank.posterior.kernels.items import item_steps, item_sums, steps_from_sums
from permrank.ragged import entries_by_item, frozen, owners
from permrank.types import Array, Float64Array, Int64Array, Key

# Adding up a block must cost little beside its slots: 32 slots of an item for each, but never below 4 blocks.
_SLOTS_OF_AN_ITEM, _FEWEST_BLOCKS = 32, 4


class SlotShard(NamedTuple):
    """A shard of users: what they say, and their slots.

    Attributes
    ----------
    entries : Shard
        Users, rankings, entries; its data are levels and the slots of the entries.
    slots : Shard
        Users, slots; its data are items and grades.
    one_draw : bool
    """

    entries: Shard
    slots: Shard
    one_draw: bool

    @property
    def spans(self) -> tuple[slice, ...]:
        """Where its users and slots lie among all."""
        return self.slots.spans

    @property
    def statements(self) -> Statements:
        """What its users say."""
        arrays = (*self.entries.indptrs, *self.entries.data, *self.slots.indptrs, *self.slots.data)
        return Statements._make((*arrays, self.one_draw))

    @property
    def lists(self) -> Lists:
        """Slots as lists of one ranking a user."""
        (indptr,), (items, grades) = self.slots.indptrs, self.slots.data
        alone = frozen(np.arange(indptr.size, dtype=np.int64))[0]
        return Lists(alone, indptr, items, grades, _NO_WEIGHTS)


_NO_WEIGHTS = frozen(np.zeros(0))[0]


class People(NamedTuple):
    """State of the users: a line for every user, and x for every slot.

    Attributes
    ----------
    x : float64 (n_slots,)
    components : int64 (n_users,)
    draws, means : float64 (n_users, K)
        Of the factors: a draw, and their mean given x.
    residuals : float64 (n_slots,)
        What the means leave of x; written, never read by a sweep.
    """

    x: Float64Array
    components: Int64Array
    draws: Float64Array
    means: Float64Array
    residuals: Float64Array


class BySlot:
    """An array with a line for every slot that is cut like the users: what `gathered` cuts lies at one level."""

    def __init__(self, values: Float64Array, slot_indptr: Int64Array) -> None:
        self._values, self._indptr = values, slot_indptr

    def __getitem__(self, users: slice) -> Float64Array:
        return self._values[self._indptr[users.start] : self._indptr[users.stop]]


def _moved(
    population: Population, rounds: Rounds, key: Key, part: SlotShard, centres: Float64Array, components: Int64Array,
    draws: Float64Array, means: Float64Array, x: Float64Array,
) -> tuple[Array, ...]:  # fmt: skip
    before, residuals = np.uint64(part.spans[0].start), np.empty((1, x.size))
    arrays = (array[None] for array in (x, components, draws, means))
    values = move_users(part.statements, population, centres[None], rounds, key, before, *arrays, residuals)
    return values[0], x, components, draws, means, residuals[0]


def _rated(
    population: Population, key: Key, part: SlotShard, components: Int64Array, draws: Float64Array, x: Float64Array
) -> tuple[Array, ...]:
    draw_rated(part.statements, population, components, draws, key, np.uint64(part.spans[0].start), x)
    return (x,)


def _terms(
    population: Population, z: int, part: SlotShard, components: Int64Array, draws: Float64Array, x: Float64Array
) -> tuple[Array, ...]:
    return slot_terms(part.statements, population.theta[0, z], population.variances[0, z], components, z, draws, x)  # type: ignore[no-any-return]


def _summed(
    population: Population, z: int, part: SlotShard, components: Int64Array, draws: Float64Array, x: Float64Array
) -> tuple[Array, ...]:
    entries = Entries(*_terms(population, z, part, components, draws, x))
    return (item_sums(part.slots.bounds, part.lists, draws, entries, population.theta.shape[2]),)


def _squares(
    theta: Float64Array, part: SlotShard, components: Int64Array, draws: Float64Array, x: Float64Array
) -> tuple[Array, ...]:
    return (squares_by_item(part.slots.bounds, part.statements, theta, components, draws, x),)


def _at_thresholds(
    population: Population, thresholds: Float64Array, part: SlotShard, components: Int64Array, draws: Float64Array
) -> tuple[Array, ...]:
    return (threshold_sums(part.slots.bounds, part.statements, population, components, draws, thresholds),)


def _scattered(
    population: Population, key: Key, part: SlotShard, components: Int64Array, draws: Float64Array, x: Float64Array
) -> tuple[Array, ...]:
    before = np.uint64(part.spans[0].start)
    return (completed_scatter(part.slots.bounds, part.statements, population, components, draws, key, before, x),)


class UtilityPasses:
    """All passes over what a problem's users say; the bits are the same for any number of shards."""

    def __init__(self, statements: Statements, n_items: int) -> None:
        n_users, n_slots = statements.slot_indptr.size - 1, statements.slot_items.size
        allowed = n_slots // max(1, _SLOTS_OF_AN_ITEM * n_items)
        bounds = blocks_by_entries(statements.slot_indptr, n_blocks_of(n_users, allowed, fewest=_FEWEST_BLOCKS))
        self._bounds, self._indptr = bounds, statements.slot_indptr
        entries = shards_of(
            bounds, (statements.user_indptr, statements.indptr), ((), (), (statements.levels, statements.entry_slots))
        )
        slots = shards_of(bounds, (statements.slot_indptr,), ((), (statements.slot_items, statements.slot_grades)))
        self._parts = [SlotShard(*both, bool(statements.one_draw)) for both in zip(entries, slots, strict=True)]
        self._view = entries_by_item(statements.slot_items, n_items)
        self._owner = owners(statements.slot_indptr, np.int32)[self._view.entries]

    def _gather(self, function: Callable[..., tuple[Array, ...]], *of_users: Array, x: Float64Array) -> tuple[Any, ...]:
        return gathered(function, self._parts, *of_users, BySlot(x, self._indptr))

    def users(
        self, population: Population, centres: Float64Array, rounds: Rounds, key: Key, people: People
    ) -> tuple[Float64Array, People]:
        """Move all users and their slots; the arrays may be written. Returns values (see `move_users`) and people."""
        job = partial(_moved, population, rounds, key)
        values, *found = self._gather(job, centres, people.components, people.draws, people.means, x=people.x)
        return values, People(*found)

    def rated(self, population: Population, key: Key, people: People) -> People:
        """Draw all utilities given factors and thresholds."""
        job = partial(_rated, population, key)
        (x,) = self._gather(job, people.components, people.draws, x=people.x)
        return people._replace(x=x)

    def items(self, population: Population, z: int, given: Items, people: People, key: Key) -> Float64Array:
        """Steps of the items of one component: to a draw given the users, (n_items, K + 1)."""
        noise = Noise(key, True)
        if len(self._parts) > 1:
            job = partial(_summed, population, z)
            (by_block,) = self._gather(job, people.components, people.draws, x=people.x)
            return np.asarray(steps_from_sums(by_block, given, noise, NO_MEANS))
        found = Entries(*_terms(population, z, self._parts[0], people.components, people.draws, people.x))
        given_users = self._bounds, self._view, self._owner, people.draws
        return np.asarray(item_steps(*given_users, given, found, noise, NO_MEANS))

    def squares(self, theta: Float64Array, people: People) -> Float64Array:
        """Σ ε² and number of slots of every item, (n_components, n_items, 2)."""
        (sums,) = self._gather(partial(_squares, theta), people.components, people.draws, x=people.x)
        return np.asarray(sums.sum(axis=0))

    def thresholds(self, population: Population, thresholds: Float64Array, people: People) -> Float64Array:
        """What `threshold_sums` gives, over all blocks."""
        job = partial(_at_thresholds, population, thresholds)
        (sums,) = gathered(job, self._parts, people.components, people.draws)
        return np.asarray(sums.sum(axis=0))

    def scatter(self, population: Population, key: Key, people: People) -> Float64Array:
        """Σ v vᵀ of every component with v = (utilities of all items, 1), lower triangles."""
        (sums,) = self._gather(partial(_scattered, population, key), people.components, people.draws, x=people.x)
        return np.asarray(sums.sum(axis=0))
