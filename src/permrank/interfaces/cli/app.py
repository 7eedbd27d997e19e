"""The command line. Heavy libraries are imported inside the commands, so that ``--help`` is quick."""

from __future__ import annotations

import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from permrank.errors import ARGUMENT, InputError, PermrankError
from permrank.interfaces.cli import answers as answer_commands
from permrank.interfaces.cli import evaluate as evaluation_commands
from permrank.interfaces.cli import serve as serve_command
from permrank.interfaces.cli import statistics as statistics_commands
from permrank.interfaces.cli import upkeep as upkeep_commands
from permrank.interfaces.cli.compiled import SaysOnce
from permrank.interfaces.cli.options import (
    Address,
    DataSource,
    EngineName,
    Interval,
    Json,
    ModelFile,
    NewList,
    NumberOfWorkers,
    OwnClass,
    Probability,
    Settings,
    Where,
    reads_data,
)
from permrank.interfaces.output import say
from permrank.kernels.compiling import told_of_compiling


class _Group(TyperGroup):
    """Turns every error that permrank raises on purpose into one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        spelling = ARGUMENT.set("--{}")
        ctx.obj = SaysOnce()
        try:
            with told_of_compiling(ctx.obj):
                return super().invoke(ctx)
        except (PermrankError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            from permrank.interfaces.output import message_of

            typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
            typer.echo(message_of(error), err=True)
            raise typer.Exit(1) from error
        finally:
            ARGUMENT.reset(spelling)


_VALIDATION = "Validation: when to stop"

app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn how each person ranks things, from the partial ranked lists or ratings of many people.\n\n"
    "Start with [bold]permrank demo[/bold]. With data of your own: "
    "[bold]permrank info ratings.csv[/bold], "
    "[bold]permrank fit ratings.csv -o m.permrank[/bold], "
    "[bold]permrank recommend m.permrank ann[/bold].",
)


def _version(wanted: bool) -> None:
    if wanted:
        from permrank import __version__

        typer.echo(f"permrank {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page of the comparison; among temporary files if not given.")
    ] = None,
) -> None:
    """Simulate people, learn from their lists, rank what one has not seen, compare models: offline, in seconds."""
    import tempfile

    context.obj.loud = True
    from permrank.files.atomic import writable_target
    from permrank.interfaces.cli.demo import run

    # A folder of one's own: a name that is known in a shared one may be somebody else's.
    path = report or Path(tempfile.mkdtemp(prefix="permrank-")) / "demo.html"
    writable_target(path)
    run(seed, path)


@app.command()
@reads_data
def fit(
    context: typer.Context,
    data: DataSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")] = Path("model.permrank"),
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="auto takes one that fits the data, and says which: Recommender finds what each person would choose, "
            "PlackettLuce learns one order for everybody; 'permrank info --models' tells of all. module:Class takes "
            "one of your own.",
        ),
    ] = "auto",
    settings: Settings = None,
    drop_inestimable: Annotated[
        bool, typer.Option("--drop-inestimable", help="Leave out items for which no estimate exists, and name them.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the state of learning here; if killed, the same command goes on from it. Removed at the end.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", metavar="SWEEPS", min=1, help="How often the state is kept.")
    ] = 10,
    validate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Hold out this share of every list, and measure by it how good the estimate is while it learns.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Stop when N measurements in a row were no better than the best before, and write that one.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    validate_every: Annotated[
        int | None,
        typer.Option(
            metavar="SWEEPS", min=1, show_default="5", help="How often it is measured.", rich_help_panel=_VALIDATION
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="By what: ndcg@10, pairs_right, ... (docs: metrics).", rich_help_panel=_VALIDATION),
    ] = None,
    engine: EngineName = None,
    address: Address = None,
    workers: NumberOfWorkers = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Learn a model from rankings or ratings and write it to one file.

    Ctrl-C stops at the end of the sweep; the estimate is written all the same, and the exit code is 130.

    Example: permrank fit ratings.csv --items movies.csv -o ratings.permrank

    Example: permrank fit ballots.csv -m PlackettLuce --set prior=gaussian

    Example: permrank fit ratings.csv -m PairwiseFactorisation --validate 0.2 --patience 3

    Example: permrank fit ratings.rankings -m FactoredPlackettLuce --engine ray --address host:6379
    """
    context.obj.loud = True
    from permrank.files.atomic import writable_target
    from permrank.interfaces.cli.fit import (
        learn,
        require_checkpoint,
        require_engine,
        require_validation,
        save_somewhere,
        told_of_validation,
    )
    from permrank.interfaces.cli.info import model_summary, readable
    from permrank.interfaces.cli.models import chosen_model, make_model
    from permrank.interfaces.cli.sources import open_rankings
    from permrank.interfaces.output import apart_from, say, show_values

    writable_target(output)
    kept = require_checkpoint(checkpoint, checkpoint_every, output)
    where = require_engine(engine, address, workers)
    named = None if model == "auto" else make_model(model, settings or [])
    rankings = open_rankings(data, **reading)
    ranker = named or chosen_model(rankings, settings or [])
    rankings, judged = require_validation(rankings, validate, metric, validate_every, patience)
    options: dict[str, Any] = {"checkpoint": kept, "validation": judged, "chosen": named is None, "engine": where}
    left_out, stopped = learn(ranker, rankings, drop_inestimable=drop_inestimable, **options)
    save_somewhere(ranker, output, kept)
    if kept is not None and not stopped:
        kept.remove()
    values = model_summary(ranker, output) | ({"left_out": left_out} if left_out else {})
    title = f"{type(ranker).__name__} written to {output}"
    with apart_from(output):
        show_values(values if as_json else readable(values), as_json=as_json, title=title)
        if judged is not None and not as_json:
            say(told_of_validation(ranker, judged))
    if stopped:
        if kept is not None:
            say(f"the same command goes on from {kept.path}", err=True)
        raise typer.Exit(130)


