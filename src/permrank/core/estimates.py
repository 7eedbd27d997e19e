"""What a model has learnt, as a value: one frozen dataclass for each family."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar, overload

import numpy as np

from permrank.errors import InputError
from permrank.types import Named

if TYPE_CHECKING:
    from permrank.core.questions import Questions

T = TypeVar("T")

RULE = {"rule": True}
"""Metadata of a field that says how answers are made: it follows from the parameters, and is not written to files."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Base of all estimates.

    A subclass is a frozen dataclass with one field for each array or number that was learnt. The file of a model has
    them under the same names with an underscore at the end, and so has the model where it says so (`Learnt`). What else
    answers need, such as the treatment of ties, is a keyword field with the metadata `RULE`. A model that learns
    nothing has an `Estimate` without fields.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True, eq=False)
    ... class Shares(Estimate):
    ...     scores: np.ndarray
    ...     ties: str = field(metadata=RULE, kw_only=True)
    >>> Shares(np.zeros(2), ties="half").tensors()
    {'scores_': array([0., 0.])}
    """

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of what is learnt, as attributes of the model and tensors of its file."""
        return tuple(f"{field.name}_" for field in dataclasses.fields(cls) if "rule" not in field.metadata)

    def tensors(self) -> Named:
        """What is learnt, by those names."""
        return {name: getattr(self, name[:-1]) for name in self.names()}

    @classmethod
    def of(cls, tensors: Named, rules: Named) -> Self:
        """An estimate from what `tensors` gave, and rules."""
        return cls(**{name[:-1]: tensors[name] for name in cls.names()}, **rules)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise if arrays do not fit together, or the data; finite numbers are the least.

        A subclass extends it by the types and shapes that answers rely on: files are not trusted.
        """
        for name, value in self.tensors().items():
            if not np.isfinite(value).all():
                raise InputError(f"{name} holds values that are not finite")

    def check_shapes(self, **shapes: tuple[int, ...]) -> None:
        """Raise unless the arrays of these names have these shapes."""
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != shape:
                raise InputError(f"{name}_ has shape {np.shape(getattr(self, name))}, expected {shape}")


class Learnt(Generic[T]):
    """A field of the estimate as an attribute of the model: ``scores_ = Learnt[Float64Array]()`` is ``scores``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...

    @overload
    def __get__(self, model: Questions, owner: type) -> T: ...

    def __get__(self, model: Questions | None, owner: type) -> Self | T:
        """What was learnt; an error before `fit`."""
        if model is None:
            return self
        value: T = getattr(model.fitted_.estimate, self._name[:-1])
        return value

    def __set__(self, model: Questions, value: object) -> None:
        """Refuse: it would hide what was learnt."""
        change = f"fitted_ = model.fitted_.with_estimate({self._name[:-1]}=...)"
        raise AttributeError(f"{self._name} is part of what was learnt, and cannot be set; fit again, or set {change}")
