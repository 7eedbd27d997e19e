"""What happens between two sweeps: trace, callback, checkpoint, validation, and the detection of trouble."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from permrank.errors import EstimateError, NotSupportedError
from permrank.learning.early_stopping import Watch
from permrank.types import Callback, Progress

_PASSED = "passed."


class Store(Protocol):
    """Where the state of learning is kept: arrays and numbers by name."""

    every: int

    def read(self) -> dict[str, Any] | None:
        """What an earlier run has kept, or None."""

    def write(self, state: dict[str, Any]) -> None:
        """Keep this instead of what was kept before."""


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
    store : Store, optional
        Where learners keep their state every few sweeps, so that a run that was killed goes on from there. A learner
        asks `resumed` before its first sweep, and hands over to `keep` after any sweep when one is `due` all that its
        next sweep depends on (arrays in C order, so that sums are made in the same order again).
    watch : Watch, optional
        Measures the estimate every few sweeps, and may stop learning. A learner hands its point to `update`, and what
        makes an estimate of it is set by the model in `reading`; learners in between add their part by `through`.

    Attributes
    ----------
    reading : callable
        What `update` is handed to an estimate: learned arrays by name.
    burn_in : int
        Sweeps after which there is no estimate worth measuring yet; set by the learner.
    """

    def __init__(
        self,
        max_iter: int,
        callback: Callback | None = None,
        show: Callable[[Progress], None] | None = None,
        store: Store | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.reading: Callable[[Any], dict[str, Any]] = _nothing
        self.history: list[float] = []
        self.converged = False
        self.stopped = False
        self.interrupted = False
        self._callback, self._show, self._store, self._watch = callback, show, store, watch
        self.burn_in = 0
        self._kept = 0
        self._part = 0
        self._passed: dict[str, Any] = {}

    @property
    def exhausted(self) -> bool:
        """Whether no further sweep may be made."""
        return self.stopped or len(self.history) >= self.max_iter

    def through(self, function: Callable[[Any], Any]) -> None:
        """Say what makes of a learner's point that which `reading` takes so far."""
        before = self.reading
        self.reading = lambda point: before(function(point))

    def update(self, objective: float, point: Any = None) -> None:
        """Record one finished sweep, and what `reading` makes the present estimate of."""
        self.history.append(float(objective))
        sweep = len(self.history)
        if not math.isfinite(objective):
            raise EstimateError(
                f"the objective became {objective} in sweep {sweep}: learning diverged; "
                "use a prior, or look for weights or scores of extreme size in the data"
            )
        score = None
        if self._watch is not None and sweep > self.burn_in and self._watch.due(sweep):
            score = self._watch.see(sweep, self.reading(point))
            self.stopped = self.stopped or self._watch.over
        progress = Progress(sweep, self.max_iter, float(objective), score)
        if self._show is not None:
            self._show(progress)
        if (self._callback is not None and self._callback(progress)) or self.interrupted:
            self.stopped = True

    def interrupt(self) -> None:
        """Stop at the end of the sweep that is being made."""
        self.interrupted = True

    @property
    def due(self) -> bool:
        """Whether the state after this sweep is to be kept."""
        if self._store is None or len(self.history) == self._kept:
            return False
        return self.exhausted or len(self.history) - self._kept >= self._store.every

    def keep(self, **state: Any) -> None:
        """Keep what the next sweep depends on."""
        if self._store is not None:
            trace = {"sweeps.history": np.array(self.history), "sweeps.most": self.max_iter, "sweeps.part": self._part}
            self._store.write(state | trace | self._passed | (self._watch.state() if self._watch else {}))
            self._kept = len(self.history)

    def resumed(self) -> dict[str, Any] | None:
        """What `keep` was given in an earlier run, arrays and numbers by name, or None; the trace goes on from it."""
        state = None if self._store is None else self._store.read()
        if state is None or state.pop("sweeps.part") != self._part:
            return None
        state = {name: value for name, value in state.items() if not name.startswith(_PASSED)}
        self.history = state.pop("sweeps.history").tolist()
        self.max_iter = int(state.pop("sweeps.most"))
        self._kept = len(self.history)
        if self._watch is not None:
            self._watch.restore(state)
            self.stopped = self._watch.over
        if self._show is not None and self.history:
            self._show(Progress(self._kept, self.max_iter, self.history[-1]))
        return state

    def next_part(self, **found: Any) -> None:
        """Say that a part of learning has ended, and what it has found; it is kept along with what comes after."""
        self._part += 1
        self._passed = {_PASSED + name: value for name, value in found.items()}

    def passed(self) -> dict[str, Any] | None:
        """What an earlier run has given to `next_part`, if it was killed after that: it need not be found again."""
        state = None if self._store is None else self._store.read()
        if state is None or state["sweeps.part"] <= self._part:
            return None
        return {name.removeprefix(_PASSED): value for name, value in state.items() if name.startswith(_PASSED)}


def _nothing(point: Any) -> dict[str, Any]:
    raise NotSupportedError("this learner does not show its estimates between sweeps; fit without a validation")
