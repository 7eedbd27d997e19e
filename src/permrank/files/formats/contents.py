"""The input of a parser: the bytes of a file, unpacked and checked, and how they are to be read."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeAlias

from permrank.checks import free_bytes
from permrank.errors import FormatError, InputError
from permrank.rankings.build import Duplicates
from permrank.rankings.columns import Kind

Put: TypeAlias = Callable[[BinaryIO], object]
"""Writes what was prepared to an open file."""

_BOM = b"\xef\xbb\xbf"
# Text is checked in pieces, so that a large file needs no second copy in memory.
_PIECE = 2**24
# What is packed well may be a thousand times its size. Tables of ratings pack to a tenth or a thirtieth; up to
# `_ALWAYS` bytes nothing is asked, beyond that a file may become so many times its size, and so much at the most.
MOST_TIMES, MOST_UNPACKED, _ALWAYS = 200, 4 * 2**30, 64 * 2**20
# Parsing needs two or three copies of the text.
_SHARE_OF_MEMORY = 0.25


@dataclass(frozen=True)
class Contents:
    """A file, or a member of an archive, and how it is to be read.

    Parameters
    ----------
    path : Path
        Of a member, that of its archive.
    where : str
        What errors call it.
    columns : mapping of str to str
        Role to name, of the columns that were named.
    part : str or None
        Of an archive that has several.
    duplicates : {"error", "first", "last", "mean"}
    kind : {"interactions"}, optional
        What a table is read as, whatever its columns are called.
    content : bytes, optional
        Of a member; that of the file at ``path`` is read when it is asked for.
    files : tuple of Path
        What a folder holds or a pattern names, in order; empty for one file.
    """

    path: Path
    where: str
    columns: Mapping[str, str]
    part: str | None
    duplicates: Duplicates
    kind: Kind | None = None
    content: bytes | None = None
    files: tuple[Path, ...] = ()

    @cached_property
    def data(self) -> bytes:
        """The bytes, unpacked if the file is a ``.gz``."""
        return read_bytes(self.path, self.where) if self.content is None else self.content

    def member(self, content: bytes, where: str) -> Contents:
        """A member of this archive."""
        return replace(self, content=content, where=where, part=None)


def existing_file(path: str | Path) -> Path:
    """Return the path of a file that is there; otherwise say what was looked for and what is near it."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"{path!r} is no path; give the name of a file")
    file = Path(path).expanduser()
    try:
        is_folder, exists = file.is_dir(), file.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or with a NUL in it
        raise InputError(f"{str(file)!r} cannot be the name of a file: {error}") from error
    if is_folder:
        raise InputError(f"{file} is a folder; give the name of a file")
    if exists:
        return file
    if "\0" in str(file):
        raise InputError(f"{str(file)!r} cannot be the name of a file")
    if not file.parent.is_dir():
        raise InputError(f"there is no file {file}: the folder {file.parent} does not exist")
    names = sorted(other.name for other in file.parent.iterdir())
    close = difflib.get_close_matches(file.name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f" (looked in {file.parent.resolve()})"
    raise InputError(f"there is no file {file}{hint}")


def read_bytes(path: Path, where: str) -> bytes:
    """Content of a file, unpacked if it is a ``.gz``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {where}: {error.strerror or error}") from error
    if path.suffix.lower() == ".gz":
        try:
            data = _gunzipped(data, where)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{where} is not a whole gzip file ({error}); fetch it again") from error
    return without_mark(data, where)


def _gunzipped(data: bytes, where: str) -> bytes:
    """The content of a gzip file, piece by piece: nothing beyond what `require_unpackable` lets pass is in memory."""
    pieces, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        while piece := packed.read(1 << 20):
            pieces.append(piece)
            size += len(piece)
            require_unpackable(size, len(data), where)
    return b"".join(pieces)


def require_unpackable(size: int, packed: int, where: str) -> None:
    """Raise if a file of so many packed bytes must not become one of this size."""
    most = min(MOST_UNPACKED, max(_ALWAYS, MOST_TIMES * packed), int(_SHARE_OF_MEMORY * free_bytes()))
    if size > most:
        raise FormatError(
            f"{where} has {packed:,} bytes and unpacks to more than {most / 2**20:,.0f} MiB, and at most {MOST_TIMES} "
            f"times its size, {MOST_UNPACKED / 2**30:g} GiB and a quarter of the free memory are unpacked; if it is "
            "what it should be, unpack it yourself and read the file"
        )


def without_mark(data: bytes, where: str) -> bytes:
    """Drop the byte order mark that some programs write, and refuse what holds nothing."""
    data = data.removeprefix(_BOM)
    if not data or data.isspace():
        raise FormatError(f"{where} is empty; expected rankings")
    return data


def check_text(data: bytes, where: str) -> None:
    """Raise unless the bytes are UTF-8; name the line of the first that are not."""
    start = 0
    while start < len(data):
        end = len(data) if start + _PIECE >= len(data) else data.rfind(b"\n", start, start + _PIECE) + 1
        if end <= start:  # one line longer than a piece
            end = data.find(b"\n", start) + 1 or len(data)
        try:
            str(memoryview(data)[start:end], "utf-8")
        except UnicodeDecodeError as error:
            at = start + error.start
            line = data.count(b"\n", 0, at) + 1
            raise FormatError(
                f"{where}, line {line}: byte {data[at]:#04x} is not UTF-8; save the file as UTF-8"
            ) from None
        start = end


def lines_of(data: bytes, where: str) -> list[str]:
    """Lines without their ends. Only a newline ends a line: ids may hold any other separator."""
    check_text(data, where)
    return [line.removesuffix("\r") for line in data.decode().split("\n")]
