"""Links between users: who is whose friend, or trusts whom, kept by id like all that is known of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp

from permrank.errors import InputError, shown
from permrank.ragged import owners
from permrank.rankings.frames import as_frame, id_column, ids_like, weight_column
from permrank.rankings.words import plain_word
from permrank.types import Float64Array, Int64Array, Named

# Usual names of the two columns, and of weights.
_FROM = ("user", "userid", "truster", "follower", "source", "from", "member", "person")
_TO = ("friend", "friendid", "trustee", "followee", "followed", "target", "to", "other", "user2", "neighbour")
_WEIGHT = ("weight", "strength", "trust", "value")
# Everybody of a group is linked with everybody: a group of more makes too many links.
MOST_OF_A_GROUP = 200


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
        known = pl.DataFrame({"user": ids, "index": np.arange(len(ids))})
        both = self.frame.join(known, on="user").join(known.rename({"user": "friend", "index": "other"}), on="friend")
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
    def from_dict(cls, found: Named, dtype: pl.DataType) -> Links:
        """What `to_dict` gave; anything else raises a `ValueError`."""
        frame = pl.DataFrame(
            [
                pl.Series("user", found["user"], dtype=dtype, strict=True),
                pl.Series("friend", found["friend"], dtype=dtype, strict=True),
                pl.Series("weight", found["weight"], dtype=pl.Float64, strict=True),
            ]
        )
        weights = frame["weight"].to_numpy()
        if any(series.null_count() for series in frame) or not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError("links are not whole")
        if frame.select("user", "friend").is_duplicated().any() or (frame["user"] == frame["friend"]).any():
            raise ValueError("a link comes twice, or of somebody to themselves")
        return cls(frame.sort("user", "friend"), bool(found["learnt"]))


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

    Of a column that is not named the usual names are known; a frame of two or three columns without them has the user
    first. ``like`` are ids of the users of the rankings. Links of somebody to themselves say nothing, and go.
    """
    frame = as_frame(data)
    names = list(frame.columns)
    for given in (user, friend, weight):
        if given is not None and given not in names:
            raise InputError(f"{where} has no column {given!r}; its columns are {', '.join(names)}")
    if len(names) < 2:
        raise InputError(f"{where} has {len(names)} column; expected one of users and one of their friends")
    user = user or _usual(names, _FROM) or names[0]
    friend = friend or _usual([name for name in names if name != user], _TO)
    friend = friend or next(name for name in names if name != user)
    weight = weight or _usual([name for name in names if name not in (user, friend)], _WEIGHT)
    ids = [
        ids_like(id_column(frame, name, "user"), like).rename(role)
        for name, role in ((user, "user"), (friend, "friend"))
    ]
    weights = np.ones(frame.height) if weight is None else weight_column(frame, weight)
    made = pl.DataFrame([*ids, pl.Series("weight", weights, dtype=pl.Float64)])
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


def _usual(names: list[str], words: tuple[str, ...]) -> str | None:
    return next((name for word in words for name in names if plain_word(name) == word), None)
