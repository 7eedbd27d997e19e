"""What a search may choose: ranges round the parameters given, and what Optuna is asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from permrank.errors import InputError, NotSupportedError
from permrank.models.ranker import Ranker
from permrank.models.search_spaces import Choice, Range, Space, Whole

if TYPE_CHECKING:
    import optuna

_NUMBER = "number"


def space_of(model: Ranker) -> Space:
    """What there is to choose for this model as it is set; ranges are widened to hold its own parameters."""
    if not isinstance(model, Ranker):
        raise InputError(f"expected a model, got {type(model).__name__}")
    given, found = model.get_params(), Space()
    for name, known in model.space.items():
        if known.when is None or given[known.when[0]] == known.when[1]:
            found[name] = _widened(known, given[name])
    if not found:
        raise NotSupportedError(f"{model!r} has no parameters to choose")
    return found


def _widened(known: Range, value: Any) -> Range:
    if isinstance(known, Choice):
        return known if value in known.options else known._replace(options=(*known.options, value))
    # Ranges are logarithmic, so that 0 is a choice of its own.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        low: Any = min(known.low, value)
        high: Any = max(known.high, value)
        return known._replace(low=low, high=high)
    return known if value in known.also else known._replace(also=(*known.also, value))


def as_trial(space: Space, model: Ranker) -> dict[str, Any]:
    """The model's own parameters in the names of `suggested`."""
    found: dict[str, Any] = {}
    for name, known in space.items():
        value = getattr(model, name)
        if not isinstance(known, Choice) and known.also:
            found[f"{name} is"] = value if value in known.also else _NUMBER
        if isinstance(known, Choice) or value not in known.also:
            found[name] = value
    return found


def suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Parameters that Optuna proposes for a trial."""
    found: dict[str, Any] = {}
    for name, known in space.items():
        if isinstance(known, Choice):
            found[name] = trial.suggest_categorical(name, known.options)
            continue
        kind = trial.suggest_categorical(f"{name} is", (*known.also, _NUMBER)) if known.also else _NUMBER
        if kind != _NUMBER:
            found[name] = kind
        elif isinstance(known, Whole):
            found[name] = trial.suggest_int(name, known.low, known.high, log=True)
        else:
            found[name] = trial.suggest_float(name, known.low, known.high, log=True)
    return found
