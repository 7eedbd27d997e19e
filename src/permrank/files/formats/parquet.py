"""Parquet in batches of rows: one file or its content, all files of a folder, or those that a pattern names."""

from __future__ import annotations

import glob
import io
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias, TypeVar

import polars as pl

from permrank.errors import FormatError, InputError, PermrankError
from permrank.files.formats.parquet_guard import check_pages
from permrank.files.formats.tabular import Source
from permrank.rankings.frames import Table

# Rows of a batch: some 100 bytes of each are in memory at once.
BATCH_ROWS = 2**20
SPECIAL = frozenset("*?[")
"""What makes a path a pattern."""

T = TypeVar("T")
File: TypeAlias = Path | bytes
"""A file, or the content of one."""


class ParquetFiles:
    """One table in one or several files, that is read again and again, a batch at a time.

    Parameters
    ----------
    files : sequence of Path or bytes
        Files, or the content of one, in the order of their rows.
    where : str
        What errors call all of them.
    batch_rows : int
        The most rows of a batch.
    """

    def __init__(self, files: Sequence[File], where: str, batch_rows: int = BATCH_ROWS) -> None:
        self.files, self.where, self._batch_rows = list(files), where, batch_rows
        self._sizes: dict[int, int] = {}

    @cached_property
    def names(self) -> list[str]:
        """Columns of the first file."""
        return self._guarded(0, lambda: list(pl.read_parquet_schema(_source(self.files[0]))))

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What the files say beside their columns; the first one that speaks of a thing is heard."""
        metadata: dict[str, str] = {}
        for number, file in reversed([*enumerate(self.files)]):
            metadata |= self._guarded(number, partial(pl.read_parquet_metadata, _source(file)))
        return metadata

    def batches(self, wanted: Sequence[str]) -> Iterator[tuple[Table, int]]:
        """Rows of the columns of the given names, in order; and the number of the first of them among all."""
        names, start = list(dict.fromkeys(wanted)), 0
        for number, file in enumerate(self.files):
            n_rows = self._n_rows(number, names)
            scan = pl.scan_parquet(_source(file), glob=False).select(names)
            for row in range(0, n_rows, self._batch_rows):
                frame = self._guarded(number, scan.slice(row, self._batch_rows).collect)
                yield Table(frame, partial(self._words, number, row)), start + row
            start += n_rows

    def frame(self, wanted: Sequence[str] | None = None) -> pl.DataFrame:
        """Columns of all files in memory, all of them if none are named."""
        names = self.names if wanted is None else list(dict.fromkeys(wanted))
        frames = [table.frame for table, _ in self.batches(names)]
        if not frames:
            frames = [self._guarded(0, lambda: pl.read_parquet(_source(self.files[0]), columns=names))]
        try:
            return pl.concat(frames)
        except pl.exceptions.PolarsError as error:
            raise FormatError(f"the files have columns of different types ({error}); give each one type") from error

    def source(self) -> Source:
        """All files as one table in memory, for what needs it whole."""
        return Source(self.names, lambda wanted: Table(self.frame(wanted), self.locate), is_text=False)

    def locate(self, row: int) -> str:
        """Name of a row, by its number among those of all files."""
        starts = list(accumulate((self._sizes[number] for number in range(len(self.files) - 1)), initial=0))
        number = bisect_right(starts, row) - 1
        return self._words(number, row - starts[number], 0)

    def _words(self, number: int, first: int, row: int) -> str:
        return f"{self._name(number)}, row {first + row}"

    def _name(self, number: int) -> str:
        file = self.files[number]
        is_whole = len(self.files) == 1 and (isinstance(file, bytes) or Path(self.where).expanduser() == file)
        return self.where if is_whole else str(file)

    def _n_rows(self, number: int, names: list[str]) -> int:
        """Rows of a file, whose pages are looked at the first time."""
        if number not in self._sizes:
            self._sizes[number] = self._guarded(number, lambda: self._measured(number, names))
        return self._sizes[number]

    def _measured(self, number: int, names: list[str]) -> int:
        file = self.files[number]
        schema = pl.read_parquet_schema(_source(file))
        lacking = [name for name in names if name not in schema]
        if lacking:
            raise FormatError(
                f"{self._name(number)} has no column {lacking[0]!r}, which {self._name(0)} has; rename it, or read the "
                "files apart"
            )
        check_pages(file, names)
        return int(pl.scan_parquet(_source(file), glob=False).select(pl.len()).collect().item())

    def _guarded(self, number: int, action: Callable[[], T]) -> T:
        """What the reader of Parquet gives, or a `FormatError`."""
        try:
            return action()
        except PermrankError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:
            # A damaged file makes the Parquet reader fail in many ways, some of them panics of its own.
            first = str(error).strip().splitlines() or [type(error).__name__]
            raise FormatError(
                f"{self._name(number)} cannot be read as Parquet ({first[0]}); write or fetch it again"
            ) from error


def _source(file: File) -> Path | io.BytesIO:
    return io.BytesIO(file) if isinstance(file, bytes) else file


def parquet_files(path: str | Path) -> list[Path] | None:
    """Files that a folder holds, or that a pattern names, sorted; None if the path is neither."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    text, folder = str(path), Path(path).expanduser()
    try:
        if folder.is_dir():
            files = sorted(file for file in folder.iterdir() if file.suffix.lower() == ".parquet" and file.is_file())
        elif not folder.exists() and SPECIAL.intersection(text):
            named = map(Path, glob.glob(str(folder), recursive=True))  # noqa: PTH207 (a pattern may begin at the root)
            files = sorted(file for file in named if file.is_file())
        else:
            return None
    except (OSError, ValueError):  # a name that is too long, or with a NUL in it
        return None
    if not files:
        what = "is a folder without .parquet files" if folder.is_dir() else "is a pattern that no file fits"
        raise InputError(f"{text} {what}; give the name of a file, or of a folder of Parquet files")
    other = next((file for file in files if file.suffix.lower() != ".parquet"), None)
    if other is not None:
        raise InputError(f"{text}: {other} is no .parquet file; read other formats one file at a time")
    return files
