"""Settings of a model: what each may be, its default, what `tune` tries and a text of help, all declared once.

A model declares its settings as attributes of its class::

    class Borda(Ranker):
        prior_strength: float = number(default=5.0, tune=(0.1, 100.0), help="Imaginary comparisons of every item.")

The constructor, validation, the section "Parameters" of the docstring, the search spaces of `tune` and ``permrank info
MODEL`` follow from that.
"""

from __future__ import annotations

import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, ParamSpec, Self, TypeAlias

from permrank.checks import (
    require_above,
    require_between,
    require_bool,
    require_choice,
    require_int,
    require_nonnegative,
    require_seed,
)
from permrank.errors import UnknownIdError
from permrank.types import Named

P = ParamSpec("P")
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
    default : object
    help : str
        What it is, in a sentence or several.
    kw_only : bool
        False for the few arguments that may be given without their names.
    when : (name, value), optional
        Another parameter and the value that it must have for this one to matter.
    """

    default: object = None
    help: str = ""
    kw_only: bool = True
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

    values: Collection[object]
    _: KW_ONLY
    tune: tuple[Any, ...] = ()

    def check(self, name: str, value: object) -> None:
        """Raise unless it is one of the words."""
        require_choice(name, value, tuple(self.values))

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

    values: Collection[object] = (True, False)

    def check(self, name: str, value: object) -> None:
        """Raise unless it is a truth value."""
        require_bool(name, value)


@dataclass(frozen=True)
class Seed(Declaration):
    """A seed: a whole number from 0, so that everything can be repeated."""

    help: str = "The same seed gives the same bits, for any number of threads."

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


# How settings are declared: each name makes a declaration, which stands in the class until there is an instance. What
# type checkers see is of any type, so that an attribute has the type of its values; they see a default that is given as
# ``default=``, and no other.


def _declared_by(kind: Callable[P, Declaration]) -> Callable[P, Any]:
    return kind


integer = _declared_by(Integer)
"""A whole number: see `Integer`."""
number = _declared_by(Float)
"""A number: see `Float`."""
flag = _declared_by(Flag)
"""True or False: see `Flag`."""
random_seed = _declared_by(Seed)
"""A seed: see `Seed`."""
checked = _declared_by(Checked)
"""Anything that a function lets pass: see `Checked`."""
choice = _declared_by(Categorical)
"""One of several words: see `Categorical`."""


class Settings:
    """Base of what has settings: the constructor stores them, and scikit-learn's methods read and change them."""

    parameters: ClassVar[dict[str, Declaration]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Declaration)}
        kept = {name: value for name, value in cls.parameters.items() if name in own or name not in vars(cls)}
        changed = bool(own) or len(kept) < len(cls.parameters)
        cls.parameters = kept | own
        if changed and "__init__" not in vars(cls):
            _give_constructor(cls)
        if changed and cls.__doc__:
            cls.__doc__ = _documented(cls.__doc__, cls.parameters)

    def _validate(self) -> None:
        """Raise unless every setting is what it may be; a model extends it by what concerns several."""
        names = parameter_names(type(self))
        for name, declaration in self.parameters.items():
            if name in names:  # a subclass may have settled it
                declaration.check(name, getattr(self, name))

    # As scikit-learn has them

    def get_params(self, deep: bool = True) -> Named:
        """Constructor arguments by name (``deep`` is there for scikit-learn and changes nothing)."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def set_params(self, **parameters: object) -> Self:
        """Change constructor arguments, for the next `fit`: answers and `save` keep to what was fitted.

        An unknown name raises and nothing is changed.
        """
        names = parameter_names(type(self))
        for name in parameters:
            if name not in names:
                raise UnknownIdError(f"parameter of {type(self).__name__}", name, names)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """A new model with the same parameters, not fitted."""
        return type(self)(**self.get_params())

    def call(self) -> str:
        """The call that makes the model, with what differs from the defaults."""
        defaults = inspect.signature(type(self)).parameters
        differing = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        )
        return f"{type(self).__name__}({differing})"


def parameter_names(model: type) -> list[str]:
    """Names of the constructor's arguments."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in inspect.signature(model).parameters.items() if parameter.kind not in several]


def _give_constructor(cls: type[Settings]) -> None:
    """Write ``__init__``, which stores its arguments as they are."""
    declared = cls.parameters
    kinds: Named = {}
    for base in reversed(cls.__mro__):
        kinds |= inspect.get_annotations(base)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    given = sorted(
        (
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY if value.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=value.default,
                annotation=kinds.get(name, inspect.Parameter.empty),
            )
            for name, value in declared.items()
        ),
        key=lambda parameter: parameter.kind,
    )
    signature = inspect.Signature([itself, *given])

    def __init__(self: Settings, *arguments: object, **options: object) -> None:  # noqa: N807
        bound = signature.bind(self, *arguments, **options).arguments
        for name, declaration in declared.items():
            setattr(self, name, bound.get(name, declaration.default))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = __init__  # type: ignore[assignment, method-assign]


def _documented(text: str, declared: dict[str, Declaration]) -> str:
    """A docstring with the section "Parameters", before "Attributes", "Examples" or its end."""
    if "Parameters\n" in text:
        return text
    lines = ["Parameters", "----------"]
    for name, one in declared.items():
        lines.append(f"{name} : {one.allowed}; default {one.default!r}")
        lines += textwrap.wrap(one.help, 108, initial_indent="    ", subsequent_indent="    ")
    section, text = "\n".join(lines), inspect.cleandoc(text)  # Python 3.13 takes the indentation away by itself
    for title in ("\nAttributes\n", "\nExamples\n"):
        before, there, after = text.partition(title)
        if there:
            return f"{before}\n{section}\n{title}{after}"
    return f"{text}\n\n{section}\n"
