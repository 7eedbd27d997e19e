"""What `fit` puts round a learner: progress, Ctrl-C, validation, a checkpoint, and warnings about the end."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from permrank.errors import ConvergenceWarning, NotSupportedError, StoppedWarning
from permrank.files.container import as_json
from permrank.learning.early_stopping import E, ValidationProtocol, early_stopping_by
from permrank.learning.interrupts import Interrupt, stopping_at_sweep
from permrank.learning.learner import Fitted, Hook, Learner, run
from permrank.learning.progress import Report, progress_bar
from permrank.rankings.rankings import Rankings
from permrank.types import Callback, Float64Array, Named

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint


class Job(NamedTuple, Generic[E]):
    """What is to be learnt.

    Attributes
    ----------
    name : str
        Of the model, for messages.
    learner : callable
        Prepares the learner; the preparation may take time.
    max_iter : int
    rankings : Rankings
    parameters : dict
        Of the model: with the data they say whose checkpoint a file is.
    started_from : str
        What else the bits depend on.
    """

    name: str
    learner: Callable[[], Learner[E]]
    max_iter: int
    rankings: Rankings
    parameters: Named
    started_from: str = "nothing"


class Outcome(NamedTuple, Generic[E]):
    """What was learnt, and how.

    Attributes
    ----------
    fitted : Fitted
    curve : float64 (n, 2)
        Sweep and score of every measurement on held-out data.
    best_iter : int
        The sweep that the estimate is of.
    interrupted : bool
        Whether Ctrl-C was pressed.
    """

    fitted: Fitted[E]
    curve: Float64Array
    best_iter: int
    interrupted: bool


def learn(
    job: Job[E],
    callback: Callback | None,
    verbose: bool | None,
    checkpoint: Checkpoint | str | Path | None,
    validation: ValidationProtocol | None,
    model_of: Callable[[E], Any],
    rebuilt: Callable[[Named], E],
) -> Outcome[E]:
    """Run the learner of a job.

    ``model_of`` puts an estimate into a model, which the validation judges; ``rebuilt`` makes one of its tensors.
    """
    watch = store = None
    if validation is not None:
        watch = early_stopping_by(model_of, rebuilt, job.rankings, validation)
    if checkpoint is not None:
        from permrank.learning.checkpoints import CheckpointStore

        identity = {
            "class": job.name,
            "parameters": as_json(job.parameters),
            "fingerprint": job.rankings.fingerprint,
            "validation": validation.work if validation else "none",
            "started_from": job.started_from,
        }
        store = CheckpointStore(checkpoint, identity)
    interrupt = Interrupt()
    with progress_bar(job.name, verbose) as show, stopping_at_sweep(interrupt):
        every: list[Hook | None] = [watch, Report(show, callback), interrupt, store]
        hooks = [hook for hook in every if hook is not None]
        fitted = run(job.learner(), max_iter=job.max_iter, hooks=hooks, kept=store.read() if store else None)
        n_sweeps = len(fitted.history)
        if watch is None:
            return Outcome(fitted, np.zeros((0, 2)), n_sweeps, interrupt.pressed)
        # Inside: Ctrl-C during the last measurement must not cost what was learnt.
        fitted = fitted._replace(estimate=watch.best_or_last(n_sweeps, fitted.estimate))
    return Outcome(fitted, watch.curve, watch.best_iter, interrupt.pressed)


def require_resumable(name: str, resumable: bool, **wanted: object) -> None:
    """Raise if a checkpoint or a validation is wanted of a model that learns at one go."""
    for kind, value in wanted.items():
        if value is not None and not resumable:
            raise NotSupportedError(
                f"{name} does not support checkpoints or validation with these settings; fit it without a {kind}"
            )


def as_digest(*arrays: Any) -> str:
    """A short name of arrays, the same for the same bits only."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def warn_if_unfinished(job: Job[Any], outcome: Outcome[Any]) -> None:
    """Warn if Ctrl-C was pressed, or if sweeps ran out; to the caller of `fit`."""
    fitted, made = outcome.fitted, len(outcome.fitted.history)
    if fitted.stopped and outcome.interrupted and not fitted.converged:
        warnings.warn(
            f"{job.name} was stopped after sweep {made} of at most {job.max_iter}; the estimate is kept",
            StoppedWarning,
            stacklevel=4,
        )
    elif not (fitted.converged or fitted.stopped or fitted.sampled):
        full = made >= job.max_iter
        advice = "Raise max_iter or tol" if full else "No step raised the objective any more: raise tol, or use a prior"
        warnings.warn(
            f"{job.name} did not converge in {made} sweeps; the estimate is kept, and history_ shows how it went. "
            f"{advice}",
            ConvergenceWarning,
            stacklevel=4,
        )
