"""Sums over users that may be taken in several places at once, to the same bits: blocks, shards, `map_shards`.

What learning needs of the users given the items are sums: statistics of EM, gradients, curvatures. They are organised
in three layers.

- *Blocks* are runs of consecutive users (or rankings, for models without users). Where they are cut depends on the data
  alone, never on threads or shards. A kernel adds up a block in the order of the data, its blocks in parallel.
- A *shard* is a run of consecutive blocks with the data of its users, numbered from 0: it knows nothing of the other
  shards. Streams of random numbers belong to users by their number among all, which is ``spans[0].start`` more.
- An *engine* calls a function on every shard, here or elsewhere, and returns the results in the order of the shards.
  `LocalEngine` is a loop; any object with the same ``map`` will do, such as one with an actor for every shard.

A function of a shard returns arrays whose rows belong to its blocks, users, rankings or entries. `gathered` puts the
rows of all shards one behind another. That is the array that one shard would have given, whatever the number of shards,
and the learner adds up its blocks in one fixed order. So 1, 2 and 8 shards give the same bits, as floating-point sums
over shards would not. With one shard, the default, nothing is cut and nothing copied.

What travels in a sweep are parameters and what belongs to users on the way there, and on the way back an array of the
size of the sums for each block (at most 16 of them for most models) and again what belongs to users. So that a function
may run in another process, it is a module's own or a ``partial`` of it with the parameters, takes its data from the
shard, and returns all that it computes. The copy of an array elsewhere must be as writeable as the array, or Numba
compiles kernels again. ::

    shards = shards_of(bounds, (user_indptr, indptr), ((), (weights,), (items, levels)))
    values, sums = gathered(partial(statistics, parameters), shards, users)  # statistics(parameters, shard, its users)
    total = sums.sum(axis=0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from permrank.types import Array, Int64Array

T = TypeVar("T")

# Blocks at most, unless a model says otherwise: each has an array of the size of the sums.
MOST_BLOCKS = 16


def n_blocks_of(n_rows: int, allowed: int, *, fewest: int = 1, most: int = MOST_BLOCKS) -> int:
    """As many blocks as memory allows, within bounds, and no more than rows; at least one."""
    return max(1, min(most, max(fewest, allowed), n_rows))


def blocks_by_entries(starts: Int64Array, n_blocks: int) -> Int64Array:
    """Bounds of blocks of rows with about as many entries each, (n_blocks + 1,).

    starts: (n_rows + 1,), the first entry of every row, then the number of entries. Blocks may be empty.
    """
    n_rows = starts.size - 1
    bounds = np.searchsorted(starts[:-1], np.arange(n_blocks + 1) * (starts[-1] / n_blocks))
    bounds[0], bounds[-1] = 0, n_rows
    return np.asarray(bounds, np.int64)


def blocks_by_rows(n_rows: int, n_blocks: int) -> Int64Array:
    """Bounds of blocks with about as many rows each, (n_blocks + 1,); blocks may be empty."""
    return np.arange(n_blocks + 1, dtype=np.int64) * n_rows // n_blocks


class Shard(NamedTuple):
    """Consecutive blocks with their data.

    Attributes
    ----------
    bounds : int64 (n_blocks + 1,)
        Rows of every block, counted from the first row of the shard.
    spans : tuple of slice
        The shard's rows among those of all, then what they consist of level by level: users, rankings, entries.
    indptrs : tuple of int64
        Where the parts of every row begin, as `shards_of` takes it, counted from the shard's first.
    data : tuple of arrays
        The shard's part of the data, in the order in which `shards_of` was given them.
    """

    bounds: Int64Array
    spans: tuple[slice, ...]
    indptrs: tuple[Int64Array, ...]
    data: tuple[Array, ...]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.bounds.size - 1


class Placed(Protocol):
    """A shard, or what a model makes of one."""

    @property
    def spans(self) -> tuple[slice, ...]:
        """See `Shard`."""


P = TypeVar("P", bound=Placed)


class Engine(Protocol):
    """What calls functions on shards."""

    @property
    def n_shards(self) -> int:
        """Shards into which data are cut, unless there are fewer blocks."""

    def map(self, function: Callable[..., T], *columns: Sequence[object]) -> Iterable[T]:
        """As the built-in ``map``: the function of the first of all columns, of the second, and so on, in this order.

        The first column are the shards. They are the same objects in every sweep, unless ties are put into a new order
        each time, so that an engine may keep them where they are used.
        """


class LocalEngine:
    """One shard after the other in this process: kernels use all threads within each.

    Parameters
    ----------
    n_shards : int
        More than one serves tests.
    """

    def __init__(self, n_shards: int = 1) -> None:
        if n_shards < 1:
            raise ValueError(f"n_shards is {n_shards}, expected at least 1")
        self.n_shards = n_shards

    def map(self, function: Callable[..., T], *columns: Sequence[object]) -> Iterable[T]:
        """As the built-in ``map``."""
        return map(function, *columns)


_HERE = LocalEngine()
_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


def present_engine() -> Engine:
    """The engine of the ``with`` block that we are in, or one shard here."""
    return _ENGINE.get() or _HERE


@contextmanager
def using(engine: Engine) -> Iterator[Engine]:
    """Learn by this engine inside the ``with`` block, in this thread."""
    token = _ENGINE.set(engine)
    try:
        yield engine
    finally:
        _ENGINE.reset(token)


def shards_of(
    bounds: Int64Array,
    indptrs: tuple[Int64Array, ...],
    levels: tuple[tuple[Array, ...], ...] = (),
    n_shards: int | None = None,
) -> list[Shard]:
    """Cut blocks into as many shards as the present engine wants, of about as many blocks each.

    Parameters
    ----------
    bounds : int64 (n_blocks + 1,)
        Rows of every block.
    indptrs : tuple of int64
        Where the parts of each row begin, then the parts of those: for users ``(user_indptr, indptr)``, for rankings
        ``(indptr,)``.
    levels : tuple of tuples of arrays
        Data with a line for every row, then for every part of a row, and so on.
    n_shards : int, optional
        Another number than the engine wants: what is done for one shard after the other needs less memory.
    """
    n_blocks = bounds.size - 1
    cuts = blocks_by_rows(n_blocks, min(n_shards or present_engine().n_shards, n_blocks))
    return [_shard(bounds[first : last + 1], indptrs, levels) for first, last in pairwise(cuts.tolist())]


def _shard(bounds: Int64Array, indptrs: tuple[Int64Array, ...], levels: tuple[tuple[Array, ...], ...]) -> Shard:
    span = slice(int(bounds[0]), int(bounds[-1]))
    spans, local = [span], []
    for indptr in indptrs:
        part = indptr[span.start : span.stop + 1]
        span = slice(int(part[0]), int(part[-1]))
        spans.append(span)
        local.append(_from_zero(part))
    data = tuple(array[span] for span, arrays in zip(spans, levels, strict=False) for array in arrays)
    return Shard(_from_zero(bounds), tuple(spans), tuple(local), data)


def _from_zero(bounds: Int64Array) -> Int64Array:
    """Counted from the first; as writeable as it was, or Numba would compile kernels again."""
    if bounds[0] == 0:
        return bounds
    counted: Int64Array = bounds - bounds[0]
    counted.flags.writeable = bounds.flags.writeable
    return counted


def map_shards(function: Callable[..., T], shards: Sequence[P], *arrays: Any, level: int = 0) -> list[T]:
    """Results of a function for all shards, in their order, by the present engine: the one place that calls it.

    The function is given a shard, and of each of the arrays the lines that belong to its rows, or to their parts at
    another level.
    """
    columns = ([array[shard.spans[level]] for shard in shards] for array in arrays)
    return list(present_engine().map(function, shards, *columns))


def gathered(
    function: Callable[..., tuple[Array, ...]], shards: Sequence[P], *arrays: Any, level: int = 0
) -> tuple[Array, ...]:
    """As `map_shards`, for a function that returns arrays: each with the lines of all shards one behind another."""
    parts = map_shards(function, shards, *arrays, level=level)
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(same) for same in zip(*parts, strict=True))
