"""``Comparison.report``: one page that opens anywhere, without network and without scripts.

Here is what the page says in numbers; ``comparison.html`` has its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
import numpy as np
import polars as pl
from markupsafe import Markup

from permrank.evaluation.calibration import calibration_by_chance
from permrank.evaluation.comparison import Comparison, by_known_entries, difference, paired
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import title_of
from permrank.files.atomic import atomic_write
from permrank.interfaces.report import charts
from permrank.interfaces.report.charts import escape
from permrank.interfaces.verdicts import QUESTIONS, against_best, lower_is_better, reference_of
from permrank.types import Named

# Columns of costs, and their digits.
_COSTS = {"seconds": 2, "first_seconds": 1, "megabytes": 1}
_SECONDS = {"seconds": 2}
_HEADS = {"seconds": "fit s", "first_seconds": "first s", "megabytes": "MB"}


def write_report(
    found: Comparison,
    path: str | Path,
    *,
    title: str | None = None,
    finding: Comparison | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Write the page; it appears whole or not at all.

    `finding` is the other question's comparison of the same models, `left_out` sentences on what is not asked.
    """
    every = [found, *([finding] if finding else [])]
    if not any(result.reliability is not None for result in found.results):
        found.calibrate()
    data = title or found.data
    page = template().render(
        title=f"Comparison of models on {data}" if data else "Comparison of models",
        questions=[_question(each, costs=_COSTS if n == 0 else _SECONDS) for n, each in enumerate(every)],
        left_out=left_out,
        example=_example(found),
        reliability=_reliability(found),
        communities=_communities(found),
        learning=_learning(found),
        problems=[(name, text) for each in every for name, text in each.problems().items()],
        splits=[text for each in every for text in each.splits],
        command=found.command,
        made=found.made,
    )
    with atomic_write(path) as file:
        file.write(page.encode())


def template() -> jinja2.Template:
    """The page: everything inline, nothing fetched, and every value but `Markup` escaped."""
    loader = jinja2.PackageLoader("permrank.interfaces.report", ".")
    return jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("comparison.html")


def _question(found: Comparison, costs: dict[str, int]) -> Named:
    """One of the two questions: what is asked, who is best, the picture, who gains, and the table."""
    heading, about = QUESTIONS[found.question]
    return {
        "heading": heading,
        "about": about,
        "summary": _summary(found),
        "picture": _picture(found),
        "gains": _gains(found),
        "results": _results(found, costs),
    }


def _first(found: Comparison) -> list[Evaluation]:
    """Results on the first split, of models that gave any, best first; those that were cut off come last."""
    ranked = found.table().sort(pl.col("verdict") == "cut off", maintain_order=True)["model"].to_list()
    of_first = {result.name: result for result in reversed(found.results) if not result.problem}
    return [of_first[name] for name in ranked if name in of_first]


def _summary(found: Comparison) -> Named:
    """Who is best and by how much, who is not significantly different, who was cut off, and how many are worse."""
    rows = found.table().filter(pl.col("verdict") != "failed").to_dicts()
    names = {
        verdict: [row["model"] for row in rows if row["verdict"] == verdict]
        for verdict in ("best", "same", "undecided", "cut off", "worse")
    }
    metric = found.metric_of(found.metric)
    summary = {
        "n_models": len(rows), "n_worse": len(names["worse"]), "metric": title_of(metric, found.k),
        "best": None, "same": names["same"], "cut_off": names["cut off"], "reference": None,
        "undecided": names["undecided"], "why_undecided": found.why_undecided(),
    }  # fmt: skip
    for row in rows:
        if row["verdict"] == "best":
            interval = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
            summary |= {"best": row["model"], "value": f"{row[found.metric]:.4f}", "interval": interval}
    reference = reference_of(found) if metric.is_per_list else None
    if summary["best"] and reference:
        behind = next(row for row in found.differences().to_dicts() if row["model"] == reference)
        low, high = sorted((-metric.sign * behind["low"], -metric.sign * behind["high"]))
        summary |= {
            "reference": reference, "ahead": f"{-metric.sign * behind['difference']:.4f}",
            "ahead_interval": f"{low:.4f} to {high:.4f}",
            "better": f"{behind['worse']:.0%}", "worse": f"{behind['better']:.0%}",
        }  # fmt: skip
    return summary


