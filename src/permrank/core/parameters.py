"""Parameters of a model: those that are set, and those that the present estimate was learnt with."""

from __future__ import annotations

import copy
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from permrank.core.declared import parameter_names
from permrank.errors import NotSupportedError, UnknownIdError
from permrank.markup import html_table
from permrank.types import Named

# Public methods that work with the parameters as they are set; all others ask about the estimate.
_OF_THE_SETTINGS = frozenset({"fit", "partial_fit", "get_params", "set_params", "clone"})
Model = TypeVar("Model")


def answer_as_learnt(model: type[Any]) -> None:
    """Let every public method that a class defines, but those of the settings, run on the parameters of the fit.

    ``set_params``, or an assignment, counts from the next `fit` on. Until then every question, and `save`, is about
    the estimate that is there: it runs on a view of the model with the parameters of ``fitted_params_``. This is done
    for every class when it is defined, so that no model can forget it. Such a method must not change the model.
    """
    for name, method in list(vars(model).items()):
        if not name.startswith("_") and inspect.isfunction(method) and name not in _OF_THE_SETTINGS:
            setattr(model, name, _as_learnt(method))


def check_declared(model: Any) -> None:
    """Raise unless every parameter that its class declares is what it may be."""
    known = parameter_names(type(model))
    for name, declaration in type(model).parameters.items():
        if name in known:  # a subclass may have settled it
            declaration.check(name, getattr(model, name))


# Methods of every model, as scikit-learn has them


def get_params(self: object, deep: bool = True) -> Named:
    """Constructor arguments by name (``deep`` is there for scikit-learn and changes nothing)."""
    return {name: getattr(self, name) for name in parameter_names(type(self))}


def set_params(self: Model, **parameters: object) -> Model:
    """Change constructor arguments, for the next `fit`: answers and `save` keep to what was fitted.

    An unknown name raises and nothing is changed.
    """
    known = parameter_names(type(self))
    for name in parameters:
        if name not in known:
            raise UnknownIdError(f"parameter of {type(self).__name__}", name, known)
    for name, value in parameters.items():
        setattr(self, name, value)
    return self


def clone(self: Model) -> Model:
    """A new model with the same parameters, not fitted."""
    return type(self)(**get_params(self))


def shown(self: Any) -> str:
    """The call that makes the model, which can be evaluated; and, once it is fitted, what it was fitted to."""
    return told_of(self) if hasattr(self, "fitted_params_") else str(self._call())


def told_of(self: Any) -> str:
    """The call that makes a fitted model, and what it was fitted to."""
    data = self.rankings_
    n, total = int(data.n_rankings), float(data.weights.sum())
    if total == n:
        what = f"{n:,} ranking{'s' * (n != 1)}"
    elif data.anonymous:
        what = f"{total:,.12g} rankings ({n:,} distinct)"
    else:
        what = f"{n:,} rankings, of total weight {total:,.12g},"
    return f"{as_fitted(self)._call()} fitted to {what} of {data.n_items:,} items"


def html_of(self: Any) -> str:
    """What a notebook shows: the model, what it assumes, what it was fitted to."""
    rows = [[name, textwrap.shorten(repr(value), 80)] for name, value in get_params(as_fitted(self)).items()]
    notes = [getattr(type(self), "assumes", "")]
    if hasattr(self, "fitted_params_"):
        notes += [f"fitted to {self.rankings_!r}"]
        if hasattr(self, "fit_seconds_"):
            ended = "" if self.converged_ else ", not converged"
            notes += [f"{self.n_iter_:,} sweeps{ended}, {self.fit_seconds_:.2f} s"]
    return html_table(["parameter", "value"], rows, title=type(self).__name__, notes=[note for note in notes if note])


def call_of(self: object) -> str:
    """The call that makes the model, with what differs from the defaults."""
    defaults = inspect.signature(type(self).__init__).parameters
    differing = ", ".join(
        f"{name}={value!r}" for name, value in get_params(self).items() if repr(value) != repr(defaults[name].default)
    )
    return f"{type(self).__name__}({differing})"


# What scikit-learn asks of an object that does not inherit its base class; nothing else calls these.


def sklearn_tags(self: object) -> object:
    """A model that wants no target."""
    from sklearn.utils import Tags, TargetTags

    return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def sklearn_is_fitted(self: object) -> bool:
    """Whether there is an estimate."""
    return hasattr(self, "fitted_params_")


def as_fitted(self: Model) -> Model:
    """This model with the parameters that its estimate was learnt with: itself, unless others are set."""
    fitted = vars(self).get("fitted_params_")
    if fitted is None or all(_unchanged(getattr(self, name), value) for name, value in fitted.items()):
        return self
    view = copy.copy(self)
    vars(view).update(fitted)
    return view


def changed_params(self: Any) -> list[str]:
    """Names of parameters that are set to something else than the estimate was learnt with."""
    return [n for n, value in self.fitted_params_.items() if not np.array_equal(getattr(self, n), value)]


def _unchanged(now: object, fitted: object) -> bool:
    """Whether a parameter is the one of the fit; larger things than numbers and words are only if they are the same."""
    return now is fitted or (type(now) is type(fitted) and isinstance(now, (bool, int, float, str)) and now == fitted)


def _as_learnt(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asked(self: object, *arguments: object, **options: object) -> object:
        model = as_fitted(self)
        if model is self:
            return method(self, *arguments, **options)
        before = dict(vars(model))
        answer = method(model, *arguments, **options)
        if any(before.get(name, before) is not value for name, value in vars(model).items()):
            raise NotSupportedError(
                f"{type(self).__name__}.{method.__name__}() changes a model whose parameters were set after fit; call "
                "fit first, or give the method a name that begins with an underscore"
            )
        return answer

    return asked
