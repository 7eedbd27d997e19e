"""Names of earlier releases: for one release they are understood, with a warning that says what they are called now.

A declaration has them as ``formerly`` and ``former_values``; nothing else in a model does.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

from permrank.errors import InputError
from permrank.models.declared import parameter_names
from permrank.types import Named


def accept_former_names(kind: type[Any]) -> None:
    """Let the constructor of a class, and attributes of its models, go by former names of parameters too.

    This is done once, when the class is defined; its signature has the present names only.
    """
    former = _former_names(kind)
    for old, name in former.items():
        setattr(kind, old, _alias(old, name))
    if "__init__" in vars(kind) and (former or any(one.former_values for one in kind.parameters.values())):
        kind.__init__ = _understanding(kind.__init__, kind)


def present_names(kind: type[Any], given: Mapping[str, object], *, stacklevel: int | None = None) -> Named:
    """Parameters by their present names and values; those of earlier releases raise a `FutureWarning`.

    Parameters
    ----------
    kind : class of a model
    given : mapping
        Parameters by present or former names.
    stacklevel : int, optional
        Of the warnings, counted from the caller; none are raised if not given.
    """
    former = _former_names(kind)
    found: Named = {}
    for key, value in given.items():
        name = former.get(key, key)
        if name in found or (name != key and name in given):
            raise InputError(f"{key} is the former name of {name}, and both are given; give {name} alone")
        declared = kind.parameters.get(name)
        new = declared.former_values.get(value, value) if declared and isinstance(value, str) else value
        if stacklevel is not None and (name, new) != (key, value):
            old, now = (key, name) if name != key else (f"{key}={value!r}", f"{name}={new!r}")
            _warn(f"{kind.__name__}: {old} is now called {now}", stacklevel + 1)
        found[name] = new
    return found


def former_estimate(model: Any, old: str) -> object:
    """What was learnt, by a former name."""
    name = model.estimate_.former_names()[old]
    _warn(f"{type(model).__name__}: {old} is now called {name}", 3)
    return getattr(model, name)


def _former_names(kind: type[Any]) -> dict[str, str]:
    """Former names of parameters, each with the present one; but a class may have arguments of these names again."""
    own = parameter_names(kind)
    found = {declared.formerly: name for name, declared in kind.parameters.items() if name in own}
    return {old: name for old, name in found.items() if old is not None and old not in own}


def _understanding(method: Any, kind: type[Any]) -> Any:
    @functools.wraps(method)
    def made(self: object, *arguments: object, **given: object) -> None:
        method(self, *arguments, **present_names(kind, given, stacklevel=2))

    return made


def _alias(old: str, name: str) -> property:
    """An attribute that stands for another, and says so."""

    def get(model: object) -> object:
        _warn(f"{type(model).__name__}: {old} is now called {name}", 2)
        return getattr(model, name)

    def put(model: object, value: object) -> None:
        _warn(f"{type(model).__name__}: {old} is now called {name}", 2)
        setattr(model, name, value)

    return property(get, put, doc=f"Former name of ``{name}``.")


def _warn(told: str, stacklevel: int) -> None:
    warnings.warn(f"{told}; the old name goes with the next release", FutureWarning, stacklevel=stacklevel + 1)
