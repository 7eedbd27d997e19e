"""Hooks of the loop in `learner.run`: progress, Ctrl-C, and validation with early stopping."""

from __future__ import annotations

import copy
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from permrank.kernels.compiling import told_of_compiling
from permrank.learning.learner import Hook, Run, State
from permrank.rankings.rankings import Rankings
from permrank.types import Callback, Float64Array, Named, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

# Progress on a terminal, and silence elsewhere

# Bars that are drawn, the innermost last.
_shown: list[Bar] = []


class Report(Hook):
    """Tells a progress bar and the caller's callback of every sweep; the callback may stop learning."""

    def __init__(self, show: Callable[[Progress], None] | None, callback: Callback | None) -> None:
        self._show, self._callback = show, callback

    def resume(self, run: Run, kept: State) -> None:
        """Draw the bar from where learning goes on."""
        if self._show is not None and run.history:
            self._show(Progress(run.n_sweeps, run.max_iter, run.history[-1]))

    def after_sweep(self, run: Run) -> None:
        """Say how far learning is."""
        progress = Progress(run.n_sweeps, run.max_iter, run.history[-1], run.score, run.step.part)
        if self._show is not None:
            self._show(progress)
        if self._callback is not None and self._callback(progress):
            run.stopped = True


@contextmanager
def progress_bar(title: str, verbose: bool | None) -> Iterator[Callable[[Progress], None] | None]:
    """Yield a function to call after every sweep, or None where nothing is to be shown.

    Parameters
    ----------
    title : str
    verbose : bool or None
        None shows the bar if standard error is a terminal.
    """
    shown = sys.stderr.isatty() if verbose is None else verbose
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    # On a terminal the bar goes when it is done; elsewhere one line is left in the log, or nothing would be seen.
    bar = Bar(*columns, console=console, transient=console.is_terminal)
    task = bar.add_task(title, total=None, said="")

    def show(progress: Progress) -> None:
        said = f"objective {progress.objective:,.2f}"
        bar.update(task, completed=progress.iteration, total=progress.max_iter, said=said)

    def compiling(kernel: str) -> None:
        bar.update(task, said=f"compiling, once: {kernel}")

    # A model may fit another one: the outer bar then makes room for the inner one.
    outer = _shown[-1] if _shown else None
    if outer is not None:
        outer.stop()
    _shown.append(bar)
    try:
        with bar, told_of_compiling(compiling):
            yield show
    finally:
        _shown.pop()
        if outer is not None:
            outer.start()


# Ctrl-C: at the end of the sweep, so that the estimate is kept; or at once, where nothing is to be kept


def _ours() -> bool:
    """Whether Ctrl-C would raise KeyboardInterrupt: somebody else's treatment of it is left alone."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Interrupt(Hook):
    """Ends learning with the sweep in which ``pressed`` was set."""

    def __init__(self) -> None:
        self.pressed = False

    def after_sweep(self, run: Run) -> None:
        """Stop if Ctrl-C was pressed."""
        run.stopped = run.stopped or self.pressed


@contextmanager
def stopping_at_sweep(interrupt: Interrupt) -> Iterator[None]:
    """Let the first Ctrl-C stop learning at the end of the sweep; the second one raises KeyboardInterrupt."""
    if not _ours():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt.pressed = True
        if os.isatty(2):  # not print: a signal may come in the middle of one
            os.write(2, b"\nstopping after this sweep; Ctrl-C again ends at once\n")

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in every `fit` inside: a loop over fits shall end, not go on to the next."""
    if not _ours():
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# The validation curve: scores of estimates on held-out data, the best of them, and when to stop


class Estimate(Protocol):
    """What is learnt: a value that can be written by names."""

    def tensors(self) -> Named:
        """Arrays and numbers by name."""


E = TypeVar("E", bound=Estimate)

_CURVE, _BEST = "validation.curve", "validation.best."


class ValidationProtocol(Protocol):
    """Held-out data, and how an estimate is judged by them."""

    @property
    def every(self) -> int:
        """Sweeps from one measurement to the next."""

    @property
    def patience(self) -> int | None:
        """Measurements without a new best one after which learning stops."""

    @property
    def work(self) -> str:
        """Equal for validations that give equal scores."""

    def judge(self, training: Rankings) -> Callable[[Any], float]:
        """Score of a model fitted to these data, higher is better."""


class EarlyStopping(Hook, Generic[E]):
    """Measures estimates every few sweeps; with patience it keeps the best and says when to stop.

    Parameters
    ----------
    measure : callable
        An estimate to its score, higher is better. Must not change the estimate.
    every : int
        Sweeps from one measurement to the next.
    patience : int, optional
        Measurements in a row without a new best score after which it is over. Without it nothing is kept or stopped.
    rebuilt : callable, optional
        Makes an estimate of what its ``tensors`` gave, for a run that goes on from a checkpoint.

    Attributes
    ----------
    points : list of (int, float)
        Sweeps that were measured, and their scores.
    """

    def __init__(
        self,
        measure: Callable[[E], float],
        every: int,
        patience: int | None,
        rebuilt: Callable[[Named], E] | None = None,
    ) -> None:
        self.points: list[tuple[int, float]] = []
        self._score, self._every, self._patience, self._rebuilt = measure, every, patience, rebuilt
        self._best: E | None = None

    @property
    def curve(self) -> Float64Array:
        """Sweep and score of every measurement, (n, 2)."""
        return np.reshape(np.array(self.points, np.float64), (-1, 2))

    @property
    def best_iter(self) -> int:
        """The sweep with the best score, the first of equals."""
        return self.points[self._best_index][0]

    @property
    def _best_index(self) -> int:
        return int(np.argmax(self.curve[:, 1]))

    @property
    def exhausted(self) -> bool:
        """Whether the score has not risen for as long as patience lasts."""
        if self._patience is None or not self.points:
            return False
        return len(self.points) - 1 - self._best_index >= self._patience

    def after_sweep(self, run: Run[E]) -> None:
        """Measure the estimate, if it is time to."""
        if not run.step.burn_in and run.n_sweeps % self._every == 0:
            run.score = self.measure(run.n_sweeps, run.step.estimate())
            run.stopped = run.stopped or self.exhausted

    def measure(self, sweep: int, estimate: E) -> float:
        """Measure the estimate after a sweep."""
        self.points.append((sweep, float(self._score(estimate))))
        if self._patience is not None and self.best_iter == sweep:
            self._best = copy.deepcopy(estimate)  # learners go on in the same memory
        return self.points[-1][1]

    def best_or_last(self, sweep: int, estimate: E) -> E:
        """What to keep when learning ends after a sweep with this estimate, which is measured if it has not been."""
        if not self.points or self.points[-1][0] != sweep:
            self.measure(sweep, estimate)
        return estimate if self._best is None else self._best

    def state(self) -> State:
        """The curve, and the best estimate."""
        best = {} if self._best is None else self._best.tensors()
        return {_CURVE: self.curve} | {_BEST + name: value for name, value in best.items()}

    def resume(self, run: Run[E], kept: State) -> None:
        """Go on from what `state` gave."""
        self.points = [(int(sweep), float(score)) for sweep, score in kept[_CURVE]]
        best = {name.removeprefix(_BEST): value for name, value in kept.items() if name.startswith(_BEST)}
        if best and self._rebuilt is not None:
            self._best = self._rebuilt(best)
        run.stopped = run.stopped or self.exhausted
