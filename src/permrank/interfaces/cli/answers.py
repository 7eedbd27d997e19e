"""``permrank recommend``, ``rank``, ``explain`` and ``similar``: questions to a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import permrank as pr
from permrank.errors import InputError
from permrank.files.atomic import atomic_write, writable_target
from permrank.interfaces.cli.models import ModelFile, OwnClass, load_model
from permrank.interfaces.cli.sources import parse_id, parse_list
from permrank.interfaces.output import Json, apart_from, print_json, say, show

if TYPE_CHECKING:
    import polars as pl

# People asked about at a time: enough for a block of scores, few enough for progress to be seen.
_AT_A_TIME = 500
_WRITERS = {".csv": "write_csv", ".tsv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson"}
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="CONDITION", help="Only items such as 'genres contains Comedy and year > 1990'."),
]
NewList = Annotated[
    str | None,
    typer.Option("--list", help="A new person's list, best first, of ids or titles: 'a > b = c > d' (= is a tie)."),
]
NumberOfItems = Annotated[int, typer.Option("--k", "-k", min=1, help="How many items.")]
Interval = Annotated[
    bool, typer.Option("--interval", help="Add a 90 % interval of each rank, where the order says so.")
]


def recommend(
    model: ModelFile,
    users: Annotated[list[str] | None, typer.Argument(metavar="[USER]...", help="Ids of known users.")] = None,
    k: NumberOfItems = 10,
    given: NewList = None,
    everybody: Annotated[bool, typer.Option("--all", help="For every user of the model.")] = False,
    where: Where = None,
    only: Annotated[
        list[str] | None, typer.Option("--item", metavar="ITEM", help="Only among these; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="ITEM", help="Never this one; may be repeated.")
    ] = None,
    listed: Annotated[bool, typer.Option("--listed", help="Also what the person has listed already.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Also items that are known by their features alone.")] = False,
    probability: Annotated[
        bool, typer.Option("--probability", help="Add the probability to be among the best K, where the order says so.")
    ] = False,
    interval: Interval = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write them to this file (.csv, .tsv, .parquet, .jsonl).")
    ] = None,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """Find what users would choose next, of all that they have not listed. Items are named by id or title.

    Example: permrank recommend m.permrank ann bob -k 5

    Example: permrank recommend m.permrank --list "Toy Story (1995) > Heat (1995)" --where "year > 1990"

    Example: permrank recommend m.permrank --all -o recommendations.parquet
    """
    if output is not None:
        if output.suffix.lower() not in _WRITERS:
            raise InputError(f"--output {output} ends in {output.suffix!r}, expected one of {', '.join(_WRITERS)}")
        writable_target(output)
    ranker = load_model(model, own)
    people = _asked_about(ranker, users or [], given, everybody)
    frame = _recommended(
        ranker, people, k, exclude_listed=not listed, include_new=new, where=where, probability=probability,
        items=[parse_id(item, ranker.item_ids) for item in only] if only else None,
        exclude=[parse_id(item, ranker.item_ids) for item in exclude or []], interval=interval,
    )  # fmt: skip
    answered = set(map(str, frame["user"]))
    for name in [name for name, _ in people if name not in answered][:10]:
        why = "every item is in the list already" if not (where or only or exclude) else "nothing passes the filters"
        say(f"nothing is left to recommend to {name}: {why}", err=True)
    if output is not None:
        with atomic_write(output) as file:
            options = {"separator": "\t"} if output.suffix.lower() == ".tsv" else {}
            getattr(frame, _WRITERS[output.suffix.lower()])(file, **options)
        with apart_from(output):
            say(f"{frame.height:,} recommendations for {len(people):,} people written to {output}", err=True)
    elif as_json or not frame.is_empty():
        show(frame, as_json=as_json)


def _asked_about(
    model: pr.Ranker, users: Sequence[str], given: str | None, everybody: bool
) -> list[tuple[str, object]]:
    """Names and references of the people that were named, one who is new, or all."""
    if everybody and (users or given is not None):
        raise InputError("--all is everybody; give no users and no --list with it")
    if everybody:
        return [(str(user), user) for user in model.user_ids]
    people: list[tuple[str, object]] = [(name, parse_id(name, model.user_ids)) for name in users]
    if given is not None:
        people.append(("new", _new_person(model, given)))
    if not people:
        raise InputError("name at least one user, give a new person's list with --list 'a > b > c', or say --all")
    return people


def _new_person(model: pr.Ranker, given: str) -> pr.Person:
    return model.fold_in(parse_list(given, model.item_ids))


def _recommended(model: pr.Ranker, people: Sequence[tuple[str, object]], k: int, **options: Any) -> pl.DataFrame:
    """Answers for some people each, the name first; with progress on a terminal where there are many."""
    import polars as pl
    from rich.console import Console
    from rich.progress import track

    from permrank.core.person import Person

    frames = []
    firsts = range(0, len(people), _AT_A_TIME)
    console, silent = Console(stderr=True), len(firsts) < 2 or not sys.stderr.isatty()
    for first in track(firsts, "recommend", console=console, transient=True, disable=silent):
        names, references = zip(*people[first : first + _AT_A_TIME], strict=True)
        frame = model.recommend(list(references), k, **options)
        if isinstance(people[-1][1], Person):  # who has no id, so that ids have to be text
            frame = frame.with_columns(pl.col("user").cast(pl.String).fill_null(names[-1]))
        frames.append(frame)
    return pl.concat(frames)


def rank(
    model: ModelFile,
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[ITEM]...", help="Items to order, by id or title; all, if none.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="For this user; else for everybody.")] = None,
    given: NewList = None,
    where: Where = None,
    interval: Interval = False,
    ties: Annotated[
        bool, typer.Option("--ties", help="Which can be told apart: groups, and ranks between which each must be.")
    ] = False,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """Order given items, best first, for a user or, where the model treats all alike, for everybody.

    The probability shown is that of being among the best ten, or the better half of fewer than twenty.

    Example: permrank rank m.permrank uni ebi toro --user ann
    """
    from permrank.rankings.where import passing

    if user is not None and given is not None:
        raise InputError("--user is somebody known and --list somebody new; give one of them")
    ranker = load_model(model, own)
    if user is None and given is None and not ranker.knows_nobody:
        raise InputError(f"{type(ranker).__name__} ranks for a person; give --user, or --list for somebody new")
    reference: object = None if user is None else parse_id(user, ranker.user_ids)
    if given is not None:
        reference = _new_person(ranker, given)
    chosen = [parse_id(item, ranker.item_ids) for item in items] if items else list(ranker.item_ids)
    if where is not None:
        passes = passing(ranker.item_ids, where)
        chosen = [item for item in chosen if passes[ranker.item_ids.index(item)]]
    frame = ranker.tie_groups(reference, chosen) if ties else ranker.rank(reference, chosen, interval=interval)
    show(frame, as_json=as_json, most=None if items else 50)


def explain(
    model: ModelFile,
    words: Annotated[
        list[str], typer.Argument(metavar="[USER] ITEM", help="A known user, and an item by id or title.")
    ],
    given: NewList = None,
    full: Annotated[bool, typer.Option("--full", help="A row for every item that the person has listed.")] = False,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """Say why an item is recommended to somebody: which of the things that they have listed speak for it.

    Contributions add up to the score. The baseline is what the item has for everybody.

    Example: permrank explain m.permrank ann "Heat (1995)"

    Example: permrank explain m.permrank --list "Alien (1979) > Brazil (1985)" "Blade Runner (1982)"
    """
    import polars as pl

    if len(words) != (2 if given is None else 1):
        what = "a user and an item" if given is None else "one item for the new person of --list"
        raise InputError(f"expected {what}, got {' '.join(words)!r}; put quotes around a title of several words")
    ranker = load_model(model, own)
    user = parse_id(words[0], ranker.user_ids) if given is None else _new_person(ranker, given)
    item = parse_id(words[-1], ranker.item_ids)
    frame, because = ranker.explain(user, item, full=full), ranker.because(user, item)
    if as_json:
        print_json({"because": because, "reasons": frame.to_dicts()})
        return
    say(because)
    name = pl.coalesce([pl.col(column).cast(pl.String) for column in ("title", "item") if column in frame.columns])
    said = [column for column in ("rating", "place") if column in frame.columns]
    share = (100 * pl.col("share")).round(0).cast(pl.Int64).cast(pl.String) + " %"
    shown = frame.select("reason", name.alias("item"), *said, pl.col("contribution").round(3), share.alias("share"))
    show(shown, as_json=False, title=f"score {frame['contribution'].sum():.3g}")


def similar(
    model: ModelFile,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="By id or title.")],
    k: NumberOfItems = 10,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """List the items that the same people like, or take up.

    Example: permrank similar m.permrank "Toy Story (1995)"
    """
    ranker = load_model(model, own)
    name = parse_id(item, ranker.item_ids)
    called = ranker.item_ids.called(ranker.item_ids.index(name))
    show(ranker.similar_items(name, k), as_json=as_json, title=f"like {called}")
