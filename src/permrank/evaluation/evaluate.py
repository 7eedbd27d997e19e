"""`evaluate`: one model, one split, every person's result."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.core.ranker import Ranker
from permrank.errors import AccuracyWarning, ConvergenceWarning, FeaturesWarning, InputError
from permrank.evaluation.calibration import calibration_error, pair_log_loss, reliability
from permrank.evaluation.catalogue import measure_catalogue
from permrank.evaluation.cold import cold_entries
from permrank.evaluation.defaults import DEFAULT_PAIRS, default_candidates, default_metrics
from permrank.evaluation.metrics import Metric, Relevance, filled, find_metric, grades_of, per_list, stages
from permrank.evaluation.scoring import cross_entropies, hidden_scores, log_likelihoods, pair_probabilities
from permrank.evaluation.significance import interval
from permrank.evaluation.split import Candidates, Question, Split, part_of
from permrank.learning.hooks import ending_at_once
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Float64Array, Int64Array, Named, Progress

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """Seconds that a block took, and megabytes that it held at most beyond what was held before (None if unknown)."""

    seconds: float = 0.0
    megabytes: float | None = None


@contextlib.contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block; memory where Linux lets a process reset its own high-water mark, else not."""
    cost, before = Cost(), None
    with contextlib.suppress(OSError, ValueError):
        _CLEAR.write_text("5", encoding="utf-8")  # 5 resets VmHWM to what is held now
        before = _kilobytes("VmRSS")
    begin = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - begin
        if before is not None:
            cost.megabytes = max(0, _kilobytes("VmHWM") - before) / 2**10


def _kilobytes(name: str) -> int:
    return next(
        int(line.split()[1]) for line in _STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(name)
    )


