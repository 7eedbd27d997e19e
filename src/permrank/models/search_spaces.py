"""Search spaces: which parameters of a model are worth choosing by validation, and from what range."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Condition: TypeAlias = tuple[str, object] | None


class Whole(NamedTuple):
    """A whole number from ``low`` to ``high``, all scales alike; or one of the values of ``also``.

    ``when`` names another parameter and the value that it must have for this one to matter.
    """

    low: int
    high: int
    also: tuple[str | float | None, ...] = ()
    when: Condition = None


class Real(NamedTuple):
    """A number from ``low`` to ``high``, all scales alike; the rest as in `Whole`."""

    low: float
    high: float
    also: tuple[str | float | None, ...] = ()
    when: Condition = None


class Choice(NamedTuple):
    """One of some values; ``when`` as in `Whole`."""

    options: tuple[str | bool | None, ...]
    when: Condition = None


Range: TypeAlias = Whole | Real | Choice


class Space(dict[str, Range]):
    """Ranges of parameters, by name."""
