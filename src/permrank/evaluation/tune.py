"""`tune`: parameters of a model by their score on held-out parts of the training data, with Optuna."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from permrank.checks import require_int, require_seed
from permrank.core.ranker import Ranker
from permrank.core.settings import Categorical, Integer, Number
from permrank.errors import InputError, NotSupportedError, PermrankError
from permrank.evaluation.defaults import (
    default_candidates,
    default_metrics,
    default_validation,
)
from permrank.evaluation.evaluate import evaluate
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.protocols import Protocol
from permrank.evaluation.split import Candidates, Split
from permrank.evaluation.studies import finished, naming, open_study, silent_optuna, trials_of
from permrank.files.container import as_json
from permrank.learning.hooks import ending_at_once
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Named

if TYPE_CHECKING:
    import optuna


# Splits for validation have seeds from here on: not those of a comparison, which counts from 0.
_FIRST_SEED = 1000
# Proposals that were tried before until a search is given up; the second half of them is drawn at random.
_ATTEMPTS = 10
_NUMBER = "number"
Space: TypeAlias = dict[str, Number | Categorical]
"""Parameters to choose, by name: declarations of which ``tune`` and ``tune_also`` count."""


def space_of(model: Ranker) -> Space:
    """What there is to choose for this model as it is set; ranges are widened to hold its own parameters."""
    if not isinstance(model, Ranker):
        raise InputError(f"expected a model, got {type(model).__name__}")
    given, found = model.get_params(), Space()
    for name, known in model.parameters.items():
        if not known.tuned or name not in given or not isinstance(known, (Number, Categorical)):
            continue
        if known.when is None or given[known.when[0]] == known.when[1]:
            found[name] = _widened(known, given[name])
    if not found:
        raise NotSupportedError(f"{model!r} has no parameters to choose")
    return found


def _widened(known: Number | Categorical, value: Any) -> Number | Categorical:
    if isinstance(known, Categorical):
        return known if value in known.tune else replace(known, tune=(*known.tune, value))
    # Ranges are logarithmic, so that 0 is a choice of its own.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        low, high = _ends(known)
        return replace(known, tune=(min(low, value), max(high, value)))
    return known if value in known.tune_also else replace(known, tune_also=(*known.tune_also, value))


def _ends(known: Number) -> tuple[Any, Any]:
    assert known.tune is not None
    return known.tune


def as_trial(space: Space, model: Ranker) -> Named:
    """The model's own parameters in the names of `suggested`."""
    found: Named = {}
    for name, known in space.items():
        value = getattr(model, name)
        if not isinstance(known, Categorical) and known.tune_also:
            found[f"{name} is"] = value if value in known.tune_also else _NUMBER
        if isinstance(known, Categorical) or value not in known.tune_also:
            found[name] = value
    return found


def suggested(trial: optuna.Trial, space: Space) -> Named:
    """Parameters that Optuna proposes for a trial."""
    found: Named = {}
    for name, known in space.items():
        if isinstance(known, Categorical):
            found[name] = trial.suggest_categorical(name, known.tune)
            continue
        low, high = _ends(known)
        also = known.tune_also
        kind = trial.suggest_categorical(f"{name} is", (*also, _NUMBER)) if also else _NUMBER
        if kind != _NUMBER:
            found[name] = kind
        elif isinstance(known, Integer):
            found[name] = trial.suggest_int(name, low, high, log=True)
        else:
            found[name] = trial.suggest_float(name, low, high, log=True)
    return found


@dataclass(frozen=True)
class Tuning:
    """The trials of `tune`, and the model with the best parameters.

    Attributes
    ----------
    model : Ranker
        With the best parameters, not fitted.
    metric : str
    trials : polars.DataFrame
        One row per trial: ``trial`` (the first has the parameters as they were given), ``score`` (the mean over the
        validation splits; null if the trial was given up), ``seconds``, ``parameters``, and ``note``, which says why a
        trial was given up, or that its fits were cut off by ``max_seconds``.
    higher_is_better : bool
        Of the metric.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=100, n_items=20, separation=0.0)
    >>> found = pr.tune(pr.Borda(), rankings, trials=2)
    >>> found.metric, found.trials.columns
    ('pairs_right', ['trial', 'score', 'seconds', 'parameters', 'note'])
    """

    model: Ranker
    metric: str
    trials: pl.DataFrame
    higher_is_better: bool = True

    @property
    def first(self) -> float:
        """Validation score of the parameters as they were given."""
        return float(self.trials["score"].fill_null(float("nan"))[0])

    @property
    def best(self) -> float:
        """Validation score of the best parameters: never worse than `first`, and as the best of many too good."""
        scores = np.asarray(self.trials["score"].drop_nulls())
        return float(scores.max() if self.higher_is_better else scores.min())

    def __repr__(self) -> str:
        return f"Tuning({self.metric} {self.first:.4f} -> {self.best:.4f} in {self.trials.height} trials: {self.model})"

    def _repr_html_(self) -> str:
        return self.trials._repr_html_()


