"""Who is told that a kernel is being compiled. Apart from jit.py, for this imports nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_told: list[Callable[[str], None]] = []


def tell_of(kernel: str) -> None:
    """Say that this kernel is compiled now, to whoever asked last."""
    if _told:
        _told[-1](kernel)


@contextmanager
def told_of_compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Have ``tell`` called with the name of every kernel that is not in the cache, before it is compiled."""
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)
