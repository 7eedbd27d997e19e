"""Checks of parameters and arguments that all models share; each error says what came and what was expected."""

from __future__ import annotations

import contextlib
import numbers
from pathlib import Path

import numpy as np

from permrank.errors import InputError

_MOST = 2**63 - 1  # what an array can count
_SEEDS = 2**128  # as many bits as NumPy asks for
# An answer may take this part of the memory that is free; the rest is for copies and for others.
_SHARE_OF_MEMORY = 0.5
_MEMORY, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_USUAL_MEMORY = 8 * 2**30  # where the system does not say what is free


def require_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise unless the value is None or a string among those allowed."""
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise InputError(f"{name}={value!r}, expected one of {', '.join(repr(option) for option in allowed)}")


def require_bool(name: str, value: object) -> None:
    """Raise unless the value is a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name}={value!r}, expected True or False")


def require_above(name: str, value: object, bound: float) -> None:
    """Raise unless the value is a finite number above the bound."""
    if not bound < _real(value) < float("inf"):
        raise InputError(f"{name}={_shown(value)}, expected a finite number above {bound:g}")


def require_nonnegative(name: str, value: object) -> None:
    """Raise unless the value is a finite number and not negative."""
    if not 0.0 <= _real(value) < float("inf"):
        raise InputError(f"{name}={_shown(value)}, expected a finite number from 0")


def require_between(name: str, value: object, minimum: float, maximum: float) -> None:
    """Raise unless the value is a number between two others, or one of them."""
    if not minimum <= _real(value) <= maximum:
        raise InputError(f"{name}={_shown(value)}, expected between {minimum:g} and {maximum:g}")


def require_int(name: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise unless the value is a whole number, not below the minimum, and not above the maximum if there is one."""
    most = _MOST if maximum is None else maximum
    if not _is_whole(value) or not minimum <= int(value) <= most:  # type: ignore[call-overload]
        beyond = f" to {most}" if maximum is not None or (_is_whole(value) and int(value) > most) else ""  # type: ignore[call-overload]
        raise InputError(f"{name}={_shown(value)}, expected a whole number from {minimum}{beyond}")


def require_seed(value: object, name: str = "seed") -> None:
    """Raise unless the value is a seed. None is no seed: nothing could be repeated."""
    if not _is_whole(value) or not 0 <= int(value) < _SEEDS:  # type: ignore[call-overload]
        raise InputError(f"{name}={_shown(value)}, expected a whole number from 0 to 2**128 - 1")


def require_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise if arrays of so many bytes would not fit beside what else the memory is needed for."""
    free = free_bytes()
    if n_bytes > _SHARE_OF_MEMORY * free:
        raise InputError(
            f"{what} take {n_bytes / 2**30:,.1f} GiB, more than half of the {free / 2**30:,.1f} GiB of memory that are "
            f"free; {remedy}"
        )


def free_bytes() -> int:
    """Memory that is free in this machine, or in this container if it may have less."""
    found = []
    with contextlib.suppress(OSError, StopIteration, ValueError, IndexError):
        lines = _MEMORY.read_text(encoding="utf-8").splitlines()
        found.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):  # "max" is no number, and no limit
        found.append(
            int((_CONTAINER / "memory.max").read_text(encoding="utf-8"))
            - int((_CONTAINER / "memory.current").read_text(encoding="utf-8"))
        )
    return min(found, default=_USUAL_MEMORY)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _real(value: object) -> float:
    """The number, or NaN, which no comparison holds for."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return float("nan")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond 1e308
        return float("inf")


def _shown(value: object) -> str:
    # Python refuses to write whole numbers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)
