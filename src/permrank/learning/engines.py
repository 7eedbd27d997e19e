"""Where learning happens, by name or by object: what ``fit(engine=)`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from permrank.errors import InputError
from permrank.learning.ray_engine import RayEngine
from permrank.learning.shards import Engine, using

EngineChoice: TypeAlias = Engine | RayEngine | Literal["local", "ray"] | None
"""Here, by Ray with its usual settings, or by an engine of one's own; None leaves things as they are."""


def require_engine(engine: object) -> None:
    """Raise unless it is something that `working_by` takes."""
    if engine is None or isinstance(engine, RayEngine) or callable(getattr(engine, "map", None)):
        return
    if engine not in ("local", "ray"):
        raise InputError(f"engine={engine!r}, expected 'local', 'ray' or a permrank.RayEngine")


@contextmanager
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
