"""permrank: learn how each person ranks things, from the partial rankings of many people.

Every public name is loaded when it is first used, so that ``import permrank`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from permrank.families import MODELS as _MODELS

# Nothing runs here: type checkers and editors follow imports, not the table below, and would take every name to be of
# any type without them. "as" says that a name is public. A test holds the two lists equal.
if TYPE_CHECKING:
    from permrank import errors as errors
    from permrank.core.estimates import Estimate as Estimate
    from permrank.core.model_files import load as load
    from permrank.core.person import Person as Person
    from permrank.core.ranker import Ranker as Ranker
    from permrank.core.registry import register as register
    from permrank.evaluation import metrics as metrics
    from permrank.evaluation.catalogue import Catalogue as Catalogue
    from permrank.evaluation.cold import ColdItems as ColdItems
    from permrank.evaluation.cold import ColdUsers as ColdUsers
    from permrank.evaluation.compare import compare as compare
    from permrank.evaluation.comparison import Comparison as Comparison
    from permrank.evaluation.evaluate import Evaluation as Evaluation
    from permrank.evaluation.evaluate import evaluate as evaluate
    from permrank.evaluation.goodness_of_fit import goodness_of_fit as goodness_of_fit
    from permrank.evaluation.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
    from permrank.evaluation.number_of_communities import choose_communities as choose_communities
    from permrank.evaluation.pairs import Ask as Ask
    from permrank.evaluation.pairs import Pairs as Pairs
    from permrank.evaluation.protocols import Folds as Folds
    from permrank.evaluation.protocols import Given as Given
    from permrank.evaluation.protocols import LeaveOut as LeaveOut
    from permrank.evaluation.protocols import StrongGeneralisation as StrongGeneralisation
    from permrank.evaluation.protocols import Temporal as Temporal
    from permrank.evaluation.protocols import WeakGeneralisation as WeakGeneralisation
    from permrank.evaluation.split import Split as Split
    from permrank.evaluation.tune import Tuning as Tuning
    from permrank.evaluation.tune import tune as tune
    from permrank.evaluation.validation import Validation as Validation
    from permrank.families.baselines.borda import Borda as Borda
    from permrank.families.baselines.copeland import Copeland as Copeland
    from permrank.families.baselines.mean_rating import MeanRating as MeanRating
    from permrank.families.baselines.popularity import Popularity as Popularity
    from permrank.families.baselines.random import Random as Random
    from permrank.families.catalogue.implicit_factors import ImplicitFactors as ImplicitFactors
    from permrank.families.catalogue.item_to_item import ItemToItem as ItemToItem
    from permrank.families.catalogue.recommender import Recommender as Recommender
    from permrank.families.factored.model import FactoredPlackettLuce as FactoredPlackettLuce
    from permrank.families.latent.model import LatentPlackettLuce as LatentPlackettLuce
    from permrank.families.log_linear.models import PairwiseLogLinear as PairwiseLogLinear
    from permrank.families.log_linear.models import PositionwiseLogLinear as PositionwiseLogLinear
    from permrank.families.mallows.model import Mallows as Mallows
    from permrank.families.matrix.model import CofiRank as CofiRank
    from permrank.families.matrix.model import ListNet as ListNet
    from permrank.families.matrix.model import PairwiseFactorisation as PairwiseFactorisation
    from permrank.families.pairwise.bradley_terry import BradleyTerry as BradleyTerry
    from permrank.families.pairwise.latent_preference import LatentPreference as LatentPreference
    from permrank.families.plackett_luce.model import PlackettLuce as PlackettLuce
    from permrank.families.spectral.model import SpectralAnalysis as SpectralAnalysis
    from permrank.families.thurstone.model import FactoredThurstone as FactoredThurstone
    from permrank.files import datasets as datasets
    from permrank.files.formats import read as read
    from permrank.interfaces import plots as plots
    from permrank.interfaces.fit import fit as fit
    from permrank.learning.checkpoints import Checkpoint as Checkpoint
    from permrank.learning.engines import RayEngine as RayEngine
    from permrank.rankings.rankings import Rankings as Rankings
    from permrank.rankings.selection import hold_out as hold_out

__version__ = "0.2.0.dev0"

_PROTOCOLS = ("Folds", "Given", "LeaveOut", "StrongGeneralisation", "Temporal", "WeakGeneralisation")
# Public name to the module that has it.
_HOME = {
    **_MODELS,
    **dict.fromkeys(_PROTOCOLS, "permrank.evaluation.protocols"),
    "Ask": "permrank.evaluation.pairs",
    "Catalogue": "permrank.evaluation.catalogue",
    "Checkpoint": "permrank.learning.checkpoints",
    "ColdItems": "permrank.evaluation.cold",
    "ColdUsers": "permrank.evaluation.cold",
    "Comparison": "permrank.evaluation.comparison",
    "Estimate": "permrank.core.estimates",
    "Evaluation": "permrank.evaluation.evaluate",
    "Pairs": "permrank.evaluation.pairs",
    "Person": "permrank.core.person",
    "Ranker": "permrank.core.ranker",
    "Rankings": "permrank.rankings.rankings",
    "RayEngine": "permrank.learning.engines",
    "Split": "permrank.evaluation.split",
    "Tuning": "permrank.evaluation.tune",
    "Validation": "permrank.evaluation.validation",
    "choose_communities": "permrank.evaluation.number_of_communities",
    "compare": "permrank.evaluation.compare",
    "evaluate": "permrank.evaluation.evaluate",
    "fit": "permrank.interfaces.fit",
    "goodness_of_fit": "permrank.evaluation.goodness_of_fit",
    "hold_out": "permrank.rankings.selection",
    "likelihood_ratio_test": "permrank.evaluation.likelihood_ratio",
    "load": "permrank.core.model_files",
    "read": "permrank.files.formats",
    "register": "permrank.core.registry",
    "tune": "permrank.evaluation.tune",
}
# Public name to the module that it is.
_MODULES = {
    "datasets": "permrank.files.datasets",
    "errors": "permrank.errors",
    "metrics": "permrank.evaluation.metrics",
    "plots": "permrank.interfaces.plots",
}
__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'permrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
