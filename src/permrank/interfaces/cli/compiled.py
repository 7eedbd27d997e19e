"""What the command line says of compiling: that it happens, and that it happens once."""

from __future__ import annotations

import sys

from permrank.interfaces.output import say


class SaysOnce:
    """Called with every kernel that is compiled, says so at the first one; elsewhere than on a terminal if ``loud``."""

    def __init__(self) -> None:
        self.loud = False
        self._said = False

    def __call__(self, kernel: str) -> None:
        """Say it."""
        if not self._said and (self.loud or sys.stderr.isatty()):
            self._said = True
            say("compiling what this needs, once; 'permrank warm' compiles ahead", err=True)
