"""``permrank compare --report``: one page that opens anywhere, without network and without scripts.

Here is what the page says in numbers; ``comparison.html`` has its words.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from permrank import __version__
from permrank.evaluation.comparison import Comparison
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import Metric, title_of
from permrank.evaluation.scoring import people
from permrank.evaluation.split import Split
from permrank.interfaces.report import charts
from permrank.interfaces.report.page import escape, render
from permrank.interfaces.verdicts import QUESTIONS, against_best, lower_is_better
from permrank.models.latent.model import LatentPlackettLuce
from permrank.models.ranker import Ranker
from permrank.storage.atomic import atomic_write
from permrank.types import Named

_PACKAGES = ("numpy", "scipy", "numba", "polars")
# A list that can be read at a glance.
_EXAMPLE = (3, 15)
# Columns of costs, and their digits.
_COSTS = {"seconds": 2, "first_seconds": 1, "megabytes": 1}


def write_report(
    found: Comparison,
    splits: list[Split],
    path: Path,
    *,
    command: str,
    title: str,
    k: int = 10,
    finding: Comparison | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Write the page; it appears whole or not at all.

    `finding` is the other question's comparison of the same models, `left_out` sentences on what is not asked.
    """
    packages = [f"permrank {__version__}", f"Python {platform.python_version()}"]
    every = [found, *([finding] if finding else [])]
    page = render(
        "comparison.html",
        title=f"Comparison of models on {title}",
        questions=[_question(each, k) for each in every],
        left_out=left_out,
        example=_example(found, splits[0]) if found.question == "order" else None,
        reliability=_reliability(found),
        communities=_communities(found),
        learning=_learning(found),
        problems=[(name, text) for each in every for name, text in each.problems().items()],
        splits=[text for each in every for text in each.splits],
        command=command,
        versions=", ".join([*packages, *(f"{name} {version(name)}" for name in _PACKAGES)]),
        system=f"{platform.system()} {platform.machine()}",
        time=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    )
    with atomic_write(path) as file:
        file.write(page.encode())


def _question(found: Comparison, k: int) -> Named:
    """One of the two questions: what is asked, who is best, and the table."""
    heading, about = QUESTIONS[found.question]
    return {"heading": heading, "about": about, "summary": _summary(found, k), "results": _results(found, k)}


def _first(found: Comparison) -> list[Evaluation]:
    """Results on the first split, of models that gave any, best first; those that were cut off come last."""
    ranked = found.table().sort(pl.col("verdict") == "cut off", maintain_order=True)["model"].to_list()
    of_first = {result.name: result for result in reversed(found.results) if not result.problem}
    return [of_first[name] for name in ranked if name in of_first]


def _summary(found: Comparison, k: int) -> Named:
    """Who is best, who is not significantly different, who was cut off, and how many are worse."""
    rows = found.table().filter(pl.col("verdict") != "failed").to_dicts()
    names = {
        verdict: [row["model"] for row in rows if row["verdict"] == verdict]
        for verdict in ("best", "same", "cut off", "worse")
    }
    summary = {
        "n_models": len(rows), "n_worse": len(names["worse"]), "metric": title_of(found.metric_of(found.metric), k),
        "best": None, "same": names["same"], "cut_off": names["cut off"],
    }  # fmt: skip
    for row in rows:
        if row["verdict"] == "best":
            interval = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
            summary |= {"best": row["model"], "value": f"{row[found.metric]:.4f}", "interval": interval}
    return summary


def _results(found: Comparison, k: int) -> Named:
    """The table of all models."""
    frame, metric = found.table(), found.metric_of(found.metric)
    shown = frame.filter(pl.col("verdict") != "failed")
    bounds = _scale(shown.select(metric.name, "low", "high").rows(), metric)
    others = [name for name in frame.columns if name in found.measured and name != metric.name]
    titles = [title_of(found.metric_of(name), k) for name in (metric.name, *others)]
    rows: list[list[Any]] = []
    for row in frame.iter_rows(named=True):
        if row["verdict"] == "failed":
            rows.append([_breakable(row["model"]), "failed", *("" for _ in range(2 + len(others) + len(_COSTS)))])
            continue
        low, high = row["low"], row["high"]
        dot = "" if low is None else charts.interval(row[metric.name], low, high, bounds, row["verdict"])
        cells = [_breakable(row["model"]), f"{row[metric.name]:.4f}", dot, against_best(row)]
        cells += [_text(row[name], 4) for name in others]
        rows.append(cells + [_text(row[name], digits) for name, digits in _COSTS.items()])
    return {
        "heads": ["model", titles[0], "95 % interval", "against best", *titles[1:], "fit s", "first s", "MB"],
        "rows": rows,
        "verdicts": frame["verdict"].to_list(),
        "tested": metric.is_per_list,
        "n_splits": len(found.splits),
        "n_people": f"{found.per_user(metric.name).height:,}",
        "lower_is_better": lower_is_better(found, k),
        "calibrated": "calibration_error" in found.measured,
        "shown": "coverage" in found.measured,
    }


