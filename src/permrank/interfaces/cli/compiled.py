"""Whether this run will compile: to be asked before kernels are imported, for some are compiled then."""

from __future__ import annotations

from permrank.interfaces.output import say
from permrank.kernels.jit import cache_folder


def is_compiled() -> bool:
    """Whether kernels of an earlier run are kept, so that this one need not compile most of them."""
    folder = cache_folder()
    return folder is not None and any(folder.glob("*.nbc"))


def say_if_compiling() -> None:
    """Say, before it is waited for, that a first run compiles."""
    if not is_compiled():
        say("this first run compiles, which takes up to a minute; the next one need not", err=True)
