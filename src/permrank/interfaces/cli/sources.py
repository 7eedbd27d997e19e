"""What the command line is pointed at, data sets and files, items and users; and ``permrank convert``."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import permrank as pr
from permrank.errors import ChoiceSetWarning, InputError, UnknownIdError
from permrank.files.atomic import writable_target
from permrank.interfaces.output import Json, apart_from, say, show

if TYPE_CHECKING:
    from permrank.rankings.vocabulary import Vocabulary
    from permrank.types import Named

DataSource = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (.csv .tsv .parquet .jsonl .soc .soi .toc .toi or a data set's .zip), a folder of Parquet files, "
        "a pattern in quotes, a .rankings folder, or the name of a data set.",
    ),
]
_column = functools.partial(
    typer.Option, metavar="COLUMN", rich_help_panel="Columns, where their headers are not recognised"
)


def read_options(
    unlisted: Annotated[
        str | None,
        typer.Option(
            show_default="ignore, with a warning if lists look like ballots",
            help="Items that a ranking does not list: 'ignore', or 'last' (below all listed ones).",
        ),
    ] = None,
    duplicates: Annotated[str, typer.Option(help="An item twice in a ranking: error, first, last or mean.")] = "error",
    kind: Annotated[
        str | None,
        typer.Option(help="'interactions': read a table of users and items as sets without order, such as clicks."),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What items are, a row each: title, genres ... (.csv .tsv .parquet, movies.dat, u.item).",
        ),
    ] = None,
    users: Annotated[str | None, typer.Option(metavar="FILE", help="What is known of users, a row each.")] = None,
    links: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|N",
            help="Who is whose friend, a row each: user, friend, weight; or N nearest by the users' attributes.",
        ),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="Learn from what is known of items and users, and not only show it.")
    ] = False,
    user: Annotated[str | None, _column(help="Users.")] = None,
    item: Annotated[str | None, _column(help="Items.")] = None,
    rating: Annotated[str | None, _column(help="Ratings, higher is better.")] = None,
    rank: Annotated[str | None, _column(help="Ranks, 1 is best.")] = None,
    ranking: Annotated[str | None, _column(help="What tells several rankings of a user apart.")] = None,
    weight: Annotated[
        str | None,
        _column(help="How often a ranking was given, or of interactions, how often the item was taken up."),
    ] = None,
    winner: Annotated[str | None, _column(help="The better of two, for choices.")] = None,
    loser: Annotated[str | None, _column(help="The other of two.")] = None,
    draw: Annotated[
        str | None, _column(help="Whether neither won: 1 or 0, true or false, draw or win, or a score.")
    ] = None,
) -> None:
    """Options of `permrank.read`, whose own signature would be slow to import."""


Options: TypeAlias = dict[str, Any]
"""Values of a group of options, by the names that the function with their declarations has for them."""


def with_options(**groups: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of other functions, in the place of parameters of these names, which get a dict."""
    options = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for own in signature.parameters.values()
            for each in (options[own.name].values() if own.name in options else [own])
        ]

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            command(**{name: {each: given.pop(each) for each in own} for name, own in options.items()}, **given)

        wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
        return wrapped

    return decorated


reads_data = with_options(reading=read_options)


def open_rankings(source: str, **options: Any) -> pr.Rankings:
    """Read a file, or load a data set by its name; warnings as one line each."""
    from permrank.files.formats.about import with_about
    from permrank.rankings.choice_sets import check_unlisted

    given = {name: value for name, value in options.items() if value is not None}
    if not Path(source).exists() and source in pr.datasets.names():
        for name, usual in (("duplicates", "error"), ("kind", None)):
            if given.pop(name, usual) != usual:
                raise InputError(f"--{name} is for files; the data set {source} has its own")
        unlisted, features = given.pop("unlisted", None), given.pop("features", False)
        check_unlisted(unlisted)
        about = [given.pop(name, None) for name in ("items", "users", "links")]
        rankings = pr.datasets.load(source, **given)
        rankings = rankings.with_unlisted_last() if unlisted == "last" else rankings
        return with_about(rankings, *about, features=features)
    if not Path(source).exists() and not Path(source).suffix and not set("*?[") & set(source):
        raise UnknownIdError("file or data set", source, pr.datasets.names())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChoiceSetWarning)
        rankings = pr.read(source, **given)
    for warning in caught:
        say(f"warning: {warning.message}", err=True)
    return rankings