def _picture(found: Comparison) -> Named | None:
    """Differences from the best, one row per model, on a scale that a model far behind does not stretch."""
    metric, differences = found.metric_of(found.metric), found.differences()
    if differences.height < 2:
        return None
    verdicts = dict(found.table().select("model", "verdict").iter_rows())
    guesses = {result.name for result in found.results if result.kind == "Random"}
    rows = differences.with_columns(pl.col("difference", "low", "high") * metric.sign).to_dicts()
    for row in rows:
        row["low"], row["high"] = sorted((row["low"], row["high"]))
        row["kind"] = verdicts[row["model"]]
    bounds = scale([row for row in rows if row["model"] not in guesses] if len(rows) > len(guesses) + 1 else rows)
    return {
        "metric": title_of(metric, found.k),
        "rows": [
            {
                "name": _breakable(row["model"]),
                "kind": row["kind"],
                "bar": charts.difference_bar(row["difference"], row["low"], row["high"], bounds, row["kind"]),
                "value": "best" if row["kind"] == "best" else f"{metric.sign * row['difference']:+.4f}",
            }
            for row in rows
        ],
        "axis": charts.difference_axis(bounds, metric.sign),
        "clipped": any(row["difference"] < bounds[0] for row in rows),
    }


def scale(rows: list[Named]) -> tuple[float, float]:
    """Ends of the common scale of differences from the best, 0 among them.

    All intervals, but no further than one and a half times the third quartile of the distances from the best: one model
    far behind does not squeeze the others.
    """
    behind = sorted(-row["difference"] for row in rows if row["difference"] < 0)
    widths = [row["high"] - row["low"] for row in rows if row["high"] > row["low"]]
    reach = max(1.5 * behind[3 * len(behind) // 4] if behind else 0.0, 2.0 * min(widths, default=0.0), 1e-9)
    low = max(min(row["low"] for row in rows), -reach)
    high = max(row["high"] for row in rows)
    pad = 0.04 * max(high - low, 1e-9)
    return min(low, 0.0) - pad, max(high, 0.0) + pad


def _gains(found: Comparison) -> Named | None:
    """Of the best model against its reference: the distribution of differences over people, and who they are."""
    metric, reference = found.metric_of(found.metric), reference_of(found)
    best = found.table().filter(pl.col("verdict") == "best")["model"].to_list()
    if not metric.is_per_list or reference is None or not best:
        return None
    people = found.per_user(metric.name)
    values, weights = paired(people, best[0], reference)
    if values.size < 2 or not np.abs(values).max() > 0.0:
        return None
    found_difference = difference(people, best[0], reference, metric.sign)
    groups = []
    if not found.known.is_empty() and found.known["user"].dtype == people["user"].dtype:
        groups = by_known_entries(people, found.known, best[0], reference)
    for row in groups:
        row["low"], row["high"] = sorted((metric.sign * row["low"], metric.sign * row["high"]))
        row["mean"] *= metric.sign
    ends = [value for row in groups for value in (row["low"], row["high"], 0.0)] or [0.0, 1.0]
    pad = 0.04 * max(max(ends) - min(ends), 1e-9)
    bounds = min(ends) - pad, max(ends) + pad
    return {
        "best": best[0],
        "reference": reference,
        "better": f"{found_difference.better:.0%}",
        "worse": f"{found_difference.worse:.0%}",
        "same": f"{max(1.0 - found_difference.better - found_difference.worse, 0.0):.0%}",
        "histogram": charts.histogram(metric.sign * values, weights, f"Differences of {title_of(metric, found.k)}"),
        "groups": [
            {
                "name": _group(row),
                "kind": "group",
                "bar": charts.difference_bar(row["mean"], row["low"], row["high"], bounds, "group"),
                "value": f"{row['mean']:+.4f}",
            }
            for row in groups
        ],
        "axis": charts.difference_axis(bounds, 1.0),
    }


def _group(row: Named) -> Markup:
    """People of whom so many entries are known, and how many people these are."""
    entries = row["from"] if row["from"] == row["to"] else f"{row['from']} to {row['to']}"
    return Markup("{} <small>{:,} people</small>").format(entries, row["people"])


def _results(found: Comparison, costs: dict[str, int]) -> Named:
    """The table of all models."""
    frame, metric, k = found.table(), found.metric_of(found.metric), found.k
    others = [name for name in frame.columns if name in found.measured and name != metric.name]
    titles = [title_of(found.metric_of(name), k) for name in (metric.name, *others)]
    rows: list[Sequence[object]] = []
    for row in frame.iter_rows(named=True):
        if row["verdict"] == "failed":
            rows.append([_breakable(row["model"]), "failed", *("" for _ in range(2 + len(others) + len(costs)))])
            continue
        interval = "" if row["low"] is None else f"{row['low']:.4f}–{row['high']:.4f}"
        cells = [_breakable(row["model"]), f"{row[metric.name]:.4f}", interval, against_best(row)]
        cells += [_text(row[name], 4) for name in others]
        rows.append(cells + [_text(row[name], digits) for name, digits in costs.items()])
    return {
        "heads": ["model", titles[0], "95 % interval", "against best", *titles[1:], *map(_HEADS.__getitem__, costs)],
        "rows": rows,
        "verdicts": frame["verdict"].to_list(),
        "tested": metric.is_per_list,
        "n_splits": len(found.splits),
        "n_people": f"{found.per_user(metric.name).height:,}",
        "lower_is_better": lower_is_better(found, k),
        "calibrated": "calibration_error" in found.measured,
        "shown": "coverage" in found.measured,
        "all_costs": len(costs) > 1,
    }


def _text(value: float | None, digits: int) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def _breakable(name: str) -> Markup:
    """A name that may be broken before its capitals, where a column is narrow."""
    parts = [Markup("<wbr>") + escape(c) if c.isupper() and i else escape(c) for i, c in enumerate(name)]
    return Markup("").join(parts)


def _example(found: Comparison) -> Named | None:
    """One person: what was given, and what was held out in the predicted order."""
    example: Named | None = found.shown()["example"]
    if example is None:
        return None
    interval = any(line["interval"] for line in example["predicted"])
    return example | {
        "value": f"{example['value']:.3f}",
        "given": [[i + 1, name] for i, name in enumerate(example["given"])],
        "heads": ["predicted", "item", *(["90 % interval"] if interval else []), "true rank"],
        "rows": [
            [line["rank"], line["item"], *([f"{line['interval'][0]} to {line['interval'][1]}"] if interval else []),
             line["true"]]
            for line in example["predicted"]
        ],
    }  # fmt: skip


def _reliability(found: Comparison) -> list[Named]:
    """A figure for each model that gives probabilities."""
    figures = []
    for result in _first(found):
        bins = result.reliability
        if bins is None or bins.is_empty():
            continue
        predicted, observed, error = (bins[name].to_numpy() for name in ("predicted", "observed", "error"))
        chart = charts.reliability_chart(predicted, observed, error, f"Reliability of {result.name}")
        means = result.means()
        note = f"off by {means['calibration_error']:.3f} (by chance {calibration_by_chance(bins):.3f})"
        if "pair_log_loss" in means:
            note += f", {means['pair_log_loss']:.3f} bits a pair"
        figures.append({"name": result.name, "note": f"{note}; {bins['n'].sum():,} pairs", "chart": chart})
    return figures


def _communities(found: Comparison) -> list[Named]:
    """What each model with communities found."""
    figures = []
    for name, each in found.shown()["communities"].items():
        rows = [[_key(row["community"]), f"{row['size']:.0%}", ", ".join(row["items"])] for row in each["rows"]]
        chart = charts.membership_chart(np.array(each["memberships"]), f"Memberships of {name}")
        figures.append({"model": name, "rows": rows, "chart": chart})
    return figures


def _key(community: int) -> Markup:
    """The colour of a community in the chart, and its number."""
    key = Markup("<span class='key' style='--colour: var(--c{})'></span>{}")
    return key.format((community - 1) % charts.N_COLOURS, community)


def _learning(found: Comparison) -> list[Named]:
    """A figure for each model that learns in sweeps: its last part, whose objectives are comparable."""
    figures = []
    for result in _first(found):
        last = result.history[result.earlier_sweeps :]
        if len(last) > 2:
            end = "converged" if result.converged else "not converged"
            note = f"{len(result.history)} sweeps, {end}, last {last[-1]:,.6g}"
            chart = charts.line_chart(last, f"Objective of {result.name} by sweep", first=result.earlier_sweeps + 1)
            figures.append({"name": result.name, "note": note, "chart": chart})
    return figures
