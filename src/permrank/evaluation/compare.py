"""`compare`: several models on the same splits, person by person."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from permrank.data.rankings import Rankings
from permrank.data.selection import restrict
from permrank.errors import InputError
from permrank.evaluation.evaluate import Evaluation, evaluate, usual_metrics
from permrank.evaluation.protocols import Protocol, usual_protocol
from permrank.evaluation.significance import bootstrap_interval, holm, randomisation_test
from permrank.evaluation.split import Split
from permrank.learning.interrupts import ending_at_once
from permrank.models.ranker import Ranker

# Users of the first fit, which compiles: enough for every branch, few enough for any model.
_FIRST_USERS = 30
_LEVEL = 0.05


@dataclass
class Comparison:
    """What several models got on the same splits.

    Attributes
    ----------
    results : list of Evaluation
        A model and a split each.
    splits : list of str
        How the splits were made.
    metric : str
        The metric by which models are ordered and compared.
    """

    results: list[Evaluation]
    splits: list[str] = field(default_factory=list)
    metric: str = ""

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order of the comparison."""
        return list(dict.fromkeys(result.name for result in self.results))

    def of(self, name: str) -> list[Evaluation]:
        """Results of a model, one a split."""
        return [result for result in self.results if result.name == name]

    def by_seed(self) -> pl.DataFrame:
        """A row a model and seed: means of all metrics, seconds, when it was cut off, and what went wrong."""
        rows = [
            {
                "model": r.name, "seed": r.seed, **r.means(), "fit_seconds": r.fit_seconds, "cut_off": r.cut_off,
                "problem": r.problem,
            }
            for r in self.results
        ]  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"cut_off": pl.Float64})

    def per_user(self, metric: str) -> pl.DataFrame:
        """A row a person: weight, and a column a model with the person's mean over splits; null if there is none."""
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

    def table(self, metric: str | None = None) -> pl.DataFrame:
        """A row a model, best first.

        Columns: ``model``; the mean over people of ``metric`` (the first that was asked for, if not given) with its
        95 % interval ``low`` to ``high``; ``p``, Holm's corrected p-value of the difference to the best; ``verdict``
        (best, same, worse, cut off, or failed; "same" is "cannot be told apart"); means of the other metrics;
        ``seconds`` of a fit, ``first_seconds`` of the first and tiny one, which compiles, ``megabytes`` at the peak of
        a fit; and ``cut_off``, the seconds after which a fit was stopped before its end. A model that was cut off is
        measured, but neither best nor compared with the best: with more time it might be better.
        """
        metric = metric or self.metric
        people = self.per_user(metric)
        names = [name for name in self.models if name in people.columns]
        means = {name: _mean(people, name) for name in names}
        # The calibration error is the only metric of which less is better, and it is not measured by person.
        ranked = sorted(names, key=lambda name: -means[name])
        stopped = {r.name: r.cut_off for r in self.results if r.cut_off is not None}
        whole = [name for name in ranked if name not in stopped]
        p_values = dict(zip(whole[1:], _p_values(people, whole), strict=True))
        rows = []
        for name in [*ranked, *(name for name in self.models if name not in names)]:
            row: dict[str, Any] = {"model": name, metric: None, "low": None, "high": None, "p": None}
            row["verdict"] = "failed"
            if name in means:
                known = people.filter(pl.col(name).is_not_null())
                low, high = bootstrap_interval(known[name].to_numpy(), known["weight"].to_numpy())
                row |= {metric: means[name], "low": low, "high": high, "p": p_values.get(name)}
                row["verdict"] = "cut off" if name in stopped else _verdict(p_values.get(name))
            rows.append(row | self._costs(name, metric) | {"cut_off": stopped.get(name)})
        numbers = {"p": pl.Float64, metric: pl.Float64, "low": pl.Float64, "high": pl.Float64, "cut_off": pl.Float64}
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    def _costs(self, name: str, metric: str) -> dict[str, Any]:
        mine = self.of(name)
        found: dict[str, Any] = {}
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

    def to_dict(self) -> dict[str, Any]:
        """Everything but the models and the single persons, for JSON."""
        return {
            "metric": self.metric,
            "splits": self.splits,
            "table": [_plain(row) for row in self.table().to_dicts()],
            "by_seed": [_plain(row) for row in self.by_seed().to_dicts()],
            "problems": self.problems(),
        }


