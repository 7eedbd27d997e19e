"""A bound of memory for what a test does."""

from contextlib import contextmanager
from pathlib import Path

import pytest

resource = pytest.importorskip("resource")


@contextmanager
def at_most(n_bytes):
    """Let the process ask for no more than so many bytes beside those that it has: MemoryError beyond."""
    before, status = resource.getrlimit(resource.RLIMIT_AS), Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("the memory of a process is read from /proc")
    used = int(status.read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(n_bytes), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
