"""``permrank summary`` and ``permrank plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from permrank.interfaces.cli.options import Json, ModelFile, OwnClass

_ENDINGS = (".png", ".svg", ".pdf")


def summary(
    model: ModelFile,
    reference: Annotated[
        str | None,
        typer.Option("--reference", "-r", metavar="ITEM", help="Measure scores from this item; else from their mean."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Of the intervals, between 0 and 1.")] = 0.95,
    fit_test: Annotated[
        int | None,
        typer.Option(
            "--fit-test", metavar="N", min=1, help="Test the fit too, with so many data sets drawn from the model."
        ),
    ] = None,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    """Estimates with standard errors, z and p, log-likelihood, AIC and BIC: PlackettLuce, BradleyTerry, Mallows.

    Example: permrank summary races.permrank --reference "Mark Martin"

    Example: permrank summary races.permrank --fit-test 99 --json
    """
    from permrank.errors import InputError, NotSupportedError
    from permrank.evaluation.goodness_of_fit import goodness_of_fit
    from permrank.inference.likelihood import WorthRanker
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.sources import parse_id
    from permrank.interfaces.output import print_json, say

    ranker: Any = load_model(model, own)
    if not hasattr(ranker, "summary"):
        raise NotSupportedError(
            f"{type(ranker).__name__} has no summary; PlackettLuce, BradleyTerry and Mallows have one"
        )
    options: dict[str, Any] = {"level": level}
    if reference is not None:
        if not isinstance(ranker, WorthRanker):
            raise InputError(f"{type(ranker).__name__} has no scores of items to measure from --reference")
        options["reference"] = parse_id(reference, ranker.item_ids)
    found = ranker.summary(**options)
    tested = None if fit_test is None else goodness_of_fit(ranker, n_simulations=fit_test)
    if as_json:
        print_json(found.to_dict() | ({} if tested is None else {"fit_test": tested.to_dict()}))
        return
    say(repr(found))
    if tested is not None:
        say("\n" + repr(tested).split("\n", 2)[2])


def plot(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture: .svg, .png or .pdf.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            help="worths, positions, communities, map, effects, chains, learning, validation or reliability; the first "
            "that the model has, if not given.",
        ),
    ] = None,
    n_items: Annotated[int | None, typer.Option("--items", metavar="N", min=1, help="The most items shown.")] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="Whose positions, where people differ.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DATA", help="Held-out rankings, for --kind reliability.")
    ] = None,
    own: OwnClass = None,
    as_json: Json = False,
) -> None:
    r"""Draw a model into a file; needs matplotlib (pip install 'permrank\[plot]').

    Example: permrank plot races.permrank -o worths.svg

    Example: permrank plot ratings.permrank --kind map --items 40 -o map.png
    """
    from permrank.errors import InputError
    from permrank.files.atomic import writable_target
    from permrank.interfaces import plots
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.sources import open_rankings, parse_id
    from permrank.interfaces.output import apart_from, print_json, say

    if output.suffix.lower() not in _ENDINGS:
        raise InputError(f"--output {output} ends in {output.suffix!r}, expected one of {', '.join(_ENDINGS)}")
    writable_target(output)
    ranker = load_model(model, own)
    known = plots.kinds(ranker)
    user = None if user_id is None else parse_id(user_id, ranker.user_ids)
    rankings = None if data is None else open_rankings(data)
    plots.plot(ranker, kind, path=output, n_items=n_items, user=user, rankings=rankings)
    drawn = kind or known[0]
    with apart_from(output):
        if as_json:
            print_json({"file": str(output), "kind": drawn, "kinds": known})
        else:
            others = ", ".join(name for name in known if name != drawn)
            say(f"{drawn} written to {output}" + (f"; --kind draws also {others}" if others else ""))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(summary)
    app.command()(plot)
