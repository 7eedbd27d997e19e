"""Metrics of rankings: the table of all of them, and their values for many lists; docs/metrics.md has the formulas.

A metric is one entry of `METRICS`. One that a kernel computes names its kernel and column; one of your own is made from
a function, and is taken wherever a name is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln

from permrank.checks import require_int
from permrank.errors import InputError, UnknownIdError
from permrank.evaluation.calibration import calibration_by_chance, calibration_error, pair_log_loss, reliability
from permrank.kernels import metrics as kernels
from permrank.kernels import top_k
from permrank.ragged import frozen, new_blocks, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

__all__ = [
    "METRICS",
    "Metric",
    "blind_log_likelihood",
    "calibration_by_chance",
    "calibration_error",
    "filled",
    "find_metric",
    "grades_of",
    "pair_log_loss",
    "per_list",
    "reliability",
    "stages",
    "title_of",
]

Kind: TypeAlias = Literal["graded", "order", "shown", "coverage", "likelihood", "calibration", "pairs", "function"]
ListFunction: TypeAlias = Callable[[Float64Array, Float64Array], float]
"""Grades and scores of one list to a number; NaN where there is nothing to measure."""

# Columns that tables of results have beside those of the metrics.
_TAKEN = (
    "user", "weight", "model", "seed", "low", "high", "p", "verdict", "seconds", "first_seconds", "fit_seconds",
    "megabytes", "cut_off", "problem",
)  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A metric: what it is called, how it is computed, and which way is better.

    Parameters
    ----------
    name : str
        As in ``metrics=["ndcg"]`` and in the columns of results.
    function : callable, optional
        Grades and scores of one list, both float arrays with an entry per item and higher is better, to a number; NaN
        where there is nothing to measure. Without it the kernel of ``kind`` computes the metric.
    title : str
        What tables and figures call it, ``{k}`` standing for k; the name if not given.
    higher_is_better : bool
    top_k : bool
        Whether it looks at the top k only, so that ``k`` matters. A function knows its own k.
    kind : {"function", "graded", "order", "shown", "coverage", "likelihood", "calibration", "pairs"}
        What computes it: the function, one of the two kernels of grades, the items that are shown out of the whole
        catalogue (to each person, to all together), the model's ``log_likelihood``, or its ``prefers``
        (binned, or of every held-out pair).
    column : int
        Of the kernel's table.

    Examples
    --------
    How far the best item of a list is from the top, 0 being right:

    >>> import permrank as pr
    >>> def misplacement(grades, scores):
    ...     return float((scores > scores[grades.argmax()]).sum())
    >>> metric = pr.metrics.Metric("misplacement", misplacement, higher_is_better=False)
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=30, separation=0.0)
    >>> models = {"MeanRating": pr.MeanRating(), "Random": pr.Random()}
    >>> found = pr.compare(models, rankings, protocol=pr.Given(5), metrics=[metric, "ndcg"])
    >>> found.table().select("model", "verdict").rows()
    [('MeanRating', 'best'), ('Random', 'worse')]
    """

    name: str
    function: ListFunction | None = None
    title: str = ""
    higher_is_better: bool = True
    top_k: bool = False
    kind: Kind = "function"
    column: int = 0

    @property
    def identity(self) -> str:
        """What tells metrics of the same name apart, for checkpoints: nothing for those of the table."""
        if self.function is None:
            return ""
        code = getattr(self.function, "__code__", None)
        where = (self.function.__module__, getattr(self.function, "__qualname__", repr(type(self.function))))
        text = repr((where, self.higher_is_better, code and (code.co_code, code.co_consts, code.co_names)))
        return f" ({hashlib.sha256(text.encode()).hexdigest()[:12]})"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or "@" in self.name or self.name in _TAKEN:
            raise InputError(f"name={self.name!r}, expected text without @ that is not one of {', '.join(_TAKEN)}")
        if (self.kind == "function") != callable(self.function):
            raise InputError(f"metric {self.name!r} needs a function of the grades and scores of a list")
        if self.top_k and self.kind == "function":
            raise InputError(f"metric {self.name!r}: a function looks at what it wants to; leave top_k out")

    @property
    def is_per_list(self) -> bool:
        """Whether every list has a value; otherwise there is one number for all of them."""
        return self.kind not in ("calibration", "coverage")

    @property
    def needs_catalogue(self) -> bool:
        """Whether it is of what is shown out of everything, not of a person's hidden items alone."""
        return self.kind in ("shown", "coverage")

    @property
    def needs_scores(self) -> bool:
        """Whether it is computed from the scores of items."""
        return self.kind in ("graded", "order", "shown", "coverage", "function")

    @property
    def sign(self) -> float:
        """1, or -1 if lower is better: values times this are better if higher."""
        return 1.0 if self.higher_is_better else -1.0


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ndcg", title="NDCG@{k}", top_k=True, kind="graded", column=kernels.NDCG),
        Metric("ndcg_linear", title="linear NDCG@{k}", top_k=True, kind="graded", column=kernels.NDCG_LINEAR),
        Metric("err", title="ERR@{k}", top_k=True, kind="graded", column=kernels.ERR),
        Metric("mrr", title="MRR@{k}", top_k=True, kind="graded", column=kernels.RECIPROCAL_RANK),
        Metric("map", title="MAP@{k}", top_k=True, kind="graded", column=kernels.AVERAGE_PRECISION),
        Metric("precision", title="precision@{k}", top_k=True, kind="graded", column=kernels.PRECISION),
        Metric("recall", title="recall@{k}", top_k=True, kind="graded", column=kernels.RECALL),
        Metric("hit_rate", title="hit rate@{k}", top_k=True, kind="graded", column=kernels.HIT_RATE),
        Metric("overlap", title="overlap@{k}", top_k=True, kind="graded", column=kernels.OVERLAP),
        Metric("tau_b", title="tau-b", kind="order", column=kernels.TAU_B),
        Metric("spearman", title="Spearman", kind="order", column=kernels.SPEARMAN),
        Metric("pairs_right", title="pairs right", kind="order", column=kernels.PAIRS_RIGHT),
        Metric("novelty", title="novelty@{k}", top_k=True, kind="shown", column=top_k.NOVELTY),
        Metric(
            "popularity_bias", title="popularity@{k}", top_k=True, kind="shown", column=top_k.POPULARITY_BIAS,
            higher_is_better=False,
        ),
        Metric("coverage", title="coverage@{k}", top_k=True, kind="coverage"),
        Metric("log_likelihood", title="log-likelihood", kind="likelihood"),
        Metric("log_likelihood_per_stage", title="per stage", kind="likelihood"),
        Metric("pair_log_loss", title="bits/pair", kind="calibration", higher_is_better=False),
        Metric("cross_entropy", title="cross entropy", kind="pairs", higher_is_better=False),
        Metric("calibration_error", title="calibration", kind="calibration", higher_is_better=False),
    )
}  # fmt: skip
"""All metrics by name."""

