"""Data sets as their owners pack them: MovieLens, SUSHI, FilmTrust, and our own layout of APA and NASCAR."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import TypeAlias, TypeVar

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError, argument, shown
from permrank.files.formats.about import with_archived, with_archived_links
from permrank.files.formats.contents import Contents, lines_of, require_unpackable, without_mark
from permrank.files.formats.tables import rankings_of
from permrank.files.formats.tabular import delimited
from permrank.rankings.columns import Roles, find_roles
from permrank.rankings.constructors import from_values
from permrank.rankings.frames import Table
from permrank.rankings.joining import joined
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue
from permrank.types import Float64Array

T = TypeVar("T")
Fetch: TypeAlias = Callable[[str], bytes]
"""Gives the content of a member by its bare name."""

# Item set A of SUSHI in the numbering of its own file, which differs from that of set B (the owner's README).
SUSHI_A = ("ebi", "anago", "maguro", "ika", "uni", "ikura", "tamago", "toro", "tekka_maki", "kappa_maki")
_SUSHI_FILES = {"a": "sushi3a.5000.10.order", "b": "sushi3b.5000.10.order"}
_APA_FILES = {"complete": "apared_rankings.csv", "all": "apafull_rankings.csv"}

# What others have split in two: in tables of the same ending.
_TABLES, _PARTS = (".parquet", ".csv", ".tsv"), ("train", "test", "all")

# Files of ratings without a header: separator, and whether a time follows the rating.
RATING_FILES: Mapping[str, tuple[bytes, bool]] = {
    "u.data": (b"\t", True),
    "ratings.dat": (b"::", True),
    "ratings.txt": (b" ", False),
}


def parse_ratings(contents: Contents, layout: str) -> Rankings:
    """Rows of (user, item, rating) without a header, as in ``u.data``, ``ratings.dat`` or ``ratings.txt``."""
    data, (separator, has_time) = contents.data, RATING_FILES[layout]
    if len(separator) > 1:
        data, separator = data.replace(separator, b"\t"), b"\t"
    names = ["user", "item", "rating", "time"] if has_time else ["user", "item", "rating"]
    source = delimited(data, separator.decode(), contents.where, names)
    return rankings_of(source, find_roles(names, {}, contents.where, contents.kind), contents.duplicates)


def parse_orders(contents: Contents, names: tuple[str, ...] | None = None) -> Rankings:
    """SUSHI's ``.order`` files: after a header line, ``0 10 58 4 3 ...`` are ten items, best first.

    Users are numbered from 0 by their lines, as in ``sushi3.udata``; items keep their numbers unless
    names are given.
    """
    where = contents.where
    lines = lines_of(contents.data, where)
    n_items = _whole_numbers(lines[0], where, 1)[0]
    users: list[int] = []
    items: list[int] = []
    ranks: list[int] = []
    line_numbers: list[int] = []  # lines of the users
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        fields = _whole_numbers(line, where, number)
        if len(fields) < 3 or fields[1] != len(fields) - 2:
            raise FormatError(f"{where}, line {number}: expected '0', a length, and as many items")
        for rank, item in enumerate(fields[2:]):
            if item >= n_items:
                raise FormatError(f"{where}, line {number}: item {item} is not one of 0 to {n_items - 1}")
            users.append(len(line_numbers))
            items.append(item)
            ranks.append(rank)
        line_numbers.append(number)
    if not line_numbers:
        raise FormatError(f"{where} has no orders after its first line")
    if names is not None and len(names) != n_items:
        raise FormatError(f"{where}: {n_items} items, but {len(names)} names")
    if names is None and n_items > max(100_000, 100 * len(items)):
        raise FormatError(f"{where}, line 1: {n_items} items cannot be right for {len(items)} entries")
    ids = pl.Series(range(n_items), dtype=pl.Int64) if names is None else pl.Series(names)
    frame = pl.DataFrame({"user": users, "item": ids.gather(items), "rank": ranks})
    table = Table(frame, lambda row: f"{where}, line {line_numbers[users[row]]}")
    rankings = from_values(Rankings, table, Roles("user", "item", rank="rank"), contents.duplicates)
    return with_catalogue(rankings, None, ids)


def _whole_numbers(line: str, where: str, number: int) -> list[int]:
    fields = line.split()
    if not fields or not all(field.isascii() and field.isdigit() and len(field) < 10 for field in fields):
        raise FormatError(f"{where}, line {number}: {line[:60]!r}, expected whole numbers and spaces")
    return [int(field) for field in fields]


def parse_rank_table(contents: Contents) -> Rankings:
    """Ballots as rows of ranks, one column per item: 1 is best, blank is not ranked. Equal ones are merged."""
    source = delimited(contents.data, ",", contents.where)
    frame, locate = source.load(source.names)
    texts, ranks = _numbers(frame)
    bad = (texts != "") & ~np.isfinite(ranks)
    if bad.any():
        row, column = (int(at[0]) for at in np.nonzero(bad))
        raise FormatError(
            f"{locate(row)}: rank {shown(texts[row, column])} of {shown(source.names[column])} is not a number"
        )
    rows, items = np.nonzero(np.isfinite(ranks))
    if rows.size == 0:
        raise FormatError(f"{contents.where} holds no ranks")
    tall = pl.DataFrame({"ballot": rows, "item": pl.Series(source.names).gather(items), "rank": ranks[rows, items]})
    rankings = from_values(Rankings, Table(tall, locate), Roles("ballot", "item", rank="rank", anonymous=True))
    return with_catalogue(rankings, None, pl.Series(source.names)).merged()


def _numbers(frame: pl.DataFrame) -> tuple[np.ndarray, Float64Array]:
    """Texts and numbers of all cells; at once, since work of its own for each of many columns takes long."""
    texts = frame.unpivot()["value"].str.strip_chars().fill_null("")
    shape = (frame.width, frame.height)
    numbers = texts.cast(pl.Float64, strict=False).to_numpy()
    return texts.to_numpy().reshape(shape).T, numbers.reshape(shape).T


def parse_races(contents: Contents, drivers: bytes) -> Rankings:
    """Races as rows of finishers, best first, each the line of a driver's name; races are numbered from 1."""
    data, where = contents.data, contents.where
    names = [line.strip() for line in lines_of(drivers, where) if line.strip()]
    if len(set(names)) < len(names):
        raise FormatError(f"{where}: a driver is listed twice in drivers.txt")
    n_columns = data[: data.find(b"\n") + 1 or len(data)].count(b",") + 1
    source = delimited(data, ",", where, [f"place {number}" for number in range(1, n_columns + 1)])
    frame, locate = source.load(source.names)
    numbers = _numbers(frame)[1]
    bad = ~np.isin(numbers, np.arange(1, len(names) + 1))
    if bad.any():
        row, column = (int(at[0]) for at in np.nonzero(bad))
        raise FormatError(f"{locate(row)}: {frame[row, column]!r} is not one of the drivers 1 to {len(names)}")
    rows, positions = np.nonzero(~bad)
    ids = pl.Series(names)
    tall = pl.DataFrame({"user": rows + 1, "item": ids.gather(numbers.astype(np.int64).ravel() - 1), "rank": positions})
    table = Table(tall, lambda row: locate(int(rows[row])))
    rankings = from_values(Rankings, table, Roles("user", "item", rank="rank"), contents.duplicates)
    return with_catalogue(rankings, None, ids)


