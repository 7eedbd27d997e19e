"""`tune`: parameters of a model by their score on held-out parts of the training data, with Optuna."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.checks import a_seed, whole_from
from permrank.data.rankings import Rankings, require_rankings
from permrank.errors import FormatError, InputError, NotSupportedError, PermrankError, UnknownIdError
from permrank.evaluation.evaluate import evaluate, usual_metrics
from permrank.evaluation.metrics import METRICS
from permrank.evaluation.protocols import LeaveOut, Protocol, usual_protocol
from permrank.evaluation.split import Split
from permrank.learning.interrupts import ending_at_once
from permrank.models.ranker import Ranker
from permrank.models.search_spaces import Choice, Range, Space, Whole
from permrank.randomness import stream_key
from permrank.storage.atomic import require_file_or_nothing
from permrank.storage.container import as_json

if TYPE_CHECKING:
    import optuna

# Splits for validation have seeds from here on: not those of a comparison, which counts from 0.
_FIRST_SEED = 1000
# The share of a list that is held out for validation: enough to judge by, little enough to learn as from all of it.
_SHARE = 0.2
_NUMBER = "number"
# Proposals that were tried before until a search is given up; the second half of them is drawn at random.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Tuning:
    """What `tune` has found.

    Attributes
    ----------
    model : Ranker
        With the best parameters, not fitted.
    metric : str
    trials : polars.DataFrame
        A row a trial: ``trial`` (the first has the parameters as they were given), ``score`` (the mean over the
        validation splits; null if the trial was given up), ``seconds``, ``parameters``, ``note``.
    """

    model: Ranker
    metric: str
    trials: pl.DataFrame

    @property
    def first(self) -> float:
        """Validation score of the parameters as they were given."""
        return float(self.trials["score"].fill_null(float("nan"))[0])

    @property
    def best(self) -> float:
        """Validation score of the best parameters: never below `first`, and as a maximum a little too good."""
        return float(np.asarray(self.trials["score"].drop_nulls()).max())

    def __repr__(self) -> str:
        return f"Tuning({self.metric} {self.first:.4f} -> {self.best:.4f} in {self.trials.height} trials: {self.model})"


def usual_validation(rankings: Rankings) -> Protocol:
    """A protocol that leaves nearly everything to learn from: a fifth of a usual list is held out, at least two."""
    usual = usual_protocol(rankings)
    length = float(np.median(np.diff(rankings.indptr))) if usual.measures_order else 0.0
    return LeaveOut(max(2, round(_SHARE * length))) if length >= 4 else usual


def tune(
    model: Ranker,
    data: Rankings | Split,
    *,
    trials: int = 30,
    study: str | Path | None = None,
    protocol: Protocol | None = None,
    splits: int = 3,
    metric: str | None = None,
    seed: int = 0,
    on_trial: Callable[[pl.DataFrame], None] | None = None,
    **options: Any,
) -> Tuning:
    """Choose parameters of a model by their score on held-out parts of the training data.

    Each model declares what is worth choosing (its ``space``); all other parameters stay as they are in the given
    model, whose own parameters are the first trial. The others are proposed by Optuna (tree-structured Parzen
    estimators). A trial that is below the median of the others on the first splits is given up.

    Parameters
    ----------
    model : Ranker
    data : Rankings or Split
        What to learn from. Of a split only the training part is looked at.
    trials : int
        In all, those that the study holds already included; fewer if there is nothing else to try.
    study : str or Path, optional
        An SQLite file that keeps the trials: if it is there already, the search goes on from it, to the same trials
        as if it had never been broken off. One run at a time.
    protocol : Protocol, optional
        How validation parts are held out; a fifth of every list if not given.
    splits : int
        Validation splits of a trial.
    metric : str, optional
        What to raise: a name of docs/metrics.md; what fits the data if not given.
    seed : int
        Of the proposals.
    on_trial : callable, optional
        Called with the trials so far after each.
    **options
        As for `evaluate`: ``k``, ``candidates``, ``relevant_from``, ``max_seconds``.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=100, n_items=20, separation=0.0)
    >>> found = pr.tune(pr.Borda(), rankings, trials=5)
    >>> found.best >= found.first, found.trials.height
    (True, 5)
    """
    whole_from("trials", trials, 1)
    whole_from("splits", splits, 1)
    a_seed(seed)
    rankings = data.train if isinstance(data, Split) else require_rankings(data)
    space = space_of(model)
    if not rankings.has_ties and len(space) > 1:
        space.pop("ties", None)  # it makes no difference, and trials are dear
    chosen = protocol or usual_validation(rankings)
    parts = [chosen.split(rankings, _FIRST_SEED + number) for number in range(splits)]
    metric = metric or usual_metrics(parts[0].test, ordered=chosen.measures_order)[0]
    if metric not in METRICS:
        raise UnknownIdError("metric", metric, METRICS)
    if metric == "calibration_error":
        raise InputError("calibration_error is of all people together; tune by log_likelihood or by an order")
    work = {
        "model": type(model).__name__, "parameters": as_json(model.get_params()), "data": rankings.fingerprint,
        "protocol": repr(chosen), "splits": splits, "metric": metric, "seed": seed,
        "options": as_json(dict(sorted(options.items()))),
    }  # fmt: skip
    with _optuna() as optuna, ending_at_once(), _naming(study):
        found = _study(optuna, study, work)
        while (done := len(_finished(found))) < trials:
            if done == 0:
                found.enqueue_trial(_as_trial(space, model), skip_if_exists=True)
            proposed = _proposed(optuna, found, space, seed)
            if proposed is None:  # everything there is has been tried
                break
            _run(proposed[0], found, model, proposed[1], parts, metric, options)
            if on_trial is not None:
                on_trial(_frame(found))
        frame = _frame(found).head(trials)
    best = frame["score"].arg_max()
    if best is None:
        raise InputError(f"no trial had a score; the first says: {frame['note'][0]}")
    return Tuning(model.clone().set_params(**json.loads(_finished(found)[best].user_attrs["chosen"])), metric, frame)


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
    # Ranges are of all scales alike, on which 0 has no place: it is a choice of its own.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        low: Any = min(known.low, value)
        high: Any = max(known.high, value)
        return known._replace(low=low, high=high)
    return known if value in known.also else known._replace(also=(*known.also, value))


def _as_trial(space: Space, model: Ranker) -> dict[str, Any]:
    """The model's own parameters in the names of `_suggested`."""
    found: dict[str, Any] = {}
    for name, known in space.items():
        value = getattr(model, name)
        if not isinstance(known, Choice) and known.also:
            found[f"{name} is"] = value if value in known.also else _NUMBER
        if isinstance(known, Choice) or value not in known.also:
            found[name] = value
    return found