# What counts as relevant by default: 4 and 5 of 5 stars.
_RELEVANT_SHARE = 0.8


def of_kind(*kinds: Kind) -> list[str]:
    """Names of the metrics that are computed in one of these ways."""
    return [name for name, metric in METRICS.items() if metric.kind in kinds]


def find_metric(metric: str | Metric) -> Metric:
    """The metric of a name; one that was made by the caller is itself, unless its name is taken.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.find_metric("calibration_error").higher_is_better
    False
    """
    if isinstance(metric, Metric):
        if METRICS.get(metric.name, metric) != metric:
            raise InputError(f"there is a metric {metric.name!r} already; give yours another name")
        return metric
    if not isinstance(metric, str) or metric not in METRICS:
        raise UnknownIdError("metric", metric, tuple(METRICS))
    return METRICS[metric]


def title_of(metric: str | Metric, k: int) -> str:
    """What a metric is called in a table."""
    known = metric if isinstance(metric, Metric) else METRICS.get(metric)
    return str(metric) if known is None else known.title.replace("{k}", str(k)) if known.title else known.name


class Relevance(NamedTuple):
    """What graded metrics need to know beside grades: the least that is relevant, and the highest there can be."""

    from_grade: float
    top_grade: float

    @classmethod
    def of(cls, relevant_from: float | None, top_grade: float) -> Relevance:
        """Four fifths of the highest grade by default."""
        return cls(_RELEVANT_SHARE * top_grade if relevant_from is None else float(relevant_from), float(top_grade))


