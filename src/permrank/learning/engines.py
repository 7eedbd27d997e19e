"""Where learning happens: what ``fit(engine=)`` takes, and actors of Ray as workers (`learning.pool` commands them)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias

from permrank.checks import require_int
from permrank.errors import EngineError, InputError, NotSupportedError
from permrank.learning.pool import Parcel, PoolEngine, WorkerLost, pack, unpack
from permrank.learning.shards import Engine, using
from permrank.types import Array


class RayEngine:
    """Users in shards that are held by actors of Ray; items are broadcast, and their sums added up here.

    A model that is fitted with it is the same, to the last bit, as one that is fitted without. A worker that is killed
    is replaced, and the fit goes on.

    Parameters
    ----------
    address : str, optional
        Of a cluster, as ``ray.init`` takes it: ``"auto"``, ``"host:6379"`` or ``"ray://host:10001"``. Left out, the
        cluster that this process is connected to, or a new one on this machine.
    n_workers : int, optional
        Left out, one for each processor of one machine, or one for each machine of several.
    threads : int, optional
        Of each worker; left out, its share of the processors of its machine.

    Examples
    --------
    >>> import permrank as pr
    >>> engine = pr.RayEngine(n_workers=2)  # nothing is started before a fit
    >>> engine.n_workers
    2
    """

    def __init__(self, address: str | None = None, *, n_workers: int | None = None, threads: int | None = None) -> None:
        if n_workers is not None:
            require_int("n_workers", n_workers, 1)
        if threads is not None:
            require_int("threads", threads, 1)
        self.address, self.n_workers, self.threads = address, n_workers, threads
        self._workers: _Actors | None = None

    def __enter__(self) -> PoolEngine:
        if importlib.util.find_spec("ray") is None:
            raise NotSupportedError("engine='ray' needs Ray: pip install 'permrank[ray]'")
        self._workers = _Actors(self.address, self.n_workers, self.threads)
        return PoolEngine(self._workers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.close()
            self._workers = None


class _Worker:
    """What an actor is: it holds values by key, and calls functions on them."""

    def __init__(self, threads: int) -> None:
        import numba
        from numba.core import config

        numba.set_num_threads(max(1, min(threads, config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
        self._held: dict[int, object] = {}

    def hold(self, key: int, parcel: Parcel) -> None:
        self._held[key] = unpack(parcel)

    def drop(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._held.pop(key, None)

    def call(self, function: Parcel, key: int, stream: bytes, buffers: list[Array], read_only: list[bool]) -> Parcel:
        return pack(unpack(function)(self._held[key], *unpack(Parcel(stream, buffers, read_only))))

    def process(self) -> int:
        return os.getpid()


class _Actors:
    """`Workers` that are actors of Ray."""

    def __init__(self, address: str | None, n_workers: int | None, threads: int | None) -> None:
        import ray

        self._ray, self._ours = ray, not ray.is_initialized()
        if self._ours:
            # Ray lets its workers give way to everything else (15); but here it is they who learn, while we wait.
            os.environ.setdefault("RAY_worker_niceness", "0")
            try:
                ray.init(
                    address=address, include_dashboard=False, log_to_driver=False, configure_logging=False,
                    **({} if address else {"num_cpus": max(n_workers or 1, os.cpu_count() or 1)}),
                )  # fmt: skip
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise EngineError(f"Ray cannot be reached at {address or 'this machine'}: {error}") from error
        nodes = [node for node in ray.nodes() if node["Alive"]]
        cpus = int(sum(node["Resources"].get("CPU", 0) for node in nodes)) or 1
        self.n_workers = n_workers or (len(nodes) if len(nodes) > 1 else cpus)
        self._threads = threads or max(1, cpus // self.n_workers)
        kind = ray.remote(_Worker)
        self._kind = kind.options(num_cpus=min(self._threads, cpus), max_restarts=0, scheduling_strategy="SPREAD")
        self._actors = [self._kind.remote(self._threads) for _ in range(self.n_workers)]

    def send(self, value: object) -> object:
        return self._ray.put(pack(value))

    def hold(self, worker: int, key: int, sent: object) -> None:
        self._wait(self._actors[worker].hold.remote(key, sent))

    def drop(self, worker: int, keys: Sequence[int]) -> None:
        with contextlib.suppress(WorkerLost):
            self._wait(self._actors[worker].drop.remote(keys))

    def call(self, worker: int, function: object, key: int, arguments: tuple[object, ...]) -> object:
        return self._actors[worker].call.remote(function, key, *pack(arguments))

    def result(self, worker: int, pending: object) -> Any:
        return unpack(Parcel(*self._wait(pending)))

    def restart(self, worker: int) -> None:
        with contextlib.suppress(Exception):  # it may be half dead
            self._ray.kill(self._actors[worker])
        self._actors[worker] = self._kind.remote(self._threads)

    def processes(self) -> list[int]:
        """Numbers of the processes of the workers."""
        return [int(self._ray.get(actor.process.remote())) for actor in self._actors]

    def close(self) -> None:
        """End the workers, and Ray if it was started here."""
        for actor in self._actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()

    def _wait(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError) as error:
            raise WorkerLost(str(error).strip().splitlines()[0]) from error


EngineChoice: TypeAlias = Engine | RayEngine | Literal["local", "ray"] | None
"""Here, by Ray with its usual settings, or by an engine of one's own; None leaves things as they are."""


def require_engine(engine: object) -> None:
    """Raise unless it is something that `working_by` takes."""
    if engine is None or isinstance(engine, RayEngine) or callable(getattr(engine, "map", None)):
        return
    if engine not in ("local", "ray"):
        raise InputError(f"engine={engine!r}, expected 'local', 'ray' or a permrank.RayEngine")


@contextlib.contextmanager
def working_by(engine: EngineChoice) -> Iterator[None]:
    """Learn by an engine inside the ``with`` block; one that has to be started is ended after it."""
    if engine is None or engine == "local":
        yield
    elif engine == "ray" or isinstance(engine, RayEngine):
        with engine if isinstance(engine, RayEngine) else RayEngine() as started, using(started):
            yield
    else:
        assert not isinstance(engine, str)
        with using(engine):
            yield
