"""``permrank split``, ``evaluate``, ``compare`` and ``tune``; what the first three do is in `comparing`."""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import permrank as pr
from permrank.interfaces.cli.models import Settings, make_model
from permrank.interfaces.cli.sources import DataSource, Options, read_options, with_options
from permrank.interfaces.output import Json, apart_from, print_json, say, show, show_values

if TYPE_CHECKING:
    import polars as pl

    from permrank.types import Named

_SPLITTING = "How to split"
_splitting = functools.partial(typer.Option, rich_help_panel=_SPLITTING)
_measuring = functools.partial(typer.Option, rich_help_panel="What to measure")
Held = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file of rankings or the name of a data set; or a folder that 'split' has written."
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="Name of the model, see 'permrank info --models'; or module:Class, for one of your own."
    ),
]
Seeds = Annotated[int, _splitting("--seeds", min=1, help="How many splits, with the seeds 0, 1, ...")]
TopK = Annotated[int, _measuring("--k", "-k", min=1, help="For metrics of the top k.")]
CandidateSet = Annotated[
    str | None,
    _measuring(
        "--candidates",
        help="What is ranked: 'rated' (a person's held-out items) or 'all' (everything not listed in training).",
        show_default="what the protocol asks for",
    ),
]
_PAIRS = 5000  # permrank.evaluation.defaults.DEFAULT_PAIRS, which --help should not import


def split_options(
    protocol: Annotated[
        str,
        _splitting(
            "--protocol",
            help="auto, weak, strong, hold-out, leave-out, given, folds, temporal or catalogue: see docs/protocols.md.",
        ),
    ] = "auto",
    n: Annotated[
        int | None,
        _splitting(
            "--n", min=1, help="Entries given of each user (weak, strong, given) or left out (leave-out), or folds."
        ),
    ] = None,
    time: Annotated[str | None, _splitting("--time", metavar="COLUMN", help="Times, for --protocol temporal.")] = None,
) -> None:
    """Options of all commands that split data."""


def measure_options(
    metrics: Annotated[
        list[str] | None, _measuring("--metric", help="By name, may be repeated; the first orders.")
    ] = None,
    k: TopK = 10,
    candidates: CandidateSet = None,
    n_pairs: Annotated[
        int, _measuring("--pairs", min=0, help="Held-out pairs for the calibration; 0 for none.")
    ] = _PAIRS,
) -> None:
    """What `evaluate` and `compare` measure."""


_splits_data = with_options(splitting=split_options, reading=read_options)
_measures = with_options(splitting=split_options, measuring=measure_options, reading=read_options)


@_splits_data
def split(
    *,
    data: DataSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    splitting: Options,
    seed: Annotated[int, _splitting("--seed", min=0, help="Of the draws.")] = 0,
    file_format: Annotated[str, typer.Option("--format", help="Of the files: parquet, csv, tsv or jsonl.")] = "parquet",
    as_json: Json = False,
    reading: Options,
) -> None:
    """Divide rankings into what is learnt from and what is asked about, in files that other programs can read.

    Example: permrank split ratings.csv --protocol weak --n 10 -o split-0
    """
    from permrank.interfaces.cli.comparing import Source

    (made,) = Source(data, reading, **splitting).splits([seed])
    made.save(output, format=file_format)  # type: ignore[arg-type]
    values: Named = {"folder": str(output), "protocol": made.protocol, "seed": made.seed}
    for name, part in made._parts().items():
        values[name] = {"users": part.n_users, "rankings": part.n_rankings, "entries": part.n_entries}
    show_values(values, as_json=as_json, title="written")


@_measures
def evaluate(
    *,
    data: Held,
    model: ModelName,
    settings: Settings = None,
    splitting: Options,
    seeds: Seeds = 1,
    measuring: Options,
    as_json: Json = False,
    reading: Options,
) -> None:
    """Learn from one part of the data and say how well the other part is predicted.

    Two questions, where people chose what they list: to order what is hidden, and to find it among everything.

    Example: permrank evaluate ml-100k -m FactoredPlackettLuce --n 20
    """
    from permrank.interfaces.cli.comparing import Source, evaluated

    ranker, metrics = make_model(model, settings or []), measuring.pop("metrics")
    source = Source(data, reading, **splitting)
    asked, left_out = source.questions(range(seeds), [ranker], metrics, measuring["candidates"])
    evaluated(ranker, asked, left_out, as_json=as_json, **measuring)