def per_list(
    names: Iterable[str | Metric],
    indptr: Array,
    grades: Array,
    scores: Array,
    *,
    k: int | None = 10,
    relevant_from: float | None = None,
    top_grade: float | None = None,
) -> dict[str, Float64Array]:
    """Metrics of many lists at once, parallel over lists.

    Parameters
    ----------
    names : sequence of str or Metric
        Among ``ndcg``, ``ndcg_linear``, ``err``, ``mrr``, ``map``, ``precision``, ``recall``, ``hit_rate``, ``overlap``
        (these look at the top ``k``), ``tau_b``, ``spearman`` and ``pairs_right`` (these look at the whole list); or
        your own.
    indptr : int (n_lists + 1,)
        Entries of list ``u`` are ``indptr[u]:indptr[u + 1]``, in any order.
    grades : float (n_entries,)
        The truth, higher is better; equal ones are tied.
    scores : float (n_entries,)
        The prediction, higher is better. Equal ones stand for a random order: values are expected ones.
    k : int or None
        How many of the top entries are looked at; None for all.
    relevant_from : float, optional
        The least grade that is relevant, for ``mrr``, ``map``, ``precision`` and ``recall``; four fifths of
        ``top_grade`` if not given.
    top_grade : float, optional
        The highest grade there can be, for ``err``; the highest there is if not given.

    Returns
    -------
    dict of str to float64 (n_lists,)
        NaN where there is nothing to measure: no relevant entry, no gain, no two different grades.

    Examples
    --------
    >>> import permrank as pr
    >>> found = pr.metrics.per_list(["pairs_right", "mrr"], [0, 3, 5], [5, 3, 1, 4, 2], [0.9, 0.2, 0.4, 0.1, 0.1])
    >>> found["pairs_right"].round(3).tolist(), found["mrr"].tolist()
    ([0.667, 0.5], [1.0, 0.75])
    """
    wanted = [find_metric(metric) for metric in names]
    for metric in wanted:
        if metric.function is None and metric.kind not in _KERNELS:
            raise UnknownIdError("metric", metric.name, of_kind(*_KERNELS))
    bounds, grades, scores = _checked(indptr, grades, scores)
    if k is not None and any(metric.top_k for metric in wanted):
        require_int("k", k, 1)
    top = float(grades.max(initial=0.0)) if top_grade is None else float(top_grade)
    lists, kinds = (bounds, grades, scores), {metric.kind for metric in wanted}
    tables = {kind: np.full((bounds.size - 1, n), np.nan) for kind, n in _KERNELS.items() if kind in kinds}
    if "graded" in tables:
        longest = int(np.diff(bounds).max(initial=1))
        discounts = 1.0 / np.log2(np.arange(2, longest + 2))
        reach = longest if k is None else int(k)
        kernels.graded_metrics(*lists, discounts, reach, *Relevance.of(relevant_from, top), tables["graded"])
    if "order" in tables:
        kernels.order_metrics(*lists, tables["order"])
    return {
        metric.name: tables[metric.kind][:, metric.column] if metric.function is None else _called(metric, *lists)
        for metric in wanted
    }


# The kinds of metrics that a kernel computes, and the columns of its table.
_KERNELS: dict[Kind, int] = {"graded": kernels.N_GRADED, "order": kernels.N_ORDER}


