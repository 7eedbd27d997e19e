"""Links between users, by id: friendship, trust, likeness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from scipy.spatial import KDTree

from permrank.errors import InputError, shown
from permrank.ragged import owners
from permrank.rankings.columns import matching, plain_words
from permrank.rankings.features import Features
from permrank.rankings.frames import Table, ids_like
from permrank.types import Array, Float64Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.rankings.attributes import Attributes

# Everybody of a group is linked with everybody: a group of more makes too many links.
MOST_OF_A_GROUP = 200
# Differences of coordinates below this are rounding.
_DIGITS = 9


class Edges(NamedTuple):
    """Pairs of users who are linked, by index, the smaller one first and each pair once.

    Attributes
    ----------
    first, second : int64 (n,)
    weights : float64 (n,)
        Sums over both directions.
    """

    first: Int64Array
    second: Int64Array
    weights: Float64Array


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links by id.

    Attributes
    ----------
    frame : polars.DataFrame
        Columns ``user``, ``friend`` (ids of users, also of some without a ranking) and ``weight``, above 0; sorted, and
        every link once.
    learnt : bool
        Whether models learn from them.
    """

    frame: pl.DataFrame
    learnt: bool = True

    def __len__(self) -> int:
        return self.frame.height

    def without(self, ids: pl.Series) -> Links:
        """All links but those of some users."""
        some = ids.implode()
        return Links(self.frame.filter(~pl.col("user").is_in(some) & ~pl.col("friend").is_in(some)), self.learnt)

    def joined(self, newer: Links | None) -> Links:
        """The links of both; of a link that both have, the newer weight counts."""
        if newer is None:
            return self
        both = pl.concat([self.frame, newer.frame]).unique(["user", "friend"], keep="last", maintain_order=True)
        return Links(both.sort("user", "friend"), self.learnt or newer.learnt)

    def among(self, ids: pl.Series) -> Edges:
        """Who is linked with whom among these users, which are sorted, whatever the direction."""
        users = pl.DataFrame({"user": ids, "index": np.arange(len(ids))})
        both = self.frame.join(users, on="user").join(users.rename({"user": "friend", "index": "other"}), on="friend")
        one, other, weights = (both[name].to_numpy() for name in ("index", "other", "weight"))
        # A sparse matrix adds up what comes twice, and far quicker than groups of a frame.
        matrix = sp.csr_array((weights, (np.minimum(one, other), np.maximum(one, other))), (len(ids), len(ids)))
        matrix.sum_duplicates()
        first, second = owners(matrix.indptr.astype(np.int64)), matrix.indices.astype(np.int64)
        return Edges(first, second, np.asarray(matrix.data, np.float64))

    # Files

    def to_dict(self) -> Named:
        """All of it as lists."""
        return {"learnt": self.learnt, **{series.name: series.to_list() for series in self.frame}}

    @classmethod
    def from_dict(cls, lists: Named, dtype: pl.DataType) -> Links:
        """What `to_dict` gave; anything else raises a `ValueError`."""
        frame = pl.DataFrame(
            [
                pl.Series("user", lists["user"], dtype=dtype, strict=True),
                pl.Series("friend", lists["friend"], dtype=dtype, strict=True),
                pl.Series("weight", lists["weight"], dtype=pl.Float64, strict=True),
            ]
        )
        weights = frame["weight"].to_numpy()
        if any(series.null_count() for series in frame) or not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError("links are not whole")
        if frame.select("user", "friend").is_duplicated().any() or (frame["user"] == frame["friend"]).any():
            raise ValueError("a link comes twice, or of somebody to themselves")
        return cls(frame.sort("user", "friend"), bool(lists["learnt"]))


def links_of(
    data: object,
    *,
    user: str | None = None,
    friend: str | None = None,
    weight: str | None = None,
    like: pl.Series,
    where: str = "the frame of links",
) -> Links:
    """Links from a frame with a row for each.

    Columns that are not named are recognised by synonyms; a frame of two or three columns without them has the user
    first. ``like`` are ids of the users of the rankings. Links of somebody to themselves say nothing, and go.
    """
    table = Table.of(data)
    names = table.frame.columns
    for given in (user, friend, weight):
        if given is not None and given not in names:
            raise InputError(f"{where} has no column {given!r}; its columns are {', '.join(names)}")
    if len(names) < 2:
        raise InputError(f"{where} has {len(names)} column; expected one of users and one of their friends")
    words = plain_words(names)
    user = user or [*matching("linked user", words), *names][0]
    del words[user]
    friend = friend or [*matching("friend", words), *words][0]
    words.pop(friend, None)
    weight = weight or next(iter(matching("link weight", words)), None)
    ids = [ids_like(table.ids(name, "user"), like).rename(role) for name, role in ((user, "user"), (friend, "friend"))]
    made = pl.DataFrame([*ids, pl.Series("weight", table.weights(weight))])
    made = (
        made.filter(pl.col("user") != pl.col("friend"))
        .group_by("user", "friend")
        .agg(pl.col("weight").sum())
        .sort("user", "friend")
    )
    if len(like) and made.height and not made["user"].is_in(like.implode()).any():
        raise InputError(
            f"no user of the rankings is in {where}: it has for example {shown(made['user'][0])}, and the rankings "
            f"{shown(like[0])}; name the column that has the same ids (user=)"
        )
    return Links(made)