@_measures
def compare(
    *,
    data: Held,
    models: Annotated[str, typer.Option("--models", help="Names with commas between them, or all.")] = "",
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="NAME[:KEY=VALUE,...]", help="One with its settings; may be repeated."),
    ] = None,
    splitting: Options,
    seeds: Seeds = 1,
    fits: Annotated[
        int | None,
        typer.Option(
            "--fits",
            min=1,
            help="Fits with other seeds, to each split, of a model that draws.",
            show_default="3 to 10 on all splits, by the size of the data",
            rich_help_panel=_SPLITTING,
        ),
    ] = None,
    measuring: Options,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0, help="A fit stops at the sweep that passes this; its row says so.")
    ] = 60.0,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page with tables and pictures to this file (.html).")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Keep all results here; 'compare FOLDER' shows them again."),
    ] = None,
    as_json: Json = False,
    reading: Options,
) -> None:
    """Compare models on the same splits, person by person; one that fails does not stop the others.

    Two questions, where people chose what they list: to order what is hidden, and to find it among everything.

    Example: permrank compare ratings.csv --models all --seeds 3 --report out.html

    Example: permrank compare ratings.csv --save results, later permrank compare results --report out.html
    """
    from permrank.files.atomic import writable_target
    from permrank.interfaces.cli import comparing

    if report is not None:
        writable_target(report)
    if save is not None:
        comparing.require_new_folder(save)
    found, left_out = comparing.saved_comparisons(data)
    if not found:
        chosen = comparing.models_of(models or ("" if model else "all"), model or [])
        source, metrics = comparing.Source(data, reading, **splitting), measuring.pop("metrics")
        asked, left_out = source.questions(range(seeds), chosen.values(), metrics, measuring["candidates"])
        options = measuring | {"max_seconds": max_seconds, "fits": fits or "auto"}
        found = [comparing.compared(chosen, each, **options) for each in asked]
        for each in found:
            each.data, each.command = data, " ".join(["permrank", *sys.argv[1:]])
    try:
        with apart_from(report) if report else nullcontext():
            comparing.show_comparisons(found, left_out, as_json=as_json, report=report)
    finally:  # what was computed reaches the terminal before a disk can be full, and the disk though a pipe is closed
        if save is not None:
            comparing.save_comparisons(found, left_out, save)
            say(f"results kept in {save}", err=True)
        if report is not None:
            from permrank.interfaces.report.report import write_report

            other = found[1] if len(found) > 1 else None
            write_report(found[0], report, finding=other, left_out=comparing.left_out_texts(left_out))
            say(f"report written to {report}", err=True)
    if all(result.problem for comparison in found for result in comparison.results):
        raise typer.Exit(1)


@_splits_data
def tune(
    *,
    data: Held,
    model: ModelName,
    settings: Settings = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="In all, those in the study included.")] = 30,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="FILE", help="Keep the trials here (SQLite); the same command goes on from it."
        ),
    ] = None,
    splitting: Options,
    splits: Annotated[int, _splitting("--splits", min=1, help="Validation splits of a trial.")] = 3,
    metric: Annotated[str | None, _measuring("--metric", help="What to improve, by name.")] = None,
    k: TopK = 10,
    candidates: CandidateSet = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds", min=0, help="A fit stops at the sweep that passes this, and counts; its note says so."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the proposals.")] = 0,
    as_json: Json = False,
    reading: Options,
) -> None:
    """Choose parameters of a model by their score on held-out parts of the training data; needs Optuna.

    Of a folder that 'split' has written only the training part is looked at. The first trial has the parameters as they
    are, so that the best is never worse than these.

    Example: permrank tune ratings.csv -m FactoredPlackettLuce --trials 30 --study study.db
    """
    from permrank.interfaces.cli.comparing import Source

    source = Source(data, reading, **splitting)
    given = pr.Split.load(data) if source.is_split else source.rankings()
    chosen = source.named_protocol(given.train if isinstance(given, pr.Split) else given)

    def tell(done: pl.DataFrame) -> None:
        row = done.row(done.height - 1, named=True)
        score = "" if row["score"] is None else f"{row['score']:.4f}"
        result = ", ".join(filter(None, (score, row["note"])))
        say(f"{row['trial']}/{trials}  {row['parameters']}: {result}, {row['seconds']:.1f} s", err=True)

    options: Named = {"trials": trials, "study": study, "splits": splits, "metric": metric, "seed": seed}
    options |= {"k": k, "candidates": candidates, "max_seconds": max_seconds}
    found = pr.tune(make_model(model, settings or []), given, protocol=chosen, on_trial=tell, **options)
    _show_tuning(found, data, k, as_json=as_json)


def _show_tuning(found: pr.Tuning, data: str, k: int, *, as_json: bool) -> None:
    """Print the trials, best first, and the command that fits the best."""
    from permrank.core.registry import spelling
    from permrank.evaluation.metrics import title_of

    kind = type(found.model)
    usual = kind().get_params()
    changed = {key: value for key, value in found.model.get_params().items() if value != usual[key]}
    if as_json:
        values = {"metric": found.metric, "first": found.first, "best": found.best, "parameters": changed}
        print_json({"model": kind.__name__, **values, "trials": found.trials.to_dicts()})
        return
    ordered = found.trials.sort("score", descending=found.higher_is_better, nulls_last=True, maintain_order=True)
    title = f"{title_of(found.metric, k)} on validation parts: {found.first:.4f} as given, {found.best:.4f} the best"
    show(ordered, as_json=False, most=10, title=title)
    settings = "".join(f" -s {key}={value}" for key, value in changed.items())
    say(f"permrank fit {data} -m {spelling(kind)}{settings}")