def parse_id(text: str, vocabulary: Vocabulary) -> str | int:
    """The id that a word of the command line means: an id as it is written, or a title."""
    if vocabulary.is_integer:
        try:
            return vocabulary[vocabulary.index(int(text))]
        except (ValueError, UnknownIdError):
            if vocabulary.titles is None:
                raise UnknownIdError(vocabulary.kind, text, vocabulary) from None
    return vocabulary[vocabulary.find(text)]


def parse_list(text: str, vocabulary: Vocabulary) -> list[object]:
    """``a > b = c > d``, or ``a, b, c``, of ids or titles: best first; ``=`` joins ties.

    What is an id or a title as it stands is one, though it may hold a comma or an equals sign.
    """
    levels = text.split(">") if ">" in text else _between_commas(text, vocabulary)
    ranking: list[object] = []
    seen: set[object] = set()
    for level in levels:
        parts = [level] if _known(level, vocabulary) else level.split("=")
        if not all(part.strip() for part in parts):
            raise InputError(f"an empty place in the list {text!r}; write it as 'a > b > c', or 'a > b = c' for a tie")
        block = [parse_id(part.strip(), vocabulary) for part in parts]
        for name in block:
            if name in seen:
                raise InputError(f"{name!r} comes twice in the list {text!r}; name every item once")
            seen.add(name)
        ranking.append(block[0] if len(block) == 1 else set(block))
    return ranking


def _between_commas(text: str, vocabulary: Vocabulary) -> list[str]:
    """Parts between commas; as many of them as make an id or a title are one."""
    parts, found = text.split(","), []
    while parts:
        n = next((n for n in range(len(parts), 1, -1) if _known(",".join(parts[:n]), vocabulary)), 1)
        found.append(",".join(parts[:n]))
        parts = parts[n:]
    return found


def _known(text: str, vocabulary: Vocabulary) -> bool:
    if vocabulary.is_integer and vocabulary.titles is None:
        return False
    try:
        parse_id(text.strip(), vocabulary)
    except UnknownIdError:
        return False
    except InputError:  # the title of several
        return True
    return True


@reads_data
def convert(
    source: DataSource,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write; its ending says the format.")],
    merge: Annotated[bool, typer.Option("--merge", help="Forget who voted; merge equal ballots.")] = False,
    as_json: Json = False,
    *,
    reading: Options,
) -> None:
    """Write rankings in another format; nothing is lost, or the command refuses and says why.

    A target that ends in .rankings is a folder that opens in milliseconds, however large: for data that are learnt from
    again and again.

    Example: permrank convert ballots.toi ballots.parquet

    Example: permrank convert "days/2026-*.parquet" year.rankings
    """
    import polars as pl

    from permrank.files.formats import format_of
    from permrank.files.formats.folder import ENDING, require_new_folder

    to_folder = target.suffix.lower() == f".{ENDING}"
    if to_folder:
        require_new_folder(target)
    else:
        writable_target(target)
    # The lists are handed on as they are: what they leave out is for whoever learns from them to say.
    rankings = open_rankings(source, **{**reading, "unlisted": reading["unlisted"] or "ignore"})
    rankings = rankings.merged() if merge else rankings
    rankings.write(target)
    known = [ids.kind for ids in (rankings.item_ids, rankings.user_ids) if ids.attributes is not None]
    if known and not to_folder and not format_of(target.name, str(target)).has_attributes:
        what = " and ".join(f"{kind}s" for kind in known)
        say(f"a {target.suffix} file has no room for what is known of {what}: .parquet and .jsonl have", err=True)
    counts = {"file": str(target), **(sizes(rankings) if as_json else in_words(sizes(rankings)))}
    with apart_from(target):
        show(pl.DataFrame([counts]), as_json=as_json, title="written")


def sizes(rankings: pr.Rankings) -> Named:
    """Who ranked how much."""
    return {
        "anonymous": rankings.anonymous,
        "users": rankings.n_users,
        "rankings": rankings.n_rankings,
        "total_weight": float(rankings.weights.sum()),
        "items": rankings.n_items,
        "entries": rankings.n_entries,
    }


def in_words(values: Named) -> Named:
    """Sizes for people: of anonymous rankings the ballots that were cast, and how many of them differ."""
    if not values.get("anonymous"):
        return {name: value for name, value in values.items() if name != "anonymous"}
    renamed = {"users": "ballots", "rankings": "distinct_ballots"}
    told = values | {"users": values["total_weight"]}
    return {renamed.get(name, name): told[name] for name in told if name not in ("anonymous", "total_weight")}
