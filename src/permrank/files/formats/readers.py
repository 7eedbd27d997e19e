"""`permrank.read`: rankings from a file, by its ending."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from permrank.errors import FormatError, InputError, PermrankError, argument
from permrank.files.formats import FORMATS, Contents, Format, format_named, format_of
from permrank.files.formats.about import with_about
from permrank.files.formats.contents import existing_file
from permrank.files.formats.folder import is_folder_of_rankings, open_folder
from permrank.files.formats.parquet import parquet_files
from permrank.processes import refuse_after_fork
from permrank.rankings.build import DUPLICATES, Duplicates
from permrank.rankings.choice_sets import Unlisted, check_unlisted, warn_of_choice_set
from permrank.rankings.columns import Kind
from permrank.rankings.rankings import Rankings


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
    where = str(path)
    if isinstance(path, (str, os.PathLike)) and is_folder_of_rankings(Path(path).expanduser()):
        options = {"format": format, "kind": kind, "part": part, **columns}
        given = next((name for name, value in options.items() if value is not None), None)
        if given is not None or duplicates != "error":
            raise InputError(f"{argument(given or 'duplicates')} has no meaning for a folder of rankings; leave it out")
        rankings = open_folder(Path(path).expanduser())
        rankings = rankings.with_unlisted_last() if unlisted == "last" else rankings
        return with_about(rankings, items, users, links, features=features)
    files = tuple(parquet_files(path) or ())
    file = files[0] if files else existing_file(path)
    chosen = format_of(file.name, where) if format is None else format_named(format)
    if files and chosen is not FORMATS["parquet"]:
        raise InputError(f"format={format!r}, but a folder or a pattern stands for Parquet files; leave it out")
    if columns and not chosen.has_columns:
        raise InputError(
            f"{argument(next(iter(columns)))} names a column, but a .{_name_of(chosen)} file has none; leave it out"
        )
    if kind is not None and not chosen.has_columns:
        raise InputError(
            f"{argument('kind', kind)} is for tables, and a .{_name_of(chosen)} file is none; leave it out"
        )
    if part is not None and not chosen.has_parts:
        raise InputError(f"part={part!r} is for zip archives; leave it out")
    try:
        rankings = chosen.parse(Contents(file, where, columns, part, duplicates, kind, files=files))
        if unlisted == "last":
            rankings = rankings.with_unlisted_last()
        rankings = with_about(rankings, items, users, links, features=features)
    except PermrankError as error:
        if where in str(error):
            raise
        raise FormatError(f"{where}: {error}") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FormatError(f"{where} cannot be read ({error})") from error
    if unlisted is None:
        warn_of_choice_set(rankings, stacklevel=2)
    return rankings


def _name_of(chosen: Format) -> str:
    return next(name for name, known in FORMATS.items() if known is chosen)
