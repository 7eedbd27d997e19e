"""What `fit` does before and after learning."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from permrank.data.rankings import Rankings
from permrank.errors import ConvergenceWarning, NotSupportedError, StoppedWarning
from permrank.learning.early_stopping import Estimate, Watch
from permrank.learning.learner import Monitor, Store
from permrank.storage.container import as_json

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint
    from permrank.learning.validation import Validating


class Learning(Protocol):
    """What `prepared` must know of a model."""

    @property
    def resumable(self) -> bool:
        """Whether it learns in sweeps that may end anywhere."""

    def get_params(self) -> dict[str, Any]:
        """Parameters by name."""

    def _with_estimate(self, rankings: Rankings, estimate: Estimate) -> Any:
        """A copy of the model that answers by an estimate."""


def prepared(
    model: Learning,
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
        from permrank.learning.validation import watch_over

        watch = watch_over(lambda estimate: model._with_estimate(rankings, estimate), rankings, validation)
    if checkpoint is not None:
        from permrank.learning.checkpoints import CheckpointStore

        identity = {
            "class": type(model).__name__,
            "parameters": as_json(model.get_params()),
            "fingerprint": rankings.fingerprint,
            "validation": validation.work if validation else "none",
            "begun": begun,
        }
        store = CheckpointStore(checkpoint, identity)
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
