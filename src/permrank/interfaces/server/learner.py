"""Beside the web processes: says when they are ready, and starts the process that learns when there is a need."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from permrank.interfaces.server.due import something_to_learn
from permrank.interfaces.server.settings import Settings, learner_environment
from permrank.interfaces.server.store import Store

_log = logging.getLogger("permrank.serve")
# How often it is looked, and how long after a process that failed another is started, in seconds.
_LOOK, _AGAIN = 2.0, 30.0


class Learner:
    """A thread that waits until the server answers, then watches the file; a context that ends what it started.

    Parameters
    ----------
    settings : Settings
        Of the server.
    ready : callable
        Called once, with the seconds that it took, when connections are let in.
    """

    def __init__(self, settings: Settings, ready: Callable[[float], None]) -> None:
        self.settings, self._ready = settings, ready
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="permrank-learner", daemon=True)

    def __enter__(self) -> Learner:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(timeout=_LOOK)
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:  # in the middle of a fit, which is lost in any case
            process.kill()

    def _watch(self) -> None:
        began = time.perf_counter()
        while not _lets_in(self.settings):
            if self._ended.wait(0.05):
                return
        self._ready(time.perf_counter() - began)
        store, pause = Store(self.settings.db), _LOOK
        while not self._ended.wait(pause):
            pause = _LOOK
            if self._process is not None:
                code = self._process.poll()
                pause = _AGAIN if code else _LOOK  # the log says why it failed; the version before goes on
                self._process = None if code is not None else self._process
            elif self._is_needed(store):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "permrank.interfaces.server.refit"], env=learner_environment()
                )
        store.close()

    def _is_needed(self, store: Store) -> bool:
        try:
            return something_to_learn(store, self.settings)
        except Exception:  # a model file that is being replaced, a locked database: learning goes on afterwards
            _log.exception("whether there is something to learn cannot be found out; it is looked again")
            return False


def _lets_in(settings: Settings) -> bool:
    """Whether a web process takes connections, which it does when it is ready."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    try:
        socket.create_connection((host.strip("[]"), settings.port), timeout=1.0).close()
    except OSError:
        return False
    return True
