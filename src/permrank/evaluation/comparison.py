"""`Comparison`: results of several models on the same splits, and which differences are significant."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.evaluation.comparison_files import communities_of, example_of, read_comparison, write_comparison
from permrank.evaluation.defaults import DEFAULT_PAIRS
from permrank.evaluation.evaluate import Evaluation, calibrate
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.significance import LEAST_PEOPLE, LEVEL, Pair, Sample, all_pairs, interval, mean_interval
from permrank.evaluation.split import Question, Split, knows_people
from permrank.types import Float64Array, Named

# Differences that are rounding: a sum of the same terms in another order.
_NOTHING = 1e-12
_GROUPS = 4


class Difference(NamedTuple):
    """The mean of one model less another over people whom both have, and who gains by it.

    The 95 % interval is Student's over people, of the fits as they are; `Comparison.differences` has those of models.
    """

    mean: float
    low: float
    high: float
    better: float
    worse: float
    people: int


def difference(people: pl.DataFrame, name: str, other: str, sign: float = 1.0) -> Difference:
    """One model less another; `sign` is -1 for a metric of which lower is better, and says who gains.

    Parameters
    ----------
    people : polars.DataFrame
        One row per person: ``weight``, and one column per model (`Comparison.per_user`).
    name, other : str
        Models.
    sign : {1, -1}

    Examples
    --------
    >>> import polars as pl
    >>> from permrank.evaluation.comparison import difference
    >>> people = pl.DataFrame({"weight": [1.0] * 4, "new": [3.0, 2.0, 5.0, 1.0], "old": [1.0, 1.0, 5.0, 2.0]})
    >>> found = difference(people, "new", "old")
    >>> found.mean, found.better, found.worse
    (0.5, 0.5, 0.25)
    """
    values, weights = paired(people, name, other)
    if not values.size:
        return Difference(np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    low, high = interval(values, weights)
    share = weights / weights.sum()
    gain = sign * values
    better, worse = float(share[gain > _NOTHING].sum()), float(share[gain < -_NOTHING].sum())
    return Difference(float(np.average(values, weights=weights)), low, high, better, worse, values.size)


def paired(people: pl.DataFrame, name: str, other: str) -> tuple[Float64Array, Float64Array]:
    """Differences and weights of the people whom both models have."""
    both = people.filter(pl.col(name).is_not_null() & pl.col(other).is_not_null())
    return (both[name] - both[other]).to_numpy(), both["weight"].to_numpy()


def by_known_entries(people: pl.DataFrame, known: pl.DataFrame, name: str, other: str) -> list[Named]:
    """The mean difference in four groups of people, from those who gave least to learn from to those who gave most.

    Parameters
    ----------
    people : polars.DataFrame
        As for `difference`, with ``user``.
    known : polars.DataFrame
        ``user`` and ``entries``, how many of theirs were learnt from.
    name, other : str
    """
    joined = people.join(known, on="user", how="inner").sort("entries", "user")
    if joined.is_empty():
        return []
    edges = np.unique(np.quantile(joined["entries"].to_numpy(), np.linspace(0, 1, _GROUPS + 1))).tolist()
    groups = []
    for n, (low, high) in enumerate(pairwise(edges)):
        above = pl.col("entries") >= low if n == 0 else pl.col("entries") > low
        part = joined.filter(above & (pl.col("entries") <= high))
        if part.height > 1:
            apart = difference(part, name, other)
            ends = int(part["entries"].min()), int(part["entries"].max())  # type: ignore[arg-type]
            groups.append({"from": ends[0], "to": ends[1], **apart._asdict()})
    return groups if len(groups) > 1 else []


_KEPT = ("splits", "metric", "asked", "question", "k", "data", "command", "made")


@dataclass(repr=False)
class Comparison:
    """Results of several models on the same splits.

    Attributes
    ----------
    results : list of Evaluation
        One for each model, split and fit.
    splits : list of str
        How the splits were made.
    metric : str
        The metric by which models are ordered and compared.
    asked : dict of str to Metric
        The metrics that were asked for, by name.
    question : {"order", "find"}
        Of the splits: to order what is hidden, or to find it in the whole catalogue.
    k : int
        Of the metrics of the top k.
    data : str
        What the data are called in a report.
    command : str
        What gives the same comparison again.
    made : dict of str to str
        When, with which versions, and on which system.
    known : polars.DataFrame
        ``user`` and ``entries``: how many of a person's were learnt from, in the first split.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> found = pr.compare([pr.MeanRating(), pr.Random()], rankings, protocol=pr.Given(5))
    >>> found.metric, found.models
    ('pairs_right', ['MeanRating()', 'Random()'])
    >>> print(str(found).splitlines()[0])
    Comparison of 2 models on 1 split, best first
    >>> found.per_user("ndcg").columns
    ['user', 'weight', 'MeanRating()', 'Random()']
    >>> found.differences().select("model", "worse").row(1, named=True)["worse"] > 0.5  # Random loses most people
    True

    A page to show to others, and a folder that gives it again:

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> found.report(folder / "out.html")
    >>> found.save(folder / "comparison")
    >>> pr.Comparison.load(folder / "comparison").table().equals(found.table())
    True
    """

    results: list[Evaluation]
    splits: list[str] = field(default_factory=list)
    metric: str = ""
    asked: dict[str, Metric] = field(default_factory=dict)
    question: Question = "order"
    k: int = 10
    data: str = ""
    command: str = ""
    made: dict[str, str] = field(default_factory=dict)
    known: pl.DataFrame = field(default_factory=pl.DataFrame)
    first_split: Split | None = None
    _shown: Named | None = None
    _cache: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False)

    def _summary(self) -> pl.DataFrame:
        return self.table().select("model", self.metric, "low", "high", "p", "verdict")

    def __repr__(self) -> str:
        n = len(self.splits)
        told = f"Comparison of {len(self.models)} models on {n} split{'s' * (n != 1)}, best first"
        if not self.results:
            return told
        plain = {"tbl_hide_dataframe_shape": True, "tbl_hide_column_data_types": True, "tbl_formatting": "NOTHING"}
        with pl.Config(**plain, tbl_rows=-1, tbl_width_chars=120, fmt_str_lengths=60, float_precision=4):  # type: ignore[arg-type]
            return f"{told}\n{self._summary()}"

    def _repr_html_(self) -> str:
        return self._summary()._repr_html_() if self.results else repr(self)

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order of the comparison."""
        return list(dict.fromkeys(result.name for result in self.results))

    def of(self, name: str) -> list[Evaluation]:
        """Results of a model, one per split and fit."""
        return [result for result in self.results if result.name == name]

    @property
    def measured(self) -> set[str]:
        """Names of the metrics that at least one model has."""
        return {name for result in self.results for name in result.means()}

    def metric_of(self, name: str | Metric) -> Metric:
        """The metric of a name: one that was asked for, or any of docs/metrics.md."""
        return self.asked.get(name) or find_metric(name) if isinstance(name, str) else find_metric(name)

    def by_seed(self) -> pl.DataFrame:
        """One row per model, seed and fit: means of all metrics, seconds, when it was cut off, and what went wrong."""
        rows = [
            {
                "model": r.name, "seed": r.seed, "fit": r.fit, **r.means(), "fit_seconds": r.fit_seconds,
                "cut_off": r.cut_off, "problem": r.problem,
            }
            for r in self.results
        ]  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"cut_off": pl.Float64})

    def per_user(self, metric: str) -> pl.DataFrame:
        """One row per person: weight, and a column per model with the person's mean over splits and fits, or null."""
        wide, numbers = self._values(metric)
        means = {
            name: pl.mean_horizontal(str(n) for n in numbers if self.results[n].name == name)
            for name in dict.fromkeys(self.results[n].name for n in numbers)
        }
        return wide.select("user", "weight", **means)

    def _values(self, metric: str) -> tuple[pl.DataFrame, list[int]]:
        """One row per person: weight, and one column per result that has the metric, by its number; and the numbers."""
        if (metric,) in self._cache:
            return self._cache[metric,]  # type: ignore[no-any-return]
        numbers = [n for n, result in enumerate(self.results) if metric in result.metrics]
        if not numbers:
            return pl.DataFrame(schema={"user": pl.String, "weight": pl.Float64}), []
        frames = [
            self.results[n].per_user.filter(pl.col(metric).is_not_null()).select(
                "user", "weight", pl.lit(str(n)).alias("result"), pl.col(metric).alias("value")
            )
            for n in numbers
        ]  # fmt: skip
        long = pl.concat(frames).group_by("user", "result").agg(pl.col("value").mean(), pl.col("weight").first())
        wide = long.pivot(on="result", index=["user", "weight"], values="value").sort("user")
        self._cache[metric,] = wide, [n for n in numbers if str(n) in wide.columns]
        return self._values(metric)

    def _samples(self, metric: str, names: list[str]) -> tuple[list[Sample], Float64Array]:
        """What people have of each of these models, and the people's weights."""
        wide, numbers = self._values(metric)
        samples = []
        for name in names:
            mine = [n for n in numbers if self.results[n].name == name]
            values = wide.select(pl.col(str(n)).fill_null(np.nan) for n in mine).to_numpy()
            splits = np.array([self.results[n].split for n in mine])
            samples.append(Sample(values, splits, any(self.results[n].random for n in mine)))
        return samples, wide["weight"].to_numpy()

    def table(self, metric: str | Metric | None = None) -> pl.DataFrame:
        """One row per model, best first.

        Columns: ``model``; the mean over people of ``metric`` (the first that was asked for, if not given) with its
        95 % interval ``low`` to ``high``; ``p`` of the difference to the best, adjusted for all pairs of models;
        ``verdict``; means of the other metrics; ``seconds`` of a fit, ``first_seconds`` of the first and tiny one,
        which compiles, ``megabytes`` at the peak of a fit; and ``cut_off``, the seconds after which a fit was stopped
        before its end. Intervals and p have the variation of people, of splits and of fits with other seeds in them.

        The verdict is best, same (not significantly different from the best), worse, undecided (see `why_undecided`),
        cut off, untested, uninformative, or failed (there is no value). A model that was cut off is measured, but
        neither best nor compared with the best: with more time it might be better. A metric that is one number for all
        people (``calibration_error``, ``coverage``) cannot be tested person by person: models are ordered by it, and
        all but the best are untested. Probabilities of pairs that are no better than a coin (``pair_log_loss`` of 1 or
        more) are calibrated by saying nothing: such a model is uninformative, comes last and is never the best by
        ``calibration_error``.
        """
        chosen = self.metric_of(metric or self.metric)
        means, stopped, silent, whole = self._ranked(chosen)
        pairs = self._pairs(chosen, whole)
        samples, weights = self._samples(chosen.name, list(means) if chosen.is_per_list else [])
        ends = dict(zip(means, (mean_interval(sample, weights)[1:] for sample in samples), strict=False))
        rows = []
        for name in [*means, *(name for name in self.models if name not in means)]:
            row: Named = {"model": name, chosen.name: means.get(name), "low": None, "high": None}
            row |= {"p": pairs[name].p if name in pairs else None, "verdict": "failed"}
            if name in means:
                if name in ends and ends[name][0] <= ends[name][1]:
                    row["low"], row["high"] = ends[name]
                verdict = "uninformative" if name in silent else _verdict(row["p"], name in pairs)
                if name in whole[:1]:
                    row["verdict"] = "undecided" if self.why_undecided(chosen) and not _tested(pairs) else "best"
                else:
                    row["verdict"] = "cut off" if name in stopped else verdict
            rows.append(row | self._costs(name, chosen.name) | {"cut_off": stopped.get(name)})
        numbers = dict.fromkeys(("p", chosen.name, "low", "high", "cut_off"), pl.Float64)
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    def _ranked(self, metric: Metric) -> tuple[dict[str, float], dict[str, float], set[str], list[str]]:
        """Means by model, best first; models that were cut off; those that say nothing; and all others, best first."""
        means = self._means(metric, self.per_user(metric.name))
        silent = self._uninformative() if metric.name == "calibration_error" else set()
        order = sorted(means, key=lambda name: (name in silent, -metric.sign * means[name]))
        stopped = {r.name: r.cut_off for r in self.results if r.cut_off is not None}
        whole = [name for name in order if name not in stopped and name not in silent]
        return {name: means[name] for name in order}, stopped, silent, whole

    def _pairs(self, metric: Metric, whole: list[str]) -> dict[str, Pair]:
        """Of every model but the best: the best less it."""
        if not metric.is_per_list or len(whole) < 2:
            return {}
        key = (metric.name, *whole)
        if key not in self._cache:
            self._cache[key] = all_pairs(*self._samples(metric.name, whole))
        return {name: self._cache[key][0, n] for n, name in enumerate(whole) if n}

    def why_undecided(self, metric: str | Metric | None = None) -> str:
        """What the data cannot decide and why, in a sentence; nothing if every verdict stands."""
        chosen = self.metric_of(metric or self.metric)
        if not chosen.is_per_list:
            return ""
        _, _, _, whole = self._ranked(chosen)
        pairs = self._pairs(chosen, whole)
        reasons = {pair.undecided for pair in pairs.values()}
        n_people = self.per_user(chosen.name).height
        if "people" in reasons or (len(whole) == 1 and n_people < LEAST_PEOPLE):
            equal = "" if n_people < LEAST_PEOPLE else " of about equal weight"
            return f"{n_people} people decide nothing: a verdict takes at least {LEAST_PEOPLE}{equal}."
        if "fits" in reasons:
            once = [name for name in whole if any(r.random for r in self.of(name)) and len(self.of(name)) == 1]
            return f"A fit with another seed may come out otherwise: fit {', '.join(once)} more than once."
        return "A mean is infinite, and no test takes that." if "infinite" in reasons else ""

    def differences(self, metric: str | Metric | None = None) -> pl.DataFrame:
        """One row per model, best first: how far it is from the best, person by person.

        Columns: ``model``; ``difference``, the mean over people of the model's value less the best one's; its interval
        ``low`` to ``high``, which is simultaneous: all of them are right in 95 % of comparisons, and one does not hold
        0 where the verdict is worse; the shares of people for whom it is ``better`` and ``worse`` than the best.
        Nothing where there is no best model, or one number for all people. The interval of a fit that was cut off is
        over people alone.
        """
        chosen, table = self.metric_of(metric or self.metric), self.table(metric)
        best, people = table.filter(pl.col("verdict") == "best")["model"].to_list(), self.per_user(chosen.name)
        pairs, rows = self._pairs(chosen, self._ranked(chosen)[3]), []
        for name in table["model"] if best and chosen.is_per_list else []:
            if name in people.columns:
                apart = difference(people, name, best[0], chosen.sign)
                row = {"model": name, "difference": apart.mean, **apart._asdict()}
                if name in pairs:
                    row |= {"difference": -pairs[name].difference, "low": -pairs[name].high, "high": -pairs[name].low}
                rows.append(row)
        names = ("difference", "low", "high", "better", "worse")
        return pl.DataFrame(rows, schema={"model": pl.String, **dict.fromkeys(names, pl.Float64)})

    def _uninformative(self) -> set[str]:
        """Models whose probabilities of pairs are no better than a coin."""
        losses = {name: [r.overall.get("pair_log_loss", np.nan) for r in self.of(name)] for name in self.models}
        finite = {name: np.array(each)[np.isfinite(each)] for name, each in losses.items()}
        return {name for name, each in finite.items() if each.size and each.mean() >= 1.0}

    def _means(self, metric: Metric, people: pl.DataFrame) -> dict[str, float]:
        """Mean over people, or, of a metric that is one number for all of them, over splits."""
        if metric.is_per_list:
            return {name: _mean(people, name) for name in self.models if name in people.columns}
        means = {}
        for name in self.models:
            values = [result.means().get(metric.name, np.nan) for result in self.of(name)]
            if np.isfinite(values).any():
                means[name] = float(np.nanmean(values))
        return means

    def _costs(self, name: str, metric: str) -> Named:
        mine = self.of(name)
        costs: Named = {}
        others = dict.fromkeys(key for result in self.results for key in result.means() if key != metric)
        for other in others:
            values = [result.means().get(other, np.nan) for result in mine]
            finite = [value for value in values if np.isfinite(value)]
            costs[other] = float(np.mean(finite)) if finite else None
        for key, attribute in (
            ("seconds", "fit_seconds"),
            ("first_seconds", "first_seconds"),
            ("megabytes", "peak_megabytes"),
        ):
            finite = [getattr(result, attribute) for result in mine if getattr(result, attribute) is not None]
            costs[key] = float(max(finite) if key == "megabytes" else np.mean(finite)) if finite else None
        return costs

    def problems(self) -> dict[str, str]:
        """What went wrong or deserves a note, by model."""
        told: dict[str, str] = {}
        for name in self.models:
            mine = self.of(name)
            failed = {result.split: result.problem for result in reversed(mine) if result.problem}
            n_splits = len({result.split for result in mine})
            often = f" on {len(failed)} of {n_splits} splits" if n_splits > 1 else ""
            texts = [f"failed{often}: {next(reversed(failed.values()))}"] if failed else []
            texts += dict.fromkeys(note for result in mine for note in result.notes)
            if texts:
                told[name] = "; ".join(texts)
        return told

    def calibrate(self, n_pairs: int = DEFAULT_PAIRS) -> None:
        """Measure the probabilities of held-out pairs of the first split, of models that have any.

        ``compare(..., n_pairs=)`` does it at once; `report` does it if nobody has. It needs the fitted models, which a
        comparison that was read from files does not have.
        """
        split = self.first_split
        if split is None or self.question != "order":
            return
        firsts = {result.name: result for result in reversed(self.results)}
        for result in firsts.values():
            if (
                knows_people(split)
                and result.model is not None
                and result.problem is None
                and result.reliability is None
            ):
                calibrate(result, result.model, split.test, split.given, n_pairs)

    def shown(self) -> Named:
        """What a report shows beside numbers: ``example``, one person, and ``communities`` by model; for JSON."""
        if self._shown is None:
            ranked = [r for name in self.table()["model"] for r in self.of(name)[:1] if r.cut_off is None]
            example = None
            if ranked and self.first_split is not None and self.question == "order":
                example = example_of(ranked[0], self.metric, self.first_split)
            groups = {r.name: communities_of(r.model, self.first_split) for r in ranked}
            self._shown = {"example": example, "communities": {name: each for name, each in groups.items() if each}}
        return self._shown

    def report(self, path: str | Path, *, title: str | None = None, finding: Comparison | None = None) -> None:
        """Write one page with tables and pictures, which opens anywhere without network.

        Parameters
        ----------
        path : str or Path
        title : str, optional
            What the data are called.
        finding : Comparison, optional
            Of the same models on the other question, for the same page.
        """
        from permrank.interfaces.report.report import write_report

        write_report(self, path, title=title, finding=finding)

    def save(self, folder: str | Path) -> None:
        """Write all results and what a report shows to a new folder; models are not kept.

        Other programs can read it: ``people.parquet`` has every person's results, ``comparison.json`` the rest.
        """
        rest = {name: getattr(self, name) for name in _KEPT} | {"shown": self.shown()}
        write_comparison(folder, self.results, self.known, rest)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read what `save` wrote; files that have changed since are refused."""
        kept = read_comparison(folder)
        shown, known = kept.pop("shown", None), kept.pop("known")
        if set(kept) != {*_KEPT, "results"} or kept["question"] not in ("order", "find"):
            raise InputError(f"{folder} holds {', '.join(sorted(kept))}; expected a comparison")
        return cls(**kept, known=known, _shown=shown)

    def to_dict(self) -> Named:
        """Everything but the models and the single persons, for JSON."""
        return {
            "question": self.question,
            "metric": self.metric,
            "splits": self.splits,
            "table": [_plain(row) for row in self.table().to_dicts()],
            "by_seed": [_plain(row) for row in self.by_seed().to_dicts()],
            "problems": self.problems(),
            "undecided": self.why_undecided(),
        }


def _mean(people: pl.DataFrame, name: str) -> float:
    having = people.filter(pl.col(name).is_not_null())
    return float(np.average(having[name], weights=having["weight"]))


def _tested(pairs: dict[str, Pair]) -> bool:
    return any(pair.p is not None for pair in pairs.values())


def _verdict(p: float | None, compared: bool) -> str:
    if p is None:
        return "undecided" if compared else "untested"
    return "worse" if p < LEVEL else "same"


def _plain(row: Named) -> Named:
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in row.items()}
