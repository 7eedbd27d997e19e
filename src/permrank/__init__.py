"""permrank: learn how each person ranks things, from the partial rankings of many people.

Every public name is loaded when it is first used, so that ``import permrank`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permrank import errors
    from permrank.data import datasets
    from permrank.data.formats.readers import read
    from permrank.data.hold_out import hold_out
    from permrank.data.rankings import Rankings
    from permrank.evaluation import metrics
    from permrank.evaluation.compare import compare
    from permrank.evaluation.evaluate import evaluate
    from permrank.evaluation.protocols import (
        Folds,
        Given,
        LeaveOut,
        StrongGeneralisation,
        Temporal,
        WeakGeneralisation,
    )
    from permrank.evaluation.split import Split
    from permrank.evaluation.tune import tune
    from permrank.evaluation.validation import Validation
    from permrank.learning.checkpoints import Checkpoint
    from permrank.models.baselines.borda import Borda
    from permrank.models.baselines.copeland import Copeland
    from permrank.models.baselines.mean_rating import MeanRating
    from permrank.models.baselines.popularity import Popularity
    from permrank.models.baselines.random import Random
    from permrank.models.distance.mallows import Mallows
    from permrank.models.factored.model import FactoredPlackettLuce
    from permrank.models.files import load
    from permrank.models.latent.model import LatentPlackettLuce
    from permrank.models.log_linear.pairwise import PairwiseLogLinear
    from permrank.models.log_linear.positionwise import PositionwiseLogLinear
    from permrank.models.matrix.cofirank import CofiRank
    from permrank.models.matrix.listnet import ListNet
    from permrank.models.matrix.pairwise_factorisation import PairwiseFactorisation
    from permrank.models.pairwise.bradley_terry import BradleyTerry
    from permrank.models.pairwise.latent_preference import LatentPreference
    from permrank.models.plackett_luce.pooled import PlackettLuce
    from permrank.models.ranker import Ranker
    from permrank.models.spectral.spectral import SpectralAnalysis

__version__ = "0.1.0"

_HOME = {
    "Borda": "permrank.models.baselines.borda",
    "BradleyTerry": "permrank.models.pairwise.bradley_terry",
    "Checkpoint": "permrank.learning.checkpoints",
    "CofiRank": "permrank.models.matrix.cofirank",
    "Copeland": "permrank.models.baselines.copeland",
    "FactoredPlackettLuce": "permrank.models.factored.model",
    "Folds": "permrank.evaluation.protocols",
    "Given": "permrank.evaluation.protocols",
    "LatentPlackettLuce": "permrank.models.latent.model",
    "LatentPreference": "permrank.models.pairwise.latent_preference",
    "LeaveOut": "permrank.evaluation.protocols",
    "ListNet": "permrank.models.matrix.listnet",
    "Mallows": "permrank.models.distance.mallows",
    "MeanRating": "permrank.models.baselines.mean_rating",
    "PairwiseFactorisation": "permrank.models.matrix.pairwise_factorisation",
    "PairwiseLogLinear": "permrank.models.log_linear.pairwise",
    "PlackettLuce": "permrank.models.plackett_luce.pooled",
    "Popularity": "permrank.models.baselines.popularity",
    "PositionwiseLogLinear": "permrank.models.log_linear.positionwise",
    "Random": "permrank.models.baselines.random",
    "Ranker": "permrank.models.ranker",
    "Rankings": "permrank.data.rankings",
    "SpectralAnalysis": "permrank.models.spectral.spectral",
    "Split": "permrank.evaluation.split",
    "StrongGeneralisation": "permrank.evaluation.protocols",
    "Temporal": "permrank.evaluation.protocols",
    "Validation": "permrank.evaluation.validation",
    "WeakGeneralisation": "permrank.evaluation.protocols",
    "compare": "permrank.evaluation.compare",
    "evaluate": "permrank.evaluation.evaluate",
    "hold_out": "permrank.data.hold_out",
    "load": "permrank.models.files",
    "read": "permrank.data.formats.readers",
    "tune": "permrank.evaluation.tune",
}
_MODULES = {
    "datasets": "permrank.data.datasets",
    "errors": "permrank.errors",
    "metrics": "permrank.evaluation.metrics",
}

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
    "hold_out",
    "load",
    "metrics",
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
