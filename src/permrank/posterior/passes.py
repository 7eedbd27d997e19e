"""The two passes of a sweep of draws, over shards of users: users given items, items given users."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from permrank.kernels.lists import Lists
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, present_engine, shards_of
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, ItemMeans, Items, Newton, Noise, Prior, Users
from permrank.posterior.kernels.items import item_steps, item_sums, steps_from_sums
from permrank.posterior.kernels.odds import threshold_sums
from permrank.posterior.problem import Problem, UserPass
from permrank.ragged import entries_by_item, frozen, indptr_of, owners, ranges
from permrank.types import Float64Array, Int32Array, Int64Array, Key

# Adding up a block must cost little beside its entries: 128 entries of an item for each, but never below 4 blocks.
_ENTRIES_OF_AN_ITEM, _FEWEST_BLOCKS = 128, 4
# Beyond so many entries, 2 GiB of what the items need of them, data are walked through in several shards.
_LARGE = 1 << 26
# What goes to the items of an entry, if not in sums.
_NUMBERS_OF_AN_ENTRY = 2
# Walking through shards saves three numbers an entry, and its sums should not eat that up.
_SUMS_OF_AN_ENTRY = 1


class Move(NamedTuple):
    """How users are moved, given the items.

    Attributes
    ----------
    user_pass : callable
    theta : float64 (n_rows, K + 1)
    precision : float64 (K,)
        Of the users around their prior means.
    slopes : float64 (n_dimensions, K)
        How the prior means depend on the users' coordinates.
    key : uint64
    draw : bool
    newton : Newton
    exact : bool
        Whether draws are Metropolis steps.
    """

    user_pass: UserPass
    theta: Float64Array
    precision: Float64Array
    slopes: Float64Array
    key: Key
    draw: bool
    newton: Newton
    exact: bool = False


class ListShard(NamedTuple):
    """A shard of users, and what its entries say about the items.

    Attributes
    ----------
    shard : Shard
        Its data are the users' coordinates, the weights of the rankings, items and levels.
    residual, curvature : float64 (n_entries,)
        Written by the pass over the users; empty where they are not needed after it.
    """

    shard: Shard
    residual: Float64Array
    curvature: Float64Array

    @property
    def spans(self) -> tuple[slice, ...]:
        """Where its users, rankings and entries lie among all."""
        return self.shard.spans

    @property
    def lists(self) -> Lists:
        """The rankings of its users."""
        (user_indptr, indptr), (_, weights, items, levels) = self.shard.indptrs, self.shard.data
        return Lists(user_indptr, indptr, items, levels, weights)

    def with_room(self) -> ListShard:
        """The same shard with new arrays."""
        return ListShard(self.shard, *np.empty((2, self.shard.indptrs[1][-1])))

    def without_room(self) -> ListShard:
        """The same shard without arrays, for a pass after which nobody asks what entries say."""
        return self._replace(residual=np.empty(0), curvature=np.empty(0))

    def moved(self, move: Move, modes: Float64Array, draws: Float64Array, pull: Float64Array) -> Float64Array:
        """One pass over the users, in place; returns their values."""
        prior = Prior(self.shard.data[0], move.slopes, move.precision, pull)
        noise = Noise(move.key, move.draw, self.spans[0].start, move.exact)
        entries = Entries(self.residual, self.curvature)
        return move.user_pass(self.lists, move.theta, prior, Users(modes, draws), move.newton, noise, entries)

    def at_thresholds(self, n: int) -> Float64Array:
        """What n thresholds need of the entries as `moved` left them, by block: (n_blocks, n, 3)."""
        bounds = self.shard.bounds
        if n == 0:
            return np.empty((bounds.size - 1, 0, 3))
        return np.asarray(threshold_sums(bounds, self.lists, Entries(self.residual, self.curvature), n))


class SomeUsers(NamedTuple):
    """Some of the users, with their lists.

    Attributes
    ----------
    users : int64
        Ascending.
    lists : Lists
    coordinates : float64 (n, n_dimensions)
    """

    users: Int64Array
    lists: Lists
    coordinates: Float64Array

    @classmethod
    def of(cls, problem: Problem, users: Int64Array) -> SomeUsers:
        """These users of a problem."""
        lists = problem.lists
        first, last = lists.user_indptr[users], lists.user_indptr[users + 1]
        chosen = ranges(first, last)
        entries = ranges(lists.indptr[chosen], lists.indptr[chosen + 1])
        bounds = indptr_of(last - first), indptr_of(lists.indptr[chosen + 1] - lists.indptr[chosen])
        own = Lists(*frozen(*bounds, lists.items[entries], lists.levels[entries], lists.weights[chosen]))
        return cls(users, own, problem.user_coordinates[users])

    def modes(self, move: Move, modes: Float64Array, pull: Float64Array) -> Float64Array:
        """Modes of all users, of whom only these are moved."""
        own, found = modes[self.users], modes.copy()
        prior = Prior(self.coordinates, move.slopes, move.precision, pull[self.users])
        entries = Entries(np.empty(0), np.empty(0))
        users = Users(own, np.empty_like(own))
        move.user_pass(self.lists, move.theta, prior, users, move.newton, NO_NOISE, entries)
        found[self.users] = own
        return found


def _moved(
    n_thresholds: int, move: Move, part: ListShard, modes: Float64Array, draws: Float64Array, pull: Float64Array
) -> tuple[Float64Array, ...]:
    """Values, modes and draws of the users; what thresholds need, by block; residuals and curvatures of the entries."""
    part = part if part.residual.size else part.with_room()
    values = part.moved(move, modes, draws, pull)
    return values, modes, draws, part.at_thresholds(n_thresholds), part.residual, part.curvature


def _summed(
    n_thresholds: int, move: Move, part: ListShard, modes: Float64Array, draws: Float64Array, pull: Float64Array
) -> tuple[Float64Array, ...]:
    """Values, modes and draws of the users; what thresholds and items need, by block."""
    part = part.with_room()
    values, lists = part.moved(move, modes, draws, pull), part.lists
    sums = item_sums(part.shard.bounds, lists, draws, Entries(part.residual, part.curvature), len(move.theta))
    return values, modes, draws, part.at_thresholds(n_thresholds), sums


def _modes(move: Move, part: ListShard, modes: Float64Array, pull: Float64Array) -> tuple[Float64Array, ...]:
    """Modes of the users; residuals and curvatures stay as they are."""
    part.without_room().moved(move, modes, np.empty_like(modes), pull)
    return (modes,)


class Passes:
    """Both passes over the lists of a problem.

    There are two ways to the items, with the same bits. By their entries: residual and curvature of every entry, two
    numbers, are put in the order of the items. By sums: a shard returns those of its blocks, n_rows (K + 1)(K + 4) / 2
    numbers for each, and no entry leaves it; what belongs to entries is in memory for one shard at a time. One shard
    goes by entries, several by whichever is less; large data are walked through in several shards also here.

    Attributes
    ----------
    thresholds : float64 (n_thresholds, 3)
        Sums for each threshold between ratings with proportional odds, written by `users`; see
        `posterior.kernels.odds.threshold_sums`.
    """

    def __init__(self, problem: Problem, n_columns: int) -> None:
        self._problem, lists = problem, problem.lists
        self._n_thresholds = problem.thresholds.size if problem.odds else 0
        self.thresholds = np.zeros((self._n_thresholds, 3))
        starts, n_entries = lists.indptr[lists.user_indptr], lists.items.size
        allowed = n_entries // max(1, _ENTRIES_OF_AN_ITEM * problem.n_rows)
        n_blocks = n_blocks_of(problem.rankings.n_users, allowed, fewest=_FEWEST_BLOCKS)
        n_blocks = 1 << n_blocks.bit_length() - 1  # so that 2, 4 and 8 shards have equally many
        self._bounds: Int64Array = blocks_by_entries(starts, n_blocks)
        n_sums = n_blocks * problem.n_rows * (n_columns + 1) * (n_columns + 4) // 2
        self._n_shards = present_engine().n_shards
        if self._n_shards == 1 and n_entries > _LARGE and n_sums < _SUMS_OF_AN_ENTRY * n_entries:
            self._n_shards = max(1, n_blocks // get_num_threads())
        self._by_entries = self._n_shards == 1 or n_sums > _NUMBERS_OF_AN_ENTRY * n_entries
        self._parts: list[ListShard] = []
        self._found: list[Float64Array] = []
        self.use(lists)

    def _shards(self, lists: Lists) -> list[Shard]:
        levels = (self._problem.user_coordinates,), (lists.weights,), (lists.items, lists.levels)
        return shards_of(self._bounds, (lists.user_indptr, lists.indptr), levels, self._n_shards)

    def use(self, lists: Lists) -> None:
        """Go on with other orders of the same lists."""
        before, self._parts = self._parts, [ListShard(shard, *np.empty((2, 0))) for shard in self._shards(lists)]
        if len(self._parts) == 1:  # here: the same arrays in every sweep
            part = self._parts[0]
            self._parts = [before[0]._replace(shard=part.shard) if before else part.with_room()]
        if self._by_entries:
            self._view = entries_by_item(lists.items, self._problem.n_rows)
            self._owner: Int32Array = owners(lists.indptr[lists.user_indptr], np.int32)[self._view.entries]

    def users(
        self, move: Move, modes: Float64Array, draws: Float64Array, pull: Float64Array
    ) -> tuple[Float64Array, ...]:
        """Move all users, from modes and draws that may be written; returns their values, modes and draws.

        pull: what links say of each (posterior/kernels/arguments.py).
        """
        job = partial(_moved if self._by_entries else _summed, self._n_thresholds, move)
        values, modes, draws, at_thresholds, *self._found = gathered(job, self._parts, modes, draws, pull)
        self.thresholds = np.asarray(at_thresholds.sum(axis=0))
        return values, modes, draws

    def modes(self, move: Move, modes: Float64Array, pull: Float64Array) -> Float64Array:
        """Modes of the users from others that may be written, while what the items need stays as `users` left it."""
        (found,) = gathered(partial(_modes, move), self._parts, modes, pull)
        return np.asarray(found)

    def items(self, given: Items, draws: Float64Array, noise: Noise, kept: ItemMeans) -> Float64Array:
        """Steps of the items, (n_rows, K + 1), given what `users` found; see `posterior.kernels.items.item_steps`."""
        if not self._by_entries:
            return np.asarray(steps_from_sums(self._found[0], given, noise, kept))
        found = Entries(*self._found)
        return np.asarray(item_steps(self._bounds, self._view, self._owner, draws, given, found, noise, kept))
