"""Parameters of a model: those that are set, and those that the present estimate was learnt with."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from permrank.errors import NotSupportedError, UnknownIdError

# Public methods that work with the parameters as they are set; all others ask about the estimate.
_OF_THE_SETTINGS = frozenset({"fit", "partial_fit", "get_params", "set_params", "clone"})


class Parametrised:
    """Constructor arguments as scikit-learn has them, and a record of those that the estimate was learnt with.

    ``set_params``, or an assignment, counts from the next `fit` on. Until then every question, and `save`, is about
    the estimate that is there: public methods other than those of the settings run on a view of the model with the
    parameters of ``fitted_params_``. This is done for every subclass when it is defined, so that no model can forget
    it. Such a method must therefore not change the model.

    Attributes
    ----------
    fitted_params_ : dict
        Parameters that the estimate was learnt with.
    """

    fitted_params_: dict[str, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.isfunction(method) and name not in _OF_THE_SETTINGS:
                setattr(cls, name, _as_learnt(method))

    @classmethod
    def _parameter_names(cls) -> list[str]:
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        found = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return [parameter.name for parameter in found if parameter.kind not in several]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name (``deep`` is there for scikit-learn and changes nothing)."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change constructor arguments, for the next `fit`: answers and `save` keep to what was fitted.

        An unknown name raises and nothing is changed.
        """
        known = self._parameter_names()
        for name in parameters:
            if name not in known:
                raise UnknownIdError(f"parameter of {type(self).__name__}", name, known)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """A new model with the same parameters, not fitted."""
        return type(self)(**self.get_params())

    def _record_params(self) -> None:
        """Note the parameters of a new estimate; a copy, so that a list that is changed later changes nothing."""
        self.fitted_params_ = copy.deepcopy(self.get_params())

    def _as_fitted(self) -> Self:
        """This model with the parameters that its estimate was learnt with: itself, unless others are set."""
        fitted = self.__dict__.get("fitted_params_")
        if fitted is None or all(_unchanged(getattr(self, name), value) for name, value in fitted.items()):
            return self
        view = copy.copy(self)
        vars(view).update(fitted)
        return view

    def _changed_params(self) -> list[str]:
        """Names of parameters that are set to something else than the estimate was learnt with."""
        return [n for n, value in self.fitted_params_.items() if not np.array_equal(getattr(self, n), value)]

    # What scikit-learn asks of an object that does not inherit its base class; nothing else calls these.

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_params_")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        )
        return f"{type(self).__name__}({shown})"


def _unchanged(now: object, fitted: object) -> bool:
    """Whether a parameter is the one of the fit; larger things than numbers and words are only if they are the same."""
    return now is fitted or (type(now) is type(fitted) and isinstance(now, (bool, int, float, str)) and now == fitted)


def _as_learnt(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asked(self: Parametrised, *arguments: Any, **options: Any) -> Any:
        model = self._as_fitted()
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