def parse_zip(contents: Contents, parse: Callable[[Contents, str], Rankings]) -> Rankings:
    """Rankings from a zip archive in a known layout, or one that holds a single file of a known format.

    ``parse(contents, name)`` reads such a single file.
    """
    where, part, kind = contents.where, contents.part, contents.kind
    members, fetch = _open(contents.data, where)

    def member(name: str) -> Contents:
        return contents.member(fetch(name), f"{where}/{name}")

    files = {name: partial(fetch, name) for name in members}
    tables = [(f"train{ending}", f"test{ending}") for ending in _TABLES if f"train{ending}" in members]
    if tables and tables[0][1] in members:
        train, test = (parse(member(name), name) for name in tables[0])
        rankings = _part_of(train, test, _choose(part, _PARTS, "train", where))
        return with_archived_links(rankings, files, where)
    if kind is not None and not any(name in members for name in (*RATING_FILES, "ratings.csv")) and len(members) > 1:
        raise InputError(f"{argument('kind', kind)} is for tables, and {where} holds orders; leave it out")
    if _SUSHI_FILES["b"] in members or _SUSHI_FILES["a"] in members:
        rankings = _sushi(member, _choose(part, _SUSHI_FILES, "b", where))
        return with_archived(rankings, files, where)
    if _APA_FILES["complete"] in members or _APA_FILES["all"] in members:
        return parse_rank_table(member(_APA_FILES[_choose(part, _APA_FILES, "complete", where)]))
    if part is not None:
        raise InputError(f"part={part!r}: {where} has no parts; leave part out")
    if "nascar_orderings.csv" in members:
        return parse_races(member("nascar_orderings.csv"), fetch("drivers.txt"))
    ratings = [name for name in (*RATING_FILES, "ratings.csv") if name in members]
    if len(ratings) > 1:
        raise _several(where, [path for name in ratings for path in members[name]])
    if ratings and ratings[0] in RATING_FILES:
        rankings = parse_ratings(member(ratings[0]), ratings[0])
        return with_archived(rankings, files, where)
    chosen = ratings[0] if ratings else next(iter(members)) if len(members) == 1 else None
    if chosen is None:
        shown = ", ".join([*members][:8]) or "nothing"
        raise FormatError(
            f"{where} holds {shown}, which is no known layout (MovieLens, SUSHI, FilmTrust, APA, NASCAR, "
            "tables called train and test); unpack it and read the file you want"
        )
    rankings = parse(member(chosen), chosen)
    return with_archived(rankings, files, where) if ratings else rankings


