"""A folder of rankings that is mapped into memory: it opens in milliseconds, however large, and is checked when used.

Every array is one file of plain numbers, little-endian; ids are Parquet files, with what is known of them in their
metadata; ``rankings.json`` says which arrays there are. Opening looks at the header, the sizes of files and the ids.
Arrays are checked the first time that one of them is asked for, block by block: against the fingerprint, and as those
of any other file. So damage is told before it can do harm, and pages that are not needed again leave the memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError
from permrank.files.atomic import atomic_folder, atomic_write
from permrank.files.formats.parquet import ParquetFiles
from permrank.rankings.attributes import AttributeKind, Attributes
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import check_arrays, order_in_ties
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, Named

ENDING = "rankings"
HEADER = "rankings.json"
_FORMAT = "1"
# Arrays, and the types that they may have.
_TYPES: dict[str, tuple[str, ...]] = {
    "user_indptr": ("<i8",), "indptr": ("<i8",), "items": ("<i4",), "levels": ("<i4",), "weights": ("<f8",),
    "ratings": ("<f4", "<f8"), "counts": ("<f4", "<f8"),
}  # fmt: skip
_NEEDED = tuple(_TYPES)[:5]
_KINDS: tuple[AttributeKind, ...] = ("user", "item")
_PIECE = 2**22
# What a header may weigh, and no more is read of it.
_MOST_HEADER = 2**16


def write_folder(rankings: Rankings, path: Path) -> None:
    """Write rankings to a new folder; it appears whole or not at all."""
    require_new_folder(path)
    arrays = {name: getattr(rankings, name) for name in _TYPES if getattr(rankings, name) is not None}
    header: Named = {
        "format": _FORMAT,
        "anonymous": rankings.anonymous,
        "arrays": {name: array.dtype.newbyteorder("<").str for name, array in arrays.items()},
        "fingerprint": rankings.fingerprint,
    }
    with atomic_folder(path) as temporary:
        for name, array in arrays.items():
            with atomic_write(temporary / name) as file:
                for first in range(0, array.size, _PIECE):
                    part = array[first : first + _PIECE]
                    file.write(np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data)
        for kind, vocabulary in zip(_KINDS, (rankings.user_ids, rankings.item_ids), strict=True):
            content = _packed(vocabulary)
            with atomic_write(temporary / f"{kind}s.parquet") as file:
                file.write(content)
            header[f"{kind}s"] = hashlib.sha256(content).hexdigest()
        header["sha256"] = _digest(header)
        with atomic_write(temporary / HEADER) as file:
            file.write(json.dumps(header, indent=1).encode())


def require_new_folder(path: Path) -> None:
    """Raise if something is there, or if there is no folder to make it in."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} is there already, and may be in use; remove it first, or give another name")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: the folder {path.parent} does not exist; make it first")


def is_folder_of_rankings(path: Path) -> bool:
    """Whether a folder is one that `write_folder` made, or was before something happened to it."""
    try:
        return path.is_dir() and ((path / HEADER).exists() or path.suffix.lower() == f".{ENDING}")
    except (OSError, ValueError):
        return False


def open_folder(path: Path) -> Rankings:
    """Rankings of a folder."""
    header = _header(path)
    arrays = {name: _mapped(path / name, dtype) for name, dtype in header["arrays"].items()}
    user_ids, item_ids = (_vocabulary(path, kind, header[f"{kind}s"]) for kind in _KINDS)
    for name, n in (("user_indptr", len(user_ids) + 1), ("weights", arrays["indptr"].size - 1)):
        if arrays[name].size != n:
            raise _damaged(path / name, f"it has {arrays[name].size} numbers, expected {n}")
    for name in ("levels", "ratings", "counts"):
        if name in arrays and arrays[name].size != arrays["items"].size:
            raise _damaged(path / name, f"it has {arrays[name].size} numbers for {arrays['items'].size} entries")
    return OpenedRankings(path, arrays, user_ids, item_ids, header)


