"""Ctrl-C: at the end of the sweep, so that the estimate is kept; or at once, where nothing is to be kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from permrank.learning.learner import Hook, Run


def _ours() -> bool:
    """Whether Ctrl-C would raise KeyboardInterrupt: somebody else's treatment of it is left alone."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Interrupt(Hook):
    """Ends learning with the sweep in which ``pressed`` was set."""

    def __init__(self) -> None:
        self.pressed = False

    def after_sweep(self, run: Run[Any]) -> None:
        """Stop if Ctrl-C was pressed."""
        run.stopped = run.stopped or self.pressed


@contextmanager
def stopping_at_sweep(interrupt: Interrupt) -> Iterator[None]:
    """Let the first Ctrl-C stop learning at the end of the sweep; the second one raises KeyboardInterrupt."""
    if not _ours():
        yield
        return

    def stop(number: int, frame: Any) -> None:
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

    def end(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
