"""File formats: one table, and what reads and writes by it: `permrank.read` and `Rankings.write`.

A format is one entry of `FORMATS`: how a file is parsed, how it is written if it can be, and by which endings or names
it is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from permrank.errors import FormatError, InputError, PermrankError, argument
from permrank.files.atomic import atomic_write
from permrank.files.formats.about import with_about
from permrank.files.formats.archives import RATING_FILES, parse_orders, parse_ratings, parse_zip
from permrank.files.formats.contents import Contents, Put, existing_file
from permrank.files.formats.folder import ENDING, is_folder_of_rankings, open_folder, write_folder
from permrank.files.formats.jsonlines import parse_jsonlines, write_jsonlines
from permrank.files.formats.parquet import SPECIAL, parquet_files
from permrank.files.formats.preflib import KINDS, parse_preflib, write_preflib
from permrank.files.formats.tables import parse_delimited, parse_parquet, write_delimited, write_parquet
from permrank.processes import refuse_after_fork
from permrank.rankings.build import DUPLICATES, Duplicates
from permrank.rankings.choice_sets import Unlisted, check_unlisted, warn_of_choice_set
from permrank.rankings.columns import Kind
from permrank.rankings.rankings import Rankings

__all__ = ["FORMATS", "Contents", "Format", "format_named", "format_of", "read", "write"]


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
        inner = format_of(name, content.where)
        if inner.has_parts:
            raise FormatError(f"{content.where}: unpack the archive and read this file itself")
        return inner.parse(content)

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
    for key, each in FORMATS.items():
        if text == key or text in each.endings:
            return each
    raise InputError(f"format={name!r}, expected one of {', '.join(FORMATS)}")


def format_of(file_name: str, where: str) -> Format:
    """The format of a file by its name."""
    text = file_name.lower().removesuffix(".gz")
    ending = text.rpartition(".")[2] if "." in text else ""
    is_gzipped = file_name.lower().endswith(".gz")
    for each in FORMATS.values():
        if text in each.file_names or (ending in each.endings and not (each.packed and is_gzipped)):
            return each
    listed = ", ".join(f".{ending}" for each in FORMATS.values() for ending in each.endings)
    remedy = "pass format=" if argument("format").endswith("=") else "rename it"  # the shell has no such option
    raise FormatError(f"{where}: the ending is not one of {listed}; {remedy} if it is one of these")


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (the word everybody would try first)
    unlisted: Unlisted | None = None,
    duplicates: Duplicates = "error",
    kind: Kind | None = None,
    part: str | None = None,
    items: object = None,
    users: object = None,
    links: object = None,
    features: bool = False,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    rank: str | None = None,
    ranking: str | None = None,
    weight: str | None = None,
    winner: str | None = None,
    loser: str | None = None,
    draw: str | None = None,
) -> Rankings:
    r"""Read rankings from a file.

    The ending decides: ``.csv``, ``.tsv`` and ``.parquet`` (one row per entry, or per choice),
    ``.jsonl`` or ``.ndjson`` (one ranking per line), PrefLib's ``.soc``, ``.soi``, ``.toc`` and ``.toi``, and
    ``.zip`` archives as MovieLens, SUSHI and FilmTrust are handed out. Text files may be gzipped
    (``.csv.gz``). Whatever `Rankings.write` wrote is read back equal; a folder ``.rankings`` is mapped into memory, and
    opens in milliseconds.

    Parameters
    ----------
    path : str or Path
        The file; or a folder of Parquet files, or a pattern such as ``"days/2026-*.parquet"``, whose files are read in
        the order of their names. Parquet is read in batches: memory is needed for the rankings, not for the rows.
    format : str, optional
        One of the endings above without the dot, if the file has another one; also ``u.data``,
        ``ratings.dat`` and ``ratings.txt`` for unpacked ratings, and ``order`` for SUSHI's orders.
    unlisted : {"ignore", "last"}, optional
        What is known of items that a ranking does not list: nothing, or that they come last. Left out, nothing; a
        `permrank.errors.ChoiceSetWarning` then says if the lists look like ballots, on which they come last.
    duplicates : {"error", "first", "last", "mean"}
        What to do with an item that comes twice in a ranking.
    kind : {"interactions"}, optional
        Read a table as sets without order, as `Rankings.from_interactions` does, whatever else is in it. Left out,
        the columns decide: a table of users and items alone, or with a count beside them, is taken for interactions.
    part : str, optional
        Which part of an archive that has several: ``"b"`` (ten of a hundred items, the default) or
        ``"a"`` (all of ten items) of SUSHI, ``"complete"`` (default) or ``"all"`` of APA, ``"train"`` (default),
        ``"test"`` or ``"all"`` of an archive with two such tables.
    items, users : path or frame, optional
        What is known of them: titles and attributes, one row for each id, as `Rankings.with_items` and
        `Rankings.with_users` take them. Files are ``.csv``, ``.tsv``, ``.parquet``, or those of MovieLens
        (``movies.csv``, ``movies.dat``, ``u.item`` ...). The archives of MovieLens and SUSHI bring theirs.
    links : path, frame or int, optional
        Who is linked with whom, one row for each link, as `Rankings.with_links` takes them. Files are ``.csv``,
        ``.tsv``, ``.parquet``, or ``.txt`` without a header (FilmTrust's ``trust.txt``). A number links everybody with
        so many users of like attributes.
    features : bool
        Whether models learn from the attributes, as `Rankings.with_features` says; else they are for people alone.
    user, item, rating, rank, ranking, weight, winner, loser, draw : str, optional
        Names of columns. Left out, they are recognised by their header: ``user`` (or ``userId``,
        ``user_id``, ``customerId`` ...; ``ballot`` for ballots without a voter), ``item`` (``itemId``, ``movieId``,
        ``book_id`` ...), then
        ``rating`` or ``rank``, and if present ``ranking``, which tells several rankings of a user apart,
        and ``weight`` (``count``, ``votes``); or ``winner`` and ``loser``, with ``draw`` (``tie``, or else
        ``result``, ``outcome`` or ``score``) if neither may have won. With both a rank and a rating the rank makes
        the order and the rating is kept. Without rank and rating, rows are interactions, and ``weight`` (also
        ``count``, ``clicks``, ``purchases``, ``plays``, ``quantity`` ...) says how often.

    Returns
    -------
    Rankings
        Ids that are written as integers throughout a column become integers, all others strings; a
        header ``item:str`` or ``item:int`` settles it.

    Raises
    ------
    InputError, FormatError
        With the file, the line and the value that cannot be right.

    Notes
    -----
    A row that holds only an item, or only a user, says that it exists without a ranking.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import permrank as pr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "lunch.csv"
    ...     _ = file.write_text("user,item,rating\nann,uni,5\nann,ebi,3\nbob,ebi,4\n")
    ...     pr.read(file).lists("ann")
    [['uni', 'ebi']]
    """
    refuse_after_fork()
    if duplicates not in DUPLICATES:
        raise InputError(f"{argument('duplicates', duplicates)}, expected one of {', '.join(DUPLICATES)}")
    check_unlisted(unlisted)
    if kind not in ("interactions", None):
        raise InputError(f"{argument('kind', kind)}, expected 'interactions', or leave it out")
    named = {
        "user": user, "item": item, "rating": rating, "rank": rank,
        "ranking": ranking, "weight": weight, "winner": winner, "loser": loser, "draw": draw,
    }  # fmt: skip
    columns = {role: name for role, name in named.items() if name is not None}
    where, several = str(path), _may_be_several(path)
    is_mapped = several and is_folder_of_rankings(Path(path).expanduser())
    if is_mapped:
        options = {"format": format, "kind": kind, "part": part, **columns}
        given = next((name for name, value in options.items() if value is not None), None)
        if given is not None or duplicates != "error":
            raise InputError(f"{argument(given or 'duplicates')} has no meaning for a folder of rankings; leave it out")
        load = partial(open_folder, Path(path).expanduser())
    else:
        files = tuple(parquet_files(path) or ()) if several else ()
        file = files[0] if files else existing_file(path)
        chosen = format_of(file.name, where) if format is None else format_named(format)
        contents = Contents(file, where, columns, part, duplicates, kind, files=files)
        _check_options(contents, chosen, format)
        load = partial(chosen.parse, contents)
    try:
        rankings = load()
        if unlisted == "last":
            rankings = rankings.with_unlisted_last()
        if features or any(about is not None for about in (items, users, links)):
            rankings = with_about(rankings, items, users, links, features=features)
    except PermrankError as error:
        if where in str(error):
            raise
        raise FormatError(f"{where}: {error}") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FormatError(f"{where} cannot be read ({error})") from error
    if unlisted is None and not is_mapped:
        warn_of_choice_set(rankings, stacklevel=2)
    return rankings


def _may_be_several(path: object) -> bool:
    """Whether a path is that of a folder, or may be a pattern."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    # Unlike `Path.is_dir`, this does not raise for names that are too long.
    return os.path.isdir(Path(path).expanduser()) or not SPECIAL.isdisjoint(str(path))  # noqa: PTH112


def _check_options(contents: Contents, chosen: Format, format: str | None) -> None:  # noqa: A002 (as in `read`)
    """Raise if an option has no meaning for a format."""
    name = next(name for name, other in FORMATS.items() if other is chosen)
    if contents.files and name != "parquet":
        raise InputError(f"format={format!r}, but a folder or a pattern stands for Parquet files; leave it out")
    if contents.columns and not chosen.has_columns:
        role = next(iter(contents.columns))
        raise InputError(f"{argument(role)} names a column, but a .{name} file has none; leave it out")
    if contents.kind is not None and not chosen.has_columns:
        kind = argument("kind", contents.kind)
        raise InputError(f"{kind} is for tables, and a .{name} file is none; leave it out")
    if contents.part is not None and not chosen.has_parts:
        raise InputError(f"part={contents.part!r} is for zip archives; leave it out")


def write(rankings: Rankings, path: str | Path) -> None:
    """`Rankings.write`: what a format cannot hold is refused before anything is written."""
    path = Path(path).expanduser()
    writers = {ending: each.write for each in FORMATS.values() if each.write for ending in each.endings}
    ending = path.suffix.lower().removeprefix(".")
    if ending not in (*writers, ENDING):
        listed = ", ".join(f".{each}" for each in (*writers, ENDING))
        raise FormatError(f"{path}: cannot write this ending; known are {listed}")
    if rankings.n_rankings == 0:
        raise FormatError(f"{path}: there are no rankings to write")
    if ending == ENDING:
        write_folder(rankings, path)
        return
    put = writers[ending](rankings, path.name)
    with atomic_write(path) as file:
        put(file)
