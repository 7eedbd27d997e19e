"""What `fit` does to a model: learn, and take over what was learnt only when that has succeeded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permrank.learning.fit import Job, learn, warn_if_unfinished
from permrank.models.estimates import Estimate
from permrank.types import Callback

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.validation import Validating
    from permrank.models.ranker import Ranker


def learn_into(
    model: Ranker,
    job: Job[Any],
    callback: Callback | None,
    verbose: bool | None,
    checkpoint: Checkpoint | str | Path | None,
    validation: Validating | None = None,
) -> None:
    """Learn what a job says, and make it the model's; a fit that fails leaves the model as it was."""

    def model_of(estimate: Estimate) -> Ranker:
        shadow = model.clone()
        shadow._take(job.rankings, estimate)
        return shadow

    def rebuilt(tensors: dict[str, Any]) -> Estimate:
        return model.estimate_type.of(tensors, model._rules())

    begin = time.perf_counter()
    outcome = learn(job, callback, verbose, checkpoint, validation, model_of, rebuilt)
    model._take(job.rankings, outcome.fitted.estimate)
    model.history_ = outcome.fitted.history
    model.n_iter_ = len(model.history_)
    model.validation_, model.best_iter_ = outcome.curve, outcome.best_iter
    model.converged_ = outcome.fitted.converged
    model.fit_seconds_ = time.perf_counter() - begin
    warn_if_unfinished(job, outcome)
