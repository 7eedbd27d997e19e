"""What ``permrank split``, ``evaluate`` and ``compare`` do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from permrank.data.rankings import Rankings
from permrank.errors import InputError, UnknownIdError
from permrank.evaluation.compare import compare as compare_models
from permrank.evaluation.comparison import Comparison
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import of_kind, title_of
from permrank.evaluation.protocols import (
    Folds,
    Given,
    LeaveOut,
    Protocol,
    StrongGeneralisation,
    Temporal,
    WeakGeneralisation,
    usual_protocol,
)
from permrank.evaluation.split import Split
from permrank.interfaces.cli.models import make_model, name_and_settings
from permrank.interfaces.cli.sources import open_rankings
from permrank.interfaces.output import plain, print_json, say, show
from permrank.interfaces.verdicts import against_best, lower_is_better
from permrank.models.ranker import Ranker
from permrank.models.registry import every
from permrank.types import Named

if TYPE_CHECKING:
    from rich.table import Table

# What --n means to each protocol.
_NUMBER: dict[str, tuple[type[Any], str]] = {
    "weak": (WeakGeneralisation, "n_train"),
    "strong": (StrongGeneralisation, "n_given"),
    "leave-out": (LeaveOut, "k"),
    "given": (Given, "n_given"),
    "folds": (Folds, "n_folds"),
}
_DIGITS = {"seconds": 2, "first_seconds": 1, "megabytes": 0}
_STYLES = {"best": "bold green", "same": "green", "worse": "", "untested": "", "cut off": "yellow", "failed": "red"}
_WIDE = 130
_LONGEST_NAME = 24  # longer names, those with settings, take two lines


def splits_of(
    data: str, protocol: str, n: int | None, time: str | None, seeds: Iterable[int], reading: Named
) -> list[Split]:
    """Splits of a file or data set, or the one that a folder holds."""
    if (Path(data) / "split.json").is_file():
        return [Split.load(data)]
    rankings = open_rankings(data, **reading)
    chosen = protocol_of(rankings, data, protocol, n, time, reading)
    return [chosen.split(rankings, seed) for seed in seeds]


def protocol_of(rankings: Rankings, data: str, name: str, n: int | None, time: str | None, reading: Named) -> Protocol:
    """The protocol that was named, or the usual one for the data."""
    if name == "temporal":
        if time is None:
            raise InputError("--protocol temporal needs --time, the column of times")
        return Temporal(open_rankings(data, **{**reading, "rating": time}))
    if name == "auto":
        usual = usual_protocol(rankings)
        if n is None:
            return usual
        kind, number = next(pair for pair in _NUMBER.values() if pair[0] is type(usual))
    elif name in _NUMBER:
        kind, number = _NUMBER[name]
    else:
        raise UnknownIdError("protocol", name, ["auto", *_NUMBER, "temporal"])
    made: Protocol = kind() if n is None else kind(**{number: n})
    return made


def models_of(names: str, single: list[str]) -> dict[str, Ranker]:
    """Models by name: ``all``, or names with commas between them; and single ones with settings."""
    found: dict[str, Ranker] = {}
    parts = [part.strip() for part in names.split(",") if part.strip()]
    for name in [kind.__name__ for kind in every()] if parts == ["all"] else parts:
        model = make_model(name, [])
        if inspect.signature(type(model).__init__).parameters.get("prior", inspect.Parameter).default is None:
            # Maximum likelihood has no estimate for most data; a comparison wants one.
            model.set_params(prior="gaussian")
        found[repr(model).removesuffix("()")] = model  # the row says what was set
    for text in single:
        model = make_model(*name_and_settings(text))
        found[repr(model).removesuffix("()")] = model
    return found


def compared(models: dict[str, Ranker], splits: list[Split], metrics: list[str] | None, **options: Any) -> Comparison:
    """Compare, with a line on standard error as every result comes."""
    total, done = len(models) * len(splits), 0

    def tell(result: Evaluation) -> None:
        nonlocal done
        done += 1
        means = [f"{title_of(name, options['k'])} {value:.4f}" for name, value in list(result.means().items())[:1]]
        seconds = "" if result.fit_seconds is None else f", {result.fit_seconds:.1f} s"
        told = f"failed: {result.problem}" if result.problem else ", ".join(means) + seconds
        say(f"{done}/{total}  {result.name}, seed {result.seed}: {told}", err=True)

    return compare_models(models, splits, metrics=metrics, on_result=tell, **options)


def evaluated(model: Ranker, splits: list[Split], metrics: list[str] | None, *, as_json: bool, **options: Any) -> None:
    """Evaluate one model on every split and print what it got."""
    known = [split.given is not None or bool(set(split.test.user_ids) & set(split.train.user_ids)) for split in splits]
    usual = dict.fromkeys(["ndcg", *of_kind("order"), *of_kind("graded")])
    wanted = metrics or (list(usual) if all(known) else None)
    name = repr(model).removesuffix("()")
    found = compare_models({name: model}, splits, metrics=wanted, **options)
    failed = [result for result in found.results if result.problem]
    measured = [result for result in found.results if not result.problem]
    if measured and as_json:
        print_json(found.to_dict() | {"metrics": measured[0].table().to_dicts()})
    for result in [] if as_json else measured:
        frame = result.table()
        frame = frame.with_columns(metric=pl.Series([title_of(text, options["k"]) for text in frame["metric"]]))
        show(frame.rename({"low": "95 % from", "high": "to"}), as_json=False, title=f"{name}, seed {result.seed}")
        compiling = f", {result.first_seconds:.1f} s for a first tiny fit" if result.first_seconds is not None else ""
        say(f"fit {result.fit_seconds:.2f} s{compiling}; scoring {result.score_seconds:.2f} s", err=True)
        for note in result.notes:
            say(f"note: {note}", err=True)
    if measured and not as_json:
        say(found.splits[0], err=True)
    if failed:  # what the other splits gave is printed first
        raise InputError(f"{name} failed on the split of seed {failed[0].seed}: {failed[0].problem}")


def show_comparison(found: Comparison, *, k: int, as_json: bool, report: Path | None) -> None:
    """Print the table, what went wrong, and how to read it."""
    if as_json:
        print_json(found.to_dict() | ({"report": str(report)} if report else {}))
        return
    from rich.console import Console

    console = Console()
    for table in comparison_tables(found, k, console.width):
        console.print(table)
    metric, n_people = found.metric_of(found.metric), found.per_user(found.metric).height
    mean = (
        f"mean over {n_people:,} people, 95 % interval by bootstrap; p by a paired randomisation test against the "
        "best, corrected for all models (Holm); ≈ not significantly different from the best."
        if metric.is_per_list
        else "one number for all people, so that differences are not tested."
    )
    more = f" and {len(found.splits) - 1} more" if len(found.splits) > 1 else ""
    how = (
        f"{found.splits[0]}{more}. {title_of(metric, k)}: {mean} cut off: stopped by --max-seconds, and not compared. "
        f"{lower_is_better(found, k)}first s: a first, tiny fit, which compiles."
    )
    console.print(plain(how, "dim"))
    for name, text in found.problems().items():
        console.print(plain(name, "bold") + plain(f": {text}"))


def comparison_tables(found: Comparison, k: int, width: int) -> list[Table]:
    """Models, best first, in one table, or in two where the terminal is narrow.

    What is not significantly different from the best is marked in words and by colour.
    """
    frame = found.table()
    names = [name for name in frame.columns if name in found.measured and name != found.metric]
    first = {title_of(found.metric_of(found.metric), k): found.metric, "95 %": "interval", "against best": "against"}
    other = {title_of(found.metric_of(name), k): name for name in names}
    fit, costs = {"fit s": "seconds"}, {"first s": "first_seconds", "MB": "megabytes"}
    if width >= _WIDE:
        return [_table(frame, found.metric, first | other | fit | costs)]
    return [_table(frame, found.metric, first | fit), _table(frame, found.metric, other | costs)]


def _table(frame: pl.DataFrame, metric: str, columns: dict[str, str]) -> Table:
    from rich.table import Table

    built = Table(header_style="bold")
    built.add_column("model", overflow="fold", max_width=_LONGEST_NAME)
    for heading in columns:
        built.add_column(heading, justify="right", no_wrap=True)
    for row in frame.iter_rows(named=True):
        cells = {name: _number(row.get(name), _DIGITS.get(name, 4)) for name in columns.values()}
        if row["verdict"] == "failed":
            cells |= {metric: "failed"}
        else:
            interval = "" if row["low"] is None else f"{row['low']:.4f}–{row['high']:.4f}"
            cells |= {"interval": interval, "against": against_best(row)}
        built.add_row(
            plain(row["model"]), *(cells.get(name, "") for name in columns.values()), style=_STYLES[row["verdict"]]
        )
    return built


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
