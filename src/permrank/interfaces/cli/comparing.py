"""What ``permrank split``, ``evaluate`` and ``compare`` do."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polars as pl

from permrank.core.ranker import Ranker
from permrank.core.registry import every
from permrank.errors import InputError, UnknownIdError
from permrank.evaluation.catalogue import Catalogue
from permrank.evaluation.compare import compare as compare_models
from permrank.evaluation.comparison import Comparison
from permrank.evaluation.comparison_files import is_saved
from permrank.evaluation.defaults import default_protocol, why_not_find, without_order
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import Metric, find_metric, of_kind, title_of
from permrank.evaluation.protocols import (
    Folds,
    Given,
    LeaveOut,
    Protocol,
    StrongGeneralisation,
    Temporal,
    WeakGeneralisation,
)
from permrank.evaluation.split import Question, Split, knows_people
from permrank.files.atomic import atomic_folder
from permrank.interfaces.cli.models import make_model, name_and_settings
from permrank.interfaces.cli.sources import open_rankings
from permrank.interfaces.output import plain, print_json, say, show
from permrank.interfaces.verdicts import QUESTIONS, against_best, lower_is_better
from permrank.rankings.rankings import Rankings
from permrank.types import Named

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Protocols of which --n is the first parameter.
_NUMBERED: dict[str, Callable[..., Protocol]] = {
    "weak": WeakGeneralisation, "strong": StrongGeneralisation, "leave-out": LeaveOut, "given": Given, "folds": Folds,
}  # fmt: skip
# Without a number: a fifth of everything, of what was liked.
_SHARES: dict[str, Protocol] = {"hold-out": LeaveOut(share=0.2), "catalogue": Catalogue()}
_DIGITS = {"seconds": 2, "first_seconds": 1, "megabytes": 0}
_STYLES = {
    "best": "bold green", "same": "green", "worse": "", "untested": "", "undecided": "yellow", "uninformative": "dim",
    "cut off": "yellow", "failed": "red",
}  # fmt: skip
_UNORDERED = "people say what they took up, not in which order"
# Folders of a saved comparison, by question.
SAVED: dict[Question, str] = {"order": "ordering", "find": "finding"}
_LEFT_OUT = "left-out.json"  # why one of them is missing
_LONGEST_NAME = 24  # longer names, those with settings, take two lines
_BORDER = 3  # of a column: a line and two spaces


LeftOut: TypeAlias = dict[str, str]
"""Why a question means nothing here."""


Asked: TypeAlias = tuple[list[Split], list[str] | None]
"""Splits that ask one question, and the metrics that were named for it."""


class Source(NamedTuple):
    """What a command is pointed at, and how its options say that it be read and split."""

    data: str
    reading: Named
    protocol: str
    n: int | None
    time: str | None

    @property
    def is_split(self) -> bool:
        """Whether it is a folder that holds a split."""
        return (Path(self.data) / "split.json").is_file()

    def rankings(self, **changed: object) -> Rankings:
        """The rankings of a file or data set."""
        return open_rankings(self.data, **self.reading | changed)

    def splits(self, seeds: Iterable[int], models: Collection[Ranker] = ()) -> list[Split]:
        """Splits of a file or data set, or the one that a folder holds."""
        if self.is_split:
            return [Split.load(self.data)]
        rankings = self.rankings()
        chosen = self.named_protocol(rankings) or default_protocol(rankings, models)
        return [chosen.split(rankings, seed) for seed in seeds]

    def questions(
        self, seeds: Iterable[int], models: Collection[Ranker], metrics: list[str] | None, candidates: str | None
    ) -> tuple[list[Asked], LeftOut]:
        """What to ask of the data, and why a question is left out that nobody said should be.

        Both questions, unless a folder, a protocol, its number or the candidates decide for one; of metrics that are
        named each question has those that fit it.
        """
        if self.is_split or self.protocol != "auto" or self.n is not None or candidates is not None:
            return [(self.splits(seeds, models), metrics)], {}
        rankings = self.rankings()
        asked: list[Asked] = []
        left_out: LeftOut = {}
        for question in ("order", "find"):
            own = [name for name in metrics or [] if _fits(find_metric(name), question)]
            if metrics and not own:
                continue
            protocol = Catalogue() if question == "find" else default_protocol(rankings, models)
            why = why_not_find(rankings) if question == "find" else _UNORDERED * without_order(rankings)
            if why:
                left_out[question] = why
            else:
                asked.append(([protocol.split(rankings, seed) for seed in seeds], own or None))
        if not asked:
            what = f"{', '.join(metrics)} cannot be measured here" if metrics else "there is nothing to ask"
            raise InputError(f"{what}: {'; '.join(left_out.values())}")
        return asked, left_out

    def named_protocol(self, rankings: Rankings) -> Protocol | None:
        """The protocol that was named, or that of the data with the number that was; None if neither was."""
        name, n = self.protocol, self.n
        if name == "temporal":
            if self.time is None:
                raise InputError("--protocol temporal needs --time, the column of times")
            return Temporal(self.rankings(rating=self.time))
        if name in _SHARES:
            if n is not None:
                raise InputError(f"--protocol {name} hides a fifth of what everybody lists; leave --n out")
            return _SHARES[name]
        if name != "auto":
            if name not in _NUMBERED:
                raise UnknownIdError("protocol", name, ["auto", *_NUMBERED, *_SHARES, "temporal"])
            return _NUMBERED[name]() if n is None else _NUMBERED[name](n)
        if n is None:
            return None
        usual = default_protocol(rankings)
        if isinstance(usual, Catalogue):
            raise InputError("the data have no order, and a fifth of what everybody took up is hidden; leave --n out")
        # The number is what is given, not what is left out.
        kind: Callable[..., Protocol] = WeakGeneralisation if isinstance(usual, LeaveOut) else type(usual)
        return kind(n)


def _fits(metric: Metric, question: str) -> bool:
    return metric.kind == "graded" or metric.needs_catalogue == (question == "find")


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


def compared(models: dict[str, Ranker], asked: Asked, **options: Any) -> Comparison:
    """Compare, with a line on standard error as every result comes."""
    splits, metrics = asked
    total, done = len(models) * len(splits), 0

    def tell(result: Evaluation) -> None:
        nonlocal done
        done += result.fit == 0
        means = [f"{title_of(name, options['k'])} {value:.4f}" for name, value in list(result.means().items())[:1]]
        seconds = "" if result.fit_seconds is None else f", {result.fit_seconds:.1f} s"
        outcome = f"failed: {result.problem}" if result.problem else ", ".join(means) + seconds
        again = f", fit {result.fit + 1}" if result.fit else ""
        say(f"{done}/{total}  {result.name}, seed {result.seed}{again}: {outcome}", err=True)

    return compare_models(models, splits, metrics=metrics, on_result=tell, **options)


def evaluated(model: Ranker, asked: list[Asked], left_out: LeftOut, *, as_json: bool, **options: Any) -> None:
    """Evaluate one model on every split and print what it got, question by question."""
    name = repr(model).removesuffix("()")
    printed: Named = {}
    failed: list[Evaluation] = []
    for splits, metrics in asked:
        question = splits[0].question
        found = compare_models({name: model}, splits, metrics=metrics or _usual(question, splits), fits=1, **options)
        failed += [result for result in found.results if result.problem]
        measured = [result for result in found.results if not result.problem]
        if measured and as_json:
            each = found.to_dict() | {"metrics": measured[0].table().to_dicts()}
            printed |= {"finding": each} if printed else each
        elif measured:
            _show_results(found, measured, f"{QUESTIONS[question][0]}: {name}", options["k"])
    if printed:
        print_json(printed | _left_out(left_out))
    else:
        for text in left_out_texts(left_out):
            say(text, err=True)
    if failed:  # what the other splits gave is printed first
        raise InputError(f"{name} failed on the split of seed {failed[0].seed}: {failed[0].problem}")


def _usual(question: Question, splits: list[Split]) -> list[str] | None:
    """Every metric that says something; None for lists of new people, which are judged by their probability."""
    if question == "find":
        return ["ndcg", "recall", "map", "precision", "hit_rate", "mrr", *of_kind("coverage", "shown")]
    ordered = all(map(knows_people, splits))
    return list(dict.fromkeys(["ndcg", *of_kind("order"), *of_kind("graded")])) if ordered else None


def _show_results(found: Comparison, measured: list[Evaluation], title: str, k: int) -> None:
    for result in measured:
        frame = result.table()
        frame = frame.with_columns(metric=pl.Series([title_of(text, k) for text in frame["metric"]]))
        show(frame.rename({"low": "95 % from", "high": "to"}), as_json=False, title=f"{title}, seed {result.seed}")
        compiling = f", {result.first_seconds:.1f} s for a first tiny fit" if result.first_seconds is not None else ""
        say(f"fit {result.fit_seconds:.2f} s{compiling}; scoring {result.score_seconds:.2f} s", err=True)
        for note in result.notes:
            say(f"note: {note}", err=True)
    say(found.splits[0], err=True)


def _left_out(why: LeftOut) -> Named:
    return {f"{QUESTIONS[question][0].split()[0].lower()}_left_out": text for question, text in why.items()}


def left_out_texts(why: LeftOut) -> list[str]:
    """A sentence for each question that is left out."""
    return [f"{QUESTIONS[question][0]} is left out: {text}." for question, text in why.items()]


def saved_comparisons(folder: str) -> tuple[list[Comparison], LeftOut]:
    """What ``--save`` wrote to a folder, one comparison for each question; none if it is no such folder."""
    found = [Comparison.load(part) for name in SAVED.values() if is_saved(part := Path(folder) / name)]
    path = Path(folder) / _LEFT_OUT
    return found, json.loads(path.read_text(encoding="utf-8")) if found and path.is_file() else {}


def require_new_folder(folder: Path) -> None:
    """Raise, before anything is computed, if results could not be kept in this folder."""
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists; give --save the name of a new folder")
    if not folder.expanduser().parent.is_dir():
        raise InputError(f"the folder {folder.parent} does not exist; make it first")


def save_comparisons(found: list[Comparison], left_out: LeftOut, folder: Path) -> None:
    """Write one comparison for each question into a new folder, and why a question is missing."""
    with atomic_folder(folder) as temporary:
        for comparison in found:
            comparison.save(temporary / SAVED[comparison.question])
        if left_out:
            (temporary / _LEFT_OUT).write_text(json.dumps(left_out), encoding="utf-8")


def show_comparisons(found: list[Comparison], left_out: LeftOut, *, as_json: bool, report: Path | None) -> None:
    """Print a table for each question, what went wrong, and how to read it."""
    if as_json:
        both = found[0].to_dict() | ({"finding": found[1].to_dict()} if len(found) > 1 else {})
        print_json(both | _left_out(left_out) | ({"report": str(report)} if report else {}))
        return
    from rich.console import Console

    console = Console()
    for comparison in found:
        _show_comparison(comparison, console, comparison.k)
    for text in left_out_texts(left_out):
        console.print(plain(text, "dim"))


def _show_comparison(found: Comparison, console: Console, k: int) -> None:
    heading, about = QUESTIONS[found.question]
    console.print(plain(heading, "bold") + plain(f": {about}"))
    for table in comparison_tables(found, k, console.width):
        console.print(table)
    metric, n_people = found.metric_of(found.metric), found.per_user(found.metric).height
    mean = (
        f"mean over {n_people:,} people{_fits_of(found)}, 95 % interval; p of the difference to the best, adjusted for "
        "all pairs of models; both with the variation of people, splits and fits; ≈ not significantly different."
        if metric.is_per_list
        else "one number for all people, so that differences are not tested."
    )
    more = f" and {len(found.splits) - 1} more" if len(found.splits) > 1 else ""
    how = (
        f"{found.splits[0]}{more}. {title_of(metric, k)}: {mean} cut off: stopped by --max-seconds, and not compared. "
        f"{lower_is_better(found, k)}first s: a first, tiny fit, which compiles."
    )
    console.print(plain(how, "dim"))
    if why := found.why_undecided():
        console.print(plain("undecided", "bold") + plain(f": {why}"))
    for name, text in found.problems().items():
        console.print(plain(name, "bold") + plain(f": {text}"))


def _fits_of(found: Comparison) -> str:
    """How often models that draw were fitted, all splits together."""
    times = sorted({len(found.of(result.name)) for result in found.results if result.random})
    most = f"{times[0]} to {times[-1]}" if len(times) > 1 else "".join(map(str, times))
    return f" and {most} fits of models that draw" if times[-1:] > [1] else ""


def comparison_tables(found: Comparison, k: int, width: int) -> list[Table]:
    """Models, best first, in one table, or in several where the terminal is narrow.

    What is not significantly different from the best is marked in words and by colour.
    """
    frame = found.table()
    names = [name for name in frame.columns if name in found.measured and name != found.metric]
    columns = {title_of(found.metric_of(found.metric), k): found.metric, "95 %": "interval", "against best": "against"}
    columns |= {"fit s": "seconds"} | {title_of(found.metric_of(name), k): name for name in names}
    columns |= {"first s": "first_seconds", "MB": "megabytes"}
    cells = {heading: _cells(frame, name, found.metric) for heading, name in columns.items()}
    room = width - min(max(map(len, frame["model"]), default=0), _LONGEST_NAME) - _BORDER - 1
    parts: list[list[str]] = [[]]
    left = room
    for heading, texts in cells.items():
        needed = max(map(len, [heading, *texts])) + _BORDER
        if needed > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(heading)
        left -= needed
    return [_table(frame, {heading: cells[heading] for heading in part}) for part in parts]


def _cells(frame: pl.DataFrame, name: str, metric: str) -> list[str]:
    """A column of the table, row by row."""
    texts = []
    for row in frame.iter_rows(named=True):
        if row["verdict"] == "failed":
            texts.append("failed" if name == metric else "")
        elif name == "interval":
            texts.append("" if row["low"] is None else f"{row['low']:.4f}–{row['high']:.4f}")
        else:
            texts.append(against_best(row) if name == "against" else _number(row.get(name), _DIGITS.get(name, 4)))
    return texts


def _table(frame: pl.DataFrame, columns: dict[str, list[str]]) -> Table:
    from rich.table import Table

    built = Table(header_style="bold")
    built.add_column("model", overflow="fold", max_width=_LONGEST_NAME)
    for heading in columns:
        built.add_column(heading, justify="right", no_wrap=True)
    for row, (name, verdict) in enumerate(frame.select("model", "verdict").iter_rows()):
        built.add_row(plain(name), *(texts[row] for texts in columns.values()), style=_STYLES[verdict])
    return built


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