@app.command()
def recommend(
    model: ModelFile,
    users: Annotated[list[str] | None, typer.Argument(metavar="[USER]...", help="Ids of known users.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many items.")] = 10,
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
    probability: Probability = False,
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
    import polars as pl

    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.cli.recommend import asked_about, filters_of, recommend_for, require_output, write_frame
    from permrank.interfaces.output import apart_from, say, show

    require_output(output)
    ranker = load_model(model, own)
    people = asked_about(ranker, users or [], given, everybody)
    options = filters_of(ranker, only or [], exclude or [], where)
    options |= {"probability": probability, "interval": interval} | ({"include_new": True} if new else {})
    frame = pl.concat(recommend_for(ranker, people, k, exclude_listed=not listed, **options))
    answered = set(map(str, frame["user"]))
    for name in [name for name, _ in people if name not in answered][:10]:
        why = "every item is in the list already" if not (where or only or exclude) else "nothing passes the filters"
        say(f"nothing is left to recommend to {name}: {why}", err=True)
    if output is not None:
        write_frame(frame, output)
        with apart_from(output):
            say(f"{frame.height:,} recommendations for {len(people):,} people written to {output}", err=True)
    elif as_json or not frame.is_empty():
        show(frame, as_json=as_json)


@app.command()
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
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw a model into this file (.png, .svg, .pdf).")] = None,
    own: OwnClass = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Say what is in a file, a data set or a model file, or which parameters a model has.

    Example: permrank info sushi

    Example: permrank info FactoredPlackettLuce
    """
    from permrank.interfaces.cli import info as summary
    from permrank.interfaces.cli.models import load_model
    from permrank.interfaces.output import show, show_values

    if sum([models, datasets, source is not None]) != 1:
        raise InputError("say one thing to describe: a file, the name of a data set, --models or --datasets")
    if models:
        from permrank.interfaces.cli import guide

        for title, frame in {"": guide.models()}.items() if as_json else guide.by_kind().items():
            show(frame, as_json=as_json, title=title)
    elif datasets:
        show(summary.datasets(whole=as_json), as_json=as_json, title="data sets (--json gives owners and addresses)")
    elif (kind := summary.class_meant(str(source))) is not None:
        show(summary.parameters(kind), as_json=as_json, title=f"{kind.__name__}: {getattr(kind, 'assumes', '')}")
    else:
        found = summary.describe(str(source), own, **reading)
        show_values(found if as_json else summary.readable(found), as_json=as_json)
    if plot is not None:
        from permrank.interfaces.plots import save_plot

        save_plot(load_model(str(source), own), plot)


@app.command()
@reads_data
def convert(
    source: DataSource,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write; its ending says the format.")],
    merge: Annotated[bool, typer.Option("--merge", help="Forget who voted; merge equal ballots.")] = False,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Write rankings in another format; nothing is lost, or the command refuses and says why.

    A target that ends in .rankings is a folder that opens in milliseconds, however large: for data that are learnt from
    again and again.

    Example: permrank convert ballots.toi ballots.parquet

    Example: permrank convert "days/2026-*.parquet" year.rankings
    """
    import polars as pl

    from permrank.files.atomic import writable_target
    from permrank.files.formats import format_of
    from permrank.files.formats.folder import ENDING, require_new_folder
    from permrank.interfaces.cli.info import in_words, sizes
    from permrank.interfaces.cli.sources import open_rankings
    from permrank.interfaces.output import apart_from, show

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


answer_commands.register(app)
statistics_commands.register(app)
evaluation_commands.register(app)
upkeep_commands.register(app)
serve_command.register(app)


def main() -> None:
    """Entry point of the ``permrank`` command."""
    # A locale that has no sign for what is to be printed gets a question mark, as from most programs.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *where: say(f"warning: {message}", err=True)
    app()