def _scale(rows: list[tuple[float, float, float]], metric: Metric) -> tuple[float, float]:
    """Ends of the common scale: all intervals, but no further from the best one's than a dozen of its widths."""
    known = [(low, high) for _, low, high in rows if low is not None]
    if not known:
        return 0.0, 1.0
    low, high = known[0]
    lowest, highest = min(each[0] for each in known), max(each[1] for each in known)
    reach = 12.0 * max(high - low, 1e-9)
    return (max(lowest, low - reach), highest) if metric.higher_is_better else (lowest, min(highest, high + reach))


def _text(value: float | None, digits: int) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def _breakable(name: str) -> Markup:
    """A name that may be broken before its capitals, where a column is narrow."""
    parts = [Markup("<wbr>") + escape(c) if c.isupper() and i else escape(c) for i, c in enumerate(name)]
    return Markup("").join(parts)


def _example(found: Comparison, split: Split) -> Named | None:
    """The person with the median result of the best model: what was given, what was held out, what was predicted."""
    results = _first(found)
    if not results or results[0].model is None or found.metric not in results[0].metrics:
        return None
    best, model = results[0], results[0].model
    row = _median_person(best, found.metric, split)
    if row is None:
        return None
    index = split.test.user_index(row["user"])
    person = next(who for number, who in people(model, split.test, split.given) if number == index)
    frame = _predicted(model, split, row["user"], person)
    if frame is None:
        return None
    given = (split.given if split.given is not None else split.train).lists(row["user"])[0]
    interval = "rank_low" in frame.columns
    return {
        "user": row["user"],
        "model": best.name,
        "value": f"{row[found.metric]:.3f}",
        "given": [[i + 1, _names(block)] for i, block in enumerate(given[: _EXAMPLE[1]])],
        "n_more": max(len(given) - _EXAMPLE[1], 0),
        "heads": ["predicted", "item", *(["90 % interval"] if interval else []), "true rank"],
        "rows": [
            [
                line["rank"],
                line["item"],
                *([f"{line['rank_low']} to {line['rank_high']}"] if interval else []),
                line["true"],
            ]
            for line in frame.head(_EXAMPLE[1]).iter_rows(named=True)
        ],
    }


def _median_person(result: Evaluation, metric: str, split: Split) -> Named | None:
    """The row of the person with the median value, among those with a list of a handy length if there are any."""
    lengths = np.diff(split.test.user_bounds)
    rows = result.per_user.filter(pl.col(metric).is_not_null()).sort(metric, "user").to_dicts()
    handy = [row for row in rows if _EXAMPLE[0] <= lengths[split.test.user_index(row["user"])] <= _EXAMPLE[1]]
    rows = handy or rows
    return rows[len(rows) // 2] if rows else None


def _predicted(model: Ranker, split: Split, user: object, person: object) -> pl.DataFrame | None:
    """Held-out items as the model ranks them, with their true ranks (equal for ties)."""
    hidden = split.test.lists(user)[0]
    ranks = {name: i + 1 for i, block in enumerate(hidden) for name in (block if isinstance(block, set) else [block])}
    known = [name for name in ranks if name in model.item_ids]
    if person is None or not known:
        return None
    frame = model.rank(user if isinstance(person, int) else person, known)
    return frame.with_columns(true=pl.Series([ranks[name] for name in frame["item"]]))


def _names(block: Any) -> str:
    if isinstance(block, set):
        named = sorted(map(str, block))
        return " = ".join(named[:6]) + (f" = … ({len(named)} tied)" if len(named) > 6 else "")
    return str(block)


def _reliability(found: Comparison) -> list[Named]:
    """A figure for each model that gives probabilities."""
    figures = []
    for result in _first(found):
        bins = result.reliability
        # A model that calls every pair even has predicted nothing.
        if bins is None or bins.is_empty() or float(bins["predicted"].max()) <= 0.5:  # type: ignore[arg-type]
            continue
        predicted, observed, error = (bins[name].to_numpy() for name in ("predicted", "observed", "error"))
        chart = charts.reliability_chart(predicted, observed, error, f"Reliability of {result.name}")
        note = f"off by {result.means()['calibration_error']:.3f}"
        figures.append({"name": result.name, "note": note, "chart": chart})
    return figures


def _communities(found: Comparison) -> list[Named]:
    """What each model with communities found."""
    figures = []
    for result in _first(found):
        if not isinstance(result.model, LatentPlackettLuce):
            continue
        rows = [
            [_key(row["community"]), f"{row['size']:.0%}", ", ".join(map(str, row["items"]))]
            for row in result.model.communities(n_items=5, n_users=0).iter_rows(named=True)
        ]
        chart = charts.membership_chart(result.model.memberships_[0], f"Memberships of {result.name}")
        figures.append({"model": result.name, "rows": rows, "chart": chart})
    return figures


def _key(community: int) -> Markup:
    """The colour of a community in the chart, and its number."""
    return Markup("<span class='key c{}'></span>{}").format((community - 1) % charts.N_COLOURS, community)


def _learning(found: Comparison) -> list[Named]:
    """A figure for each model that learns in sweeps."""
    figures = []
    for result in _first(found):
        history = result.model.history_ if result.model is not None else []
        if len(history) > 2:
            told = "converged" if result.model is not None and result.model.converged_ else "not converged"
            note = f"{len(history)} sweeps, {told}, last {history[-1]:,.6g}"
            chart = charts.line_chart(history, f"Objective of {result.name} by sweep")
            figures.append({"name": result.name, "note": note, "chart": chart})
    return figures
