"""Files about users and items: titles and attributes, as tables or as MovieLens and SUSHI hand them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from permrank.errors import FormatError, PermrankError
from permrank.files.formats.contents import existing_file, read_bytes
from permrank.files.formats.parquet import ParquetFiles
from permrank.files.formats.tabular import Source, delimited
from permrank.rankings.attributes import AttributeKind, Attributes, attributes_of
from permrank.rankings.links import links_of
from permrank.rankings.rankings import Rankings
from permrank.rankings.with_attributes import attached, attached_links

# Genres of MovieLens 100K in the order of the columns of u.item (its README).
_GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
# Of MovieLens 1M, by their numbers (its README).
_OCCUPATIONS = (
    "other", "academic/educator", "artist", "clerical/admin", "college/grad student", "customer service",
    "doctor/health care", "executive/managerial", "farmer", "homemaker", "K-12 student", "lawyer", "programmer",
    "retired", "sales/marketing", "scientist", "self-employed", "technician/engineer", "tradesman/craftsman",
    "unemployed", "writer",
)  # fmt: skip
# Files without a header: separator and columns.
_LAYOUTS = {
    "u.item": (b"|", ("item", "title", "released", "video", "address", *_GENRES)),
    "u.user": (b"|", ("user", "age", "gender", "occupation", "zip")),
    "movies.dat": (b"::", ("item", "title", "genres")),
    "users.dat": (b"::", ("user", "gender", "age", "occupation", "zip")),
    "sushi3.idata": (
        b"\t",
        ("number", "item", "style", "major_group", "minor_group", "heaviness", "eaten", "price", "sold"),
    ),
    "sushi3.udata": (
        b"\t",
        ("number", "gender", "age", "seconds", "prefecture_15", "region_15", "east_west_15", "prefecture", "region",
         "east_west", "moved"),
    ),
}  # fmt: skip
# Numbers that stand for something else, and are no quantities.
_CODES = {
    "sushi3.idata": ("style", "major_group", "minor_group"),
    "sushi3.udata": (
        "gender", "age", "prefecture_15", "region_15", "east_west_15", "prefecture", "region", "east_west", "moved",
    ),
}  # fmt: skip
FILES: dict[AttributeKind, tuple[str, ...]] = {
    "item": ("movies.csv", "u.item", "movies.dat", "sushi3.idata"),
    "user": ("u.user", "users.dat", "sushi3.udata"),
}
# Who is linked with whom, without a header but in friends.csv: truster, trustee and weight of FilmTrust and Epinions.
LINK_FILES = ("trust.txt", "friends.csv", "links.csv")


def with_about(
    rankings: Rankings, items: object, users: object, links: object = None, *, features: bool = False
) -> Rankings:
    """Rankings with attributes and links from frames or files; None adds nothing.

    Models learn from links that are given; from attributes if ``features`` says so. A number in the place of links,
    also as text, links everybody with so many users of like attributes.
    """
    if items is not None:
        rankings = _added(items, parse_about, rankings.with_items)
    if users is not None:
        rankings = _added(users, parse_about, rankings.with_users)
    similar = _number(links)
    if similar is not None:
        rankings = rankings.with_links(similar=similar)
    elif links is not None:
        rankings = _added(links, parse_links, rankings.with_links)
    return rankings.with_features() if features else rankings


def _added(
    given: object, parse: Callable[[bytes, str, str], pl.DataFrame], add: Callable[[object], Rankings]
) -> Rankings:
    """Rankings with the rows of a frame or a file; ``parse`` makes a frame of the content of a text file."""
    if not isinstance(given, str | Path):
        return add(given)
    file, where = existing_file(given), str(given)
    name = file.name.lower().removesuffix(".gz")
    is_parquet = name.endswith(".parquet")
    frame = ParquetFiles([file], where).frame() if is_parquet else parse(read_bytes(file, where), name, where)
    try:
        return add(frame)
    except PermrankError as error:
        raise FormatError(f"{where}: {error}") from error


def _number(links: object) -> int | None:
    """The number that stands in the place of links, if it is one and no file."""
    if isinstance(links, str | Path):
        return int(str(links)) if str(links).isdecimal() and not Path(links).exists() else None
    return links if isinstance(links, int) and not isinstance(links, bool) else None


def parse_links(data: bytes, name: str, where: str) -> pl.DataFrame:
    """A file of links as a frame: a table with a header, or .txt with two or three columns between spaces or tabs."""
    data = _as_utf8(data)
    if not name.endswith(".txt"):
        return parse_about(data, name, where)
    first = data[: data.find(b"\n") + 1 or len(data)]
    separator = b"\t" if b"\t" in first else b" "
    n_columns = len(first.split())
    if n_columns not in (2, 3):
        raise FormatError(f"{where}: {n_columns} columns, expected a user, a friend, and maybe a weight")
    return _typed(delimited(data, separator.decode(), where, ("user", "friend", "weight")[:n_columns]))


def parse_about(data: bytes, name: str, where: str) -> pl.DataFrame:
    """The content of a text file about users or items as a frame, its columns typed."""
    data = _as_utf8(data)
    if name in _LAYOUTS:
        separator, columns = _LAYOUTS[name]
        if len(separator) > 1:
            data, separator = data.replace(separator, b"\t"), b"\t"
        n_columns = data[: data.find(b"\n") + 1 or len(data)].count(separator) + 1
        if n_columns > len(columns):
            raise FormatError(f"{where}: {n_columns} columns, expected {len(columns)}: {', '.join(columns)}")
        frame = _typed(delimited(data, separator.decode(), where, columns[:n_columns]))
        return _PLAIN[name](frame) if name in _PLAIN else frame
    ending = name.rpartition(".")[2]
    if ending not in ("csv", "tsv"):
        raise FormatError(f"{where}: a file about users or items is .csv, .tsv, .parquet, or {', '.join(_LAYOUTS)}")
    return _typed(delimited(data, "," if ending == "csv" else "\t", where))


def with_archived(rankings: Rankings, files: Mapping[str, Callable[[], bytes]], where: str) -> Rankings:
    """Rankings with the attributes in an archive; ``files``: contents of its files by name."""
    attributes: dict[str, Attributes] = {}
    for kind, names in FILES.items():
        name = next((name for name in names if name in files), None)
        if name is not None:
            frame = parse_about(files[name](), name, f"{where}/{name}")
            if frame.width > 1:  # ids alone say nothing
                ids = rankings._ids_of(kind).ids
                attributes[f"{kind}s"] = attributes_of(frame, kind, like=ids, where=f"{where}/{name}")
    return with_archived_links(attached(rankings, **attributes) if attributes else rankings, files, where)


def with_archived_links(rankings: Rankings, files: Mapping[str, Callable[[], bytes]], where: str) -> Rankings:
    """Rankings with the links of an archive, which models learn from when `Rankings.with_links` says so."""
    name = next((name for name in LINK_FILES if name in files), None)
    if name is None:
        return rankings
    frame = parse_links(files[name](), name, f"{where}/{name}")
    links = links_of(frame, like=rankings.user_ids.ids, where=f"{where}/{name}")
    return attached_links(rankings, replace(links, learnt=False))


def _as_utf8(data: bytes) -> bytes:
    """MovieLens' files are Latin-1, in which any bytes are text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1").encode()
    return data