def _suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
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


def _proposed(optuna: Any, study: Any, space: Space, seed: int) -> tuple[optuna.Trial, dict[str, Any]] | None:
    """A trial and its parameters, other than all tried before (they would come out the same); None if none is left."""
    tried = [trial.user_attrs["chosen"] for trial in _finished(study)]
    for attempt in range(_ATTEMPTS):
        # Keyed by what is finished, so that a search that was broken off goes on as it would have.
        key = int(stream_key(seed, len(tried), attempt)) % 2**32
        sampler = optuna.samplers.TPESampler(seed=key, multivariate=False)
        study.sampler = sampler if attempt < _ATTEMPTS // 2 else optuna.samplers.RandomSampler(seed=key)
        trial = study.ask()
        parameters = _suggested(trial, space)
        if as_json(parameters) not in tried:
            trial.set_user_attr("chosen", as_json(parameters))
            return trial, parameters
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return None


def _run(
    trial: optuna.Trial,
    study: optuna.Study,
    model: Ranker,
    parameters: dict[str, Any],
    parts: list[Split],
    metric: str,
    options: dict[str, Any],
) -> None:
    """One trial: the mean over the splits, given up early if it is below the median of the others so far."""
    from optuna.trial import TrialState

    begin = time.perf_counter()
    scores: list[float] = []
    note, mean = "", None
    for number, part in enumerate(parts):
        seeded = model.clone().set_params(**parameters)
        if "seed" in seeded.get_params():
            seeded.set_params(seed=part.seed)
        try:
            scores.append(evaluate(seeded, part, metrics=[metric], **options).means()[metric])
        except PermrankError as error:
            note = " ".join(str(error).split())
            break
        if not np.isfinite(scores[-1]):
            note = f"nobody in the validation part has {metric}"
            break
        mean = float(np.mean(scores))
        trial.report(mean, number)
        if number + 1 < len(parts) and trial.should_prune():
            note = f"given up at {mean:.4f} after {number + 1} of {len(parts)} splits"
            break
    trial.set_user_attr("seconds", time.perf_counter() - begin)
    trial.set_user_attr("note", note)
    if note:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, mean)


def _study(optuna: Any, path: str | Path | None, work: dict[str, Any]) -> Any:
    """The study in a file, or a new one; one of other work raises. Trials that a killed run left open are closed."""
    storage = None if path is None else _storage(optuna, Path(path).expanduser())
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5)
    study = optuna.create_study(
        study_name="permrank", storage=storage, direction="maximize", load_if_exists=True, pruner=pruner
    )
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

    require_file_or_nothing(path)
    try:
        return optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
    except (SQLAlchemyError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"{path} is not a study of this version of Optuna ({reason}); give another file") from error


@contextlib.contextmanager
def _naming(path: str | Path | None) -> Iterator[None]:
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


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def _frame(study: optuna.Study) -> pl.DataFrame:
    rows = []
    for number, trial in enumerate(_finished(study)):
        given = json.loads(trial.user_attrs["chosen"])
        rows.append(
            {
                "trial": number + 1,
                "score": None if trial.user_attrs["note"] else trial.value,
                "seconds": trial.user_attrs["seconds"],
                "parameters": ", ".join(f"{name}={_shown(value)}" for name, value in given.items()),
                "note": trial.user_attrs["note"],
            }
        )
    kinds = {"trial": pl.Int64, "score": pl.Float64, "seconds": pl.Float64, "parameters": pl.String, "note": pl.String}
    return pl.DataFrame(rows, schema=kinds)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def _optuna() -> Iterator[Any]:
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
