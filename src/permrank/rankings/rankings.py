"""The one container of data: many users, each with one or several partial rankings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import DTypeLike

from permrank.processes import refuse_after_fork
from permrank.ragged import ItemView, entries_by_item, new_blocks, owners, read_only
from permrank.rankings import constructors, joining, lists, selection, with_attributes
from permrank.rankings.build import compact
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, Float64Array, Int32Array, Int64Array

if TYPE_CHECKING:
    from pathlib import Path

    from permrank.rankings.attributes import AttributeKind
    from permrank.rankings.describe import Description

T = TypeVar("T")

_PIECE = 2**20


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
    counts : float32 or float64 (n_entries,), optional
        How often, or how strongly, each entry was taken up; positive. None where all entries count 1.
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
        counts: Float64Array | None = None,
        anonymous: bool = False,
    ) -> None:
        from permrank.rankings.validate import check_arrays, order_in_ties

        self._set(user_indptr, indptr, items, levels, weights, user_ids, item_ids, ratings, counts, anonymous)
        check_arrays(self)
        order = order_in_ties(self)
        if order is not None:
            items = self.items[order]
            self._set(user_indptr, indptr, items, levels, weights, user_ids, item_ids, **self._attached(order))

    def _set(
        self,
        user_indptr: Array,
        indptr: Array,
        items: Array,
        levels: Array,
        weights: Array,
        user_ids: Vocabulary,
        item_ids: Vocabulary,
        ratings: Array | None = None,
        counts: Array | None = None,
        anonymous: bool = False,
    ) -> None:
        self.user_indptr: Int64Array = np.ascontiguousarray(user_indptr, np.int64)
        self.indptr: Int64Array = np.ascontiguousarray(indptr, np.int64)
        self.items: Int32Array = np.ascontiguousarray(items, np.int32)
        self.levels: Int32Array = np.ascontiguousarray(levels, np.int32)
        self.weights: Float64Array = np.ascontiguousarray(weights, np.float64)
        self._user_ids, self._item_ids = user_ids, item_ids
        self.ratings: Any = None if ratings is None else compact(np.ascontiguousarray(ratings))
        self.counts: Any = None if counts is None else compact(np.ascontiguousarray(counts))
        if self.counts is not None and self.counts.shape == self.items.shape and (self.counts == 1).all():
            self.counts = None  # equal rankings have equal arrays
        self.anonymous = bool(anonymous)
        for array in self._arrays:
            array.setflags(write=False)

    @cached_property
    def _derived(self) -> dict[Callable[..., Any], Any]:
        return {}

    def _once(self, make: Callable[[Rankings], T]) -> T:
        """What a function makes of these rankings, made once and kept with them."""
        if make not in self._derived:
            self._derived[make] = make(self)
        made: T = self._derived[make]
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_derived"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for array in self._arrays:
            array.setflags(write=False)  # copies and pickles of arrays can be written

    @property
    def _arrays(self) -> list[Array]:
        arrays = [self.user_indptr, self.indptr, self.items, self.levels, self.weights, self.ratings]
        return [array for array in [*arrays, self.counts] if array is not None]

    def _attached(self, entries: Any = slice(None)) -> dict[str, Any]:
        """Ratings and counts of some entries, and ``anonymous``: options of `Rankings` that are made of these."""
        named = {"ratings": self.ratings, "counts": self.counts}
        attached = {name: array[entries] for name, array in named.items() if array is not None}
        return attached | {"anonymous": self.anonymous}

    @classmethod
    def _trusted(cls, *arrays: Any, **options: Any) -> Rankings:
        """Arrays that this library has just built: no second check."""
        self = cls.__new__(cls)
        self._set(*arrays, **options)
        return self

    def _with(self, **changed: Any) -> Rankings:
        """The same but for some arrays or ids, without a check."""
        named = ("user_indptr", "indptr", "items", "levels", "weights", "user_ids", "item_ids")
        return self._trusted(**({name: getattr(self, name) for name in named} | self._attached() | changed))

    # Each is documented where it is defined.
    from_lists = classmethod(lists.from_lists)
    from_ratings = classmethod(constructors.from_ratings)
    from_ranks = classmethod(constructors.from_ranks)
    from_pairs = classmethod(constructors.from_pairs)
    from_interactions = classmethod(constructors.from_interactions)

    with_items = with_attributes.with_items
    with_users = with_attributes.with_users
    with_features = with_attributes.with_features
    with_links = with_attributes.with_links
    features = with_attributes.features
    links = property(with_attributes.links)

    select = selection.select
    drop = selection.drop
    merged = selection.merged
    joined = joining.joined
    with_unlisted_last = selection.with_unlisted_last
    shuffled_ties = selection.shuffled_ties
    to_frame = selection.to_frame
    lists = lists.to_lists

    @property
    def item_attributes(self) -> pl.DataFrame:
        """Attributes of each item, in the order of `item_ids`: ``item``, and what `with_items` gave."""
        return self.item_ids.table

    @property
    def user_attributes(self) -> pl.DataFrame:
        """Attributes of each user, in the order of `user_ids`: ``user``, and what `with_users` gave."""
        return self.user_ids.table

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

    def _ids_of(self, kind: AttributeKind) -> Vocabulary:
        return self.item_ids if kind == "item" else self.user_ids

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
        return int(np.count_nonzero(new_blocks(self.levels, self.indptr))) < self.n_entries

    @cached_property
    def rating_values(self) -> Float64Array:
        """The different ratings, lowest first; none where there are no ratings."""
        return np.unique(np.zeros(0) if self.ratings is None else self.ratings).astype(np.float64)

    @cached_property
    def has_order(self) -> bool:
        """Whether any ranking puts one item before another; sets without order, such as clicks, never do."""
        return bool(self.last_levels.any())

    # Arrays that follow from those above. The properties hold one number for each user or ranking; they are read-only,
    # and made once. The methods give one for each entry: these are large, mostly used once, and made anew by each call.

    @cached_property
    def lengths(self) -> Int64Array:
        """Entries in each ranking: (n_rankings,)."""
        return read_only(np.diff(self.indptr))

    @cached_property
    def last_levels(self) -> Int32Array:
        """Level of the last tie block of each ranking: (n_rankings,)."""
        return read_only(self.levels[self.indptr[1:] - 1])

    @cached_property
    def ranking_users(self) -> Int64Array:
        """Index of the user of each ranking: (n_rankings,)."""
        return read_only(owners(self.user_indptr))

    @cached_property
    def user_bounds(self) -> Int64Array:
        """Entries of user ``u``, of all rankings, are ``user_bounds[u]:user_bounds[u + 1]``: (n_users + 1,)."""
        return read_only(self.indptr[self.user_indptr])

    def entry_rankings(self) -> Int64Array:
        """Ranking that each entry belongs to: a new array (n_entries,)."""
        return owners(self.indptr)

    def entry_users(self, dtype: DTypeLike = np.int64) -> Array:
        """Index of the user of each entry: a new array (n_entries,)."""
        return owners(self.user_bounds, dtype)

    def entry_weights(self) -> Float64Array:
        """Weight of the ranking of each entry: a new array (n_entries,)."""
        return np.repeat(self.weights, self.lengths)

    @cached_property
    def item_view(self) -> ItemView:
        """Entries by item, in the order of the entries: lets items be updated in parallel."""
        return entries_by_item(self.items, self.n_items)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over all that is ranked; equal for equal rankings, whatever the attributes of users and items."""
        digest = hashlib.sha256()
        for vocabulary in (self.user_ids, self.item_ids):
            digest.update(repr((vocabulary.is_integer, len(vocabulary))).encode())
            if vocabulary.is_integer:
                digest.update(vocabulary.ids.to_numpy().tobytes())
            else:
                digest.update(vocabulary.ids.str.len_bytes().cast(int).to_numpy().tobytes())
                digest.update("".join(vocabulary.ids.to_list()).encode())
        for array in (self.user_indptr, self.indptr, self.items, self.levels, self.weights):
            _update(digest, array)
        if self.ratings is not None:
            _update(digest, self.ratings, np.float64)
        if self.counts is not None:
            digest.update(b"counts")
            _update(digest, self.counts, np.float64)
        digest.update(str(self.anonymous).encode())
        return digest.hexdigest()

    def user_index(self, user: object) -> int:
        """Matrix index of a user, by id or title; an unknown one raises."""
        return self.user_ids.find(user)

    def items_of(self, user_index: int) -> Int32Array:
        """Item indices that a user has ranked, in the order of the entries."""
        first, last = self.user_indptr[user_index : user_index + 2]
        return self.items[self.indptr[first] : self.indptr[last]]

    def describe(self) -> Description:
        """Counts, list lengths, ties, density and connectivity.

        Examples
        --------
        >>> import permrank as pr
        >>> summary = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "c"]}).describe()
        >>> summary.n_users, summary.mean_length, summary.connected
        (2, 2.0, False)
        """
        from permrank.rankings.describe import describe

        return describe(self)

    def write(self, path: str | Path) -> None:
        """Write to a file that `permrank.read` reads back equal; the ending decides the format.

        The file appears whole or not at all. What a format cannot hold is refused with a `FormatError` that says what
        to do: PrefLib has no voters' ids and no ratings.

        Parameters
        ----------
        path : str or Path
            Ends in ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``, ``.ndjson``, ``.soc``, ``.soi``, ``.toc`` or ``.toi``;
            or in ``.rankings``, a new folder that is mapped into memory when it is read.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import permrank as pr
        >>> rankings = pr.Rankings.from_lists({"ann": ["toro", {"ebi", "uni"}], "bob": []})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "lunch.csv"
        ...     rankings.write(file)
        ...     print(file.read_text())
        ...     pr.read(file) == rankings
        user,item,rank
        ann,toro,1
        ann,ebi,2
        ann,uni,2
        bob,,
        <BLANKLINE>
        True
        """
        from permrank.files.formats import write

        write(self, path)

    def __len__(self) -> int:
        return self.n_rankings

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Rankings)
            and self.anonymous == other.anonymous
            and self.user_ids == other.user_ids
            and self.item_ids == other.item_ids
            and (self.ratings is None) == (other.ratings is None)
            and (self.counts is None) == (other.counts is None)
            and all(starmap(np.array_equal, zip(self._arrays, other._arrays, strict=True)))
        )

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        from permrank.rankings.describe import html_of

        return html_of(self)

    def __repr__(self) -> str:
        who = f"{self.n_users} users, {self.n_rankings} rankings"
        if self.anonymous:
            who = f"{self.weights.sum():.12g} ballots, {self.n_rankings} distinct"
        tail = "" if not self.has_ties else ", ties" if self.has_order else ", sets without order"
        return f"Rankings({who}, {self.n_items} items, {self.n_entries} entries{tail})"


def _update(digest: hashlib._Hash, array: Array, dtype: DTypeLike | None = None) -> None:
    """Add the bytes of an array, in a wider type if one is given, a piece at a time: it may be large."""
    for first in range(0, array.size, _PIECE):
        digest.update(np.ascontiguousarray(array[first : first + _PIECE], dtype).data)
