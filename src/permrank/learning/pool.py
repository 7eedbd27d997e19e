"""An engine of workers elsewhere: who holds which shard, what is sent again when a worker is lost, and in which order.

Workers are whatever holds objects and calls functions on them: actors of Ray, or a list in a test. Shard i belongs to
worker i modulo their number, which is sent it once and keeps it. A function travels once for all workers, with the
parameters that it was given; what belongs to the rows of a shard travels with the call. Results come back in the order
of the shards, whoever is ready first.

A call changes nothing but copies, so that it can be made again: when a worker is lost, another one takes its place, is
sent its shards, and makes the calls whose results have not arrived. The results are the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from permrank.errors import EngineError
from permrank.types import Array

T = TypeVar("T")

# Groups of shards that are held at once: those of the present data, and of what is held out beside.
_MOST_GROUPS = 3
# A place whose workers are lost so often within one call is given up: something kills whoever works there.
_MOST_LOSSES = 3


class Parcel(NamedTuple):
    """A value for another process: a stream, the arrays' bytes beside it, and which of them may not be written."""

    stream: bytes
    buffers: list[Array]
    read_only: list[bool]


def pack(value: object) -> Parcel:
    """Arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    return Parcel(stream, [np.frombuffer(view, np.uint8) for view in views], [view.readonly for view in views])


def unpack(parcel: Parcel) -> Any:
    """The value; arrays that could be written are copies, the others are read where they lie.

    Numba compiles a kernel once for arrays that may be written and once for those that may not: so that matters.
    """
    pairs = zip(parcel.buffers, parcel.read_only, strict=True)
    buffers = [_read_only(buffer) if fixed else bytearray(buffer) for buffer, fixed in pairs]
    return pickle.loads(parcel.stream, buffers=buffers)


def _read_only(buffer: Array) -> memoryview:
    return buffer.data.toreadonly()


class WorkerLost(Exception):  # noqa: N818 (never leaves this package)
    """The worker is gone, and with it what it held."""


class Workers(Protocol):
    """What holds shards and calls functions on them. Each worker has a number, from 0."""

    @property
    def n_workers(self) -> int:
        """How many there are."""

    def send(self, value: object) -> object:
        """Put a value where every worker can get it; returns what stands for it."""

    def hold(self, worker: int, key: int, sent: object) -> None:
        """Let a worker keep a value that was sent."""

    def drop(self, worker: int, keys: Sequence[int]) -> None:
        """Let a worker forget values, if it still lives."""

    def call(self, worker: int, function: object, key: int, arguments: tuple[object, ...]) -> object:
        """Begin to call a function that was sent on a value that is held; returns what stands for the result."""

    def result(self, worker: int, pending: object) -> Any:
        """Wait for the result; raises `WorkerLost` if there will be none."""

    def restart(self, worker: int) -> None:
        """Put a new worker, which holds nothing, in the place of one that is lost."""


class _Group(NamedTuple):
    """Shards that are used together, under which keys they are held, and what stands for each."""

    shards: tuple[object, ...]
    keys: tuple[int, ...]
    sent: tuple[object, ...]


class PoolEngine:
    """An engine (see learning/shards.py) that works by a pool of workers.

    Parameters
    ----------
    workers : Workers
    n_shards : int, optional
        As many as workers, unless given.
    """

    def __init__(self, workers: Workers, n_shards: int | None = None) -> None:
        self._workers, self.n_shards = workers, n_shards or workers.n_workers
        self._groups: list[_Group] = []
        self._next_key = 0

    def map(self, function: Callable[..., T], *columns: Sequence[object]) -> Iterable[T]:
        """As the built-in ``map``; the first column are shards, which stay where they were sent."""
        group = self._held(tuple(columns[0]))
        sent = self._workers.send(function)
        arguments = list(zip(*columns[1:], strict=True)) if columns[1:] else [()] * len(group.shards)

        def begin(place: int) -> object:
            return self._workers.call(self._owner(place), sent, group.keys[place], arguments[place])

        pending = {place: self._while_alive(place, begin) for place in range(len(group.shards))}
        losses: dict[int, int] = {}
        results: list[T] = []
        for place in range(len(group.shards)):
            worker = self._owner(place)
            while True:
                try:
                    results.append(self._workers.result(worker, pending[place]))
                    break
                except WorkerLost as error:
                    losses[worker] = losses.get(worker, 0) + 1
                    if losses[worker] > _MOST_LOSSES:
                        raise EngineError(
                            f"worker {worker} was lost {losses[worker]} times in one pass ({error}); is its memory "
                            "enough? Learning can go on from a checkpoint, if there is one"
                        ) from error
                    self._replace(worker)
                    for other in range(place, len(group.shards)):
                        if self._owner(other) == worker:
                            pending[other] = self._while_alive(other, begin)
        return results

    def _while_alive(self, place: int, begin: Callable[[int], object]) -> object:
        """Begin a call; a worker that is found dead is replaced first."""
        try:
            return begin(place)
        except WorkerLost:
            self._replace(self._owner(place))
            return begin(place)

    def _owner(self, place: int) -> int:
        return place % self._workers.n_workers

    def _held(self, shards: tuple[object, ...]) -> _Group:
        """The group of these shards, sent if they are new; those that were used longest ago are dropped."""
        for index, group in enumerate(self._groups):
            if len(group.shards) == len(shards) and all(map(_same, group.shards, shards)):
                self._groups.append(self._groups.pop(index))
                return group
        while len(self._groups) >= _MOST_GROUPS:
            old = self._groups.pop(0)
            for worker in range(self._workers.n_workers):
                self._workers.drop(worker, [key for n, key in enumerate(old.keys) if self._owner(n) == worker])
        keys = tuple(range(self._next_key, self._next_key + len(shards)))
        self._next_key += len(shards)
        group = _Group(shards, keys, tuple(self._workers.send(shard) for shard in shards))
        self._groups.append(group)
        for place in range(len(shards)):
            try:
                self._workers.hold(self._owner(place), keys[place], group.sent[place])
            except WorkerLost:
                self._replace(self._owner(place))  # which is sent this one too
        return group

    def _replace(self, worker: int) -> None:
        """A new worker, which is sent all that the lost one held."""
        self._workers.restart(worker)
        for group in self._groups:
            for place, (key, sent) in enumerate(zip(group.keys, group.sent, strict=True)):
                if self._owner(place) == worker:
                    self._workers.hold(worker, key, sent)


def _same(one: object, other: object) -> bool:
    return one is other
