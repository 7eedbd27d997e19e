"""External ids (strings or integers) and the matrix indices behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from permrank.errors import InputError, UnknownIdError
from permrank.processes import refuse_after_fork
from permrank.types import Int32Array, Int64Array

INT32_MAX = 2**31 - 1


class Vocabulary:
    """The sorted ids of one kind (users or items), each known by its index.

    Ids are all strings or all integers. They are kept sorted, so that two sources with the same
    content give the same indices, whatever the order of their rows.

    Parameters
    ----------
    ids : Series of String or Int64, sorted, without repeats
    kind : str
        What the ids stand for, used in messages: ``"user"`` or ``"item"``.

    Examples
    --------
    >>> items = Vocabulary.of(["uni", "ebi", "toro"], "item")
    >>> items.index("toro"), items[0], len(items)
    (1, 'ebi', 3)
    """

    def __init__(self, ids: pl.Series, kind: str) -> None:
        self._ids, self.kind = ids, kind
        self._index: dict[str | int, int] | None = None

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
        if self._index is None:
            self._index = {name: index for index, name in enumerate(self._ids.to_list())}
        if isinstance(value, np.generic):
            value = value.item()
        # True == 1 and 1.0 == 1 in Python, but neither is an id.
        found = self._index.get(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
        if found is None:
            raise UnknownIdError(self.kind, value, self)
        return int(found)

    def indices(self, values: Iterable[object]) -> Int64Array:
        """Places of several ids; of a million in a polars Series within a fraction of a second."""
        if isinstance(values, pl.Series) and values.dtype == self._ids.dtype and not values.null_count():
            return encode_with(values, self).astype(np.int64)
        if isinstance(values, str):
            raise InputError(f"expected several {self.kind}s, got the one string {values!r}; pass a list")
        if not isinstance(values, Iterable):
            raise InputError(f"expected several {self.kind}s, got {values!r}; pass a list")
        return np.array([self.index(value) for value in values], dtype=np.int64)

    def take(self, indices: Int64Array) -> pl.Series:
        """Ids of several indices."""
        return self._ids.gather(indices)

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
        return isinstance(other, Vocabulary) and bool(
            self._ids.dtype == other._ids.dtype and self._ids.equals(other._ids)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind}s)"


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
    if ids.dtype == pl.Int64:
        codes, vocabulary = _encode_integers(ids, kind)
    else:
        distinct = ids.unique().sort()
        codes = ids.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).to_numpy()
        vocabulary = Vocabulary(distinct.rename(kind), kind)
    if len(vocabulary) > INT32_MAX:
        raise InputError(f"{len(vocabulary)} {kind}s are more than the {INT32_MAX} that fit 32 bits")
    return codes, vocabulary


def _encode_integers(ids: pl.Series, kind: str) -> tuple[Int32Array, Vocabulary]:
    values = ids.to_numpy()
    low, high = (int(values.min()), int(values.max())) if values.size else (0, -1)
    if high - low < 4 * values.size + 1000:
        # Dense ids: a table is several times as fast as sorting or hashing.
        offset = values - low
        present = np.zeros(high - low + 1, dtype=bool)
        present[offset] = True
        distinct = np.flatnonzero(present) + low
        table = np.cumsum(present, dtype=np.int32) - np.int32(1)
        codes = table[offset]
    else:
        distinct, inverse = np.unique(values, return_inverse=True)
        codes = inverse.astype(np.int32)
    return codes, Vocabulary(pl.Series(kind, distinct, dtype=pl.Int64), kind)


def encode_with(ids: pl.Series, vocabulary: Vocabulary) -> Int32Array:
    """Index of every id in a given vocabulary; the first unknown id raises."""
    if ids.dtype != vocabulary.ids.dtype:
        raise UnknownIdError(vocabulary.kind, ids[0] if len(ids) else None, vocabulary)
    if ids.dtype == pl.String:
        codes = ids.cast(pl.Enum(vocabulary.ids), strict=False).to_physical()
        unknown = codes.is_null()
        if unknown.any():
            raise UnknownIdError(vocabulary.kind, ids[int(unknown.arg_max() or 0)], vocabulary)
        return codes.cast(pl.Int32).to_numpy()
    known, values = vocabulary.ids.to_numpy(), ids.to_numpy()
    indices = np.searchsorted(known, values)
    wrong = (indices == known.size) | (known[np.minimum(indices, max(known.size - 1, 0))] != values)
    if wrong.any():
        raise UnknownIdError(vocabulary.kind, int(values[wrong.argmax()]), vocabulary)
    return indices.astype(np.int32)