def tune(
    model: Ranker,
    data: Rankings | Split,
    *,
    trials: int = 30,
    study: str | Path | None = None,
    protocol: Protocol | None = None,
    splits: int = 3,
    metric: str | Metric | None = None,
    k: int = 10,
    candidates: Candidates | None = None,
    relevant_from: float | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
    on_trial: Callable[[pl.DataFrame], None] | None = None,
) -> Tuning:
    """Choose parameters of a model by their score on held-out parts of the training data.

    Each model declares what is worth choosing (in its ``parameters``); all other parameters stay as they are in the
    given model, whose own parameters are the first trial. The others are proposed by Optuna (tree-structured Parzen
    estimators). A trial that is worse than the median of the others on the first splits is given up.

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
    metric : str or Metric, optional
        What to improve: a name of docs/metrics.md, or a metric of your own; what fits the data if not given.
    k, candidates, relevant_from
        As for `evaluate`.
    max_seconds : float, optional
        A fit stops at the sweep that passes this. What it has reached counts, and the trial's note says so.
    seed : int
        Of the proposals.
    on_trial : callable, optional
        Called with the trials so far after each.

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
    require_int("trials", trials, 1)
    require_int("splits", splits, 1)
    require_seed(seed)
    rankings = data.train if isinstance(data, Split) else require_rankings(data)
    space = space_of(model)
    if not rankings.has_ties and len(space) > 1:
        space.pop("ties", None)  # cannot matter here, and trials are expensive
    chosen = protocol or default_validation(rankings, [model])
    parts = [chosen.split(rankings, _FIRST_SEED + number) for number in range(splits)]
    ranked = default_candidates(candidates, parts[0].question)
    asked = parts[0].question if ranked == "all" else "order"
    wanted = find_metric(metric or default_metrics(parts[0].test, ordered=chosen.measures_order, question=asked)[0])
    if not wanted.is_per_list:
        raise InputError(f"{wanted.name} is of all people together; tune by log_likelihood or by an order")
    options = {"k": k, "candidates": ranked, "relevant_from": relevant_from, "max_seconds": max_seconds}
    work = {
        "model": type(model).__name__, "parameters": as_json(model.get_params()), "data": rankings.fingerprint,
        "protocol": repr(chosen), "splits": splits, "metric": wanted.name, "seed": seed,
        "options": as_json(dict(sorted(options.items()))),
    }  # fmt: skip
    if not wanted.higher_is_better:
        work["better"] = "lower"
    with silent_optuna() as optuna, ending_at_once(), naming(study):
        found = open_study(optuna, study, work, higher_is_better=wanted.higher_is_better)
        while (done := len(finished(found))) < trials:
            if done == 0:
                found.enqueue_trial(as_trial(space, model), skip_if_exists=True)
            proposed = _proposed(optuna, found, space, seed)
            if proposed is None:  # everything there is has been tried
                break
            _run(proposed[0], found, model, proposed[1], parts, wanted, options)
            if on_trial is not None:
                on_trial(trials_of(found))
        frame = trials_of(found).head(trials)
    best = frame["score"].arg_max() if wanted.higher_is_better else frame["score"].arg_min()
    if best is None:
        raise InputError(f"no trial had a score; the first says: {frame['note'][0]}")
    tuned = model.clone().set_params(**json.loads(finished(found)[best].user_attrs["chosen"]))
    return Tuning(tuned, wanted.name, frame, wanted.higher_is_better)


def _proposed(optuna: Any, study: Any, space: Space, seed: int) -> tuple[optuna.Trial, Named] | None:
    """A trial and its parameters, other than all tried before (they would come out the same); None if none is left."""
    tried = [trial.user_attrs["chosen"] for trial in finished(study)]
    for attempt in range(_ATTEMPTS):
        # Keyed by what is finished, so that a search that was broken off goes on as it would have.
        key = int(stream_key(seed, len(tried), attempt)) % 2**32
        sampler = optuna.samplers.TPESampler(seed=key, multivariate=False)
        study.sampler = sampler if attempt < _ATTEMPTS // 2 else optuna.samplers.RandomSampler(seed=key)
        trial = study.ask()
        parameters = suggested(trial, space)
        if as_json(parameters) not in tried:
            trial.set_user_attr("chosen", as_json(parameters))
            return trial, parameters
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return None


def _run(
    trial: optuna.Trial,
    study: optuna.Study,
    model: Ranker,
    parameters: Named,
    parts: list[Split],
    metric: Metric,
    options: Named,
) -> None:
    """One trial: the mean over the splits, given up early if it is worse than the median of the others so far."""
    from optuna.trial import TrialState

    begin = time.perf_counter()
    scores: list[float] = []
    problem, mean, n_cut_off = "", None, 0
    for number, part in enumerate(parts):
        seeded = model.clone().set_params(**parameters)
        if "seed" in seeded.get_params():
            seeded.set_params(seed=part.seed)
        try:
            result = evaluate(seeded, part, metrics=[metric], **options)
        except PermrankError as error:
            problem = " ".join(str(error).split())
            break
        scores.append(result.means()[metric.name])
        n_cut_off += result.cut_off is not None
        if not np.isfinite(scores[-1]):
            problem = f"nobody in the validation part has {metric.name}"
            break
        mean = float(np.mean(scores))
        trial.report(mean, number)
        if number + 1 < len(parts) and trial.should_prune():
            problem = f"given up at {mean:.4f} after {number + 1} of {len(parts)} splits"
            break
    cut_off = f"cut off after {options['max_seconds']:g} s on {n_cut_off} of {len(parts)} splits" if n_cut_off else ""
    trial.set_user_attr("seconds", time.perf_counter() - begin)
    trial.set_user_attr("note", "; ".join(filter(None, (problem, cut_off))))
    if problem:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, mean)
