"""Where the trials of a search are kept: an Optuna study, in memory or in an SQLite file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from permrank.errors import FormatError, InputError, NotSupportedError
from permrank.files.atomic import require_file_or_nothing
from permrank.types import Named

if TYPE_CHECKING:
    import optuna


def open_study(optuna: Any, path: str | Path | None, work: Named, *, higher_is_better: bool) -> Any:
    """The study in a file, or a new one; one of other work raises. Trials that a killed run left open are closed."""
    storage = None if path is None else _storage(optuna, Path(path).expanduser())
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5)
    study = optuna.create_study(
        study_name="permrank", storage=storage, load_if_exists=True, pruner=pruner,
        direction="maximize" if higher_is_better else "minimize",
    )  # fmt: skip
    before = study.user_attrs.get("work")
    if before is None:
        study.set_user_attr("work", work)
    elif before != work:
        others = ", ".join(f"{name}={before.get(name)!r}" for name in work if before.get(name) != work[name])
        raise InputError(f"{path} holds the trials of other work ({others}); set it so, or give another file")
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _storage(optuna: Any, path: Path) -> Any:
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    require_file_or_nothing(path)
    try:  # no connection outlives the question that it was opened for
        return optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}", engine_kwargs={"poolclass": NullPool})
    except (SQLAlchemyError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"{path} is not a study of this version of Optuna ({reason}); give another file") from error


@contextlib.contextmanager
def naming(path: str | Path | None) -> Iterator[None]:
    """Let an error of the database, such as a full disk, name the file and say what is kept."""
    if path is None:
        yield
        return
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise OSError(f"{path}: {reason}; the trials before are kept in it, and the same search goes on") from error


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that have ended, in their order."""
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def trials_of(study: optuna.Study) -> pl.DataFrame:
    """One row per finished trial; one that was given up or failed has no score."""
    from optuna.trial import TrialState

    rows = []
    for number, trial in enumerate(finished(study)):
        given = json.loads(trial.user_attrs["chosen"])
        rows.append(
            {
                "trial": number + 1,
                "score": trial.value if trial.state == TrialState.COMPLETE else None,
                "seconds": trial.user_attrs["seconds"],
                "parameters": ", ".join(f"{name}={_shown(value)}" for name, value in given.items()),
                "note": trial.user_attrs["note"],
            }
        )
    kinds = {"trial": pl.Int64, "score": pl.Float64, "seconds": pl.Float64, "parameters": pl.String, "note": pl.String}
    return pl.DataFrame(rows, schema=kinds)


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def silent_optuna() -> Iterator[Any]:
    """Optuna, silent: what it says of each trial is said better by a table."""
    try:
        import optuna
    except ImportError as error:
        raise NotSupportedError("tuning needs Optuna: pip install 'permrank[tune]'") from error
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(level)
