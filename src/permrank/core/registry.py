"""Which class a name stands for: a model of the package, one that was registered, or one of an installed package.

Model files and the command line name a class. Nothing is imported because a file says so: a name is looked up here,
and what an entry point imports was chosen by whoever installed its package.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from permrank.core.ranker import Ranker
from permrank.errors import InputError, ModelWarning, UnknownIdError, shown
from permrank.families import MODELS

GROUP = "permrank.models"
Model = TypeVar("Model", bound=type[Ranker])
_registered: dict[str, type[Ranker]] = {}


def register(model: Model) -> Model:
    """Make a model of your own known by its name, to `load` and to the command line; usable as a decorator.

    A package that is installed need not call this: an entry point of the group ``permrank.models``, with the name of
    the class, makes its models known wherever it is installed.

    Parameters
    ----------
    model : class
        Inherits `Ranker`. Its name must be its own: built-in names cannot be taken, nor that of another registered
        class. The same class, defined once more (a notebook's cell that is run again), replaces its older self.

    Returns
    -------
    class
        The same.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import permrank as pr
    >>> @pr.register
    ... class Alphabetical(pr.Ranker):
    ...     def _learn(self, rankings):
    ...         return pr.Estimate()
    ...
    ...     def _scores(self, fitted, person, items):
    ...         return -items.astype(float)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.permrank"
    >>> Alphabetical().fit(pr.Rankings.from_lists([["b", "a"]])).save(path)
    >>> pr.load(path).rank(0, ["b", "a"])["item"].to_list()
    ['a', 'b']
    """
    name = require_model(model).__name__
    taken = _registered.get(name)
    if taken is not None and _address(taken) != _address(model):
        raise InputError(
            f"the name {name!r} is taken by the registered {_address(taken)}; rename {_address(model)}, since files "
            "and the command line name a model by its class"
        )
    _registered[name] = model
    return model


def require_model(model: Model) -> Model:
    """Return a class that can be a model under its own name; anything else raises."""
    if isinstance(model, Ranker):
        raise InputError(f"expected a class, got the model {shown(model)}; give {type(model).__name__} itself")
    if not (isinstance(model, type) and issubclass(model, Ranker)):
        raise InputError(f"expected a class that inherits permrank.Ranker, got {shown(model)}")
    if inspect.isabstract(model):
        missing = ", ".join(sorted(model.__abstractmethods__))
        raise InputError(f"{model.__name__} is not a whole model: it does not define {missing}")
    if takes_a_built_in_name(model):
        raise InputError(
            f"the name {model.__name__!r} is taken by a built-in model; rename {_address(model)}, since files and the "
            "command line name a model by its class"
        )
    return model


def takes_a_built_in_name(model: type[Ranker]) -> bool:
    """Whether a class has the name of a built-in model and is another one."""
    return model.__name__ in MODELS and model is not _built_in(model.__name__)


def names() -> list[str]:
    """Names of all models that can be found, sorted; nothing is imported for it."""
    return sorted({*MODELS, *_registered, *(entry.name for entry in _offered())})


def find(name: str) -> type[Ranker]:
    """Class of a model by its name; raises if there is none, if there are two, or if it cannot be imported."""
    if name in MODELS:
        return _built_in(name)
    claims = {_address(kind): kind for kind in [_registered.get(name)] if kind is not None}
    claims |= {_owner(entry): _loaded(entry) for entry in _offered() if entry.name == name}
    if not claims:
        raise UnknownIdError("model", name, names())
    if len(set(claims.values())) > 1:
        raise InputError(f"the name {name!r} is taken twice: by {' and by '.join(claims)}; rename or remove one")
    return next(iter(claims.values()))


def find_among(name: str, given: Iterable[type[Ranker]]) -> type[Ranker]:
    """Class of a model by its name, first among some that are given."""
    own: dict[str, type[Ranker]] = {}
    for model in given:
        class_name = require_model(model).__name__
        if own.setdefault(class_name, model) is not model:
            raise InputError(f"models: two classes are named {class_name!r}; give one of them")
    return own[name] if name in own else find(name)


def every() -> list[type[Ranker]]:
    """All models, by name; of an installed package one that cannot be had is left out with a warning."""
    models = []
    for name in names():
        try:
            models.append(find(name))
        except InputError as error:
            warnings.warn(f"{error}; left out", ModelWarning, stacklevel=2)
    for entry in _offered():
        if entry.name in MODELS:
            message = f"the model {entry.name!r} of {_owner(entry)} has the name of a built-in one; left out"
            warnings.warn(message, ModelWarning, stacklevel=2)
    return models


def spelling(model: type[Ranker]) -> str:
    """What to call a model on the command line: its name, or ``module:Class`` where only this process knows it."""
    everywhere = model.__name__ in MODELS or any(entry.name == model.__name__ for entry in _offered())
    return model.__name__ if everywhere else f"{model.__module__}:{model.__name__}"


def _built_in(name: str) -> type[Ranker]:
    model: type[Ranker] = getattr(importlib.import_module(MODELS[name]), name)
    return model


def _offered() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _loaded(entry: EntryPoint) -> type[Ranker]:
    """Class that an installed package offers."""
    which = f"the model {entry.name!r} of {_owner(entry)}"
    try:
        model = entry.load()
    except Exception as error:  # whatever a module may raise when it is imported
        raise InputError(f"{which} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        require_model(model)
    except InputError as error:
        raise InputError(f"{which}: {error}") from error
    if model.__name__ != entry.name:
        raise InputError(f"{which} is the class {model.__name__!r}; an entry point has the name of its class")
    kind: type[Ranker] = model
    return kind


def _owner(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _address(model: type[Ranker]) -> str:
    return f"{model.__module__}.{model.__qualname__}"