def _part_of(train: Rankings, test: Rankings, part: str) -> Rankings:
    """A part of data that are handed out in two, over the users and items of both; or both, joined."""
    if part == "all":
        return joined(train, test)
    own, other = (train, test) if part == "train" else (test, train)
    return with_catalogue(own, other.user_ids.ids, other.item_ids.ids)


def _choose(part: str | None, parts: Collection[str], default: str, where: str) -> str:
    if part is not None and part not in parts:
        raise InputError(f"part={part!r}, but {where} has {' and '.join(map(repr, sorted(parts)))}")
    return default if part is None else part


def _sushi(member: Callable[[str], Contents], part: str) -> Rankings:
    names: tuple[str, ...] = SUSHI_A
    if part == "b":
        listed = member("sushi3.idata")
        rows = [line.split("\t") for line in lines_of(listed.data, listed.where) if line.strip()]
        if any(len(row) < 2 or row[0] != str(index) for index, row in enumerate(rows)):
            raise FormatError(f"{listed.where}: expected lines of number, name and features, from 0 on")
        names = tuple(row[1] for row in rows)
    return parse_orders(member(_SUSHI_FILES[part]), names)


def _several(where: str, paths: list[str]) -> FormatError:
    shown = " and ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
    return FormatError(f"{where} holds {shown}; unpack it and read the one you mean")


def _open(data: bytes, where: str) -> tuple[dict[str, list[str]], Fetch]:
    """Paths of the members by their bare names, and a way to read one."""
    paths: dict[str, list[str]] = {}

    def listed() -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for path in archive.namelist():
                # Macs put shadows of all files into a folder of their own.
                if not path.endswith("/") and not path.startswith("__MACOSX/"):
                    paths.setdefault(PurePosixPath(path).name, []).append(path)

    def fetch(name: str) -> bytes:
        def content() -> bytes:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                member = archive.getinfo(paths[name][0])
                require_unpackable(member.file_size, member.compress_size, f"{where}/{name}")
                return archive.read(member)  # never more than the size that it claims

        if name not in paths:
            raise FormatError(f"{where} has no file {name}; fetch it again")
        if len(paths[name]) > 1:
            raise _several(where, paths[name])
        return without_mark(_guarded(content, where), f"{where}/{name}")

    _guarded(listed, where)
    return paths, fetch


def _guarded(action: Callable[[], T], where: str) -> T:
    try:
        return action()
    except FormatError:
        raise
    except Exception as error:  # zipfile fails in a dozen ways on damaged archives
        raise FormatError(f"{where} is not a whole zip archive ({error}); fetch it again") from error
