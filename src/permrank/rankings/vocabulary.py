"""External ids (strings or integers) and the matrix indices behind them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.errors import InputError, UnknownIdError, shown
from permrank.processes import refuse_after_fork
from permrank.types import Int32Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.rankings.attributes import Attributes

INT32_MAX = 2**31 - 1
# Fewer ids than this are quicker looked at one by one.
_MANY = 64
# "Matrix, The (1999)": where catalogues put an article, and the year after it.
_ARTICLE = re.compile(r"^(.+), (the|a|an|le|la|les|il|el|der|die|das)\b(.*)$")
_YEAR = re.compile(r"\s*\(\d{4}\)$")


class Vocabulary:
    """The sorted ids of one kind (users or items), each known by its index.

    Ids are all strings or all integers. They are kept sorted, so that two sources with the same
    content give the same indices, whatever the order of their rows.

    Parameters
    ----------
    ids : Series of String or Int64, sorted, without repeats
    kind : str
        What the ids stand for, used in messages: ``"user"`` or ``"item"``.
    attributes : Attributes, optional
        Titles and columns by id. Two vocabularies with the same ids are equal, whatever their attributes.

    Examples
    --------
    >>> items = Vocabulary.of(["uni", "ebi", "toro"], "item")
    >>> items.index("toro"), items[0], len(items)
    (1, 'ebi', 3)
    """

    def __init__(self, ids: pl.Series, kind: str, attributes: Attributes | None = None) -> None:
        self._ids, self.kind, self.attributes = ids, kind, attributes

    @classmethod
    def of(cls, ids: Iterable[str | int], kind: str) -> Vocabulary:
        """Sort and deduplicate any ids."""
        return encode(id_series(ids, kind), kind)[1]

    @property
    def ids(self) -> pl.Series:
        """The ids, sorted."""
        return self._ids

    @property
    def is_integer(self) -> bool:
        """Whether the ids are integers."""
        return self._ids.dtype == pl.Int64

    def index(self, value: object) -> int:
        """Index of one id; an unknown one raises and names the nearest known id."""
        if isinstance(value, np.generic):
            value = value.item()
        # True == 1 and 1.0 == 1 in Python, but neither is an id.
        index = self.get(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
        if index is None:
            raise UnknownIdError(self.kind, value, self)
        return index

    def get(self, value: str | int) -> int | None:
        """Index of an id, None if there is no such id."""
        return self._by_id.get(value)

    @cached_property
    def _by_id(self) -> dict[str | int, int]:
        return {name: index for index, name in enumerate(self._ids.to_list())}

    def indices(self, values: Iterable[object]) -> Int64Array:
        """Indices of several ids; of a million within a fraction of a second."""
        many = _as_series(values, str if self._ids.dtype == pl.String else int)
        if many is not None and many.dtype == self._ids.dtype and not many.null_count():
            return self.codes(many).astype(np.int64)
        if isinstance(values, str):
            raise InputError(f"expected several {self.kind}s, got the one string {values!r}; pass a list")
        if not isinstance(values, Iterable):
            raise InputError(f"expected several {self.kind}s, got {values!r}; pass a list")
        return np.array([self.index(value) for value in values], dtype=np.int64)

    def codes(self, ids: pl.Series) -> Int32Array:
        """Index of every id of a column without nulls; the first unknown id raises."""
        indices = self.search(ids)
        if (indices < 0).any():
            raise UnknownIdError(self.kind, ids[int((indices < 0).argmax())], self)
        return indices

    def search(self, ids: pl.Series) -> Int32Array:
        """Index of every id of a column without nulls, -1 for what is no id here."""
        if ids.dtype != self._ids.dtype or not len(self):
            return np.full(len(ids), -1, np.int32)
        if ids.dtype == pl.String:
            codes = ids.cast(self._enum, strict=False).to_physical()
            return np.asarray(codes.cast(pl.Int32).fill_null(-1).to_numpy())
        own, values = self._ids.to_numpy(), ids.to_numpy()
        low, high = int(own[0]), int(own[-1])
        indices: Int32Array
        if 8 * values.size >= own.size and _are_dense(low, high, own.size):
            indices = self._table[np.clip(values, low, high) - low]  # several times as fast as a search
        else:
            indices = np.minimum(np.searchsorted(own, values), own.size - 1).astype(np.int32)
        return np.where(own[indices] == values, indices, np.int32(-1))

    @cached_property
    def _enum(self) -> pl.Enum:
        return pl.Enum(self._ids)

    @cached_property
    def _table(self) -> Int32Array:
        """Index of every whole number from the first id to the last; what is no id has a wrong one."""
        own = self._ids.to_numpy()
        table = np.zeros(int(own[-1] - own[0]) + 1, np.int32)
        table[own - own[0]] = np.arange(own.size, dtype=np.int32)
        return table

    def __getstate__(self) -> Named:
        return {name: self.__dict__[name] for name in ("_ids", "kind", "attributes")}  # what is looked up is made anew

    def take(self, indices: Int64Array) -> pl.Series:
        """Ids of several indices."""
        return self._ids.gather(indices)

    # Attributes and titles

    def with_attributes(self, attributes: Attributes | None) -> Vocabulary:
        """The same ids with these attributes beside those that they have."""
        if attributes is not None and len(self) and attributes.frame[self.kind].dtype != self._ids.dtype:
            raise InputError(
                f"{self.kind} ids of the attributes are {attributes.frame[self.kind].dtype}, not {self._ids.dtype}"
            )
        both = attributes if self.attributes is None else self.attributes.joined(attributes)
        return Vocabulary(self._ids, self.kind, both)

    @cached_property
    def table(self) -> pl.DataFrame:
        """Attributes of each id, in the order of the ids, which come first; null for ids without attributes.

        The column of titles is called ``title``, whatever else it is called.
        """
        if self.attributes is None:
            return pl.DataFrame({self.kind: self._ids})
        table, title = self.attributes.of(self._ids), self.attributes.title
        return table if title in (None, "title") else table.with_columns(table[title].alias("title"))

    @cached_property
    def titles(self) -> pl.Series | None:
        """What people call each id, null where it has no title; None where there are none."""
        if self.attributes is None or self.attributes.title is None:
            return None
        return self.attributes.of(self._ids)[self.attributes.title].alias("title")

    def called(self, index: int) -> str:
        """What to call an id in a sentence: its title, or itself."""
        title = None if self.titles is None else self.titles[int(index)]
        return str(self[index] if title is None else title)

    def find(self, value: object) -> int:
        """Index of an id, or of the one that has this title; a title of several raises and lists their ids.

        Case does not matter, nor where an article stands; a year at the end may be left out.
        """
        try:
            return self.index(value)
        except UnknownIdError:
            if self.titles is None or not isinstance(value, str):
                raise
        for titles, key in zip(self._by_title, (value, *_spellings(value)), strict=True):
            indices = titles.get(key, [])
            if len(indices) == 1:
                return indices[0]
            if indices:
                ids = ", ".join(f"{shown(self[index])} ({self.called(index)})" for index in indices[:8])
                several = f"{len(indices)} {self.kind}s: {ids}"
                raise InputError(f"{shown(value)} is the title of {several}; give one of the ids")
        part = value.strip().casefold()
        holding = [title for title in self.titles.drop_nulls() if part and part in title.casefold()]
        raise UnknownIdError(self.kind, value, holding or itertools.chain(self.titles.drop_nulls(), self._ids))

    def find_all(self, values: Iterable[object]) -> Int64Array:
        """Indices of several ids or titles."""
        if self.titles is None or isinstance(values, str) or not isinstance(values, Iterable):
            return self.indices(values)
        listed = values if isinstance(values, pl.Series) else list(values)
        try:
            return self.indices(listed)  # the quick way, if all are ids
        except UnknownIdError:
            return np.array([self.find(value) for value in listed], dtype=np.int64)

    @cached_property
    def _by_title(self) -> tuple[dict[str, list[int]], ...]:
        """Indices by title: as it is, then in each of its other spellings."""
        lookups: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for index, title in enumerate([] if self.titles is None else self.titles.to_list()):
            if title is not None:
                for lookup, key in zip(lookups, (title, *_spellings(title)), strict=True):
                    lookup.setdefault(key, []).append(index)
        return lookups

    def __getitem__(self, index: int) -> str | int:
        value: str | int = self._ids[int(index)]
        return value

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._ids)

    def __contains__(self, value: object) -> bool:
        try:
            self.index(value)
        except (UnknownIdError, TypeError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Vocabulary) and bool(self._ids.dtype == other._ids.dtype and self._ids.equals(other._ids))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind}s)"


def _spellings(title: str) -> tuple[str, str]:
    """A title without case and with its article in front, and that without a year at the end."""
    plain = title.strip().casefold()
    year = _YEAR.search(plain) if plain.endswith(")") else None
    bare = plain if year is None else plain[: year.start()]
    moved = _ARTICLE.match(bare) if ", " in bare else None
    bare = bare if moved is None else f"{moved[2]} {moved[1]}{moved[3]}"
    return bare + ("" if year is None else year[0]), bare


def id_series(values: Iterable[str | int], kind: str) -> pl.Series:
    """Ids from Python objects as one column; mixed or foreign types are refused, and the first is named."""
    refuse_after_fork()
    listed = values.to_list() if isinstance(values, pl.Series) else list(values)
    listed = [value.item() if isinstance(value, np.generic) else value for value in listed]
    wanted = str if listed and isinstance(listed[0], str) else int
    for index, value in enumerate(listed):
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise InputError(
                f"{kind} id {value!r} (entry {index}) is {type(value).__name__}, "
                f"expected {wanted.__name__}: ids must be all strings or all integers"
            )
    try:
        return pl.Series(kind, listed, dtype=pl.String if wanted is str else pl.Int64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"one {kind} id does not fit 64 bits; use strings for such ids") from error
    except UnicodeEncodeError as error:
        raise InputError(f"the {kind} id {error.object!r} is not Unicode: half of a surrogate pair") from error


def encode(ids: pl.Series, kind: str) -> tuple[Int32Array, Vocabulary]:
    """Index of every id in the sorted vocabulary of those that occur. Ids must not be null."""
    distinct, codes = _distinct(ids)
    vocabulary = Vocabulary(distinct.rename(kind), kind)
    if len(vocabulary) > INT32_MAX:
        raise InputError(f"{len(vocabulary)} {kind}s are more than the {INT32_MAX} that fit 32 bits")
    return vocabulary.codes(ids) if codes is None else codes.astype(np.int32), vocabulary


def _distinct(ids: pl.Series) -> tuple[pl.Series, Int64Array | None]:
    """Different ids, sorted; and the index of every id if finding them has given it."""
    if ids.dtype != pl.Int64 or not len(ids):
        return ids.unique().sort(), None
    values = ids.to_numpy()
    low, high = int(values.min()), int(values.max())
    if not _are_dense(low, high, values.size):
        distinct, codes = np.unique(values, return_inverse=True)
        return pl.Series(distinct), codes
    present = np.zeros(high - low + 1, dtype=bool)  # marks in a table are several times as fast as a search
    present[values - low] = True
    return pl.Series(np.flatnonzero(present) + low), None


def _as_series(values: object, kind: type) -> pl.Series | None:
    """Ids of this kind as a Series, if that is quick and no other value is among them."""
    if isinstance(values, pl.Series):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "i" and kind is int:
        return pl.Series(values.astype(np.int64, copy=False))
    if isinstance(values, (list, tuple)) and len(values) > _MANY and set(map(type, values)) == {kind}:
        try:
            return pl.Series(np.array(values, np.int64) if kind is int else values)
        except (OverflowError, UnicodeEncodeError):  # no id is like that: said where they are looked at one by one
            return None
    return None


def _are_dense(low: int, high: int, n: int) -> bool:
    return high - low < 4 * n + 1000
