"""``permrank split``, ``evaluate``, ``compare`` and ``tune``."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from permrank.interfaces.cli.options import MODEL_HELP, DataSource, Json, Settings, reads_data

_SPLITTING = "How to split"
_MEASURING = "What to measure"
Held = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file of rankings or the name of a data set; or a folder that 'split' has written."
    ),
]
ProtocolName = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="auto, weak, strong, hold-out, leave-out, given, folds, temporal or catalogue: see docs/protocols.md.",
        rich_help_panel=_SPLITTING,
    ),
]
Number = Annotated[
    int | None,
    typer.Option(
        "--n",
        min=1,
        help="Entries given of each user (weak, strong, given) or left out (leave-out), or folds.",
        rich_help_panel=_SPLITTING,
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Times, for --protocol temporal.", rich_help_panel=_SPLITTING),
]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, help="How many splits, with the seeds 0, 1, ...", rich_help_panel=_SPLITTING)
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option("--metric", help="By name, may be repeated; the first orders.", rich_help_panel=_MEASURING),
]
TopK = Annotated[int, typer.Option("--k", "-k", min=1, help="For metrics of the top k.", rich_help_panel=_MEASURING)]
CandidateSet = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        help="What is ranked: 'rated' (a person's held-out items) or 'all' (everything not listed in training).",
        show_default="what the protocol asks for",
        rich_help_panel=_MEASURING,
    ),
]
Pairs = Annotated[
    int,
    typer.Option("--pairs", min=0, help="Held-out pairs for the calibration.", rich_help_panel=_MEASURING),
]


@reads_data
def split(
    data: DataSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    protocol: ProtocolName = "auto",
    n: Number = None,
    time: Time = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws.", rich_help_panel=_SPLITTING)] = 0,
    file_format: Annotated[str, typer.Option("--format", help="Of the files: parquet, csv, tsv or jsonl.")] = "parquet",
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Divide rankings into what is learnt from and what is asked about, in files that other programs can read.

    Example: permrank split ratings.csv --protocol weak --n 10 -o split-0
    """
    from permrank.interfaces.cli.comparing import splits_of
    from permrank.interfaces.output import show_values

    (made,) = splits_of(data, protocol, n, time, [seed], reading)
    made.save(output, format=file_format)  # type: ignore[arg-type]
    values: dict[str, Any] = {"folder": str(output), "protocol": made.protocol, "seed": made.seed}
    for name, part in made._parts().items():
        values[name] = {"users": part.n_users, "rankings": part.n_rankings, "entries": part.n_entries}
    show_values(values, as_json=as_json, title="written")


@reads_data
def evaluate(
    data: Held,
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)],
    settings: Settings = None,
    protocol: ProtocolName = "auto",
    n: Number = None,
    time: Time = None,
    seeds: Seeds = 1,
    metric: MetricNames = None,
    k: TopK = 10,
    candidates: CandidateSet = None,
    pairs: Pairs = 500,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Learn from one part of the data and say how well the other part is predicted.

    Two questions, where people chose what they list: to order what is hidden, and to find it among everything.

    Example: permrank evaluate ml-100k -m FactoredPlackettLuce --n 20
    """
    from permrank.interfaces.cli.comparing import evaluated, questions_of
    from permrank.interfaces.cli.models import make_model

    ranker = make_model(model, settings or [])
    asked, left_out = questions_of(
        data, protocol, n, time, range(seeds), reading, metrics=metric, candidates=candidates
    )
    evaluated(ranker, asked, left_out, k=k, candidates=candidates, n_pairs=pairs, as_json=as_json)


@reads_data
def compare(
    data: Held,
    models: Annotated[str, typer.Option("--models", help="Names with commas between them, or all.")] = "",
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="NAME[:KEY=VALUE,...]", help="One with its settings; may be repeated."),
    ] = None,
    protocol: ProtocolName = "auto",
    n: Number = None,
    time: Time = None,
    seeds: Seeds = 1,
    metric: MetricNames = None,
    k: TopK = 10,
    candidates: CandidateSet = None,
    pairs: Pairs = 500,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0, help="A fit stops at the sweep that passes this; its row says so.")
    ] = 60.0,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page with tables and pictures to this file (.html).")
    ] = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Compare models on the same splits, person by person; one that fails does not stop the others.

    Two questions, where people chose what they list: to order what is hidden, and to find it among everything.

    Example: permrank compare ratings.csv --models all --seeds 3 --report out.html
    """
    from permrank.interfaces.cli.comparing import compared, left_out_texts, models_of, questions_of, show_comparisons
    from permrank.interfaces.output import apart_from, say
    from permrank.storage.atomic import writable_target

    if report is not None:
        writable_target(report)
    chosen = models_of(models or ("" if model else "all"), model or [])
    asked, left_out = questions_of(
        data, protocol, n, time, range(seeds), reading, metrics=metric, candidates=candidates
    )
    options = {"k": k, "candidates": candidates, "n_pairs": pairs, "max_seconds": max_seconds}
    found = [compared(chosen, each, **options) for each in asked]
    try:
        with apart_from(report) if report else nullcontext():
            show_comparisons(found, left_out, k=k, as_json=as_json, report=report)
    finally:  # what was computed reaches the terminal before a disk can be full, and the disk though a pipe is closed
        if report is not None:
            from permrank.interfaces.report.report import write_report

            command = " ".join(["permrank", *sys.argv[1:]])
            write_report(
                found[0], asked[0].splits, report, command=command, title=data, k=k,
                finding=found[1] if len(found) > 1 else None, left_out=left_out_texts(left_out),
            )  # fmt: skip
            say(f"report written to {report}", err=True)
    if all(result.problem for comparison in found for result in comparison.results):
        raise typer.Exit(1)


@reads_data
def tune(
    data: Held,
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)],
    settings: Settings = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="In all, those in the study included.")] = 30,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="FILE", help="Keep the trials here (SQLite); the same command goes on from it."
        ),
    ] = None,
    protocol: ProtocolName = "auto",
    n: Number = None,
    time: Time = None,
    splits: Annotated[
        int, typer.Option("--splits", min=1, help="Validation splits of a trial.", rich_help_panel=_SPLITTING)
    ] = 3,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What to improve, by name.", rich_help_panel=_MEASURING)
    ] = None,
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
    *,
    reading: dict[str, Any],
) -> None:
    """Choose parameters of a model by their score on held-out parts of the training data; needs Optuna.

    Of a folder that 'split' has written only the training part is looked at. The first trial has the parameters as they
    are, so that the best is never worse than these.

    Example: permrank tune ratings.csv -m FactoredPlackettLuce --trials 30 --study study.db
    """
    from permrank.interfaces.cli.models import make_model
    from permrank.interfaces.cli.tune import show_tuning, tuned

    options: dict[str, Any] = {"trials": trials, "study": study, "splits": splits, "metric": metric, "seed": seed}
    options |= {"k": k, "candidates": candidates, "max_seconds": max_seconds}
    found = tuned(make_model(model, settings or []), data, protocol, n, time, reading, **options)
    show_tuning(found, data, k, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (split, evaluate, compare, tune):
        app.command()(command)
