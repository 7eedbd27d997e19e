"""Learning: what a job says becomes a `Fitted`; a fit that fails leaves the model as it was."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.core.estimates import Estimate
from permrank.core.fitted import E, Fitted, Trace
from permrank.errors import FeaturesWarning, InputError
from permrank.learning.fit import Job, learn, warn_if_unfinished
from permrank.rankings.joining import joined
from permrank.rankings.validate import require_rankings
from permrank.rankings.with_attributes import to_learn_from
from permrank.types import Callback, Named

if TYPE_CHECKING:
    from permrank.core.ranker import Ranker
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.early_stopping import ValidationProtocol
    from permrank.rankings.rankings import Rankings


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


def warn_of_unlearnt(settings: Ranker, rankings: Rankings) -> None:
    """Warn of features and links that the model does not learn from."""
    learnt = settings._learns_from(rankings)
    unlearnt = [kind for kind in to_learn_from(rankings) if kind not in learnt]
    if unlearnt:
        warnings.warn(
            f"{settings.call()} does not learn from {' or '.join(unlearnt)}; Recommender and FactoredPlackettLuce do. "
            "Leave them out where that is meant: with_features(items=False, users=False), with_links(False)",
            FeaturesWarning,
            stacklevel=2,
        )


def more_rankings(model: Ranker, rankings: object, of_learning: frozenset[str]) -> Rankings:
    """What a fitted model has learnt from together with more, for `partial_fit`.

    of_learning: parameters that may differ from those of the fit.
    """
    fitted = model.fitted_
    model._validate()
    before, now = fitted.settings.get_params(), model.get_params()
    for name in sorted(name for name in now if not np.array_equal(now[name], before[name])):
        if name not in of_learning:
            raise InputError(
                f"{name}={now[name]!r} was set after fit, which learnt with {before[name]!r}; set it back to go on, or "
                "fit all the data anew"
            )
    if require_rankings(rankings).n_entries == 0:
        raise InputError("there is nothing to add: no ranking has an item")
    return joined(fitted.rankings, require_rankings(rankings))


def learnt_by(
    settings: Ranker,
    job: Job[E],
    callback: Callback | None,
    verbose: bool | None,
    checkpoint: Checkpoint | str | Path | None,
    validation: ValidationProtocol | None = None,
) -> Fitted[E]:
    """Learn what a job says; the settings belong to the result."""

    def model_of(estimate: E) -> Ranker:
        trace = Trace([], False, 0.0, np.zeros((0, 2)), 0)
        return Fitted(settings, job.rankings, estimate, trace).as_model()

    def rebuilt(tensors: Named) -> E:
        made: Any = settings.estimate_type.of(tensors, settings._rules())
        return made  # type: ignore[no-any-return]

    warn_of_unlearnt(settings, job.rankings)
    begin = time.perf_counter()
    outcome = learn(job, callback, verbose, checkpoint, validation, model_of, rebuilt)
    done, seconds = outcome.fitted, time.perf_counter() - begin
    _require_estimate(settings, done.estimate)
    trace = Trace(done.history, done.converged, seconds, outcome.curve, outcome.best_iter)
    warn_if_unfinished(job, outcome)
    return Fitted(settings, job.rankings, done.estimate, trace)


def _require_estimate(settings: Ranker, estimate: object) -> None:
    """Raise if `_learn` returned the wrong type of estimate."""
    name, wanted = type(settings).__name__, settings.estimate_type
    if not isinstance(estimate, wanted) or (wanted is Estimate and type(estimate) is not Estimate):
        raise TypeError(
            f"{name} has learnt {type(estimate).__name__}, expected {wanted.__name__}: return an Estimate from _learn, "
            "or a learner that has one, and name its class in estimate_type"
        )
