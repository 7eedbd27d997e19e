"""The driver of `fit`: learning with its hooks becomes a `Fitted`; a fit that fails leaves the model as it was."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple

import numpy as np

from permrank.core.estimates import Estimate
from permrank.core.fitted import E, Fitted, Trace
from permrank.errors import ConvergenceWarning, FeaturesWarning, InputError, NotSupportedError, StoppedWarning
from permrank.files.container import as_json
from permrank.learning.hooks import EarlyStopping, Interrupt, Report, progress_bar, stopping_at_sweep
from permrank.learning.learner import Hook, Learner, Outcome, run
from permrank.rankings.joining import joined
from permrank.rankings.validate import require_rankings
from permrank.rankings.with_attributes import to_learn_from
from permrank.types import Array, Callback, Named

if TYPE_CHECKING:
    from permrank.core.ranker import Ranker
    from permrank.learning.checkpoints import Checkpoint, CheckpointStore
    from permrank.learning.hooks import ValidationProtocol
    from permrank.rankings.rankings import Rankings


class Job(NamedTuple, Generic[E]):
    """What is to be learnt.

    Attributes
    ----------
    settings : Ranker
        They belong to the result.
    rankings : Rankings
    learner : callable
        Prepares the learner; the preparation may take time.
    n_sweeps : int
        The most that will be made.
    started_from : str
        What the bits depend on beside rankings and parameters.
    """

    settings: Ranker
    rankings: Rankings
    learner: Callable[[], Learner[E]]
    n_sweeps: int
    started_from: str = "nothing"


def learnt_by(
    job: Job[E],
    callback: Callback | None,
    verbose: bool | None,
    checkpoint: Checkpoint | str | Path | None,
    validation: ValidationProtocol | None = None,
) -> Fitted[E]:
    """Run the learner of a job, with progress, Ctrl-C, a validation and a checkpoint, and warn about its end."""
    settings, rankings = job.settings, job.rankings
    _warn_of_unlearnt(settings, rankings)
    begin = time.perf_counter()
    watch = None if validation is None else _early_stopping(job, validation)
    store = None if checkpoint is None else _store(job, checkpoint, validation)
    interrupt, curve = Interrupt(), np.zeros((0, 2))
    with progress_bar(type(settings).__name__, verbose) as show, stopping_at_sweep(interrupt):
        every: list[Hook | None] = [watch, Report(show, callback), interrupt, store]
        hooks = [hook for hook in every if hook is not None]
        outcome = run(job.learner(), max_iter=job.n_sweeps, hooks=hooks, kept=store.read() if store else None)
        estimate, best_iter = outcome.estimate, len(outcome.history)
        if watch is not None:  # inside: Ctrl-C during the last measurement must not cost what was learnt
            estimate = watch.best_or_last(best_iter, estimate)
            curve, best_iter = watch.curve, watch.best_iter
    seconds = time.perf_counter() - begin
    _require_estimate(settings, estimate)
    _warn_if_unfinished(job, outcome, interrupted=interrupt.pressed)
    trace = Trace(outcome.history, outcome.converged, seconds, curve, best_iter)
    return Fitted(settings, rankings, estimate, trace)


def _early_stopping(job: Job[E], validation: ValidationProtocol) -> EarlyStopping[E]:
    """A hook that has the model of every estimate judged."""
    if isinstance(validation, type) or not callable(getattr(validation, "judge", None)):
        raise InputError(f"validation={validation!r}, expected permrank.Validation(held-out rankings)")
    settings, judge = job.settings, validation.judge(job.rankings)

    def score(estimate: E) -> float:
        trace = Trace([], False, 0.0, np.zeros((0, 2)), 0)
        return judge(Fitted(settings, job.rankings, estimate, trace).as_model())

    def rebuilt(tensors: Named) -> E:
        estimate: E = settings.estimate_type.of(tensors, settings._rules())  # type: ignore[assignment]
        return estimate

    return EarlyStopping(score, validation.every, validation.patience, rebuilt)


def _store(job: Job[E], checkpoint: Checkpoint | str | Path, validation: ValidationProtocol | None) -> CheckpointStore:
    from permrank.learning.checkpoints import CheckpointStore

    identity = {
        "class": type(job.settings).__name__,
        "parameters": as_json(job.settings.get_params()),
        "fingerprint": job.rankings.fingerprint,
        "validation": validation.work if validation else "none",
        "started_from": job.started_from,
    }
    return CheckpointStore(checkpoint, identity)


def as_digest(*arrays: Array) -> str:
    """A short name of arrays, the same for the same bits only."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


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


# Refusals and warnings


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


def require_resumable(model: Ranker, **wanted: object) -> None:
    """Raise if a checkpoint or a validation is wanted of a model that learns at one go."""
    for kind, value in wanted.items():
        if value is not None and not model.resumable:
            raise NotSupportedError(
                f"{type(model).__name__} does not support checkpoints or validation with these settings; fit it "
                f"without a {kind}"
            )


def _require_estimate(settings: Ranker, estimate: object) -> None:
    """Raise if `_learn` returned the wrong type of estimate."""
    name, wanted = type(settings).__name__, settings.estimate_type
    if not isinstance(estimate, wanted) or (wanted is Estimate and type(estimate) is not Estimate):
        raise TypeError(
            f"{name} has learnt {type(estimate).__name__}, expected {wanted.__name__}: return an Estimate from _learn, "
            "or a learner that has one, and name its class in estimate_type"
        )


def _warn_of_unlearnt(settings: Ranker, rankings: Rankings) -> None:
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


def _warn_if_unfinished(job: Job[E], outcome: Outcome[E], *, interrupted: bool) -> None:
    """Warn if Ctrl-C was pressed, or if sweeps ran out; to the caller of `fit`."""
    name, made = type(job.settings).__name__, len(outcome.history)
    if outcome.stopped and interrupted and not outcome.converged:
        warnings.warn(
            f"{name} was stopped after sweep {made} of at most {job.n_sweeps}; the estimate is kept",
            StoppedWarning,
            stacklevel=4,
        )
    elif not (outcome.converged or outcome.stopped or outcome.sampled):
        full = made >= job.n_sweeps
        advice = "Raise max_iter or tol" if full else "No step raised the objective any more: raise tol, or use a prior"
        warnings.warn(
            f"{name} did not converge in {made} sweeps; the estimate is kept, and history_ shows how it went. {advice}",
            ConvergenceWarning,
            stacklevel=4,
        )
