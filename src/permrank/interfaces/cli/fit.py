"""``permrank fit``: what surrounds the learning itself."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from permrank.core.ranker import Ranker
from permrank.errors import ConvergenceWarning, EstimateError, InputError, StoppedWarning
from permrank.evaluation.validation import Validation
from permrank.files.atomic import require_file_or_nothing, writable_target
from permrank.interfaces.choosing import with_prior
from permrank.interfaces.output import message_of, printable, say
from permrank.learning.checkpoints import Checkpoint
from permrank.learning.ray_engine import RayEngine
from permrank.rankings.hold_out import hold_out
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

_BARS, _MOST_BARS = "▁▂▃▄▅▆▇█", 40
# Methods that average over the last sweeps.
_AVERAGED = ("draws", "posterior", "contrastive", "persistent")


def require_checkpoint(path: Path | None, every: int, output: Path) -> Checkpoint | None:
    """The checkpoint that was asked for; raises if it cannot be written, or is where the model goes."""
    if path is None:
        return None
    if require_file_or_nothing(path).path == writable_target(output).path:
        raise InputError(f"--checkpoint and --output are both {path}; give two files")
    return Checkpoint(path, every)


def require_engine(engine: str | None, address: str | None, workers: int | None) -> RayEngine | None:
    """The engine that was asked for; None for this process."""
    if engine not in (None, "local", "ray"):
        raise InputError(f"--engine {engine}, expected 'ray', or 'local' for this process")
    if engine == "ray":
        return RayEngine(address, n_workers=workers)
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None:
            raise InputError(f"{name} {value} is for --engine ray; give that too")
    return None


def require_validation(
    rankings: Rankings, share: float | None, metric: str | None, every: int | None, patience: int | None
) -> tuple[Rankings, Validation | None]:
    """What to learn from, and the part that is held out of it."""
    if share is None:
        given = {"--patience": patience, "--validate-every": every, "--metric": metric}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} {value} is for --validate SHARE; give that too, for example --validate 0.2")
        return rankings, None
    if not 0 < share < 1:
        raise InputError(f"--validate {share:g}, expected a share between 0 and 1, for example --validate 0.2")
    train, held = hold_out(rankings, share)
    if held.n_entries == 0:
        raise InputError("no list has three items or more, so that nothing can be held out; fit without --validate")
    return train, Validation(held, metric, **({} if every is None else {"every": every}), patience=patience)


def told_of_validation(model: Ranker, validation: Validation) -> str:
    """The curve in a line, its best, what was written, and how to learn from everything."""
    scores, best, last = model.validation_[:, 1], model.best_iter_, model.n_iter_
    kept = f"stopped after sweep {last}; the estimate of sweep {best} is written"
    if validation.patience is None:
        kept = f"the last ({scores[-1]:.4f}, sweep {last}) is written; --patience N would keep the best"
    elif best == last:
        kept = "it is written"
    also = f" and with --set max_iter={best}" if ends_anywhere(model, model.rankings_) else ""
    return (
        f"{validation.name} by sweeps {sparkline(scores)} best {scores.max():.4f} at sweep {best}; {kept}\n"
        f"{validation.held.n_entries} entries were held out; to learn from them too, fit again without --validate{also}"
    )


def ends_anywhere(model: Ranker, rankings: Rankings) -> bool:
    """Whether ``max_iter=n`` gives the estimate that a longer fit has after n sweeps.

    Not so where it also says which sweeps are kept or averaged, or is counted for each of two parts of learning.
    """
    settings = model.get_params()
    in_parts = model.clone().set_params(max_iter=1)._sweeps(rankings) > 1
    return not (in_parts or settings.get("method") in _AVERAGED)


def sparkline(values: Float64Array) -> str:
    """Values as small bars, the lowest the shortest; of many, some."""
    indices = np.unique(np.linspace(0, values.size - 1, min(values.size, _MOST_BARS)).round().astype(int))
    low, high = values.min(), values.max()
    heights = (values[indices] - low) / (high - low) if high > low else np.ones(indices.size)
    return "".join(_BARS[round(float(height) * (len(_BARS) - 1))] for height in heights)


def learn(
    model: Ranker,
    rankings: Rankings,
    *,
    drop_inestimable: bool,
    checkpoint: Checkpoint | None,
    validation: Validation | None = None,
    chosen: bool = False,
    engine: RayEngine | None = None,
) -> tuple[list[Any], bool]:
    """Fit a model, warnings as one line each; returns the items that were left out, and whether Ctrl-C stopped it.

    One that was chosen by the data, and not by name, gets a prior where it has no estimate without.
    """
    left_out: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        while True:
            try:
                model.fit(rankings, checkpoint=checkpoint, validation=validation, engine=engine)
                break
            except EstimateError as error:
                if chosen and not drop_inestimable and with_prior(model) is not None:
                    model.set_params(prior="gaussian")
                    say("some items have no estimate without a prior: prior=gaussian", err=True)
                    continue
                if not drop_inestimable or not error.items or len(error.items) >= rankings.n_items:
                    raise
                # What is left may be torn apart by what is missing: look again.
                left_out += error.items
                rankings = rankings.drop(items=error.items)
    for warning in caught:
        say(f"warning: {warning.message}", err=True)
    stopped = any(issubclass(warning.category, StoppedWarning) for warning in caught)
    if left_out:
        shown = ", ".join(map(printable, left_out[:20])) + (" ..." if len(left_out) > 20 else "")
        say(f"left out {len(left_out)} items without an estimate: {shown}", err=True)
    return left_out, stopped


def save_somewhere(model: Ranker, output: Path, checkpoint: Checkpoint | None) -> None:
    """Write a model where it was to be, or among temporary files if that fails now; either failure is an error."""
    try:
        model.save(output)
        return
    except BrokenPipeError:
        raise
    except (OSError, InputError) as error:
        reason = message_of(error)
    try:  # in a folder that nobody else may look into, since the file that was to be may have been private
        kept = Path(tempfile.mkdtemp(prefix="permrank-")) / "model.permrank"
        model.save(kept)
    except (OSError, InputError) as error:
        again = f"; the same command goes on from {checkpoint.path}" if checkpoint else ""
        raise InputError(f"{reason}; and the model is lost ({message_of(error)}){again}") from error
    raise InputError(f"{reason}; but the model was written to {kept}")
