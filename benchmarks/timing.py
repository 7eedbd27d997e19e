"""Seconds of a piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable


def quickest(work: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """Wall and processor seconds, over all threads, of the quickest of several runs."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return min(wall for wall, _ in found), min(processor for _, processor in found)
