"""What a parser is handed of a file, and what a writer hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from permrank.files.formats.columns import Kind
from permrank.files.formats.text import read_bytes
from permrank.rankings.build import Duplicates

Put: TypeAlias = Callable[[BinaryIO], Any]
"""Writes what was prepared to an open file."""


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
