"""`Comparison`: results of several models on the same splits, and which differences are significant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.significance import bootstrap_interval, holm, randomisation_test
from permrank.evaluation.split import Question
from permrank.types import Named

_LEVEL = 0.05


@dataclass
class Comparison:
    """What several models got on the same splits.

    Attributes
    ----------
    results : list of Evaluation
        One for each model and split.
    splits : list of str
        How the splits were made.
    metric : str
        The metric by which models are ordered and compared.
    asked : dict of str to Metric
        The metrics that were asked for, by name.
    question : {"order", "find"}
        Of the splits: to order what is hidden, or to find it in the whole catalogue.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> found = pr.compare([pr.MeanRating(), pr.Random()], rankings, protocol=pr.Given(5))
    >>> found.metric, found.models
    ('pairs_right', ['MeanRating()', 'Random()'])
    >>> found.per_user("ndcg").columns
    ['user', 'weight', 'MeanRating()', 'Random()']
    """

    results: list[Evaluation]
    splits: list[str] = field(default_factory=list)
    metric: str = ""
    asked: dict[str, Metric] = field(default_factory=dict)
    question: Question = "order"

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order of the comparison."""
        return list(dict.fromkeys(result.name for result in self.results))

    def of(self, name: str) -> list[Evaluation]:
        """Results of a model, one per split."""
        return [result for result in self.results if result.name == name]

    @property
    def measured(self) -> set[str]:
        """Names of the metrics that at least one model has."""
        return {name for result in self.results for name in result.means()}

    def metric_of(self, name: str | Metric) -> Metric:
        """The metric of a name: one that was asked for, or any of docs/metrics.md."""
        return self.asked.get(name) or find_metric(name) if isinstance(name, str) else find_metric(name)

    def by_seed(self) -> pl.DataFrame:
        """One row per model and seed: means of all metrics, seconds, when it was cut off, and what went wrong."""
        rows = [
            {
                "model": r.name, "seed": r.seed, **r.means(), "fit_seconds": r.fit_seconds, "cut_off": r.cut_off,
                "problem": r.problem,
            }
            for r in self.results
        ]  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"cut_off": pl.Float64})

    def per_user(self, metric: str) -> pl.DataFrame:
        """One row per person: weight, and one column per model with the person's mean over splits; null without one."""
        frames = [
            result.per_user.filter(pl.col(metric).is_not_null()).select(
                "user", "weight", pl.lit(result.name).alias("model"), pl.col(metric).alias("value")
            )
            for result in self.results
            if metric in result.metrics
        ]
        if not frames:
            return pl.DataFrame(schema={"user": pl.String, "weight": pl.Float64})
        long = pl.concat(frames).group_by("user", "model").agg(pl.col("value").mean(), pl.col("weight").first())
        wide = long.pivot(on="model", index=["user", "weight"], values="value").sort("user")
        return wide.select("user", "weight", *(name for name in self.models if name in wide.columns))

    def table(self, metric: str | Metric | None = None) -> pl.DataFrame:
        """One row per model, best first.

        Columns: ``model``; the mean over people of ``metric`` (the first that was asked for, if not given) with its
        95 % interval ``low`` to ``high``; ``p``, Holm's corrected p-value of the difference to the best; ``verdict``;
        means of the other metrics; ``seconds`` of a fit, ``first_seconds`` of the first and tiny one, which compiles,
        ``megabytes`` at the peak of a fit; and ``cut_off``, the seconds after which a fit was stopped before its end.

        The verdict is best, same (not significantly different from the best), worse, cut off, untested, or failed
        (there is no value). A model that was cut off is measured, but neither best nor compared with the best: with
        more time it might be better. A metric that is one number for all people (``calibration_error``,
        ``coverage``) cannot be tested person by person: models are ordered by it, and all but the best are untested.
        """
        known = self.metric_of(metric or self.metric)
        people = self.per_user(known.name)
        means = self._means(known, people)
        ranked = sorted(means, key=lambda name: -known.sign * means[name])
        stopped = {r.name: r.cut_off for r in self.results if r.cut_off is not None}
        whole = [name for name in ranked if name not in stopped]
        p_values = dict(zip(whole[1:], _p_values(people, whole), strict=True)) if known.is_per_list else {}
        rows = []
        for name in [*ranked, *(name for name in self.models if name not in means)]:
            row: Named = {"model": name, known.name: None, "low": None, "high": None, "p": None}
            row["verdict"] = "failed"
            if name in means:
                row |= {known.name: means[name], "p": p_values.get(name)} | _interval(people, name)
                row["verdict"] = "cut off" if name in stopped else _verdict(p_values.get(name), name == whole[0])
            rows.append(row | self._costs(name, known.name) | {"cut_off": stopped.get(name)})
        numbers = dict.fromkeys(("p", known.name, "low", "high", "cut_off"), pl.Float64)
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    def _means(self, metric: Metric, people: pl.DataFrame) -> dict[str, float]:
        """Mean over people, or, of a metric that is one number for all of them, over splits."""
        if metric.is_per_list:
            return {name: _mean(people, name) for name in self.models if name in people.columns}
        found = {}
        for name in self.models:
            values = [result.means().get(metric.name, np.nan) for result in self.of(name)]
            if np.isfinite(values).any():
                found[name] = float(np.nanmean(values))
        return found

    def _costs(self, name: str, metric: str) -> Named:
        mine = self.of(name)
        found: Named = {}
        others = dict.fromkeys(key for result in self.results for key in result.means() if key != metric)
        for other in others:
            values = [result.means().get(other, np.nan) for result in mine]
            known = [value for value in values if np.isfinite(value)]
            found[other] = float(np.mean(known)) if known else None
        for key, attribute in (
            ("seconds", "fit_seconds"),
            ("first_seconds", "first_seconds"),
            ("megabytes", "peak_megabytes"),
        ):
            known = [getattr(result, attribute) for result in mine if getattr(result, attribute) is not None]
            found[key] = float(max(known) if key == "megabytes" else np.mean(known)) if known else None
        return found

    def problems(self) -> dict[str, str]:
        """What went wrong or deserves a note, by model."""
        found: dict[str, str] = {}
        for name in self.models:
            mine = self.of(name)
            failed = [result.problem for result in mine if result.problem]
            often = f" on {len(failed)} of {len(mine)} splits" if len(mine) > 1 else ""
            texts = [f"failed{often}: {failed[0]}"] if failed else []
            texts += dict.fromkeys(note for result in mine for note in result.notes)
            if texts:
                found[name] = "; ".join(texts)
        return found

    def to_dict(self) -> Named:
        """Everything but the models and the single persons, for JSON."""
        return {
            "question": self.question,
            "metric": self.metric,
            "splits": self.splits,
            "table": [_plain(row) for row in self.table().to_dicts()],
            "by_seed": [_plain(row) for row in self.by_seed().to_dicts()],
            "problems": self.problems(),
        }


def _mean(people: pl.DataFrame, name: str) -> float:
    known = people.filter(pl.col(name).is_not_null())
    return float(np.average(known[name], weights=known["weight"]))


def _p_values(people: pl.DataFrame, ranked: list[str]) -> Any:
    """Of the differences between the best and each of the others, over people whom both have, corrected."""
    found = []
    for name in ranked[1:]:
        both = people.filter(pl.col(name).is_not_null() & pl.col(ranked[0]).is_not_null())
        difference = (both[ranked[0]] - both[name]).to_numpy() * both["weight"].to_numpy()
        found.append(randomisation_test(difference))
    return holm(found).tolist()


def _interval(people: pl.DataFrame, name: str) -> dict[str, float]:
    """The 95 % interval of a model's mean, if people have values of their own."""
    if name not in people.columns:
        return {}
    known = people.filter(pl.col(name).is_not_null())
    low, high = bootstrap_interval(known[name].to_numpy(), known["weight"].to_numpy())
    return {"low": low, "high": high}


def _verdict(p: float | None, first: bool) -> str:
    if first:
        return "best"
    return "untested" if p is None else "worse" if p < _LEVEL else "same"


def _plain(row: Named) -> Named:
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in row.items()}
