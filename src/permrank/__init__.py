"""permrank: learn how each person ranks things, from the partial rankings of many people.

Every public name is loaded when it is first used, so that ``import permrank`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permrank import errors
    from permrank.data import datasets
    from permrank.data.rankings import Rankings
    from permrank.data.readers import read
    from permrank.models.base import Ranker
    from permrank.models.factored import FactoredPlackettLuce
    from permrank.models.files import load
    from permrank.models.latent import LatentPlackettLuce
    from permrank.models.plackett_luce import PlackettLuce

__version__ = "0.1.0"

_HOME = {
    "FactoredPlackettLuce": "permrank.models.factored",
    "LatentPlackettLuce": "permrank.models.latent",
    "PlackettLuce": "permrank.models.plackett_luce",
    "Ranker": "permrank.models.base",
    "Rankings": "permrank.data.rankings",
    "load": "permrank.models.files",
    "read": "permrank.data.readers",
}
_MODULES = {"datasets": "permrank.data.datasets", "errors": "permrank.errors"}

__all__ = [
    "FactoredPlackettLuce",
    "LatentPlackettLuce",
    "PlackettLuce",
    "Ranker",
    "Rankings",
    "datasets",
    "errors",
    "load",
    "read",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'permrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
