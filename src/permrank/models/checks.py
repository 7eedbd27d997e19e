"""Checks of parameters and arguments that all models share; each error says what came and what was expected."""

from __future__ import annotations

import numbers

from permrank.errors import InputError


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise unless the value is None or a string among those allowed."""
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise InputError(f"{name}={value!r}, expected one of {', '.join(repr(option) for option in allowed)}")


def above(name: str, value: object, bound: float) -> None:
    """Raise unless the value is a finite number above the bound."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not bound < float(value) < float("inf"):
        raise InputError(f"{name}={value!r}, expected a finite number above {bound:g}")


def whole_from(name: str, value: object, least: int) -> None:
    """Raise unless the value is a whole number and not below the least."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise InputError(f"{name}={value!r}, expected a whole number from {least}")


def from_zero(name: str, value: object) -> None:
    """Raise unless the value is a finite number and not negative."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 <= float(value) < float("inf"):
        raise InputError(f"{name}={value!r}, expected a finite number from 0")
