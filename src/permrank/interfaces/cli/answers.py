"""``permrank rank``, ``permrank explain`` and ``permrank similar``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from permrank.errors import InputError
from permrank.interfaces.cli.options import Interval, Json, ModelFile, NewList, OwnClass, Where


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
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.sources import parse_id, parse_list
    from permrank.interfaces.output import show
    from permrank.rankings.where import passing

    if user is not None and given is not None:
        raise InputError("--user is somebody known and --list somebody new; give one of them")
    ranker = load_model(model, own)
    if user is None and given is None and not ranker.knows_nobody:
        raise InputError(f"{type(ranker).__name__} ranks for a person; give --user, or --list for somebody new")
    reference: Any = None if user is None else parse_id(user, ranker.user_ids)
    if given is not None:
        reference = ranker.fold_in(parse_list(given, ranker.item_ids))
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
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.sources import parse_id, parse_list
    from permrank.interfaces.output import print_json, say, show

    wanted = 1 if given is not None else 2
    if len(words) != wanted:
        what = "one item for the new person of --list" if given is not None else "a user and an item"
        raise InputError(f"expected {what}, got {' '.join(words)!r}; put quotes around a title of several words")
    ranker = load_model(model, own)
    user: Any = parse_id(words[0], ranker.user_ids) if given is None else None
    if given is not None:
        user = ranker.fold_in(parse_list(given, ranker.item_ids))
    item = parse_id(words[-1], ranker.item_ids)
    frame = ranker.explain(user, item, full=full)
    if as_json:
        print_json({"because": ranker.because(user, item), "reasons": frame.to_dicts()})
        return
    say(ranker.because(user, item))
    show(_readable(frame), as_json=False, title=f"score {frame['contribution'].sum():.3g}")


def similar(
    model: ModelFile,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="By id or title.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many items.")] = 10,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """List the items that the same people like, or take up.

    Example: permrank similar m.permrank "Toy Story (1995)"
    """
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.sources import parse_id
    from permrank.interfaces.output import show

    ranker = load_model(model, own)
    index = ranker.item_ids.index(parse_id(item, ranker.item_ids))
    frame = ranker.similar_items(ranker.item_ids[index], k)
    show(frame, as_json=as_json, title=f"like {ranker.item_ids.called(index)}")


def _readable(frame: Any) -> Any:
    """Shares in percent, and one column that names the item."""
    import polars as pl

    name = pl.coalesce([pl.col(column).cast(pl.String) for column in ("title", "item") if column in frame.columns])
    said = [column for column in ("rating", "place") if column in frame.columns]
    share = (100 * pl.col("share")).round(0).cast(pl.Int64).cast(pl.String) + " %"
    return frame.select("reason", name.alias("item"), *said, pl.col("contribution").round(3), share.alias("share"))


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (rank, explain, similar):
        app.command()(command)
