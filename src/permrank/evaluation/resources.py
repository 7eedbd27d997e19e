"""What a fit costs: seconds, memory, and an end to patience."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from permrank.types import Progress

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """Seconds that a block took, and megabytes that it held at most beyond what was held before (None if unknown)."""

    seconds: float = 0.0
    megabytes: float | None = None


@contextlib.contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block; memory where Linux lets a process reset its own high-water mark, else not."""
    cost, before = Cost(), None
    with contextlib.suppress(OSError, ValueError):
        _CLEAR.write_text("5", encoding="utf-8")  # 5 resets VmHWM to what is held now
        before = _kilobytes("VmRSS")
    begin = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - begin
        if before is not None:
            cost.megabytes = max(0, _kilobytes("VmHWM") - before) / 2**10


def _kilobytes(name: str) -> int:
    return next(
        int(line.split()[1]) for line in _STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(name)
    )


class Deadline:
    """A callback of ``fit`` that stops learning at the sweep after which the time is up; the estimate is kept.

    It remembers too how many sweeps were made before the last part of learning began.
    """

    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.perf_counter() + seconds
        self.passed = False
        self.earlier_sweeps = self._part = 0

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop."""
        if progress.part != self._part:
            self._part, self.earlier_sweeps = progress.part, progress.iteration - 1
        self.passed = self.end is not None and time.perf_counter() > self.end and progress.iteration < progress.max_iter
        return self.passed