def _typed(source: Source) -> pl.DataFrame:
    """All columns of a text file: whole numbers, numbers and truth values where every value is one, else text."""
    frame = source.load(source.names).frame
    return frame.with_columns(_typed_column(series) for series in frame)


def _typed_column(text: pl.Series) -> pl.Series:
    values = text.str.strip_chars()
    if values.null_count() == len(values):
        return values
    whole = values.cast(pl.Int64, strict=False)
    if ((whole.cast(pl.String) == values) | values.is_null()).fill_null(value=False).all():
        return whole
    numbers = values.cast(pl.Float64, strict=False)
    coded = values.str.contains(r"^[+-]?0\d").any()  # 01234 is a code, whatever it looks like
    if not coded and numbers.null_count() == values.null_count() and numbers.is_finite().all():
        return numbers
    if values.str.to_lowercase().is_in(["true", "false"]).all():
        return values.str.to_lowercase() == "true"
    return values


def _u_item(frame: pl.DataFrame) -> pl.DataFrame:
    """One column of genres instead of one for each; no address, which the title is part of."""
    genres = [name for name in _GENRES[1:] if name in frame.columns]
    of_genres = [pl.when(pl.col(name) == 1).then(pl.lit(name)) for name in genres]
    listed = [pl.concat_list(of_genres).list.drop_nulls().alias("genres")] if genres else []
    dates = [pl.col(name).str.to_date("%d-%b-%Y", strict=False) for name in frame.columns if name == "released"]
    return frame.with_columns(dates).select(
        "item",
        *(name for name in ("title", "released") if name in frame.columns),
        *listed,
    )


def _sushi(name: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Codes as text; kinds of sushi go by their names, people by the numbers of their lines."""

    def plain(frame: pl.DataFrame) -> pl.DataFrame:
        codes = [pl.col(code).cast(pl.String) for code in _CODES[name] if code in frame.columns]
        frame = frame.with_columns(codes).drop("number")
        is_items = "item" in frame.columns
        return frame if is_items else frame.with_row_index("user").with_columns(pl.col("user").cast(pl.Int64))

    return plain


def _users_dat(frame: pl.DataFrame) -> pl.DataFrame:
    """Occupations in words; ages are the lowest of their range."""
    if "occupation" not in frame.columns or not frame["occupation"].dtype.is_integer():
        return frame
    words = dict(enumerate(_OCCUPATIONS))
    return frame.with_columns(pl.col("occupation").replace_strict(words, default=None, return_dtype=pl.String))


_PLAIN: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "u.item": _u_item,
    "users.dat": _users_dat,
    **{name: _sushi(name) for name in _CODES},
}
