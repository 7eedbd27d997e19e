"""What happens between two sweeps: the trace, the callback, and the detection of trouble."""

from __future__ import annotations

import math
from collections.abc import Callable

from permrank.errors import EstimateError
from permrank.types import Callback, Progress


class Monitor:
    """Keeps the trace of an objective and decides whether learning goes on.

    Parameters
    ----------
    max_iter : int
        The most sweeps that will be made.
    callback : callable, optional
        Called with a `Progress` after every sweep; returning True stops learning.
    show : callable, optional
        Called likewise, to draw a progress bar; its result is not looked at.
    """

    def __init__(
        self, max_iter: int, callback: Callback | None = None, show: Callable[[Progress], None] | None = None
    ) -> None:
        self.max_iter = max_iter
        self.history: list[float] = []
        self.converged = False
        self.stopped = False
        self._callback, self._show = callback, show

    @property
    def exhausted(self) -> bool:
        """Whether no further sweep may be made."""
        return self.stopped or len(self.history) >= self.max_iter

    def update(self, objective: float) -> None:
        """Record one finished sweep."""
        self.history.append(float(objective))
        sweep = len(self.history)
        if not math.isfinite(objective):
            raise EstimateError(
                f"the objective became {objective} in sweep {sweep}: learning diverged; "
                "use a prior, or look for weights or scores of extreme size in the data"
            )
        progress = Progress(sweep, self.max_iter, float(objective))
        if self._show is not None:
            self._show(progress)
        if self._callback is not None and self._callback(progress):
            self.stopped = True
