"""Who gains and who loses: differences of two models person by person."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.evaluation.significance import interval
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
    >>> from permrank.evaluation.gains import difference
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
            found = difference(part, name, other)
            ends = int(part["entries"].min()), int(part["entries"].max())  # type: ignore[arg-type]
            groups.append({"from": ends[0], "to": ends[1], **found._asdict()})
    return groups if len(groups) > 1 else []
