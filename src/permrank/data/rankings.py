"""The one container of data: many users, each with one or several partial rankings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl

from permrank.data.vocabulary import Vocabulary
from permrank.errors import InputError
from permrank.processes import refuse_after_fork
from permrank.types import Float64Array, Int32Array, Int64Array, UserId

if TYPE_CHECKING:
    from pathlib import Path

    from permrank.data.build import Duplicates
    from permrank.data.describe import Description

Unlisted = Literal["ignore", "last"]


class ItemView(NamedTuple):
    """Which entries mention an item: those of item ``y`` are ``entries[indptr[y]:indptr[y + 1]]``."""

    indptr: Int64Array
    entries: Int32Array | Int64Array


def entries_by_item(items: Int32Array, n_items: int) -> ItemView:
    """Entries of every item, in their order."""
    counts = np.bincount(items, minlength=n_items)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    # A stable sort of the packed (item, entry) is quicker than argsort.
    packed = (items.astype(np.int64) << 40) | np.arange(items.size)
    entries = pl.Series(packed).sort().to_numpy() & ((1 << 40) - 1)
    return ItemView(indptr, entries.astype(np.int32) if items.size < 2**31 else entries)


class Rankings:
    """Partial rankings of many users, flat and ragged, built once and never changed.

    Best first. Entries with the same level are tied. A user may have several rankings; they lie side
    by side. Use the ``from_`` constructors or `permrank.read`; this one takes finished arrays and
    checks them.

    Parameters
    ----------
    user_indptr : int64 (n_users + 1,)
        Rankings of user ``u`` are ``user_indptr[u]:user_indptr[u + 1]``.
    indptr : int64 (n_rankings + 1,)
        Entries of ranking ``r`` are ``indptr[r]:indptr[r + 1]``.
    items : int32 (n_entries,)
        Index of the item of each entry, best first.
    levels : int32 (n_entries,)
        Tie group of each entry: 0 is best, not decreasing and without gaps within a ranking.
    weights : float64 (n_rankings,)
        How often each ranking was given.
    user_ids, item_ids : Vocabulary
        External ids. Items that nobody ranked may be among them.
    ratings : float32 or float64 (n_entries,), optional
        The ratings that the order came from, if it came from ratings.
    anonymous : bool, default False
        The rankings are ballots without a voter; a user id is then only the number of a ballot.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["toro", "ebi", "uni"], "bob": ["ebi", {"toro", "uni"}]})
    >>> rankings
    Rankings(2 users, 2 rankings, 3 items, 6 entries, ties)
    >>> rankings.lists("bob") == [["ebi", {"toro", "uni"}]]
    True
    """

    def __init__(
        self,
        user_indptr: Int64Array,
        indptr: Int64Array,
        items: Int32Array,
        levels: Int32Array,
        weights: Float64Array,
        user_ids: Vocabulary,
        item_ids: Vocabulary,
        *,
        ratings: Float64Array | None = None,
        anonymous: bool = False,
    ) -> None:
        from permrank.data.validate import check_arrays, order_in_ties

        self._set(user_indptr, indptr, items, levels, weights, user_ids, item_ids, ratings, anonymous)
        check_arrays(self)
        order = order_in_ties(self)
        if order is not None:
            ratings = None if self.ratings is None else self.ratings[order]
            self._set(user_indptr, indptr, self.items[order], levels, weights, user_ids, item_ids, ratings, anonymous)

    def _set(
        self,
        user_indptr: Any,
        indptr: Any,
        items: Any,
        levels: Any,
        weights: Any,
        user_ids: Vocabulary,
        item_ids: Vocabulary,
        ratings: Any = None,
        anonymous: bool = False,
    ) -> None:
        self.user_indptr: Int64Array = np.ascontiguousarray(user_indptr, np.int64)
        self.indptr: Int64Array = np.ascontiguousarray(indptr, np.int64)
        self.items: Int32Array = np.ascontiguousarray(items, np.int32)
        self.levels: Int32Array = np.ascontiguousarray(levels, np.int32)
        self.weights: Float64Array = np.ascontiguousarray(weights, np.float64)
        self._user_ids, self._item_ids = user_ids, item_ids
        self.ratings: Any = None if ratings is None else compact(np.ascontiguousarray(ratings))
        self.anonymous = bool(anonymous)
        for array in (self.user_indptr, self.indptr, self.items, self.levels, self.weights, self.ratings):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def _trusted(cls, *arrays: Any, **options: Any) -> Rankings:
        """Arrays that this library has just built: no second check."""
        self = cls.__new__(cls)
        self._set(*arrays, **options)
        return self

    # Constructors: see `permrank.data.constructors`, one function each.

    @classmethod
    def from_lists(
        cls,
        lists: Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]],
        *,
        users: Iterable[UserId] | None = None,
        weights: Iterable[float] | None = None,
        items: Iterable[str | int] | None = None,
        unlisted: Unlisted | None = None,
    ) -> Rankings:
        """Rankings from Python lists of items, best first; a set (or a list) inside is a tie.

        Parameters
        ----------
        lists : mapping of user to ranking, or sequence of rankings
            A sequence without ``users`` holds ballots without a voter; equal ones are merged.
        users : sequence, optional
            User of each ranking; a user who comes several times has several rankings.
        weights : sequence, optional
            How often each ranking was given (1).
        items : sequence, optional
            Items that exist beside those that are ranked: the choice set.
        unlisted : {"ignore", "last"}, optional
            What is known of items that a ranking does not list: nothing, or that they are all
            below the listed ones (a top-k list over a known choice set). Left out, nothing; a
            `permrank.errors.ChoiceSetWarning` then says if the lists look like such tops.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists([["a", "b"], ["b"], ["a", "b"]], unlisted="last")
        >>> ballots.lists(), ballots.weights.tolist()
        ([['a', 'b'], ['b', 'a']], [2.0, 1.0])
        """
        from permrank.data import constructors
        from permrank.data.tops import notice_tops

        rankings = constructors.from_lists(lists, users, weights, items, unlisted)
        if unlisted is None:
            notice_tops(rankings, stacklevel=2)
        return rankings

    @classmethod
    def from_ratings(
        cls,
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        rating: str = "rating",
        ranking: str | None = None,
        weight: str | None = None,
        duplicates: Duplicates = "error",
    ) -> Rankings:
        """Rankings from rows of (user, item, rating): higher is better and equal ratings tie.

        Parameters
        ----------
        frame : any Arrow-speaking frame, or a dict of columns
        user, item, rating : str
            Names of the columns.
        ranking : str, optional
            Column that tells several rankings of one user apart.
        weight : str, optional
            Column of weights, the same in all rows of a ranking.
        duplicates : {"error", "first", "last", "mean"}
            What to do when a user rates an item twice.

        Examples
        --------
        >>> import permrank as pr
        >>> frame = {"user": ["ann", "ann", "ann"], "item": ["ebi", "uni", "toro"], "rating": [3, 5, 5]}
        >>> pr.Rankings.from_ratings(frame).lists("ann") == [[{"toro", "uni"}, "ebi"]]
        True
        """
        from permrank.data import constructors

        columns = constructors.Columns(user, item, rating, ranking, weight)
        return constructors.from_values(frame, columns, "rating", duplicates)

    @classmethod
    def from_ranks(
        cls,
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        rank: str = "rank",
        ranking: str | None = None,
        weight: str | None = None,
        duplicates: Duplicates = "error",
        unlisted: Unlisted | None = None,
    ) -> Rankings:
        """Rankings from rows of (user, item, rank): lower is better and equal ranks tie.

        Parameters
        ----------
        frame : any Arrow-speaking frame, or a dict of columns
        user, item, rank : str
            Names of the columns. Ranks may be any numbers; only their order counts.
        ranking, weight, duplicates
            As for `from_ratings`.
        unlisted : {"ignore", "last"}, optional
            As for `from_lists`.

        Examples
        --------
        >>> import permrank as pr
        >>> frame = {"user": [7, 7, 7], "item": ["ebi", "uni", "toro"], "rank": [2, 1, 3]}
        >>> pr.Rankings.from_ranks(frame).lists(7)
        [['uni', 'ebi', 'toro']]
        """
        from permrank.data import constructors
        from permrank.data.tops import check_unlisted, notice_tops

        check_unlisted(unlisted)
        columns = constructors.Columns(user, item, rank, ranking, weight)
        rankings = constructors.from_values(frame, columns, "rank", duplicates)
        if unlisted is None:
            notice_tops(rankings, stacklevel=2)
        return rankings.with_unlisted_last() if unlisted == "last" else rankings

    @classmethod
    def from_pairs(
        cls,
        frame: Any,
        *,
        user: str | None = "user",
        winner: str = "winner",
        loser: str = "loser",
        draw: str | None = None,
        weight: str | None = None,
    ) -> Rankings:
        """Rankings of two from rows of (user, winner, loser); equal rows are merged with their weights.

        Parameters
        ----------
        frame : any Arrow-speaking frame, or a dict of columns
        user : str or None
            Column of users; None for choices without a known chooser.
        winner, loser : str
            Names of the columns.
        draw : str, optional
            Column that says of which rows neither won, so that the two are tied: true or false, 1 or 0 (blank is
            no), ``"draw"`` or ``"win"``, or a score such as ``"2-2"``.
        weight : str, optional
            Column of weights.

        Examples
        --------
        >>> import permrank as pr
        >>> frame = {"winner": ["a", "b", "a"], "loser": ["b", "a", "b"]}
        >>> pairs = pr.Rankings.from_pairs(frame, user=None)
        >>> pairs.lists(), pairs.weights.tolist()
        ([['a', 'b'], ['b', 'a']], [2.0, 1.0])
        >>> games = {"winner": ["a", "b"], "loser": ["b", "a"], "drawn": [False, True]}
        >>> pr.Rankings.from_pairs(games, user=None, draw="drawn").lists() == [["a", "b"], [{"a", "b"}]]
        True
        """
        from permrank.data import constructors

        return constructors.from_pairs(frame, user, winner, loser, draw, weight)

    # Sizes and views

    @property
    def user_ids(self) -> Vocabulary:
        """Ids of the users."""
        refuse_after_fork()
        return self._user_ids

    @property
    def item_ids(self) -> Vocabulary:
        """Ids of the items."""
        refuse_after_fork()
        return self._item_ids

    @property
    def n_users(self) -> int:
        """Number of users (for anonymous ballots: of different ballots)."""
        return self.user_indptr.size - 1

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return self.indptr.size - 1

    @property
    def n_items(self) -> int:
        """Number of items, ranked or not."""
        return len(self.item_ids)

    @property
    def n_entries(self) -> int:
        """Number of (ranking, item) entries."""
        return self.items.size

    @cached_property
    def has_ties(self) -> bool:
        """Whether any two entries of a ranking are tied."""
        return self.n_entries > 0 and bool(
            np.count_nonzero(self.levels[1:] == self.levels[:-1])
            > np.count_nonzero((self.levels[1:] == self.levels[:-1]) & self._starts[1:])
        )

    @property
    def _starts(self) -> Any:
        starts = np.zeros(self.n_entries, bool)
        starts[self.indptr[:-1]] = True  # no ranking is empty
        return starts

    @cached_property
    def item_view(self) -> ItemView:
        """Entries by item, in the order of the entries: lets items be updated in parallel."""
        return entries_by_item(self.items, self.n_items)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the whole content; equal for equal rankings."""
        from permrank.data.validate import fingerprint

        return fingerprint(self)

    def user_index(self, user: object) -> int:
        """Matrix index of a user; an unknown one raises."""
        return self.user_ids.index(user)

    def items_of(self, user_index: int) -> Int32Array:
        """Item indices that a user has ranked, in the order of the entries."""
        first, last = self.user_indptr[user_index : user_index + 2]
        return self.items[self.indptr[first] : self.indptr[last]]

    def lists(self, user: object = None) -> list[list[Any]]:
        """Rankings as Python lists of ids, ties as sets; of one user or of all."""
        if user is None:
            chosen = range(self.n_rankings)
        else:
            place = self.user_ids.index(user)
            chosen = range(int(self.user_indptr[place]), int(self.user_indptr[place + 1]))
        return [self._as_list(ranking) for ranking in chosen]

    def _as_list(self, ranking: int) -> list[Any]:
        part = slice(int(self.indptr[ranking]), int(self.indptr[ranking + 1]))
        ids = self.item_ids.take(self.items[part].astype(np.int64)).to_list()
        blocks: list[list[Any]] = [[] for _ in range(int(self.levels[part][-1]) + 1)]
        for name, level in zip(ids, self.levels[part], strict=True):
            blocks[level].append(name)
        return [block[0] if len(block) == 1 else set(block) for block in blocks]

    # Other rankings made from these: see `permrank.data.selection`.

    def select(self, users: Iterable[object] | None = None, items: Iterable[object] | None = None) -> Rankings:
        """Only these users, only these items.

        Items that are not selected leave every ranking; what is left keeps its order. Rankings that
        lose all their items are dropped; their users stay.

        Examples
        --------
        >>> import permrank as pr
        >>> rankings = pr.Rankings.from_lists({"ann": ["toro", "ebi", "uni"], "bob": ["ebi"]})
        >>> rankings.select(items=["toro", "uni"]).lists()
        [['toro', 'uni']]
        """
        from permrank.data import selection

        return selection.select(self, users, items)

    def drop(self, users: Iterable[object] = (), items: Iterable[object] = ()) -> Rankings:
        """All but these users and items.

        Examples
        --------
        >>> import permrank as pr
        >>> pr.Rankings.from_lists({"ann": ["toro", "ebi"], "bob": ["ebi"]}).drop(users=["bob"]).n_users
        1
        """
        from permrank.data import selection

        return selection.drop(self, users, items)

    def merged(self) -> Rankings:
        """Ballots without voters: equal rankings once, with their summed weights.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "b"]}).merged()
        >>> ballots.n_rankings, ballots.weights.tolist(), ballots.anonymous
        (1, [2.0], True)
        """
        from permrank.data import selection

        return selection.merged(self)

    def with_unlisted_last(self) -> Rankings:
        """Put every item that a ranking does not list into a last tie block of that ranking.

        Ballots without a voter that are equal then are merged.

        Examples
        --------
        >>> import permrank as pr
        >>> pr.Rankings.from_lists({"bob": ["b", "c"]}, items=["a"]).with_unlisted_last().lists()
        [['b', 'c', 'a']]
        """
        from permrank.data import selection

        return selection.with_unlisted_last(self)

    def shuffled_ties(self, seed: int | None = 0) -> Rankings:
        """Strict rankings: the order inside every tie block drawn at random.

        Examples
        --------
        >>> import permrank as pr
        >>> pr.Rankings.from_lists({"ann": [{"a", "b"}, "c"]}).shuffled_ties(seed=1).has_ties
        False
        """
        from permrank.data import selection

        return selection.shuffled_ties(self, seed)

    def describe(self) -> Description:
        """Counts, list lengths, ties, density and connectivity.

        Examples
        --------
        >>> import permrank as pr
        >>> summary = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "c"]}).describe()
        >>> summary.n_users, summary.mean_length, summary.connected
        (2, 2.0, False)
        """
        from permrank.data.describe import describe

        return describe(self)

    def to_frame(self) -> pl.DataFrame:
        """One row per entry: user, item, rank (from 1; equal for ties), and what else there is.

        Examples
        --------
        >>> import permrank as pr
        >>> pr.Rankings.from_lists({"ann": ["a", {"b", "c"}]}).to_frame()["rank"].to_list()
        [1, 2, 2]
        """
        from permrank.data.selection import to_frame

        return to_frame(self)

    def write(self, path: str | Path) -> None:
        """Write to CSV, TSV, Parquet, JSON lines or PrefLib, by the ending; `permrank.read` reads it back.

        Parameters
        ----------
        path : str or Path
            Ends in ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``, ``.soc``, ``.soi``, ``.toc`` or ``.toi``.
        """
        from permrank.data.formats.writers import write

        write(self, path)

    def __len__(self) -> int:
        return self.n_rankings

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Rankings)
            and self.anonymous == other.anonymous
            and self.user_ids == other.user_ids
            and self.item_ids == other.item_ids
            and np.array_equal(self.user_indptr, other.user_indptr)
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.items, other.items)
            and np.array_equal(self.levels, other.levels)
            and np.array_equal(self.weights, other.weights)
            and (self.ratings is None) == (other.ratings is None)
            and (self.ratings is None or np.array_equal(self.ratings, other.ratings))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        users = "ballots" if self.anonymous else "users"
        tail = ", ties" if self.has_ties else ""
        return (
            f"Rankings({self.n_users} {users}, {self.n_rankings} rankings, {self.n_items} items, "
            f"{self.n_entries} entries{tail})"
        )


def compact(ratings: Any) -> Any:
    """Ratings as float32 where that loses nothing, which is nearly always."""
    with np.errstate(over="ignore", under="ignore"):
        small = ratings.astype(np.float32)
    return small if np.array_equal(small.astype(np.float64), ratings.astype(np.float64)) else ratings.astype(np.float64)


def require_rankings(data: object) -> Rankings:
    """Say what to do when something else than `Rankings` is passed where they are needed."""
    refuse_after_fork()
    if not isinstance(data, Rankings):
        raise InputError(
            f"expected Rankings, got {type(data).__name__}; make them with permrank.read(path), "
            "Rankings.from_lists(...) or Rankings.from_ratings(frame)"
        )
    return data
