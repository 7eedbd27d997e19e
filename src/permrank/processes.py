"""Which processes and threads may work: threads do not survive a fork, and one layer of Numba's serves one only.

Polars and OpenMP keep pools of threads. A process that is forked from one where they have begun has the pools' locks
but not their threads: Polars waits for ever, and GNU OpenMP ends the process. Nothing can be mended in the child, so
that permrank refuses to work there. Every way in asks: reading and making rankings, their ids, `fit`, and every
question to a model.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading

from permrank.errors import ForkError, NotSupportedError

_process: int | None = None  # the one that has worked first
_thread: threading.Thread | None = None
_turn = threading.Lock()


def refuse_after_fork() -> None:
    """Raise in a process that was forked from one where permrank has worked; the first to ask is where it has."""
    global _process
    if _process is None:
        _process = os.getpid()
    elif _process != os.getpid():
        raise ForkError(
            f"this process was forked from one where permrank had been used (process {_process}), and the threads of "
            "Polars and OpenMP do not survive that: start processes by multiprocessing.get_context('spawn') or "
            "'forkserver', or fork before permrank is used"
        )


def refuse_unsafe_threads() -> None:
    """Raise in a second living thread if Numba's threading layer would end the process when two threads call it."""
    global _thread
    current = threading.current_thread()
    if _thread is current:
        return
    with _turn:
        first = _thread
        if first is None or not first.is_alive():
            first = _thread = current
    if first is not current and not threads_are_safe():
        raise NotSupportedError(
            f"permrank is used in the threads {first.name!r} and {current.name!r}, and Numba's threading layer here, "
            "workqueue, is for one only: install GNU OpenMP (libgomp) or TBB (pip install tbb), and do not set "
            "NUMBA_THREADING_LAYER=workqueue; or use one thread"
        )


# Layers that Numba tries, in order, for what NUMBA_THREADING_LAYER asks for; else NUMBA_THREADING_LAYER_PRIORITY.
_ASKED_FOR = {
    "safe": ("tbb",),
    "threadsafe": ("tbb", "omp"),
    "forksafe": ("tbb", "workqueue") if sys.platform == "linux" else ("tbb", "omp", "workqueue"),
}


@functools.cache
def threads_are_safe() -> bool:
    """Whether Numba has, or will load, a threading layer that several threads may call at once: TBB or OpenMP."""
    from numba import config

    settings = vars(config)
    asked = str(settings.get("THREADING_LAYER", "default"))
    usual = settings.get("THREADING_LAYER_PRIORITY", ("tbb", "omp", "workqueue"))
    layers = usual if asked == "default" else _ASKED_FOR.get(asked, (asked,))
    for layer in layers:
        if layer == "workqueue":
            return False
        with contextlib.suppress(ImportError):  # the library that it needs is not installed
            importlib.import_module(f"numba.np.ufunc.{layer}pool")
            return True
    return False