def links_of_groups(users: pl.Series, groups: pl.Series) -> Links:
    """Links between all who are in the same group: a class, a household; weights 1 / (size - 1) make groups equal."""
    frame = pl.DataFrame({"user": users, "group": groups}).drop_nulls()
    sized = frame.with_columns(pl.len().over("group").alias("n")).filter(pl.col("n") > 1)
    if sized.height and sized["n"].max() > MOST_OF_A_GROUP:  # type: ignore[operator]
        largest = sized.filter(pl.col("n") == sized["n"].max())
        raise InputError(
            f"group {shown(largest['group'][0])} has {largest['n'][0]} users; links are for groups of at most "
            f"{MOST_OF_A_GROUP}, and a larger one is a feature: with_features(users=)"
        )
    pairs = sized.join(sized.select(pl.col("user").alias("friend"), "group"), on="group")
    made = pairs.filter(pl.col("user") != pl.col("friend")).select("user", "friend", weight=1.0 / (pl.col("n") - 1))
    return Links(made.group_by("user", "friend").agg(pl.col("weight").sum()).sort("user", "friend"))


def links_of_similar(attributes: Attributes, k: int) -> Links:
    """Links of every user with attributes to the k nearest, weighted 1 / (1 + (distance / s)²).

    s is the median distance of those who differ. Attributes are encoded as for models (rankings/features.py), without
    curves, and each counts alike: the columns of an attribute have a total variance of 1.
    """
    columns = attributes.features if attributes.features is not None else tuple(attributes.frame.columns[1:])
    features = Features.learnt_from(replace(attributes, features=columns))
    chosen = [] if features is None else [not column.attribute.endswith(", curve") for column in features.columns]
    if features is None or not any(chosen):
        raise InputError(
            "no attribute of users says who is similar: text and identifiers do not; add numbers or categories "
            "by with_users(frame)"
        )
    ids = attributes.frame["user"]
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
    """Of every row the k nearest others, or all others if there are fewer: rows, neighbours, and distances.

    A k-d tree over the different rows finds them, so that time and memory grow with rows times k, never with pairs of
    rows. Of many equal rows each is linked with those who come next in a ring of them, so that nobody is everybody's
    neighbour by the order of the ids.
    """
    points, of_row = np.unique(table.round(_DIGITS), axis=0, return_inverse=True)
    of_row = of_row.reshape(-1).astype(np.int64)
    counts = np.bincount(of_row, minlength=len(points))
    members = np.argsort(of_row, kind="stable")  # rows of the first point, of the second ...
    begins = np.cumsum(counts) - counts
    index = np.empty(len(table), np.int64)
    index[members] = np.arange(len(table)) - np.repeat(begins, counts)
    size = min(k + 1, len(points))
    both = KDTree(points).query(points, size)
    distance, near = _own_first(*(np.reshape(each, (len(points), size)) for each in both))
    rows, parts, left = np.arange(len(table)), [], np.full(len(table), k)
    for turn in range(size):
        point = near[of_row, turn]
        taken = np.minimum(left, counts[point] - (turn == 0))
        # In the ring of one's own point the next; elsewhere a part of the ring by one's own index.
        begin = index + 1 if turn == 0 else index * taken
        for step in range(int(taken.max(initial=0))):
            these = rows[taken > step]
            chosen = (begin[these] + step) % counts[point[these]]
            parts.append((these, members[begins[point[these]] + chosen], distance[of_row[these], turn]))
        left = left - taken
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    first, second, distances = (np.concatenate(each) for each in zip(*parts, strict=True))
    return first, second, np.asarray(distances, np.float64)


def _own_first(distance: Array, near: Array) -> tuple[Array, Array]:
    """Neighbours of each point with the point itself in front, whatever rounding says."""
    own = np.arange(len(near))[:, None]
    order = np.argsort(near != own, axis=1, kind="stable")
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(near, order, axis=1)