class OpenedRankings(Rankings):
    """Rankings whose arrays are files that are mapped into memory, and checked before the first is handed out."""

    def __init__(
        self, path: Path, arrays: dict[str, Array], user_ids: Vocabulary, item_ids: Vocabulary, header: Named
    ) -> None:
        self._path, self._mapped, self._header = path, arrays, header
        self._user_ids, self._item_ids, self.anonymous = user_ids, item_ids, bool(header["anonymous"])

    def __getattr__(self, name: str) -> Any:
        if name not in _TYPES:
            raise AttributeError(f"'Rankings' object has no attribute {name!r}")
        mapped: dict[str, Array] = self.__dict__["_mapped"]
        checked = Rankings._trusted(
            *(mapped[key] for key in _NEEDED), self._user_ids, self._item_ids,
            **{key: mapped[key] for key in _TYPES if key not in _NEEDED and key in mapped}, anonymous=self.anonymous,
        )  # fmt: skip
        try:
            check_arrays(checked)
        except InputError as error:
            raise _damaged(self._path, str(error)) from error
        if order_in_ties(checked) is not None:
            raise _damaged(self._path, "tied items are not in order")
        if checked.fingerprint != self._header["fingerprint"]:
            raise _damaged(self._path, "its content does not match its fingerprint")
        for key in (*_TYPES, "fingerprint"):
            setattr(self, key, getattr(checked, key))
        return getattr(self, name)

    @classmethod
    def _trusted(cls, *arrays: Any, **options: Any) -> Rankings:
        """What is made of these is no folder."""
        return Rankings._trusted(*arrays, **options)

    def __reduce__(self) -> tuple[object, ...]:
        whole = [getattr(self, name) for name in _NEEDED]
        return _rebuilt, (whole, self._user_ids, self._item_ids, self._attached())

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self._user_ids)

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return self._mapped["weights"].size

    @property
    def n_entries(self) -> int:
        """Number of (ranking, item) entries."""
        return self._mapped["items"].size


def _rebuilt(arrays: list[Array], user_ids: Vocabulary, item_ids: Vocabulary, attached: Named) -> Rankings:
    return Rankings._trusted(*arrays, user_ids, item_ids, **attached)


def _header(path: Path) -> Named:
    where = path / HEADER
    try:
        with where.open("rb") as file:
            header = json.loads(file.read(_MOST_HEADER))
        version = header["format"]
    except OSError as error:
        raise _damaged(where, error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(where, str(error)) from error
    if version != _FORMAT:
        raise FormatError(
            f"{path} has format {str(version)[:20]!r}; this permrank reads format {_FORMAT!r}: use the version that "
            "wrote it"
        )
    digest = header.pop("sha256", None)
    if digest != _digest(header):
        raise _damaged(where, "its checksum is wrong")
    arrays = header.get("arrays")
    strings = [header.get("fingerprint"), header.get("users"), header.get("items")]
    if (
        not isinstance(arrays, dict)
        or not set(_NEEDED) <= set(arrays) <= set(_TYPES)
        or any(dtype not in _TYPES[name] for name, dtype in arrays.items())
        or not all(isinstance(text, str) for text in strings)
        or not isinstance(header.get("anonymous"), bool)
    ):
        raise _damaged(where, "it does not say what it should")
    return dict(header)


def _digest(header: Named) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _mapped(path: Path, dtype: str) -> Array:
    """The numbers of a file, as many as it holds."""
    kind = np.dtype(dtype)
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            if size % kind.itemsize:
                raise _damaged(path, f"{size} bytes are no whole number of {kind.name}")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        raise _damaged(path, getattr(error, "strerror", None) or str(error)) from error
    numbers = np.frombuffer(content, kind)
    return numbers if kind.isnative else numbers.astype(kind.newbyteorder("="))


def _packed(vocabulary: Vocabulary) -> bytes:
    attributes, buffer = vocabulary.attributes, io.BytesIO()
    metadata = None if attributes is None else {"permrank.attributes": attributes.to_json()}
    pl.DataFrame([vocabulary.ids.alias("id")]).write_parquet(buffer, metadata=metadata)
    return buffer.getvalue()


def _vocabulary(path: Path, kind: AttributeKind, digest: str) -> Vocabulary:
    where = path / f"{kind}s.parquet"
    try:
        content = where.read_bytes()
    except OSError as error:
        raise _damaged(where, error.strerror or str(error)) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(where, "its checksum is wrong")
    file = ParquetFiles([content], str(where))
    if file.names != ["id"]:
        raise _damaged(where, f"its columns are {file.names}")
    ids = file.frame()["id"].rename(kind).rechunk()
    if (
        ids.dtype not in (pl.String, pl.Int64)
        or ids.null_count()
        or not (ids.is_sorted() and ids.n_unique() == len(ids))
    ):
        raise _damaged(where, "the ids are not sorted and different")
    text = file.metadata.get("permrank.attributes")
    return Vocabulary(ids, kind).with_attributes(None if text is None else Attributes.from_json(text, kind))


def _damaged(where: Path, why: str) -> FormatError:
    return FormatError(f"{where} is damaged, or no part of a folder of rankings ({why}); convert the data again")