class Deadline:
    """A callback of ``fit`` that stops learning at the sweep after which the time is up; the estimate is kept.

    It remembers too how many sweeps were made before the last part of learning began.
    """

    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.perf_counter() + seconds
        self.passed = False
        self.earlier_sweeps = self._part = 0

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop."""
        if progress.part != self._part:
            self._part, self.earlier_sweeps = progress.part, progress.iteration - 1
        self.passed = self.end is not None and time.perf_counter() > self.end and progress.iteration < progress.max_iter
        return self.passed


@dataclass
class Evaluation:
    """Results of one model on one split.

    Attributes
    ----------
    name : str
        Of the model.
    seed : int
        Of the split.
    per_user : polars.DataFrame
        One row per test ranking: ``user``, ``weight``, and one column per metric; null where there is nothing to
        measure.
    parts : dict of str to polars.DataFrame
        The same of cold items or users and of known ones apart, ``"cold"`` and ``"known"``, if the split has any.
    model : Ranker or None
        The fitted model.
    overall : dict of str to float
        Metrics that are one number for all people.
    reliability : polars.DataFrame or None
        Predicted against observed frequencies of `prefers`, if asked for and known.
    fit_seconds, score_seconds : float
    peak_megabytes : float or None
        Held at most during the fit, beyond what was held before.
    first_seconds : float or None
        Of a first fit to a few users, which compiles; not part of ``fit_seconds``.
    cut_off : float or None
        Seconds after which the fit was stopped before its end (``max_seconds``), so that more time may give more.
    history : list of float
        The objective after every sweep of the fit.
    earlier_sweeps : int
        How many sweeps come before the last part of learning; their objectives are of other data or another function.
    converged : bool or None
        Whether the fit ended by itself.
    kind : str
        Class of the model.
    personal : bool or None
        Whether the model can give different people different orders.
    notes : list of str
        Warnings.
    problem : str or None
        Why there are no results.
    split, fit : int
        Numbers of the split and of the fit to it, in a comparison; the model is kept of the first fit.
    random : bool
        Whether another fit has another seed, in a comparison.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> result = pr.evaluate(pr.MeanRating(), pr.Given(n_given=5).split(rankings), metrics=["pairs_right", "ndcg"])
    >>> result.metrics, result.table().columns
    (['pairs_right', 'ndcg'], ['metric', 'mean', 'low', 'high', 'users'])
    """

    name: str
    seed: int
    per_user: pl.DataFrame = field(default_factory=pl.DataFrame)
    parts: dict[str, pl.DataFrame] = field(default_factory=dict)
    model: Ranker | None = None
    overall: dict[str, float] = field(default_factory=dict)
    reliability: pl.DataFrame | None = None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    peak_megabytes: float | None = None
    first_seconds: float | None = None
    cut_off: float | None = None
    history: list[float] = field(default_factory=list)
    earlier_sweeps: int = 0
    converged: bool | None = None
    kind: str = ""
    personal: bool | None = None
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    split: int = 0
    fit: int = 0
    random: bool = False

    @property
    def metrics(self) -> list[str]:
        """Metrics that were measured person by person."""
        return [name for name in self.per_user.columns if name not in ("user", "weight")]

    def means(self, part: Literal["cold", "known"] | None = None) -> dict[str, float]:
        """Mean of every metric over those who have it (NaN if nobody does), and what is one number for all.

        part: of cold or of known items or users alone.
        """
        frame = self.per_user if part is None else self.parts.get(part)
        if frame is None:
            raise InputError(f"nothing was measured of {part!r} alone; take the protocol ColdItems or ColdUsers")
        means: dict[str, float] = {}
        for name in (name for name in self.metrics if name in frame.columns):
            own = frame.filter(pl.col(name).is_not_null())
            means[name] = float(np.average(own[name], weights=own["weight"])) if own.height else float("nan")
        if part is not None:
            return means
        means |= self.overall
        if self.reliability is not None:
            means["calibration_error"] = calibration_error(self.reliability)
        return means

    def table(self) -> pl.DataFrame:
        """One row per metric: ``metric``, ``mean``, ``low`` to ``high``, and ``users`` who have it.

        The 95 % interval is Student's over people, of this fit; there is none of fewer than two.
        """
        rows = []
        for name, mean in self.means().items():
            row: Named = {"metric": name, "mean": mean, "low": None, "high": None, "users": None}
            if name in self.metrics:
                own = self.per_user.filter(pl.col(name).is_not_null())
                low, high = interval(own[name].to_numpy(), own["weight"].to_numpy())
                ends = {"low": low, "high": high} if low <= high else {}
                row |= ends | {"users": own.height}
            rows.append(row)
        return pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64, "users": pl.Int64})

    def __repr__(self) -> str:
        results = self.problem or ", ".join(f"{name}={value:.4f}" for name, value in self.means().items())
        return f"Evaluation({self.name}, seed={self.seed}: {results})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def evaluate(
    model: Ranker,
    test: Split | Rankings,
    *,
    metrics: Iterable[str | Metric] | None = None,
    k: int = 10,
    candidates: Candidates | None = None,
    relevant_from: float | None = None,
    n_pairs: int = 0,
    max_seconds: float | None = None,
    name: str | None = None,
) -> Evaluation:
    """Measure a model on held-out rankings.

    Parameters
    ----------
    model : Ranker
        With a split, a copy of it is fitted to the training part; the model itself stays as it is. With rankings, the
        fitted model answers.
    test : Split or Rankings
    metrics : sequence of str or Metric, optional
        Names of docs/metrics.md, or metrics of your own; what fits the data if not given.
    k : int
        For metrics of the top k.
    candidates : {"rated", "all"}, optional
        What is ranked: a person's own held-out items, or everything that is not in the training list. A split of
        `Catalogue` asks for all, every other for what is rated.
    relevant_from : float, optional
        The least grade that is relevant; four fifths of the highest grade of the data if not given. In a split of
        `Catalogue` everything that is hidden is.
    n_pairs : int
        Held-out pairs for the calibration of `prefers`; 0 for none. A split of `Catalogue` has none.
    max_seconds : float, optional
        Learning stops at the sweep that passes this. What it has reached is measured, and marked as cut off.
    name : str, optional
        What the model is called in tables.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> split = pr.Given(n_given=5).split(rankings, seed=0)
    >>> result = pr.evaluate(pr.MeanRating(), split)
    >>> result.means()["pairs_right"] > 0.6
    True
    >>> result.per_user.columns
    ['user', 'weight', 'pairs_right', 'ndcg', 'tau_b']
    """
    require_int("k", k, 1)
    require_int("n_pairs", n_pairs, 0)
    split = test if isinstance(test, Split) else None
    question: Question = split.question if split else "order"
    ranked = default_candidates(candidates, question)
    hidden = split.test if split else require_rankings(test)
    result = Evaluation(name or model.call(), split.seed if split else 0)
    result.model = model if split is None else _fit(model, split.train, max_seconds, result)
    fitted = result.model
    result.kind, result.personal = type(fitted).__name__, fitted.personal
    given = split.given if split else None
    known_people = given is not None or bool(set(hidden.user_ids) & set(fitted.user_ids))
    asked = question if ranked == "all" else "order"
    named = list(metrics) if metrics is not None else default_metrics(hidden, ordered=known_people, question=asked)
    wanted = _distinct(named)
    _require_answerable(wanted, known_people, ranked)
    if asked == "find":  # everything that is hidden was chosen
        if relevant_from is not None:
            raise InputError(
                f"relevant_from={relevant_from!r}, but all that this split hides is relevant; leave it out, or make "
                "another with Catalogue(positive=)"
            )
        relevance = Relevance(1.0, 1.0)
    else:
        top = max(float(grades_of(hidden).max(initial=0.0)), float(grades_of(fitted.rankings_).max(initial=0.0)))
        relevance = Relevance.of(relevant_from, top)
    cold = split.cold if split else None
    excluded = None
    if split and cold == "items" and asked == "find":  # items that are not cold
        excluded = np.flatnonzero(fitted.item_ids.ids.is_in(split.train.item_ids.ids.implode()).to_numpy())
    task = _Task(wanted, k, relevance, ranked, asked == "find", cold == "users", excluded)
    with measured() as cost:
        result.per_user = _measure(fitted, hidden, given, task, result)
    result.score_seconds = cost.seconds
    if split is not None and cold is not None and ranked == "rated":
        marked, ignored = cold_entries(split), Evaluation("", 0)
        task = task._replace(metrics=[metric for metric in wanted if metric.needs_scores])
        for name, entries in (("cold", marked), ("known", ~marked)):
            result.parts[name] = _measure(fitted, part_of(hidden, entries), None, task, ignored)
    if n_pairs == 0 and any(metric.kind == "calibration" for metric in wanted):
        n_pairs = DEFAULT_PAIRS
    if n_pairs and known_people and question == "order":
        calibrate(result, fitted, hidden, given, n_pairs)
    return result


def calibrate(result: Evaluation, model: Ranker, test: Rankings, given: Rankings | None, n_pairs: int) -> None:
    """Measure the probabilities of hidden pairs, if the model has any."""
    pairs = pair_probabilities(model, test, given, n_pairs, result.seed)
    if pairs is not None:
        result.reliability = reliability(*pairs)
        result.overall["pair_log_loss"] = pair_log_loss(*pairs)


def _require_answerable(wanted: list[Metric], known_people: bool, candidates: Candidates) -> None:
    """Raise on a metric that the split has no answer to."""
    for metric in wanted:
        if metric.kind != "likelihood" and not known_people:
            raise InputError(
                f"{metric.name} needs people that the model knows; take a protocol that gives some of their items"
            )
        if metric.needs_catalogue and candidates != "all":
            raise InputError(
                f"{metric.name} is of what is shown out of everything; take the protocol Catalogue, or candidates='all'"
            )


def _distinct(named: Iterable[str | Metric]) -> list[Metric]:
    """The metrics, each once; two of one name could not both be columns of a table."""
    distinct: dict[str, Metric] = {}
    for metric in map(find_metric, named):
        if distinct.setdefault(metric.name, metric) != metric:
            raise InputError(f"two metrics are called {metric.name!r}; give every one its own name")
    return list(distinct.values())


def _fit(model: Ranker, train: Rankings, max_seconds: float | None, result: Evaluation) -> Ranker:
    """Fit a copy; warnings become notes."""
    fitted, deadline = model.clone(), Deadline(max_seconds)
    with warnings.catch_warnings(record=True) as caught, measured() as cost, ending_at_once():
        for category in (ConvergenceWarning, FeaturesWarning):
            warnings.simplefilter("always", category)
        fitted.fit(train, callback=deadline, verbose=False)
    result.fit_seconds, result.peak_megabytes = cost.seconds, cost.megabytes
    result.history, result.earlier_sweeps = list(fitted.history_), deadline.earlier_sweeps
    result.converged = bool(fitted.converged_)
    if deadline.passed:
        result.cut_off = max_seconds
        result.notes.append(f"stopped after {max_seconds:g} s, {fitted.n_iter_} sweeps")
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            result.notes.append(f"did not converge in {fitted.n_iter_} sweeps")
        elif issubclass(warning.category, FeaturesWarning):
            result.notes.append(str(warning.message).split(";")[0])
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return fitted


class _Task(NamedTuple):
    """What is measured, and of which candidates; whether users are cold, and items that are no candidates."""

    metrics: list[Metric]
    k: int
    relevance: Relevance
    candidates: Candidates
    binary: bool
    cold_users: bool = False
    excluded_items: Int64Array | None = None


def _measure(model: Ranker, test: Rankings, given: Rankings | None, task: _Task, result: Evaluation) -> pl.DataFrame:
    """`Evaluation.per_user` of these rankings; metrics of all people and warnings (as notes) go into the result."""
    wanted, k, relevance, candidates, binary, cold_users, excluded = task
    values: dict[str, Float64Array] = {}
    scored = [metric for metric in wanted if metric.needs_scores]
    if scored and candidates == "rated":
        scores = filled(test.indptr, hidden_scores(model, test, given, cold_users=cold_users))
        options: Named = {"k": k, "relevant_from": relevance.from_grade, "top_grade": relevance.top_grade}
        values |= per_list(scored, test.indptr, grades_of(test), scores, **options)
    elif scored:
        columns, result.overall = measure_catalogue(
            model, test, given, scored, k=k, relevance=relevance, binary=binary, excluded=excluded
        )
        values |= columns
    if any(metric.kind == "likelihood" for metric in wanted):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AccuracyWarning)
            own = log_likelihoods(model, test)
        result.notes += [str(warning.message) for warning in caught]
        values |= {"log_likelihood": own, "log_likelihood_per_stage": own / np.maximum(stages(test), 1)}
    if any(metric.kind == "pairs" for metric in wanted):
        model.fitted_.require_pairs("prefers")
        values["cross_entropy"] = cross_entropies(model, test, given)
    columns = {metric.name: values[metric.name] for metric in wanted if metric.is_per_list}
    weights = test.weights if test.anonymous else np.ones(test.n_rankings)
    frame = pl.DataFrame({"user": test.user_ids.take(test.ranking_users), "weight": weights, **columns})
    return frame.with_columns(pl.col(list(columns)).fill_nan(None)) if columns else frame
