"""File formats: one table, which `permrank.read` and `Rankings.write` use.

A format is one entry of `FORMATS`: how a file is parsed, how it is written if it can be, and by which endings or names
it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from permrank.errors import FormatError, InputError, argument
from permrank.files.atomic import atomic_write
from permrank.files.formats.archives import RATING_FILES, parse_orders, parse_ratings, parse_zip
from permrank.files.formats.contents import Contents, Put
from permrank.files.formats.folder import ENDING, write_folder
from permrank.files.formats.jsonlines import parse_jsonlines, write_jsonlines
from permrank.files.formats.preflib import KINDS, parse_preflib, write_preflib
from permrank.files.formats.tables import parse_delimited, parse_parquet, write_delimited, write_parquet
from permrank.rankings.rankings import Rankings

__all__ = ["FORMATS", "Contents", "Format", "format_named", "format_of", "write"]


@dataclass(frozen=True)
class Format:
    """A file format.

    Parameters
    ----------
    parse : callable
        `Contents` to `Rankings`.
    write : callable, optional
        Rankings and the name of the file to a function that writes to an open file; what the format cannot hold is
        refused before the file is opened. None for formats that are only read.
    endings : sequence of str
        Without the dot. The first one, or the only file name, is the format's name.
    file_names : sequence of str
        Whole names of files that are known by them.
    has_columns : bool
        Whether columns can be named (``user=``, ``item=`` ...).
    has_parts : bool
        Whether ``part=`` chooses among several data sets in the file.
    packed : bool
        Whether the format compresses by itself, and is never gzipped.
    has_attributes : bool
        Whether files hold what is known of users and items beside the rankings.
    """

    parse: Callable[[Contents], Rankings]
    write: Callable[[Rankings, str], Put] | None = None
    endings: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()
    has_columns: bool = False
    has_parts: bool = False
    packed: bool = False
    has_attributes: bool = False


def _delimited(ending: str, separator: str) -> Format:
    return Format(
        lambda contents: parse_delimited(contents, separator),
        lambda rankings, name: write_delimited(rankings, separator),
        endings=(ending,),
        has_columns=True,
    )


def _preflib(kind: str) -> Format:
    return Format(
        lambda contents: parse_preflib(contents, kind),
        lambda rankings, name: write_preflib(rankings, kind, name),
        endings=(kind,),
    )


def _ratings(name: str) -> Format:
    return Format(lambda contents: parse_ratings(contents, name), file_names=(name,))


def _parse_archive(contents: Contents) -> Rankings:
    def member(content: Contents, name: str) -> Rankings:
        found = format_of(name, content.where)
        if found.has_parts:
            raise FormatError(f"{content.where}: unpack the archive and read this file itself")
        return found.parse(content)

    return parse_zip(contents, member)


FORMATS: dict[str, Format] = {
    "csv": _delimited("csv", ","),
    "tsv": _delimited("tsv", "\t"),
    "parquet": Format(
        parse_parquet,
        lambda rankings, name: write_parquet(rankings),
        endings=("parquet",),
        has_columns=True,
        packed=True,
        has_attributes=True,
    ),
    "jsonl": Format(
        parse_jsonlines,
        lambda rankings, name: write_jsonlines(rankings),
        endings=("jsonl", "ndjson"),
        has_attributes=True,
    ),
    **{kind: _preflib(kind) for kind in KINDS},
    "zip": Format(_parse_archive, endings=("zip",), has_columns=True, has_parts=True, packed=True),
    "order": Format(parse_orders, endings=("order",)),
    **{name: _ratings(name) for name in RATING_FILES},
}
"""What ``format=`` takes: an ending, or the name of one of MovieLens' and FilmTrust's files of ratings."""


def format_named(name: object) -> Format:
    """The format that ``format=`` names."""
    text = name.removeprefix(".").lower() if isinstance(name, str) else ""
    for key, known in FORMATS.items():
        if text == key or text in known.endings:
            return known
    raise InputError(f"format={name!r}, expected one of {', '.join(FORMATS)}")


def format_of(file_name: str, where: str) -> Format:
    """The format of a file by its name."""
    text = file_name.lower().removesuffix(".gz")
    ending = text.rpartition(".")[2] if "." in text else ""
    for known in FORMATS.values():
        if text in known.file_names or (ending in known.endings and not (known.packed and _is_gzipped(file_name))):
            return known
    listed = ", ".join(f".{ending}" for known in FORMATS.values() for ending in known.endings)
    raise FormatError(f"{where}: the ending is not one of {listed}; {_remedy()}")


def _remedy() -> str:
    return (
        "pass format= if it is one of these" if argument("format").endswith("=") else "rename it if it is one of these"
    )


def _is_gzipped(file_name: str) -> bool:
    return file_name.lower().endswith(".gz")


def write(rankings: Rankings, path: str | Path) -> None:
    """`Rankings.write`: what a format cannot hold is refused before anything is written."""
    path = Path(path).expanduser()
    known = {ending: known.write for known in FORMATS.values() if known.write for ending in known.endings}
    ending = path.suffix.lower().removeprefix(".")
    if ending not in (*known, ENDING):
        listed = ", ".join(f".{each}" for each in (*known, ENDING))
        raise FormatError(f"{path}: cannot write this ending; known are {listed}")
    if rankings.n_rankings == 0:
        raise FormatError(f"{path}: there are no rankings to write")
    if ending == ENDING:
        write_folder(rankings, path)
        return
    put = known[ending](rankings, path.name)
    with atomic_write(path) as file:
        put(file)
