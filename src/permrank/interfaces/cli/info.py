"""``permrank info``, ``summary`` and ``plot``: what data, models and model files are."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import permrank as pr
from permrank.errors import InputError, NotSupportedError
from permrank.files.atomic import writable_target
from permrank.interfaces.cli.models import ModelFile, OwnClass, class_named, guide, known_name, load_model
from permrank.interfaces.cli.sources import Options, in_words, open_rankings, parse_id, reads_data, sizes
from permrank.interfaces.output import Json, apart_from, print_json, say, show, show_values

if TYPE_CHECKING:
    import polars as pl

    from permrank.types import Named

_ENDINGS = (".png", ".svg", ".pdf")
_WORDS = {"Int64": "whole number", "Float64": "number", "String": "text", "Boolean": "yes or no", "List": "list"}


@reads_data
def info(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA|MODEL]",
            help="A file of rankings, a data set, a model file, or the name of a model, whose parameters are listed.",
        ),
    ] = None,
    models: Annotated[bool, typer.Option("--models", help="List the models, and when to use each.")] = False,
    datasets: Annotated[bool, typer.Option("--datasets", help="List the data sets, their owners and terms.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Draw a model into this file (.png, .svg, .pdf).")
    ] = None,
    own: OwnClass = None,
    as_json: Json = False,
    *,
    reading: Options,
) -> None:
    """Say what is in a file, a data set or a model file, or which parameters a model has.

    Example: permrank info sushi

    Example: permrank info FactoredPlackettLuce
    """
    if sum([models, datasets, source is not None]) != 1:
        raise InputError("say one thing to describe: a file, the name of a data set, --models or --datasets")
    if models:
        if as_json:
            show(guide(), as_json=True)
            return
        columns = guide().rename({"personal": "personal?"}).select("kind", "model", "personal?", "use_when")
        for (title,), part in columns.group_by("kind", maintain_order=True):
            show(part.drop("kind"), as_json=False, title=str(title))
    elif datasets:
        found = pr.datasets.describe()
        found = found if as_json else found.select("name", "title", "terms", "users", "items", "entries")
        show(found, as_json=as_json, title="data sets (--json gives owners and addresses)")
    elif (kind := _class_meant(str(source))) is not None:
        show(_parameters(kind), as_json=as_json, title=f"{kind.__name__}: {getattr(kind, 'assumes', '')}")
    else:
        path = Path(str(source))
        if path.suffix == ".permrank":
            values = model_summary(load_model(path, own), path)
        else:
            rankings = open_rankings(str(source), **reading)
            values = rankings.describe().to_dict() | _known_of(rankings)
        show_values(values if as_json else readable(values), as_json=as_json)
    if picture is not None:
        pr.plots.save_plot(load_model(str(source), own), picture)


def _class_meant(source: str) -> type[pr.Ranker] | None:
    """The class that a word of the command line names, in any spelling or as module:Class, unless it is a file."""
    module, colon, attribute = source.partition(":")
    if Path(source).exists() or source in pr.datasets.names():
        return None
    own = colon and attribute.isidentifier() and module.replace(".", "_").isidentifier()
    return class_named(source) if own or known_name(source) is not None else None


def _parameters(kind: type[pr.Ranker]) -> pl.DataFrame:
    """Parameters of a model in the order of its constructor: default, what is allowed, and what each is."""
    import polars as pl

    rows = []
    for name, argument in inspect.signature(kind).parameters.items():
        row = {"parameter": name, "default": "" if argument.default is argument.empty else str(argument.default)}
        if (declared := kind.parameters.get(name)) is not None:
            only = "" if declared.when is None else "Only with {}={}.".format(*declared.when)
            row |= {"allowed": declared.allowed, "help": f"{declared.help} {only}".strip()}
        rows.append({"allowed": "", "help": ""} | row)
    return pl.DataFrame(rows, schema=dict.fromkeys(("parameter", "default", "allowed", "help"), pl.String))


def _known_of(rankings: pr.Rankings) -> Named:
    """What is known of items and users: for each column its type, and of how many."""
    found: Named = {}
    for ids in (rankings.item_ids, rankings.user_ids):
        if ids.attributes is not None:
            table = ids.table.drop(ids.kind)
            found[f"{ids.kind}_attribute"] = {
                series.name: f"{_WORDS.get(series.dtype.base_type().__name__, str(series.dtype))}, "
                f"of {len(series) - series.null_count():,} {ids.kind}s"
                for series in table
            }
            features = rankings.features("item" if ids.kind == "item" else "user")
            if features is not None:
                found[f"{ids.kind}_feature"] = dict(map(_told, features.describe().to_dicts()))
    links = rankings.user_ids.attributes.links if rankings.user_ids.attributes else None
    if links is not None:
        found["links"] = f"{len(links):,}, {'learnt from' if links.learnt else 'not learnt from'}"
    return found


def _told(row: Named) -> tuple[str, str]:
    """An attribute, and how it is encoded."""
    columns = f"{row['columns']} column{'s' * (row['columns'] != 1)}" if row["columns"] else ""
    return row["attribute"], ", ".join(part for part in (row["encoding"], columns, row["note"]) if part)


def model_summary(model: pr.Ranker, path: Path) -> Named:
    """What a fitted model is and what it learnt from."""
    data = model.rankings_
    values = {
        "class": type(model).__name__,
        "parameter": model.get_params(),
        **sizes(data),
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "objective": model.history_[-1] if model.history_ else None,
        "seconds": model.fit_seconds_,
        "file": str(path),
        "bytes": path.expanduser().stat().st_size,
    }
    values |= _known_of(data)
    if len(starts := getattr(model, "start_objectives_", ())) > 1:  # how far apart they end
        values |= {"starts": len(starts), "worst_start": float(min(starts)), "best_start": float(max(starts))}
    if model.validation_.size:
        values |= {"best_sweep": model.best_iter_, "validation": model.validation_.tolist()}
    return values | (
        {"communities": model.communities().to_dicts()} if isinstance(model, pr.LatentPlackettLuce) else {}
    )


def readable(values: Named) -> Named:
    """Values for a table: each community in a line with its size, what sets it apart, and who is typical."""
    shown = {name: value for name, value in values.items() if name not in ("communities", "validation")}
    rows = in_words({name.removeprefix("n_"): value for name, value in shown.items()})
    rows["community"] = {}
    for row in values.get("communities", []):
        names = row.get("titles", row["items"])
        items = ", ".join(f"{item} x{lift:.1f}" for item, lift in zip(names, row["lifts"], strict=True))
        users = ", ".join(str(user) for user in row["users"])
        rows["community"][f"{row['community']} ({row['size']:.0%})"] = f"{items}; typical: {users}"
    return rows


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
    from permrank.inference.likelihood import WorthRanker

    ranker: Any = load_model(model, own)
    if not hasattr(ranker, "summary"):
        raise NotSupportedError(
            f"{type(ranker).__name__} has no summary; PlackettLuce, BradleyTerry and Mallows have one"
        )
    options: Named = {"level": level}
    if reference is not None:
        if not isinstance(ranker, WorthRanker):
            raise InputError(f"{type(ranker).__name__} has no scores of items to measure from --reference")
        options["reference"] = parse_id(reference, ranker.item_ids)
    found = ranker.summary(**options)
    tested = None if fit_test is None else pr.goodness_of_fit(ranker, n_simulations=fit_test)
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
    if output.suffix.lower() not in _ENDINGS:
        raise InputError(f"--output {output} ends in {output.suffix!r}, expected one of {', '.join(_ENDINGS)}")
    writable_target(output)
    ranker = load_model(model, own)
    known = pr.plots.kinds(ranker)
    user = None if user_id is None else parse_id(user_id, ranker.user_ids)
    rankings = None if data is None else open_rankings(data)
    pr.plots.plot(ranker, kind, path=output, n_items=n_items, user=user, rankings=rankings)
    drawn = kind or known[0]
    with apart_from(output):
        if as_json:
            print_json({"file": str(output), "kind": drawn, "kinds": known})
        else:
            others = ", ".join(name for name in known if name != drawn)
            say(f"{drawn} written to {output}" + (f"; --kind draws also {others}" if others else ""))
