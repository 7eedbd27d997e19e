"""Models that the command line names: when to use each; by name, or as ``module:Class`` where they are not installed.

Naming a module runs it, as ``python -m module`` does; so only the command line can, never a model file.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.interfaces.output import say

if TYPE_CHECKING:
    import polars as pl

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .permrank file that 'fit' has written.")]
OwnClass = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODULE:CLASS", help="Class of the file, if it is yours and not installed."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter, see 'permrank info MODEL'; may be repeated."),
]

# Of every kind its models and when to use each.
GUIDE: dict[str, dict[str, str]] = {
    "find and order: what would somebody choose, of everything": {
        "Recommender": "ratings, clicks or chosen lists, and you want recommendations: begin here",
        "ItemToItem": "only what is taken up matters, and reasons should be items",
        "ImplicitFactors": "the same, by a few factors of each item",
    },
    "order, personal: how somebody ranks what they see": {
        "FactoredPlackettLuce": "ratings or lists of many items, with calibrated probabilities",
        "FactoredThurstone": "pairs or lists of one sitting, and questions to ask next",
        "LatentPlackettLuce": "people fall into groups that you want to see",
        "PairwiseFactorisation": "an order in a fraction of a second, probabilities of pairs",
        "PositionwiseLogLinear": "short strict lists, as careful at the bottom as at the top",
        "PairwiseLogLinear": "short strict lists, and pairs of items that attract or repel",
        "LatentPreference": "groups that compare in pairs (pLPA)",
        "CofiRank": "to compare with a matrix factorisation for NDCG",
        "ListNet": "items or people have features",
    },
    "one order for all: how good is each item": {
        "PlackettLuce": "ballots, races, surveys of the same items; worths with standard errors",
        "BradleyTerry": "comparisons in pairs, also with draws",
        "Mallows": "a consensus, and how far people stray from it",
        "SpectralAnalysis": "to describe counts of orders of few items, without a model",
    },
    "baselines: what a model has to beat": {
        "MeanRating": "ratings: level of the user plus level of the item",
        "Popularity": "what most people like or take up",
        "Borda": "a voting rule: share of comparisons won",
        "Copeland": "a voting rule: majorities won",
        "Random": "the level of chance",
    },
}


def make_model(name: str, settings: list[str]) -> pr.Ranker:
    """Build a model from its name (PlackettLuce, plackett-luce or module:Class) and ``key=value`` settings."""
    kind = class_named(name)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [one for one in inspect.signature(kind).parameters.values() if one.kind not in several]
    required = ", ".join(one.name for one in parameters if one.default is one.empty)
    if required:
        raise InputError(f"{kind.__name__} cannot be made without {required}; give every parameter a default")
    model = kind()
    return model.set_params(**dict(_setting(text, model) for text in settings))


def chosen_model(rankings: pr.Rankings, settings: list[str]) -> pr.Ranker:
    """A model that fits the data, which is said, with ``key=value`` settings."""
    from permrank.interfaces.fit import choose_model

    model, reason = choose_model(rankings)
    say(f"{type(model).__name__}, since these are {reason} (-m takes another)", err=True)
    return model.set_params(**dict(_setting(text, model) for text in settings))


def load_model(path: str | Path, own: str | None) -> pr.Ranker:
    """Read a model file; ``own`` is the ``module:Class`` that it may hold."""
    return pr.load(path, models=[] if own is None else [class_named(own)])


def class_named(name: str) -> type[pr.Ranker]:
    """Class of a model by its name in any spelling, or by its module."""
    from permrank.core.registry import find, names

    module, separator, attribute = name.partition(":")
    if separator and attribute.isidentifier() and module not in names():  # borda.py may hold models; Borda is one
        return _imported(module, attribute)
    known = known_name(name)
    if known is None:
        raise UnknownIdError("model", name, names())
    return find(known)


def known_name(text: str) -> str | None:
    """Name of a known model in its own spelling, if this is one."""
    from permrank.core.registry import names
    from permrank.families import MODELS

    every = [*MODELS, *names()]
    folded = {_folded(name): name for name in reversed(every)}
    return text if text in every else folded.get(_folded(text))


def name_and_settings(text: str) -> tuple[str, list[str]]:
    """Parts of ``NAME[:KEY=VALUE,...]``, where the name may be a ``module:Class``."""
    from permrank.core.registry import names

    name, _, rest = text.partition(":")
    attribute, _, others = rest.partition(":")
    if attribute.isidentifier() and name not in names():
        name, rest = f"{name}:{attribute}", others
    return name, [part for part in rest.split(",") if part]


def _imported(module: str, attribute: str) -> type[pr.Ranker]:
    """Class of a module, registered for this process, so that what it writes can be read."""
    found = _import_module(module)
    if not hasattr(found, attribute):
        known = [
            name for name, value in vars(found).items() if isinstance(value, type) and issubclass(value, pr.Ranker)
        ]
        raise UnknownIdError(f"class of the module {module}", attribute, known)
    kind: type[pr.Ranker] = pr.register(getattr(found, attribute))
    return kind


def _import_module(name: str) -> ModuleType:
    """Import a module, also from the current folder, as ``python -m`` does (and as little as that with -P)."""
    here = str(Path.cwd())
    if here not in sys.path and not sys.flags.safe_path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"the module {name} cannot be imported: {error}") from error
        raise InputError(
            f"there is no module {name}, neither in the current folder nor among what is installed; "
            "-m module:Class takes what 'import module' would"
        ) from error
    except Exception as error:  # whatever a module may raise when it is imported
        raise InputError(f"the module {name} cannot be imported: {type(error).__name__}: {error}") from error


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _setting(text: str, model: pr.Ranker) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise InputError(f"--set {text!r}, expected key=value, for example --set prior=gaussian")
    if value.lower() in ("none", "null") and value != model.get_params().get(key):  # some say "none" in a word
        return key, None
    try:
        return key, json.loads(value.lower() if value in ("True", "False") else value)
    except json.JSONDecodeError:
        return key, value


def guide() -> pl.DataFrame:
    """Every model, by kind: whether it is personal, when to use it, what it assumes and takes, where it comes from."""
    import polars as pl

    from permrank.core.registry import every

    order = {name: (kind, use) for kind, uses in GUIDE.items() for name, use in uses.items()}
    places = {name: place for place, name in enumerate(order)}
    rows = []
    for model in sorted(every(), key=lambda model: places.get(model.__name__, len(places))):
        said = {name: getattr(model, name, "") for name in ("assumes", "takes", "reference")}
        kind, use = order.get(model.__name__, ("others", said["assumes"]))
        personal = "with components" if model.__name__ == "Mallows" else "yes" if model.personal else "no"
        rows.append({"kind": kind, "model": model.__name__, "personal": personal, "use_when": use, **said})
    return pl.DataFrame(rows)
