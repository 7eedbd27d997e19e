"""`permrank.read`: rankings from a file, by its ending."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from permrank.data.build import DUPLICATES, Duplicates
from permrank.data.formats.archives import RATING_FILES, parse_orders, parse_ratings, parse_zip
from permrank.data.formats.columns import find_roles, rankings_of
from permrank.data.formats.jsonlines import parse_jsonlines
from permrank.data.formats.preflib import KINDS, parse_preflib
from permrank.data.formats.tabular import delimited, parquet
from permrank.data.formats.text import existing_file, read_bytes
from permrank.data.rankings import Rankings, Unlisted
from permrank.data.tops import check_unlisted, notice_tops
from permrank.errors import FormatError, InputError, PermrankError
from permrank.processes import refuse_after_fork

_SEPARATORS = {"csv": ",", "tsv": "\t"}
FORMATS = ("csv", "tsv", "parquet", "jsonl", *KINDS, "zip", "order", *RATING_FILES)
"""What ``format=`` takes: an ending, or the name of one of MovieLens' and FilmTrust's files of ratings."""

_SAME = {"ndjson": "jsonl"}
_PLAIN = ("csv", "tsv", "parquet", "jsonl", "ndjson")


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (the word everybody would try first)
    unlisted: Unlisted | None = None,
    duplicates: Duplicates = "error",
    part: str | None = None,
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

    The ending decides: ``.csv``, ``.tsv`` and ``.parquet`` (a row an entry, or a row a choice),
    ``.jsonl`` or ``.ndjson`` (a ranking a line), PrefLib's ``.soc``, ``.soi``, ``.toc`` and ``.toi``, and
    ``.zip`` archives as MovieLens, SUSHI and FilmTrust are handed out. Text files may be gzipped
    (``.csv.gz``). Whatever `Rankings.write` wrote is read back equal.

    Parameters
    ----------
    path : str or Path
        The file.
    format : str, optional
        One of the endings above without the dot, if the file has another one; also ``u.data``,
        ``ratings.dat`` and ``ratings.txt`` for unpacked ratings, and ``order`` for SUSHI's orders.
    unlisted : {"ignore", "last"}, optional
        What is known of items that a ranking does not list: nothing, or that they come last. Left out, nothing; a
        `permrank.errors.ChoiceSetWarning` then says if the lists look like ballots, on which they come last.
    duplicates : {"error", "first", "last", "mean"}
        What to do with an item that comes twice in a ranking.
    part : str, optional
        Which part of an archive that has several: ``"b"`` (ten of a hundred items, the default) or
        ``"a"`` (all of ten items) of SUSHI, ``"complete"`` (default) or ``"all"`` of APA.
    user, item, rating, rank, ranking, weight, winner, loser, draw : str, optional
        Names of columns. Left out, they are recognised by their header: ``user`` (or ``userId``,
        ``user_id``; ``ballot`` for ballots without a voter), ``item`` (``itemId``, ``movieId``), then
        ``rating`` or ``rank``, and if present ``ranking``, which tells several rankings of a user apart,
        and ``weight`` (``count``, ``votes``); or ``winner`` and ``loser``, with ``draw`` (``tie``, or else
        ``result``, ``outcome`` or ``score``) if neither may have won. With both a rank and a rating the rank makes
        the order and the rating is kept.

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
        raise InputError(f"duplicates={duplicates!r}, expected one of {', '.join(DUPLICATES)}")
    check_unlisted(unlisted)
    named = {
        "user": user, "item": item, "rating": rating, "rank": rank,
        "ranking": ranking, "weight": weight, "winner": winner, "loser": loser, "draw": draw,
    }  # fmt: skip
    columns = {role: name for role, name in named.items() if name is not None}
    file = existing_file(path)
    where = str(path)
    kind = _format_of(file.name, format, where)
    if columns and kind not in ("csv", "tsv", "parquet", "zip"):
        raise InputError(f"{next(iter(columns))}= names a column, but a .{kind} file has none; leave it out")
    if part is not None and kind != "zip":
        raise InputError(f"part={part!r} is for zip archives; leave it out")
    try:
        if kind == "parquet":
            source = parquet(file, where)
            rankings = rankings_of(source, find_roles(source.names, columns, where), duplicates)
        else:
            rankings = _parse(read_bytes(file, where), kind, where, columns, part, duplicates)
        if unlisted == "last":
            rankings = rankings.with_unlisted_last()
    except PermrankError as error:
        if where in str(error):
            raise
        raise FormatError(f"{where}: {error}") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FormatError(f"{where} cannot be read ({error})") from error
    if unlisted is None:
        notice_tops(rankings, stacklevel=2)
    return rankings


def _format_of(name: str, given: str | None, where: str) -> str:
    if given is not None:
        if not isinstance(given, str):
            raise InputError(f"format={given!r}, expected one of {', '.join(FORMATS)}")
        kind = _SAME.get(given.removeprefix(".").lower(), given.removeprefix(".").lower())
        if kind not in FORMATS:
            raise InputError(f"format={given!r}, expected one of {', '.join(FORMATS)}")
        return kind
    lowered = name.lower().removesuffix(".gz")
    if lowered in RATING_FILES:
        return lowered
    ending = lowered.rpartition(".")[2] if "." in lowered else ""
    kind = _SAME.get(ending, ending)
    if kind not in FORMATS or (name.lower().endswith(".gz") and kind in ("parquet", "zip")):
        known = ", ".join(f".{ending}" for ending in (*_PLAIN, *KINDS, "zip"))
        raise FormatError(f"{where}: the ending is not one of {known}; pass format= if it is one of these")
    return kind


def _parse(
    data: bytes, kind: str, where: str, columns: dict[str, str], part: str | None, duplicates: Duplicates
) -> Rankings:
    if kind in _SEPARATORS:
        source = delimited(data, _SEPARATORS[kind], where)
        return rankings_of(source, find_roles(source.names, columns, where), duplicates)
    if kind == "jsonl":
        return parse_jsonlines(data, where, duplicates)
    if kind in KINDS:
        return parse_preflib(data, kind, where, duplicates)
    if kind == "order":
        return parse_orders(data, None, where, duplicates)
    if kind in RATING_FILES:
        return parse_ratings(data, kind, where, duplicates)

    def member(content: bytes, name: str, place: str) -> Rankings:
        inner = _format_of(name, None, place)
        if inner in ("zip", "parquet"):
            raise FormatError(f"{place}: unpack the archive and read this file itself")
        return _parse(content, inner, place, columns, None, duplicates)

    return parse_zip(data, where, part, duplicates, member)
