"""Parquet files in batches of rows: one file, all files of a folder, or those that a pattern names."""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import polars as pl

from permrank.errors import FormatError, InputError
from permrank.files.formats.parquet_guard import check_pages
from permrank.files.formats.tabular import Source, Table, guarded, parquet_metadata

# Rows of a batch: some 100 bytes of each are in memory at once.
BATCH_ROWS = 2**20
_SPECIAL = frozenset("*?[")


class Batch(NamedTuple):
    """Consecutive rows of one file: the table, and the number of the first among those of all files."""

    table: Table
    first: int


class ParquetFiles:
    """One table in one or several files, that is read again and again, a batch at a time.

    Parameters
    ----------
    files : sequence of Path
        In the order of their rows.
    where : str
        What errors call all of them.
    batch_rows : int
        The most rows of a batch.
    """

    def __init__(self, files: Sequence[Path], where: str, batch_rows: int = BATCH_ROWS) -> None:
        self.files, self.where, self._batch_rows = list(files), where, batch_rows
        self._sizes: dict[Path, int] = {}

    @cached_property
    def names(self) -> list[str]:
        """Columns of the first file."""
        first = self.files[0]
        return guarded(lambda: list(pl.read_parquet_schema(first)), self._name(first))

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What the files say beside their columns; the first one that speaks of a thing is heard."""
        found: dict[str, str] = {}
        for file in reversed(self.files):
            found |= parquet_metadata(file, self._name(file))
        return found

    def batches(self, wanted: Sequence[str]) -> Iterator[Batch]:
        """Rows of the columns of the given names, in order."""
        names = list(dict.fromkeys(wanted))
        for file, start in zip(self.files, self._starts(names), strict=True):
            n_rows = self._n_rows(file, names)
            scan = pl.scan_parquet(file, glob=False).select(names)
            for row in range(0, n_rows, self._batch_rows):
                frame = guarded(scan.slice(row, self._batch_rows).collect, self._name(file))
                yield Batch(Table(frame, partial(self._words, file, row)), start + row)

    def source(self) -> Source:
        """All files as one table in memory, for what needs it whole."""

        def load(wanted: Sequence[str]) -> Table:
            frames = [batch.table.frame for batch in self.batches(wanted)]
            if not frames:
                first = self.files[0]
                frames = [guarded(lambda: pl.read_parquet(first, columns=list(wanted)), self._name(first))]
            try:
                return Table(pl.concat(frames), self.locate)
            except pl.exceptions.PolarsError as error:
                raise FormatError(f"the files have columns of different types ({error}); give each one type") from error

        return Source(self.names, load, is_text=False)

    def locate(self, row: int) -> str:
        """Words for a row, by its number among those of all files."""
        starts = list(accumulate((self._sizes[file] for file in self.files[:-1]), initial=0))
        at = bisect_right(starts, row) - 1
        return self._words(self.files[at], row - starts[at], 0)

    def _words(self, file: Path, first: int, row: int) -> str:
        return f"{self._name(file)}, row {first + row}"

    def _name(self, file: Path) -> str:
        return self.where if len(self.files) == 1 and Path(self.where).expanduser() == file else str(file)

    def _starts(self, names: list[str]) -> Iterator[int]:
        """Number of the first row of each file; a file is looked at when its turn comes."""
        start = 0
        for file in self.files:
            yield start
            start += self._n_rows(file, names)

    def _n_rows(self, file: Path, names: list[str]) -> int:
        """Rows of a file, whose pages are looked at the first time."""
        if file not in self._sizes:
            self._sizes[file] = guarded(lambda: self._measured(file, names), self._name(file))
        return self._sizes[file]

    def _measured(self, file: Path, names: list[str]) -> int:
        known = pl.read_parquet_schema(file)
        lacking = [name for name in names if name not in known]
        if lacking:
            raise FormatError(
                f"{file} has no column {lacking[0]!r}, which {self.files[0]} has; rename it, or read the files apart"
            )
        check_pages(file, names)
        return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())


def parquet_files(path: str | Path) -> list[Path] | None:
    """Files that a folder holds, or that a pattern names, sorted; None if the path is neither."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    text, folder = str(path), Path(path).expanduser()
    try:
        if folder.is_dir():
            found = sorted(file for file in folder.iterdir() if file.suffix.lower() == ".parquet" and file.is_file())
        elif not folder.exists() and _SPECIAL.intersection(text):
            named = map(Path, glob.glob(str(folder), recursive=True))  # noqa: PTH207 (a pattern may begin at the root)
            found = sorted(file for file in named if file.is_file())
        else:
            return None
    except (OSError, ValueError):  # a name that is too long, or with a NUL in it
        return None
    if not found:
        what = "is a folder without .parquet files" if folder.is_dir() else "is a pattern that no file fits"
        raise InputError(f"{text} {what}; give the name of a file, or of a folder of Parquet files")
    other = next((file for file in found if file.suffix.lower() != ".parquet"), None)
    if other is not None:
        raise InputError(f"{text}: {other} is no .parquet file; read other formats one file at a time")
    return found
