"""Links from likeness: everybody with the users whose attributes are nearest.

Attributes are encoded as for models (rankings/features.py), without curves, and each counts alike: the columns of an
attribute have a total variance of 1. Who is nearest is found by a k-d tree over the different rows, so that time and
memory grow with users times links, never with pairs of users. Many people may have the very same attributes. Then each
is linked with those who come next in a ring of them, so that nobody is everybody's neighbour by the order of the ids.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from scipy.spatial import KDTree

from permrank.errors import InputError
from permrank.rankings.attributes import Attributes
from permrank.rankings.features import Features
from permrank.rankings.links import Links
from permrank.types import Array, Float64Array, Int64Array

# Differences of coordinates below this are rounding.
_DIGITS = 9


def links_of_similar(known: Attributes, k: int) -> Links:
    """Links of every user of whom something is known to the k nearest, weighted 1 / (1 + (distance / s)²).

    s is the median distance of those who differ.
    """
    columns = known.features if known.features is not None else tuple(known.frame.columns[1:])
    features = Features.learnt_from(replace(known, features=columns))
    chosen = [] if features is None else [not column.attribute.endswith(", curve") for column in features.columns]
    if features is None or not any(chosen):
        raise InputError(
            "no attribute of users says who is similar: text and identifiers do not; add numbers or categories "
            "by with_users(frame)"
        )
    ids = known.frame["user"]
    table, groups = features.of(ids)[:, chosen], features.groups[chosen]
    for group in np.unique(groups):
        spread = float(np.sqrt(np.sum(table[:, groups == group].var(axis=0))))
        table[:, groups == group] /= spread if spread > 0.0 else 1.0
    first, second, distances = nearest_rows(table, k)
    apart = distances > 0.0
    scale = float(np.median(distances[apart])) if apart.any() else 1.0
    frame = pl.DataFrame(
        {"user": ids[first], "friend": ids[second], "weight": 1.0 / (1.0 + np.square(distances / scale))}
    )
    return Links(frame.sort("user", "friend"))


def nearest_rows(table: Float64Array, k: int) -> tuple[Int64Array, Int64Array, Float64Array]:
    """Of every row the k nearest others, or all others if there are fewer: rows, neighbours, and distances."""
    points, of_row = np.unique(table.round(_DIGITS), axis=0, return_inverse=True)
    of_row = of_row.reshape(-1).astype(np.int64)
    counts = np.bincount(of_row, minlength=len(points))
    members = np.argsort(of_row, kind="stable")  # rows of the first point, of the second ...
    begins = np.cumsum(counts) - counts
    place = np.empty(len(table), np.int64)
    place[members] = np.arange(len(table)) - np.repeat(begins, counts)
    size = min(k + 1, len(points))
    both = KDTree(points).query(points, size)
    found, near = _own_first(*(np.reshape(each, (len(points), size)) for each in both))
    rows, parts, left = np.arange(len(table)), [], np.full(len(table), k)
    for turn in range(size):
        point = near[of_row, turn]
        taken = np.minimum(left, counts[point] - (turn == 0))
        # In the ring of one's own point the next; elsewhere a part of the ring by one's own place.
        begin = place + 1 if turn == 0 else place * taken
        for step in range(int(taken.max(initial=0))):
            these = rows[taken > step]
            chosen = (begin[these] + step) % counts[point[these]]
            parts.append((these, members[begins[point[these]] + chosen], found[of_row[these], turn]))
        left = left - taken
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    first, second, distances = (np.concatenate(each) for each in zip(*parts, strict=True))
    return first, second, np.asarray(distances, np.float64)


def _own_first(found: Array, near: Array) -> tuple[Array, Array]:
    """Neighbours of each point with the point itself in front, whatever rounding says."""
    own = np.arange(len(near))[:, None]
    order = np.argsort(near != own, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(near, order, axis=1)
