"""What `fit` does before and after learning."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.data.rankings import Rankings
from permrank.errors import ConvergenceWarning, NotSupportedError, StoppedWarning
from permrank.inference.convergence import Monitor, Store
from permrank.inference.validation import Watch

if TYPE_CHECKING:
    from permrank.models.base import Ranker
    from permrank.models.checkpoints import Checkpoint
    from permrank.models.validating import Validating


def prepared(
    model: Ranker,
    rankings: Rankings,
    checkpoint: Checkpoint | str | Path | None,
    validation: Validating | None,
    begun: str = "nothing",
) -> tuple[Store | None, Watch | None]:
    """Where the state is kept, and what watches the estimates; ``begun`` says what learning starts from."""
    for name, wanted in {"checkpoint": checkpoint, "validation": validation}.items():
        if wanted is not None and not model.resumable:
            raise NotSupportedError(
                f"{type(model).__name__} cannot be resumed, nor judged while it learns, as it is set; fit it "
                f"without a {name}"
            )
    watch = store = None
    if validation is not None:
        from permrank.models.validating import watch_over

        watch = watch_over(model, rankings, validation)
    if checkpoint is not None:
        from permrank.models.checkpoints import CheckpointStore

        also = {"validation": validation.work if validation else "none", "begun": begun}
        store = CheckpointStore(checkpoint, model, rankings, also)
    return store, watch


def as_digest(*arrays: Any) -> str:
    """A short name of arrays, the same for the same bits only."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def warn_of_the_end(name: str, monitor: Monitor) -> None:
    """Warn if Ctrl-C was pressed, or if sweeps ran out; to the caller of `fit`."""
    made = len(monitor.history)
    if monitor.stopped and monitor.interrupted:
        warnings.warn(
            f"{name} was stopped after sweep {made} of at most {monitor.max_iter}; the estimate is kept",
            StoppedWarning,
            stacklevel=4,
        )
    elif not monitor.converged and not monitor.stopped:
        full = made >= monitor.max_iter
        advice = "Raise max_iter or tol" if full else "No step raised the objective any more: raise tol, or use a prior"
        warnings.warn(
            f"{name} did not converge in {made} sweeps; the estimate is kept, and history_ shows how it went. {advice}",
            ConvergenceWarning,
            stacklevel=4,
        )
