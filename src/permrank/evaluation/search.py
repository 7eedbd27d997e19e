"""What a search may choose: ranges round the parameters given, and what Optuna is asked about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from permrank.core.ranker import Ranker
from permrank.core.settings import Categorical, Integer, Number
from permrank.errors import InputError, NotSupportedError
from permrank.types import Named

if TYPE_CHECKING:
    import optuna

_NUMBER = "number"
Space: TypeAlias = dict[str, Number | Categorical]
"""Parameters to choose, by name: declarations of which ``tune`` and ``tune_also`` count."""


def space_of(model: Ranker) -> Space:
    """What there is to choose for this model as it is set; ranges are widened to hold its own parameters."""
    if not isinstance(model, Ranker):
        raise InputError(f"expected a model, got {type(model).__name__}")
    given, found = model.get_params(), Space()
    for name, known in model.parameters.items():
        if not known.tuned or name not in given or not isinstance(known, (Number, Categorical)):
            continue
        if known.when is None or given[known.when[0]] == known.when[1]:
            found[name] = _widened(known, given[name])
    if not found:
        raise NotSupportedError(f"{model!r} has no parameters to choose")
    return found


def _widened(known: Number | Categorical, value: Any) -> Number | Categorical:
    if isinstance(known, Categorical):
        return known if value in known.tune else replace(known, tune=(*known.tune, value))
    # Ranges are logarithmic, so that 0 is a choice of its own.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        low, high = _ends(known)
        return replace(known, tune=(min(low, value), max(high, value)))
    return known if value in known.tune_also else replace(known, tune_also=(*known.tune_also, value))


def _ends(known: Number) -> tuple[Any, Any]:
    assert known.tune is not None
    return known.tune


def as_trial(space: Space, model: Ranker) -> Named:
    """The model's own parameters in the names of `suggested`."""
    found: Named = {}
    for name, known in space.items():
        value = getattr(model, name)
        if not isinstance(known, Categorical) and known.tune_also:
            found[f"{name} is"] = value if value in known.tune_also else _NUMBER
        if isinstance(known, Categorical) or value not in known.tune_also:
            found[name] = value
    return found


def suggested(trial: optuna.Trial, space: Space) -> Named:
    """Parameters that Optuna proposes for a trial."""
    found: Named = {}
    for name, known in space.items():
        if isinstance(known, Categorical):
            found[name] = trial.suggest_categorical(name, known.tune)
            continue
        low, high = _ends(known)
        also = known.tune_also
        kind = trial.suggest_categorical(f"{name} is", (*also, _NUMBER)) if also else _NUMBER
        if kind != _NUMBER:
            found[name] = kind
        elif isinstance(known, Integer):
            found[name] = trial.suggest_int(name, low, high, log=True)
        else:
            found[name] = trial.suggest_float(name, low, high, log=True)
    return found
