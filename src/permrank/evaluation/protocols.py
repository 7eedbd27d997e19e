"""Protocols: who is shown what. Each makes a `Split` from rankings and a seed; docs/protocols.md compares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_choice, require_int, require_seed
from permrank.errors import InputError
from permrank.evaluation.split import Cold, Question, Split, part_of
from permrank.randomness import generator, stream_key
from permrank.rankings.frames import as_frame
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import BoolArray, Int64Array

# An order needs two.
_LEAST_SHARED = 2


# What the parameters of protocols may be: whole numbers from a least one, shares of a whole, or words.
_LEAST = {"n_folds": 2, "min_positive": 2} | dict.fromkeys(
    ("n_train", "n_test", "n_given", "min_train", "min_test", "k", "budget"), 1
)
_SHARES = ("share", "known_share", "new_people")
_WORDS = {"of": ("items", "rankings"), "question": ("order", "find"), "questions": ("chosen", "random")}


class Protocol(ABC):
    """Base of all protocols: ``split(rankings, seed)`` gives the same `Split` every time."""

    measures_order = True
    """Whether people of the test part are known, so that items can be ranked for them."""

    def split(self, rankings: Rankings, seed: int = 0) -> Split:
        """Split rankings; the same seed gives the same split."""
        for name, value in vars(self).items():
            if name in _LEAST:
                require_int(name, value, _LEAST[name])
            elif name in _SHARES:
                self._require_share(name, value)
            elif name in _WORDS:
                require_choice(name, value, _WORDS[name])
        require_seed(seed)
        return self._split(require_rankings(rankings), int(seed))

    @abstractmethod
    def _split(self, rankings: Rankings, seed: int) -> Split:
        """Split, once parameters and arguments have been looked at."""

    def _require_share(self, name: str, value: object) -> None:
        """Raise unless the value lies between 0 and 1, or is the default, which may be none of the share."""
        if value == getattr(type(self), name):
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise InputError(f"{name}={value!r}, expected a number between 0 and 1")

    def _made(
        self,
        rankings: Rankings,
        seed: int,
        train: BoolArray,
        test: BoolArray,
        given: BoolArray | None = None,
        question: Question = "order",
        cold: Cold | None = None,
    ) -> Split:
        """The split of marked entries; an empty part raises."""
        for name, marked in (("train", train), ("test", test)):
            if not marked.any():
                raise InputError(
                    f"{self!r} leaves nothing for the {name} part of these {rankings.n_users} users; "
                    "their lists are too short for it"
                )
        parts = part_of(rankings, train), part_of(rankings, test), None if given is None else part_of(rankings, given)
        return Split(*parts, repr(self), seed, question, cold)


@dataclass(frozen=True)
class WeakGeneralisation(Protocol):
    """Of every user ``n_train`` entries drawn at random to learn from; all others are asked about.

    Parameters
    ----------
    n_train : int
    min_test : int
        Users without so many entries left are dropped. The usual protocol for ratings has 10.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=40, list_length=(5, 30))
    >>> split = pr.WeakGeneralisation(n_train=10).split(rankings, seed=0)
    >>> set(map(len, split.train.lists())), min(map(len, split.test.lists())) >= 10
    ({10}, True)
    """

    n_train: int = 10
    min_test: int = 10

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        long = np.bincount(owner, minlength=rankings.n_users) >= self.n_train + self.min_test
        position = random_positions(owner, 1, seed)
        kept = long[owner]
        return self._made(rankings, seed, kept & (position < self.n_train), kept & (position >= self.n_train))


@dataclass(frozen=True)
class StrongGeneralisation(Protocol):
    """People of the test part are new: a model learns from the others, and folds them in from ``n_given`` entries.

    Parameters
    ----------
    n_given : int
        Entries, drawn at random, that a new person says.
    share : float
        Share of the people with long enough lists who are held out.
    min_test : int
        Only people with so many entries beyond ``n_given`` are held out.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=12, list_length=10)
    >>> split = pr.StrongGeneralisation(n_given=4, min_test=2).split(rankings, seed=0)
    >>> split.train.n_users, split.test.n_users, split.given.n_entries
    (40, 10, 40)
    """

    n_given: int = 10
    share: float = 0.2
    min_test: int = 10

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        long = np.flatnonzero(np.bincount(owner, minlength=rankings.n_users) >= self.n_given + self.min_test)
        drawn = generator(stream_key(seed, 21)).permutation(long)
        held = np.zeros(rankings.n_users, bool)
        held[drawn[: max(1, round(self.share * long.size))]] = True
        position = random_positions(owner, 2, seed)
        given, hidden = held[owner] & (position < self.n_given), held[owner] & (position >= self.n_given)
        return self._made(rankings, seed, ~held[owner], hidden, given)


@dataclass(frozen=True, repr=False)
class LeaveOut(Protocol):
    """Of every user ``k`` entries, or ``k`` of several rankings, or a share of them, drawn at random, are asked about.

    Nobody is dropped.

    Parameters
    ----------
    k : int
    of : {"items", "rankings"}
        Rankings are what to leave out where a user has many short ones, such as choices between two.
    min_train : int
        Users who would be left with fewer entries (or rankings) to learn from are not asked about.
    share : float, optional
        Leave out this share of a user's entries (or rankings), rounded, instead of ``k``; users of whom that is fewer
        than two are not asked about.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": list("abcdefghij"), "bob": ["a", "b"]})
    >>> split = pr.LeaveOut(k=3).split(rankings, seed=0)
    >>> split.train.n_entries, split.test.n_users
    (9, 1)
    >>> pr.LeaveOut(share=0.2).split(rankings, seed=0).test.n_entries
    2
    """

    k: int = 2
    of: Literal["items", "rankings"] = "items"
    min_train: int = 1
    share: float | None = None

    def _split(self, rankings: Rankings, seed: int) -> Split:
        if self.of == "items":
            owner = one_list_each(rankings, self)
            lengths = np.ones(owner.size, np.int64)
        else:
            owner, lengths = rankings.ranking_users, rankings.lengths
        counts = np.bincount(owner, minlength=rankings.n_users)
        least, wanted = self.k, np.full(counts.size, self.k)
        if self.share is not None:
            least, wanted = _LEAST_SHARED, np.round(self.share * counts).astype(np.int64)
        wanted[(wanted < least) | (counts < wanted + self.min_train)] = 0
        test = np.repeat(random_positions(owner, 3, seed) < wanted[owner], lengths)
        return self._made(rankings, seed, ~test, test)

    def __repr__(self) -> str:
        often = f"k={self.k}" if self.share is None else f"share={self.share}"
        return f"LeaveOut({often}, of={self.of!r}, min_train={self.min_train})"


@dataclass(frozen=True)
class Given(Protocol):
    """Of every list ``n_given`` items, drawn at random and in their order, to learn from; the others are hidden.

    Lists that would have fewer than two hidden items stay in the training part.

    Parameters
    ----------
    n_given : int

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": list("abcdefghij"), "bob": ["a", "b"]})
    >>> split = pr.Given(n_given=7).split(rankings, seed=0)
    >>> split.train.n_entries, split.test.n_entries
    (9, 3)
    """

    n_given: int = 7

    def _split(self, rankings: Rankings, seed: int) -> Split:
        lengths = np.diff(rankings.indptr)
        owner = np.repeat(np.arange(lengths.size), lengths)
        test = (random_positions(owner, 4, seed) >= self.n_given) & (lengths >= self.n_given + 2)[owner]
        return self._made(rankings, seed, ~test, test)


@dataclass(frozen=True)
class Folds(Protocol):
    """One of ``n_folds`` parts of the people is held out whole, for the likelihood of what new people say.

    Seeds 0 to ``n_folds - 1`` are the folds of one partition, the next as many those of another.

    Parameters
    ----------
    n_folds : int

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=12, list_length=10)
    >>> sum(pr.Folds(n_folds=5).split(rankings, seed).test.n_users for seed in range(5))
    50
    """

    n_folds: int = 5
    measures_order = False

    def _split(self, rankings: Rankings, seed: int) -> Split:
        partition, fold = divmod(seed, self.n_folds)
        drawn = generator(stream_key(partition, 5)).permutation(rankings.n_users)
        held = np.zeros(rankings.n_users, bool)
        held[np.array_split(drawn, self.n_folds)[fold]] = True
        test = held[rankings.entry_users()]
        return self._made(rankings, seed, ~test, test)


@dataclass(frozen=True)
class Temporal(Protocol):
    """What was said last is asked about: one moment divides the past from the future for everybody.

    People without a past, and those with fewer than ``min_test`` entries in the future, are not asked about.

    Parameters
    ----------
    times : frame, or Rankings with times for ratings
        Columns ``user``, ``item`` and ``time`` of any Arrow-speaking frame; or the same file read with the column of
        times for that of ratings: ``permrank.read("ratings.csv", rating="timestamp")``.
    share : float
        Share of the entries that lie in the future.
    min_test : int

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": list("abcd"), "bob": list("dcab")})
    >>> times = {"user": ["ann"] * 4 + ["bob"] * 4, "item": list("abcd") * 2, "time": [1, 2, 8, 9, 3, 4, 5, 6]}
    >>> split = pr.Temporal(times, share=0.25).split(rankings)
    >>> split.test.lists()
    [['c', 'd']]
    """

    times: Any = field(repr=False)
    share: float = 0.2
    min_test: int = 2

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        times = self._times_of(rankings)
        order = np.sort(times)
        # All entries of the dividing moment belong to the future.
        cut = order[min(max(round((1.0 - self.share) * times.size), 0), times.size - 1)]
        future = times >= cut
        with_past = np.bincount(owner[~future], minlength=rankings.n_users) > 0
        asked = with_past & (np.bincount(owner[future], minlength=rankings.n_users) >= self.min_test)
        return self._made(rankings, seed, ~future, future & asked[owner])

    def _times_of(self, rankings: Rankings) -> np.ndarray:
        if isinstance(self.times, Rankings):
            if self.times.ratings is None:
                raise InputError("times= are Rankings without ratings; read them with rating='the column of times'")
            given = self.times.to_frame().rename({"rating": "time"})
        else:
            given = as_frame(self.times)
        missing = [name for name in ("user", "item", "time") if name not in given.columns]
        if missing:
            raise InputError(f"times= has no column {missing[0]!r}; it needs user, item and time")
        wanted = pl.DataFrame(
            {
                "user": rankings.user_ids.take(rankings.entry_users()),
                "item": rankings.item_ids.take(rankings.items.astype(np.int64)),
            }
        )
        try:
            joined = wanted.join(
                given.select("user", "item", pl.col("time").cast(pl.Float64)).unique(["user", "item"], keep="last"),
                on=["user", "item"],
                how="left",
                maintain_order="left",
            )
        except pl.exceptions.PolarsError as error:
            raise InputError(f"times= does not fit the rankings: {error}") from error
        if joined["time"].null_count():
            row = wanted.row(int(joined["time"].is_null().arg_max() or 0))
            raise InputError(f"user {row[0]!r}, item {row[1]!r}: no time is given; add it or drop the entry")
        return joined["time"].to_numpy()


def one_list_each(rankings: Rankings, protocol: Protocol) -> Int64Array:
    """User of every entry; a user with several rankings raises."""
    counts = np.diff(rankings.user_indptr)
    if counts.max(initial=0) > 1:
        name = rankings.user_ids[int(counts.argmax())]
        raise InputError(
            f"user {name!r} has {counts.max()} rankings, and {type(protocol).__name__} draws entries of one; "
            "take LeaveOut(of='rankings') or Folds()"
        )
    return rankings.entry_users()


def random_positions(owner: Int64Array, stream: int, seed: int) -> Int64Array:
    """Position of every entry in a random order of its owner's, from 0; owners are sorted."""
    order = np.lexsort((generator(stream_key(seed, stream)).random(owner.size), owner))
    first = np.searchsorted(owner, owner)
    positions = np.empty(owner.size, np.int64)
    positions[order] = np.arange(owner.size) - first[order]
    return positions
