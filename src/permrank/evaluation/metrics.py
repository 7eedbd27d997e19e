"""Metrics of rankings, one value a list; docs/metrics.md has their formulas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from scipy.special import gammaln

from permrank.checks import whole_from
from permrank.data.rankings import Rankings
from permrank.errors import InputError, UnknownIdError
from permrank.kernels import metrics as kernels
from permrank.ragged import frozen
from permrank.types import Float64Array, Int64Array

GRADED = {
    "ndcg": kernels.NDCG,
    "ndcg_linear": kernels.NDCG_LINEAR,
    "err": kernels.ERR,
    "mrr": kernels.RECIPROCAL_RANK,
    "map": kernels.AVERAGE_PRECISION,
    "precision": kernels.PRECISION,
    "recall": kernels.RECALL,
    "overlap": kernels.OVERLAP,
}
ORDERED = {"tau_b": kernels.TAU_B, "spearman": kernels.SPEARMAN, "pairs_right": kernels.PAIRS_RIGHT}
LIKELIHOOD = ("log_likelihood", "log_likelihood_per_stage")
METRICS = (*GRADED, *ORDERED, *LIKELIHOOD, "calibration_error")
"""Names of all metrics; the last is one number for many lists, the others are one a list."""

TITLES = {
    "ndcg": "NDCG@{k}",
    "ndcg_linear": "linear NDCG@{k}",
    "err": "ERR@{k}",
    "mrr": "MRR@{k}",
    "map": "MAP@{k}",
    "precision": "precision@{k}",
    "recall": "recall@{k}",
    "overlap": "overlap@{k}",
    "tau_b": "tau-b",
    "spearman": "Spearman",
    "pairs_right": "pairs right",
    "log_likelihood": "log-likelihood",
    "log_likelihood_per_stage": "per stage",
    "calibration_error": "calibration",
}
"""What metrics are called in tables and pictures."""

# Grades of a list without ratings lie evenly between these: the scale of stars, on which gains of 2^g - 1 are usual.
_BEST_GRADE, _LAST_GRADE = 5.0, 1.0
# What counts as relevant unless told: 4 and 5 of 5 stars.
_RELEVANT_SHARE = 0.8


def title_of(metric: str, k: int) -> str:
    """What a metric is called in a table."""
    return TITLES.get(metric, metric).format(k=k)


def per_list(
    names: Iterable[str],
    indptr: Any,
    grades: Any,
    scores: Any,
    *,
    k: int | None = 10,
    relevant_from: float | None = None,
    top_grade: float | None = None,
) -> dict[str, Float64Array]:
    """Metrics of many lists at once, parallel over lists.

    Parameters
    ----------
    names : sequence of str
        Among ``ndcg``, ``ndcg_linear``, ``err``, ``mrr``, ``map``, ``precision``, ``recall``, ``overlap`` (these look
        at the first ``k``), ``tau_b``, ``spearman`` and ``pairs_right`` (these look at the whole list).
    indptr : int (n_lists + 1,)
        Entries of list ``u`` are ``indptr[u]:indptr[u + 1]``, in any order.
    grades : float (n_entries,)
        The truth, higher is better; equal ones are tied.
    scores : float (n_entries,)
        The prediction, higher is better. Equal ones stand for a random order: values are expected ones.
    k : int or None
        Places looked at; None for all.
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
    >>> from permrank.evaluation.metrics import per_list
    >>> found = per_list(["pairs_right", "mrr"], [0, 3, 5], [5, 3, 1, 4, 2], [0.9, 0.2, 0.4, 0.1, 0.1])
    >>> found["pairs_right"].round(3).tolist(), found["mrr"].tolist()
    ([0.667, 0.5], [1.0, 0.75])
    """
    names = list(names)
    for name in names:
        if name not in GRADED and name not in ORDERED:
            raise UnknownIdError("metric", name, (*GRADED, *ORDERED))
    bounds, grades, scores = _checked(indptr, grades, scores)
    found: dict[str, Float64Array] = {}
    if any(name in GRADED for name in names):
        longest = int(np.diff(bounds).max(initial=1))
        if k is not None:
            whole_from("k", k, 1)
        top = float(grades.max(initial=0.0)) if top_grade is None else float(top_grade)
        relevant = _RELEVANT_SHARE * top if relevant_from is None else float(relevant_from)
        discounts = 1.0 / np.log2(np.arange(2, longest + 2))
        reach = longest if k is None else int(k)
        table = np.full((bounds.size - 1, len(GRADED)), np.nan)
        kernels.graded_metrics(bounds, grades, scores, discounts, reach, relevant, top, table)
        found |= {name: table[:, column] for name, column in GRADED.items()}
    if any(name in ORDERED for name in names):
        table = np.full((bounds.size - 1, len(ORDERED)), np.nan)
        kernels.order_metrics(bounds, grades, scores, table)
        found |= {name: table[:, column] for name, column in ORDERED.items()}
    return {name: found[name] for name in names}


def _checked(indptr: Any, grades: Any, scores: Any) -> tuple[Any, ...]:
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


def filled(indptr: Int64Array, scores: Any) -> Float64Array:
    """Scores with those that a model could not give (not finite) replaced by the mean of the list's others, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> from permrank.evaluation.metrics import filled
    >>> filled(np.array([0, 3, 4]), [1.0, np.nan, 2.0, np.nan]).tolist()
    [1.0, 1.5, 2.0, 0.0]
    """
    values: Float64Array = np.array(scores, np.float64)
    missing = ~np.isfinite(values)
    if missing.any():
        owner = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        count = np.bincount(owner[~missing], minlength=indptr.size - 1)
        total = np.bincount(owner[~missing], values[~missing], minlength=indptr.size - 1)
        values[missing] = (total / np.maximum(count, 1))[owner[missing]]
    return values


def grades_of(rankings: Rankings) -> Float64Array:
    """Grade of every entry: its rating, or evenly from 5 (the best of a list) to 1 (its last) without ratings.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.metrics import grades_of
    >>> grades_of(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}, "d"], "bob": ["a"]})).tolist()
    [5.0, 3.0, 3.0, 1.0, 5.0]
    """
    if rankings.ratings is not None:
        return np.asarray(rankings.ratings, np.float64)
    lengths = np.diff(rankings.indptr)
    steps = np.maximum(rankings.levels[rankings.indptr[1:] - 1], 1) if lengths.size else lengths
    fall = (_BEST_GRADE - _LAST_GRADE) * rankings.levels / np.repeat(steps, lengths)
    return np.asarray(_BEST_GRADE - fall)


def stages(rankings: Rankings) -> Int64Array:
    """Choices that each ranking tells of: all its entries but the last, which is certain."""
    return np.asarray(np.diff(rankings.indptr) - 1)


def blind_log_likelihood(rankings: Rankings) -> Float64Array:
    """log P of each ranking if all orders are equally likely: log (Π_b m_b!) - log n!, m_b being the sizes of its ties.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.metrics import blind_log_likelihood
    >>> blind_log_likelihood(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}]})).round(4).tolist()
    [-1.0986]
    """
    lengths = np.diff(rankings.indptr)
    owner = np.repeat(np.arange(lengths.size), lengths)
    new = np.ones(rankings.n_entries, bool)
    new[1:] = (np.diff(rankings.levels) != 0) | (np.diff(owner) != 0)
    sizes = np.diff(np.append(np.flatnonzero(new), rankings.n_entries))
    inside = np.bincount(owner[new], gammaln(sizes + 1.0), minlength=lengths.size)
    return np.asarray(inside - gammaln(lengths + 1.0))


def reliability(probabilities: Any, outcomes: Any, *, n_bins: int = 10) -> pl.DataFrame:
    """What was foretold against what happened.

    A pair is turned so that its probability is at least one half; bins of equal width lie between 0.5 and 1.

    Parameters
    ----------
    probabilities : float (n,)
        P(first before second) of pairs.
    outcomes : float (n,)
        1 where the first came before, else 0.
    n_bins : int

    Returns
    -------
    polars.DataFrame
        ``predicted`` and ``observed`` (means), ``error`` (standard error of ``observed``), ``n``; no empty bins.

    Examples
    --------
    >>> from permrank.evaluation.metrics import calibration_error, reliability
    >>> bins = reliability([0.9, 0.9, 0.1, 0.9], [1, 1, 0, 0])
    >>> bins.select("predicted", "observed", "n").row(0)
    (0.9, 0.75, 4)
    >>> round(calibration_error(bins), 3)
    0.15
    """
    whole_from("n_bins", n_bins, 1)
    p, y = np.asarray(probabilities, np.float64), np.asarray(outcomes, np.float64)
    if p.shape != y.shape or p.ndim != 1:
        raise InputError(f"{p.size} probabilities and {y.size} outcomes; give one for each pair")
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"{p[~((p >= 0) & (p <= 1))][0]} is not a probability")
    turned = p < 0.5
    p, y = np.where(turned, 1.0 - p, p), np.where(turned, 1.0 - y, y)
    y = np.where(p == 0.5, 0.5, y)  # nothing was foretold, whichever came first
    place = np.minimum((2.0 * (p - 0.5) * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(place, minlength=n_bins)
    kept = n > 0
    predicted = np.bincount(place, p, minlength=n_bins)[kept] / n[kept]
    observed = np.bincount(place, y, minlength=n_bins)[kept] / n[kept]
    error = np.sqrt(observed * (1.0 - observed) / n[kept])
    return pl.DataFrame({"predicted": predicted, "observed": observed, "error": error, "n": n[kept]})


def calibration_error(bins: pl.DataFrame) -> float:
    """Mean over pairs of what ``predicted`` and ``observed`` of the pair's bin are apart; NaN without pairs."""
    if bins.is_empty():
        return float("nan")
    gap = np.abs(bins["predicted"].to_numpy() - bins["observed"].to_numpy())
    return float(np.average(gap, weights=bins["n"].to_numpy()))
