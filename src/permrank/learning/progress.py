"""A progress bar on a terminal, and silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from permrank.kernels.compiling import told_of_compiling
from permrank.learning.learner import Hook, Run, State
from permrank.types import Callback, Progress

# Bars that are drawn, the innermost last.
_shown: list[Any] = []


class Report(Hook):
    """Tells a progress bar and the caller's callback of every sweep; the callback may stop learning."""

    def __init__(self, show: Callable[[Progress], None] | None, callback: Callback | None) -> None:
        self._show, self._callback = show, callback

    def resume(self, run: Run[Any], kept: State) -> None:
        """Draw the bar from where learning goes on."""
        if self._show is not None and run.history:
            self._show(Progress(run.n_sweeps, run.max_iter, run.history[-1]))

    def after_sweep(self, run: Run[Any]) -> None:
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