def _called(metric: Metric, bounds: Int64Array, grades: Float64Array, scores: Float64Array) -> Float64Array:
    """A function of the caller's, list by list; an empty list has nothing to measure."""
    assert metric.function is not None
    out = np.full(bounds.size - 1, np.nan)
    for u, (first, last) in enumerate(pairwise(bounds.tolist())):
        if last > first:
            value = metric.function(grades[first:last], scores[first:last])
            try:
                out[u] = value
            except (TypeError, ValueError) as error:
                raise InputError(f"metric {metric.name!r} gave {value!r} for a list, expected one number") from error
            if np.isinf(out[u]):
                raise InputError(f"metric {metric.name!r} gave {value!r} for a list, expected a finite number or NaN")
    return out


def _checked(indptr: Array, grades: Array, scores: Array) -> tuple[Any, ...]:
    bounds = np.ascontiguousarray(indptr, np.int64)
    grades, scores = (np.ascontiguousarray(values, np.float64) for values in (grades, scores))
    if bounds.ndim != 1 or bounds.size == 0 or bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise InputError("indptr must begin with 0 and not fall: one number more than there are lists")
    if grades.shape != (bounds[-1],) or scores.shape != (bounds[-1],):
        raise InputError(f"{grades.size} grades and {scores.size} scores for {bounds[-1]} entries; give one of each")
    for what, values in (("grade", grades), ("score", scores)):
        if not np.isfinite(values).all():
            wrong = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"{what} {values[wrong]} of entry {wrong} is not finite; see filled() for missing scores")
    return frozen(bounds, grades, scores)


# Grades of a list without ratings lie evenly between these: the scale of stars, on which gains of 2^g - 1 are usual.
_BEST_GRADE, _LAST_GRADE = 5.0, 1.0


def filled(indptr: Int64Array, scores: Array) -> Float64Array:
    """Scores with those that a model could not give (not finite) replaced by the mean of the list's others, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> import permrank as pr
    >>> pr.metrics.filled(np.array([0, 3, 4]), [1.0, np.nan, 2.0, np.nan]).tolist()
    [1.0, 1.5, 2.0, 0.0]
    """
    values: Float64Array = np.array(scores, np.float64)
    missing = ~np.isfinite(values)
    if missing.any():
        owner = owners(indptr)
        count = np.bincount(owner[~missing], minlength=indptr.size - 1)
        total = np.bincount(owner[~missing], values[~missing], minlength=indptr.size - 1)
        values[missing] = (total / np.maximum(count, 1))[owner[missing]]
    return values


def grades_of(rankings: Rankings) -> Float64Array:
    """Grade of every entry: its rating, or evenly from 5 (the best of a list) to 1 (its last) without ratings.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.grades_of(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}, "d"], "bob": ["a"]})).tolist()
    [5.0, 3.0, 3.0, 1.0, 5.0]
    """
    if rankings.ratings is not None:
        return np.asarray(rankings.ratings, np.float64)
    steps = np.repeat(np.maximum(rankings.last_levels, 1), rankings.lengths)
    fall = (_BEST_GRADE - _LAST_GRADE) * rankings.levels / steps
    return np.asarray(_BEST_GRADE - fall)


def stages(rankings: Rankings) -> Int64Array:
    """Choices that each ranking tells of: all its entries but the last, which is certain."""
    return np.asarray(rankings.lengths - 1)


def blind_log_likelihood(rankings: Rankings) -> Float64Array:
    """log P of each ranking if all orders are equally likely: log (Π_b m_b!) - log n!, m_b being the sizes of its ties.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.blind_log_likelihood(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}]})).round(4).tolist()
    [-1.0986]
    """
    new_block = new_blocks(rankings.levels, rankings.indptr)
    sizes = np.diff(np.flatnonzero(new_block), append=rankings.n_entries)
    inside = np.bincount(rankings.entry_rankings()[new_block], gammaln(sizes + 1.0), minlength=rankings.n_rankings)
    return np.asarray(inside - gammaln(rankings.lengths + 1.0))
