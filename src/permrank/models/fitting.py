"""What `fit` does to a model: learn, and take over what was learnt only when that has succeeded."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permrank.data.joining import joined
from permrank.data.validate import require_rankings
from permrank.data.with_attributes import to_learn_from
from permrank.errors import FeaturesWarning, InputError
from permrank.learning.fit import Job, learn, warn_if_unfinished
from permrank.models.estimates import Estimate
from permrank.models.parameters import changed_params
from permrank.types import Callback, Named

if TYPE_CHECKING:
    from permrank.data.rankings import Rankings
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.early_stopping import ValidationProtocol
    from permrank.models.ranker import Ranker

# Attributes of every fitted model.
_OF_EVERY_MODEL = frozenset(
    ("best_iter_", "converged_", "estimate_", "fit_seconds_", "fitted_params_", "history_", "n_iter_", "rankings_",
     "validation_")
)  # fmt: skip


def require_evidence(model: Ranker, rankings: Rankings) -> None:
    """Raise if there is nothing to learn from; ratings say something even if every user gives one only."""
    if rankings.n_entries == 0:
        raise InputError("there is nothing to learn from: no ranking has an item")
    if model.needs_order and rankings.n_items > 1 and rankings.ratings is None and not rankings.has_order:
        raise InputError(
            f"these data have no order: no ranking puts one item before another, and {type(model).__name__} learns "
            "from nothing else. Take Recommender() or Popularity(count='listed'), which learn from what people took "
            "up; or, if that is above all that they left out, unlisted='last' (--unlisted last)"
        )


def warn_of_unlearnt(model: Ranker, rankings: Rankings) -> None:
    """Warn of features and links that the model does not learn from."""
    learnt = model._learns_from(rankings)
    unlearnt = [kind for kind in to_learn_from(rankings) if kind not in learnt]
    if unlearnt:
        warnings.warn(
            f"{model._call()} does not learn from {' or '.join(unlearnt)}; Recommender and FactoredPlackettLuce do. "
            "Leave them out where that is meant: with_features(items=False, users=False), with_links(False)",
            FeaturesWarning,
            stacklevel=2,
        )


def more_rankings(model: Ranker, rankings: object, of_learning: frozenset[str]) -> Rankings:
    """What a fitted model has learnt from together with more, for `partial_fit`.

    of_learning: parameters that may differ from those of the fit.
    """
    model._require_fitted()
    model._validate()
    for name in set(changed_params(model)) - of_learning:
        raise InputError(
            f"{name}={getattr(model, name)!r} was set after fit, which learnt with {model.fitted_params_[name]!r}; "
            "set it back to go on, or fit all the data anew"
        )
    if require_rankings(rankings).n_entries == 0:
        raise InputError("there is nothing to add: no ranking has an item")
    return joined(model.rankings_, require_rankings(rankings))


def learn_into(
    model: Ranker,
    job: Job[Any],
    callback: Callback | None,
    verbose: bool | None,
    checkpoint: Checkpoint | str | Path | None,
    validation: ValidationProtocol | None = None,
) -> None:
    """Learn what a job says, and make it the model's; a fit that fails leaves the model as it was."""

    def model_of(estimate: Estimate) -> Ranker:
        shadow = model.clone()
        shadow._take(job.rankings, estimate)
        return shadow

    def rebuilt(tensors: Named) -> Estimate:
        return model.estimate_type.of(tensors, model._rules())

    warn_of_unlearnt(model, job.rankings)
    begin = time.perf_counter()
    outcome = learn(job, callback, verbose, checkpoint, validation, model_of, rebuilt)
    _require_estimate(model, outcome.fitted.estimate)
    model._take(job.rankings, outcome.fitted.estimate)
    model.history_ = outcome.fitted.history
    model.n_iter_ = len(model.history_)
    model.validation_, model.best_iter_ = outcome.curve, outcome.best_iter
    model.converged_ = outcome.fitted.converged
    model.fit_seconds_ = time.perf_counter() - begin
    warn_if_unfinished(job, outcome)


def _require_estimate(model: Ranker, estimate: object) -> None:
    """Raise if a model that is being written has learnt something that its answers and files cannot hold."""
    name, wanted = type(model).__name__, model.estimate_type
    if not isinstance(estimate, wanted) or (wanted is Estimate and type(estimate) is not Estimate):
        raise TypeError(
            f"{name} has learnt {type(estimate).__name__}, expected {wanted.__name__}: return an Estimate from _learn "
            "or _learner, and name its class in estimate_type"
        )
    taken = sorted(set(wanted.names()) & _OF_EVERY_MODEL)
    if taken:
        raise TypeError(f"{wanted.__name__} has the field {taken[0][:-1]!r}, which every model has; call it otherwise")
