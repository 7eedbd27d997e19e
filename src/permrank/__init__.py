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
    from permrank.evaluation.comparison import compare
    from permrank.evaluation.protocols import (
        Folds,
        Given,
        LeaveOut,
        StrongGeneralisation,
        Temporal,
        WeakGeneralisation,
    )
    from permrank.evaluation.run import evaluate
    from permrank.evaluation.split import Split
    from permrank.evaluation.tuning import tune
    from permrank.evaluation.validation import Validation
    from permrank.models.base import Ranker
    from permrank.models.borda import Borda
    from permrank.models.bradley_terry import BradleyTerry
    from permrank.models.checkpoints import Checkpoint
    from permrank.models.cofirank import CofiRank
    from permrank.models.copeland import Copeland
    from permrank.models.factored import FactoredPlackettLuce
    from permrank.models.files import load
    from permrank.models.latent import LatentPlackettLuce
    from permrank.models.latent_preference import LatentPreference
    from permrank.models.listnet import ListNet
    from permrank.models.mallows import Mallows
    from permrank.models.mean_rating import MeanRating
    from permrank.models.pairwise_factorisation import PairwiseFactorisation
    from permrank.models.pairwise_log_linear import PairwiseLogLinear
    from permrank.models.plackett_luce import PlackettLuce
    from permrank.models.popularity import Popularity
    from permrank.models.positionwise_log_linear import PositionwiseLogLinear
    from permrank.models.spectral import SpectralAnalysis
    from permrank.models.uniform import Random

__version__ = "0.1.0"

_HOME = {
    "Borda": "permrank.models.borda",
    "BradleyTerry": "permrank.models.bradley_terry",
    "Checkpoint": "permrank.models.checkpoints",
    "CofiRank": "permrank.models.cofirank",
    "Copeland": "permrank.models.copeland",
    "FactoredPlackettLuce": "permrank.models.factored",
    "Folds": "permrank.evaluation.protocols",
    "Given": "permrank.evaluation.protocols",
    "LatentPlackettLuce": "permrank.models.latent",
    "LatentPreference": "permrank.models.latent_preference",
    "LeaveOut": "permrank.evaluation.protocols",
    "ListNet": "permrank.models.listnet",
    "Mallows": "permrank.models.mallows",
    "MeanRating": "permrank.models.mean_rating",
    "PairwiseFactorisation": "permrank.models.pairwise_factorisation",
    "PairwiseLogLinear": "permrank.models.pairwise_log_linear",
    "PlackettLuce": "permrank.models.plackett_luce",
    "Popularity": "permrank.models.popularity",
    "PositionwiseLogLinear": "permrank.models.positionwise_log_linear",
    "Random": "permrank.models.uniform",
    "Ranker": "permrank.models.base",
    "Rankings": "permrank.data.rankings",
    "SpectralAnalysis": "permrank.models.spectral",
    "Split": "permrank.evaluation.split",
    "StrongGeneralisation": "permrank.evaluation.protocols",
    "Temporal": "permrank.evaluation.protocols",
    "Validation": "permrank.evaluation.validation",
    "WeakGeneralisation": "permrank.evaluation.protocols",
    "compare": "permrank.evaluation.comparison",
    "evaluate": "permrank.evaluation.run",
    "load": "permrank.models.files",
    "read": "permrank.data.readers",
    "tune": "permrank.evaluation.tuning",
}
_MODULES = {"datasets": "permrank.data.datasets", "errors": "permrank.errors"}

__all__ = [
    "Borda",
    "BradleyTerry",
    "Checkpoint",
    "CofiRank",
    "Copeland",
    "FactoredPlackettLuce",
    "Folds",
    "Given",
    "LatentPlackettLuce",
    "LatentPreference",
    "LeaveOut",
    "ListNet",
    "Mallows",
    "MeanRating",
    "PairwiseFactorisation",
    "PairwiseLogLinear",
    "PlackettLuce",
    "Popularity",
    "PositionwiseLogLinear",
    "Random",
    "Ranker",
    "Rankings",
    "SpectralAnalysis",
    "Split",
    "StrongGeneralisation",
    "Temporal",
    "Validation",
    "WeakGeneralisation",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "load",
    "read",
    "tune",
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
