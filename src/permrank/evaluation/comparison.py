"""`Comparison`: results of several models on the same splits, and which differences are significant."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.evaluation import portraits, saving
from permrank.evaluation.evaluate import USUAL_PAIRS, Evaluation, calibrate
from permrank.evaluation.gains import difference
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.significance import bootstrap_interval, holm, randomisation_test
from permrank.evaluation.split import Question, Split
from permrank.types import Named

_LEVEL = 0.05
_KEPT = ("splits", "metric", "asked", "question", "k", "data", "command", "made")


@dataclass(repr=False)
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

        The verdict is best, same (not significantly different from the best), worse, cut off, untested, uninformative,
        or failed (there is no value). A model that was cut off is measured, but neither best nor compared with the
        best: with more time it might be better. A metric that is one number for all people (``calibration_error``,
        ``coverage``) cannot be tested person by person: models are ordered by it, and all but the best are untested.
        Probabilities of pairs that are no better than a coin (``pair_log_loss`` of 1 or more) are calibrated by saying
        nothing: such a model is uninformative, comes last and is never the best by ``calibration_error``.
        """
        known = self.metric_of(metric or self.metric)
        people = self.per_user(known.name)
        means = self._means(known, people)
        silent = self._uninformative() if known.name == "calibration_error" else set()
        ranked = sorted(means, key=lambda name: (name in silent, -known.sign * means[name]))
        stopped = {r.name: r.cut_off for r in self.results if r.cut_off is not None}
        whole = [name for name in ranked if name not in stopped and name not in silent]
        p_values = dict(zip(whole[1:], _p_values(people, whole), strict=True)) if known.is_per_list else {}
        rows = []
        for name in [*ranked, *(name for name in self.models if name not in means)]:
            row: Named = {"model": name, known.name: None, "low": None, "high": None, "p": None}
            row["verdict"] = "failed"
            if name in means:
                row |= {known.name: means[name], "p": p_values.get(name)} | _interval(people, name)
                verdict = "uninformative" if name in silent else _verdict(p_values.get(name), name in whole[:1])
                row["verdict"] = "cut off" if name in stopped else verdict
            rows.append(row | self._costs(name, known.name) | {"cut_off": stopped.get(name)})
        numbers = dict.fromkeys(("p", known.name, "low", "high", "cut_off"), pl.Float64)
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    def differences(self, metric: str | Metric | None = None) -> pl.DataFrame:
        """One row per model, best first: how far it is from the best, person by person.

        Columns: ``model``; ``difference``, the mean over people of the model's value less the best one's; its 95 %
        interval ``low`` to ``high`` by bootstrap over people; the shares of people for whom it is ``better`` and
        ``worse`` than the best. Nothing where there is no best model, or one number for all people.
        """
        known, table = self.metric_of(metric or self.metric), self.table(metric)
        best, people = table.filter(pl.col("verdict") == "best")["model"].to_list(), self.per_user(known.name)
        rows = []
        for name in table["model"] if best and known.is_per_list else []:
            if name in people.columns:
                found = difference(people, name, best[0], known.sign)
                rows.append({"model": name, "difference": found.mean, **found._asdict()})
        names = ("difference", "low", "high", "better", "worse")
        return pl.DataFrame(rows, schema={"model": pl.String, **dict.fromkeys(names, pl.Float64)})

    def _uninformative(self) -> set[str]:
        """Models whose probabilities of pairs are no better than a coin."""
        losses = {name: [r.overall.get("pair_log_loss", np.nan) for r in self.of(name)] for name in self.models}
        known = {name: np.array(each)[np.isfinite(each)] for name, each in losses.items()}
        return {name for name, each in known.items() if each.size and each.mean() >= 1.0}

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

    def calibrate(self, n_pairs: int = USUAL_PAIRS) -> None:
        """Measure the probabilities of held-out pairs of the first split, of models that have any.

        ``compare(..., n_pairs=)`` does it at once; `report` does it if nobody has. It needs the fitted models, which a
        comparison that was read from files does not have.
        """
        split = self.first_split
        if split is None or self.question != "order":
            return
        people_known = split.given is not None or bool(set(split.test.user_ids) & set(split.train.user_ids))
        firsts = {result.name: result for result in reversed(self.results)}
        for result in firsts.values():
            if people_known and result.model is not None and result.problem is None and result.reliability is None:
                calibrate(result, result.model, split.test, split.given, n_pairs)

    def shown(self) -> Named:
        """What a report shows beside numbers: ``example``, one person, and ``communities`` by model; for JSON."""
        if self._shown is None:
            ranked = [r for name in self.table()["model"] for r in self.of(name)[:1] if r.cut_off is None]
            example = None
            if ranked and self.first_split is not None and self.question == "order":
                example = portraits.example_of(ranked[0], self.metric, self.first_split)
            found = {r.name: portraits.communities_of(r.model, self.first_split) for r in ranked}
            self._shown = {"example": example, "communities": {name: each for name, each in found.items() if each}}
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
        saving.save(folder, self.results, self.known, rest)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read what `save` wrote; files that have changed since are refused."""
        kept = saving.load(folder)
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
