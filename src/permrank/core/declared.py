"""Declared parameters: what each may be, what `tune` tries, and a line of help; one declaration serves them all.

Validation, the search spaces of `tune` and ``permrank info MODEL`` are read from it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from permrank.checks import (
    require_above,
    require_between,
    require_bool,
    require_choice,
    require_int,
    require_nonnegative,
    require_seed,
)

Word: TypeAlias = str | None
# The largest numbers that make sense: a larger one is a slip, and would fill the memory or run for days without a
# chance to interrupt it. Factors make matrices of K x K, communities and starts multiply every array.
MOST_FACTORS = 500
MOST_COMMUNITIES = MOST_STARTS = 1_000
MOST_DRAWS = 100_000
MOST_SWEEPS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Declaration(ABC):
    """One parameter of a model.

    Attributes
    ----------
    help : str
        What it is, in a line.
    when : (name, value), optional
        Another parameter and the value that it must have for this one to matter.
    """

    help: str = ""
    when: tuple[str, object] | None = None

    @abstractmethod
    def check(self, name: str, value: object) -> None:
        """Raise `InputError` unless the parameter of this name may have the value."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What the parameter may be, in words."""

    @property
    def tuned(self) -> bool:
        """Whether `tune` chooses it."""
        return False


@dataclass(frozen=True)
class Number(Declaration):
    """A number; ``also`` are words that it may be instead.

    `tune` chooses between the two ends of ``tune``, all scales alike, and the words of ``tune_also``.
    """

    _: KW_ONLY
    also: tuple[Word, ...] = ()
    tune: tuple[float, float] | None = None
    tune_also: tuple[Any, ...] = ()

    @property
    def tuned(self) -> bool:
        """Whether `tune` chooses it."""
        return self.tune is not None

    def check(self, name: str, value: object) -> None:
        """Raise unless it is one of the words or a number within the bounds."""
        if not (value is None or isinstance(value, str)) or value not in self.also:
            self._check_number(name, value)

    @abstractmethod
    def _check_number(self, name: str, value: object) -> None: ...

    def _or_a_word(self, numbers: str) -> str:
        return ", ".join([numbers, *map(str, self.also)])


@dataclass(frozen=True)
class Integer(Number):
    """A whole number from ``minimum`` to ``maximum``.

    Examples
    --------
    >>> n_factors = Integer(1, 500, also=("auto",), tune=(2, 32), help="Factors of every user and item.")
    >>> n_factors.allowed
    'whole number from 1 to 500, auto'
    >>> n_factors.check("n_factors", 0)
    Traceback (most recent call last):
    permrank.errors.InputError: n_factors=0, expected a whole number from 1 to 500
    """

    minimum: int
    maximum: int | None = None

    def _check_number(self, name: str, value: object) -> None:
        require_int(name, value, self.minimum, self.maximum)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        upto = "" if self.maximum is None else f" to {self.maximum:,}"
        return self._or_a_word(f"whole number from {self.minimum}{upto}")


@dataclass(frozen=True)
class Float(Number):
    """A finite number ``above`` a bound, or from 0, or from ``minimum`` to ``maximum``.

    Examples
    --------
    >>> Float(above=0.0, also=("auto", None), tune=(0.3, 3.0)).allowed
    'number above 0, auto, None'
    """

    _: KW_ONLY
    above: float | None = None
    minimum: float = 0.0
    maximum: float | None = None

    def _check_number(self, name: str, value: object) -> None:
        if self.above is not None:
            require_above(name, value, self.above)
        else:
            require_nonnegative(name, value)
        if self.maximum is not None:
            require_between(name, value, self.minimum, self.maximum)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if self.maximum is not None:
            return self._or_a_word(f"number from {self.minimum:g} to {self.maximum:g}")
        return self._or_a_word("number from 0" if self.above is None else f"number above {self.above:g}")


@dataclass(frozen=True)
class Categorical(Declaration):
    """One of some words; `tune` chooses among those of ``tune``.

    Examples
    --------
    >>> Categorical(("kendall", "spearman"), help="Distance between rankings.").allowed
    'kendall, spearman'
    """

    values: tuple[Any, ...]
    _: KW_ONLY
    tune: tuple[Any, ...] = ()

    def check(self, name: str, value: object) -> None:
        """Raise unless it is one of the words."""
        require_choice(name, value, self.values)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return ", ".join(map(str, self.values))

    @property
    def tuned(self) -> bool:
        """Whether `tune` chooses it."""
        return bool(self.tune)


@dataclass(frozen=True)
class Flag(Categorical):
    """True or False; `tune` chooses with ``tune=(True, False)``."""

    values: tuple[Any, ...] = (True, False)

    def check(self, name: str, value: object) -> None:
        """Raise unless it is a truth value."""
        require_bool(name, value)


@dataclass(frozen=True)
class Seed(Declaration):
    """A seed: a whole number from 0, so that everything can be repeated."""

    def check(self, name: str, value: object) -> None:
        """Raise unless it is a seed."""
        require_seed(value, name)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return "whole number from 0"


@dataclass(frozen=True)
class Checked(Declaration):
    """Anything else: a function of the value that raises, and what it lets pass, in words."""

    function: Callable[[Any], object]
    words: str

    def check(self, name: str, value: object) -> None:
        """Raise what the function raises."""
        self.function(value)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return self.words


class Declared(dict[str, Declaration]):
    """Declarations of the parameters of a model, by name; those that `tune` chooses first, in its order.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.Borda.parameters["prior_strength"].allowed
    'number from 0'
    """


def parameter_names(model: type[Any]) -> list[str]:
    """Names of the constructor's arguments."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = list(inspect.signature(model.__init__).parameters.values())[1:]
    return [parameter.name for parameter in found if parameter.kind not in several]