def compare(
    models: Mapping[str, Ranker] | Iterable[Ranker],
    data: Rankings | Split | Iterable[Split],
    *,
    protocol: Protocol | None = None,
    seeds: Iterable[int] = (0,),
    metrics: Iterable[str] | None = None,
    n_pairs: int = 0,
    on_result: Callable[[Evaluation], None] | None = None,
    **options: Any,
) -> Comparison:
    """Fit and measure several models on the same splits.

    A model that fails does not stop the others; it is in the table, and `Comparison.problems` says why.

    Parameters
    ----------
    models : mapping of name to model, or sequence of models
        A model with a ``seed`` gets that of the split.
    data : Rankings, Split or several
        Rankings are split by the protocol, once a seed.
    protocol : Protocol, optional
        What fits the data, if not given.
    seeds : sequence of int
    metrics : sequence of str, optional
        Names of docs/metrics.md; models are ordered by the first.
    n_pairs : int
        Held-out pairs for the calibration, asked of every model on the first split.
    on_result : callable, optional
        Called with every `Evaluation` as it comes.
    **options
        As for `evaluate`: ``k``, ``candidates``, ``relevant_from``, ``max_seconds``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> found = pr.compare([pr.MeanRating(), pr.Random()], rankings, protocol=pr.Given(5), seeds=range(2))
    >>> found.table().select("model", "verdict").rows()
    [('MeanRating()', 'best'), ('Random()', 'worse')]
    """
    named = dict(models) if isinstance(models, Mapping) else _named(models)
    if not named:
        raise InputError("there are no models to compare")
    splits = _splits(data, protocol, seeds)
    wanted = list(metrics) if metrics is not None else None
    if wanted is not None and not wanted:
        raise InputError("name at least one metric")
    done = Comparison([], [])
    for number, split in enumerate(splits):
        done.splits.append(repr(split))
        known = split.given is not None or bool(set(split.test.user_ids) & set(split.train.user_ids))
        asked = wanted or usual_metrics(split.test, ordered=known)
        done.metric = done.metric or next((name for name in asked if name != "calibration_error"), asked[0])
        for name, model in named.items():
            with ending_at_once():
                result = _one(
                    name, model, split, number == 0, metrics=asked, n_pairs=n_pairs * (number == 0), **options
                )
            done.results.append(result)
            if on_result is not None:
                on_result(result)
    return done


def _one(name: str, model: Ranker, split: Split, first: bool, **options: Any) -> Evaluation:
    seconds = None
    try:
        seeded = model.clone()
        if "seed" in seeded.get_params():
            seeded.set_params(seed=split.seed)
        seconds = _first_fit(seeded, split) if first else None
        result = evaluate(seeded, split, name=name, **options)
    except Exception as error:  # whatever a model does, the others still have their turn
        text = " ".join(str(error).split()) or "no message"
        result = Evaluation(name, split.seed, problem=f"{type(error).__name__}: {text}")
    result.first_seconds = seconds
    return result


def _first_fit(model: Ranker, split: Split) -> float:
    """Seconds of learning from a few users and asking one question: mostly compiling, or reading compiled code."""
    train = split.train
    few = restrict(train, np.arange(train.n_users) < _FIRST_USERS, np.ones(train.n_items, bool))
    few = few.select(items=few.item_ids.take(np.unique(few.items).astype(np.int64)).to_list())
    begin = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        try:
            trial = model.clone().fit(few, callback=lambda progress: progress.iteration >= 3, verbose=False)
            trial.score_pairs([trial.user_ids[0]], [trial.item_ids[0]])
        except Exception:  # (what goes wrong here goes wrong again, and is reported, in the fit that counts)
            pass
    return time.perf_counter() - begin


def _named(models: Iterable[Ranker]) -> dict[str, Ranker]:
    found: dict[str, Ranker] = {}
    for model in models:
        if not isinstance(model, Ranker):
            raise InputError(f"expected models, got {type(model).__name__}")
        if repr(model) in found:
            raise InputError(f"{model!r} comes twice; give every model once, or name them in a dict")
        found[repr(model)] = model
    return found


def _splits(data: Any, protocol: Protocol | None, seeds: Iterable[int]) -> Iterable[Split]:
    if isinstance(data, Rankings):
        chosen = protocol or usual_protocol(data)
        return [chosen.split(data, int(seed)) for seed in seeds]
    splits = [data] if isinstance(data, Split) else list(data)
    if not splits or not all(isinstance(split, Split) for split in splits):
        raise InputError("expected Rankings, a Split or several; permrank.read(path) makes Rankings")
    return splits


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


def _verdict(p: float | None) -> str:
    return "best" if p is None else "worse" if p < _LEVEL else "same"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in row.items()}
