"""Everything that permrank raises on purpose.

::

    PermrankError
    ├── InputError          bad data, or a bad argument (also a ValueError)
    │   ├── FormatError     a file that is not what it says, or cannot hold what it is given
    │   └── EstimateError   the data are fine but the estimate asked for does not exist
    ├── UnknownIdError      a user, item, parameter or data set that is not known (also a KeyError)
    ├── NotFittedError      a model is used before ``fit`` (also a ValueError and an AttributeError)
    ├── NotSupportedError   a model cannot answer this question (also a NotImplementedError)
    ├── DataError           a data set that cannot be found, fetched or trusted
    └── ForkError           a process was forked from one that had used permrank (also a RuntimeError)
    ConvergenceWarning      learning stopped early; the estimate and its trace are kept
    └── StoppedWarning      because Ctrl-C was pressed
    AccuracyWarning         some of the numbers are estimates with a large error
    ModelWarning            a model of an installed package cannot be had, and is left out
    ChoiceSetWarning        lists look like the tops of a choice set, and nothing says whether they are
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

ARGUMENT: ContextVar[str] = ContextVar("ARGUMENT", default="{}=")
"""How messages write the name of an argument; the command line has its own way."""


class PermrankError(Exception):
    """Base of every error that permrank raises on purpose."""


class InputError(PermrankError, ValueError):
    """Bad data or a bad argument; the message names the place, the value and the remedy."""


class FormatError(InputError):
    """A file is not what it says it is, or a format cannot hold what it is given."""


class EstimateError(InputError):
    """The estimate that was asked for does not exist for these data.

    Attributes
    ----------
    items : list
        Ids of the items that are in the way, where there are such.
    """

    def __init__(self, message: str, items: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.items = list(items)


class UnknownIdError(PermrankError, KeyError):
    """A user, item, parameter or data set is not known; the message names the nearest known one."""

    def __init__(self, kind: str, value: object, known: Iterable[object] = ()) -> None:
        self.kind, self.value = kind, value
        super().__init__(f"unknown {kind} {shown(value)}{_nearest(value, known)}")

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is unpickled by its arguments: here, the message; worker processes send their errors so.
        return _unknown_id, (self.kind, self.value, self.args[0])

    def __str__(self) -> str:
        # KeyError would print the repr of its argument.
        return str(self.args[0])


class NotFittedError(PermrankError, ValueError, AttributeError):
    """A model is used before ``fit``.

    It has the bases of ``sklearn.exceptions.NotFittedError``, so that code that catches these works with both.
    """


class NotSupportedError(PermrankError, NotImplementedError):
    """This model cannot answer this question."""


class DataError(PermrankError):
    """A data set cannot be found, fetched or trusted."""


class EngineError(PermrankError, RuntimeError):
    """Workers elsewhere cannot be reached, or are lost again and again."""


class ForkError(PermrankError, RuntimeError):
    """This process was forked from one where permrank had been used; start processes by ``spawn``."""


class ConvergenceWarning(UserWarning):
    """Learning stopped before it converged; the estimate and its trace are kept."""


class StoppedWarning(ConvergenceWarning):
    """Learning was stopped by Ctrl-C; the estimate and its trace are kept."""


def _unknown_id(kind: str, value: object, message: str) -> UnknownIdError:
    error = UnknownIdError(kind, value)
    error.args = (message,)
    return error


class AccuracyWarning(UserWarning):
    """Some of the numbers are estimates with a large standard error."""


class ModelWarning(UserWarning):
    """A model that an installed package offers cannot be had; it is left out of a list of all models."""


class CatalogueWarning(UserWarning):
    """A model that only orders what people list was asked to find something in a whole catalogue."""


class FeaturesWarning(UserWarning):
    """The data have features or links that a model does not learn from."""


class ChoiceSetWarning(UserWarning):
    """Lists look like the tops of a common choice set; say ``unlisted="last"`` or ``unlisted="ignore"``."""


def argument(name: str, *values: str) -> str:
    """An argument as messages write it, with one of these values: ``kind='last'``, or ``--kind last`` in the shell."""
    written = ARGUMENT.get().format(name)
    if not values:
        return written
    quoted = [repr(value) for value in values] if written.endswith("=") else [f" {value}" for value in values]
    first, *others = [f"{written}{quoted[0]}", *(value.strip() for value in quoted[1:])]
    return first if not others else f"{', '.join([first, *others[:-1]])} or {others[-1]}"


def shown(value: object) -> str:
    """A value as messages show it: its repr, the middle left out where it is long."""
    text = repr(value if not isinstance(value, str) or len(value) < 1000 else f"{value[:100]}...{value[-100:]}")
    return text if len(text) <= 80 else f"{text[:50]}...{text[-27:]}"


def _nearest(value: object, known: Iterable[object]) -> str:
    import difflib  # slow to load, and only needed once something is wrong

    # 100,000 candidates take difflib well under a second; beyond that the first ones serve.
    sample = {str(name): name for _, name in zip(range(100_000), known, strict=False)}
    if not sample:
        return ""
    close = difflib.get_close_matches(str(value), list(sample), n=1, cutoff=0.6)
    if close:
        return f"; the nearest known one is {shown(sample[close[0]])}"
    examples = ", ".join(shown(name) for name in list(sample.values())[:3])
    return f"; known are for example {examples}"
