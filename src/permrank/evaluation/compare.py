"""`compare`: several models on the same splits, person by person."""

from __future__ import annotations

import hashlib
import platform
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.evaluation.comparison import Comparison
from permrank.evaluation.defaults import default_candidates, default_metrics, default_protocol
from permrank.evaluation.evaluate import Evaluation, evaluate
from permrank.evaluation.metrics import Metric, find_metric
from permrank.evaluation.protocols import Protocol
from permrank.evaluation.split import Candidates, Split, knows_people
from permrank.learning.hooks import ending_at_once
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import restrict
from permrank.types import Named

# Fits of a model that draws, on all splits together, for data of at most so many entries; one by one costs more there.
_USUAL_FITS = ((5_000, 10), (50_000, 5), (np.inf, 3))
# Users of the first fit, which compiles: enough for every branch, few enough for any model.
_FIRST_USERS = 30
_PACKAGES = ("permrank", "numpy", "scipy", "numba", "polars")


def compare(
    models: Mapping[str, Ranker] | Iterable[Ranker],
    data: Rankings | Split | Iterable[Split],
    *,
    protocol: Protocol | None = None,
    seeds: int | Iterable[int] = (0,),
    fits: Literal["auto"] | int = "auto",
    metrics: Iterable[str | Metric] | None = None,
    k: int = 10,
    candidates: Candidates | None = None,
    relevant_from: float | None = None,
    n_pairs: int = 0,
    max_seconds: float | None = None,
    on_result: Callable[[Evaluation], None] | None = None,
) -> Comparison:
    """Fit and measure several models on the same splits.

    A model that fails does not stop the others; it is in the table, and `Comparison.problems` says why.

    Parameters
    ----------
    models : mapping of name to model, or sequence of models
        A model with a ``seed`` gets others, which depend on the split's seed, the model's name and the number of the
        fit.
    data : Rankings, Split or several
        Rankings are split by the protocol, once for each seed.
    protocol : Protocol, optional
        What fits the data, if not given: people's order of what they have listed. ``Catalogue()`` asks what they would
        choose out of everything.
    seeds : int or sequence of int
        How many splits, with the seeds 0, 1, ..., or the seeds themselves.
    fits : int or "auto"
        How often a model with a ``seed`` is fitted to every split, so that a verdict is of the model and not of one
        seed; others are fitted once. If not given, so that all splits together have 10 fits of data of at most 5,000
        training entries, 5 of at most 50,000, and 3 of larger ones. One fit on one split leaves such a model undecided.
    metrics : sequence of str or Metric, optional
        Names of docs/metrics.md, or metrics of your own; models are ordered by the first.
    k, candidates, relevant_from
        As for `evaluate`.
    n_pairs : int
        Held-out pairs for the calibration, asked of every model on the first split.
    max_seconds : float, optional
        A fit stops at the sweep that passes this. What it has reached is measured, and marked as cut off.
    on_result : callable, optional
        Called with every `Evaluation` as it comes.

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
    splits = _splits(data, protocol, seeds, named.values())
    if fits != "auto":
        require_int("fits", fits, 1)
    questions = {split.question for split in splits}
    if len(questions) > 1:
        raise InputError("some splits ask for an order and some to find what is hidden; compare them one by one")
    wanted = [find_metric(metric) for metric in metrics] if metrics is not None else None
    if wanted is not None and not wanted:
        raise InputError("name at least one metric")
    options = {"k": k, "candidates": candidates, "relevant_from": relevant_from, "max_seconds": max_seconds}
    done = Comparison([], question=questions.pop(), k=k, made=_made(), known=_known(splits[0]), first_split=splits[0])
    for number, split in enumerate(splits):
        done.splits.append(repr(split))
        asked = wanted or [find_metric(name) for name in _usual(split, candidates, ordered=knows_people(split))]
        done.asked |= {metric.name: metric for metric in asked}
        done.metric = done.metric or next((metric for metric in asked if metric.is_per_list), asked[0]).name
        often = _usual_fits(split, len(splits)) if fits == "auto" else int(fits)
        for name, model in named.items():
            for fit in range(often if is_random(model) else 1):
                asking = {"metrics": asked, "n_pairs": n_pairs * (number == fit == 0), **options}
                with ending_at_once():
                    result = _one(name, model, split, fit, number == fit == 0, **asking)
                result.split = number
                done.results.append(result)
                if on_result is not None:
                    on_result(result)
                if result.problem or result.cut_off is not None or (fit == 1 and _are_one(*done.results[-2:])):
                    break
    return done


def _made() -> dict[str, str]:
    """When, with which versions, and on which system."""
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in _PACKAGES)]
    return {
        "time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": ", ".join(versions),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _known(split: Split) -> pl.DataFrame:
    """How many entries of everybody who is asked about were learnt from."""
    given = split.train if split.given is None else split.given
    frame = pl.DataFrame({"user": given.user_ids.ids, "entries": np.diff(given.user_bounds)})
    asked = split.test.user_ids.ids  # numbers, of ballots without voters, are none of the names
    return frame.filter(pl.col("user").is_in(asked.implode())) if asked.dtype == frame["user"].dtype else frame.clear()


def _usual(split: Split, candidates: Candidates | None, *, ordered: bool) -> list[str]:
    ranked = default_candidates(candidates, split.question)
    return default_metrics(split.test, ordered=ordered, question=split.question if ranked == "all" else "order")


def is_random(model: Ranker) -> bool:
    """Whether a model, or one that it is made of, has a ``seed``."""
    values = model.get_params()
    return "seed" in values or any(is_random(value) for value in values.values() if isinstance(value, Ranker))


def _with_seed(model: Ranker, seed: int) -> Ranker:
    """A copy with this seed, of the models that it is made of too."""
    values = model.get_params()
    changed: Named = {n: _with_seed(each, seed) for n, each in values.items() if isinstance(each, Ranker)}
    return model.clone().set_params(**changed, **({"seed": seed} if "seed" in values else {}))


def _seed_of(split: Split, name: str, fit: int) -> int:
    """Another seed for every split, name and fit: two models of one kind share no luck."""
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return int(stream_key(split.seed, digest, fit)) >> 33  # 31 bits: a whole number for any program


def _are_one(first: Evaluation, second: Evaluation) -> bool:
    """Whether learning did not depend on the seed: the same steps to the last bit, and the same results."""
    return first.history == second.history and first.per_user.equals(second.per_user)


def _usual_fits(split: Split, n_splits: int) -> int:
    wanted = next(number for most, number in _USUAL_FITS if split.train.n_entries <= most)
    return -(-wanted // n_splits)


def _one(name: str, model: Ranker, split: Split, fit: int, first: bool, **options: Any) -> Evaluation:
    seconds, random = None, False
    try:
        random = is_random(model)
        seeded = _with_seed(model, _seed_of(split, name, fit))
        seconds = _first_fit(seeded, split) if first else None
        result = evaluate(seeded, split, name=name, **options)
    except Exception as error:  # whatever a model does, the others still have their turn
        text = " ".join(str(error).split()) or "no message"
        result = Evaluation(name, split.seed, problem=f"{type(error).__name__}: {text}")
    result.first_seconds, result.fit, result.random = seconds, fit, random
    if fit > 0:
        result.model = None  # one of each kind is enough to show, and models are large
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
    named: dict[str, Ranker] = {}
    for model in models:
        if not isinstance(model, Ranker):
            raise InputError(f"expected models, got {type(model).__name__}")
        name = model.call()
        if name in named:
            raise InputError(f"{name} comes twice; give every model once, or name them in a dict")
        named[name] = model
    return named


def _splits(
    data: Any, protocol: Protocol | None, seeds: int | Iterable[int], models: Collection[Ranker]
) -> list[Split]:
    if isinstance(seeds, int):
        require_int("seeds", seeds, 1)
        seeds = range(seeds)
    if isinstance(data, Rankings):
        chosen = protocol or default_protocol(data, models)
        return [chosen.split(data, int(seed)) for seed in seeds]
    splits = [data] if isinstance(data, Split) else list(data)
    if not splits or not all(isinstance(split, Split) for split in splits):
        raise InputError("expected Rankings, a Split or several; permrank.read(path) makes Rankings")
    return splits
