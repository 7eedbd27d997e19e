"""``permrank compare --report``: one page that opens anywhere, without network and without scripts."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from permrank import __version__
from permrank.evaluation.comparison import Comparison
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import title_of
from permrank.evaluation.scoring import people
from permrank.evaluation.split import Split
from permrank.interfaces.report import charts
from permrank.interfaces.report.page import escape, page
from permrank.interfaces.verdicts import against_best
from permrank.models.latent.model import LatentPlackettLuce
from permrank.models.ranker import Ranker
from permrank.storage.atomic import atomic_write

_PACKAGES = ("numpy", "scipy", "numba", "polars")
# A list that can be read at a glance.
_EXAMPLE = (3, 15)


def write_report(found: Comparison, splits: list[Split], path: Path, *, command: str, title: str, k: int = 10) -> None:
    """Write the page; it appears whole or not at all."""
    sections = [
        _summary(found, k),
        _table(found, k),
        *_example(found, splits[0]),
        *_reliability(found),
        *_communities(found),
        *_learning(found),
        _how(found, command),
    ]
    with atomic_write(path) as file:
        file.write(page(f"Comparison of models on {title}", sections).encode())


def _first(found: Comparison) -> list[Evaluation]:
    """Results on the first split, of models that gave any, best first; those that were cut off come last."""
    ranked = found.table().sort(pl.col("verdict") == "cut off", maintain_order=True)["model"].to_list()
    of_first = {result.name: result for result in reversed(found.results) if not result.problem}
    return [of_first[name] for name in ranked if name in of_first]


def _summary(found: Comparison, k: int) -> str:
    rows = found.table().filter(pl.col("verdict") != "failed").to_dicts()
    if not rows:
        return "<p class='lead'>No model gave a result; see the end of the page for what went wrong.</p>"
    best, name = next((row for row in rows if row["verdict"] == "best"), None), escape(title_of(found.metric, k))
    if best is None:
        return "<p class='lead'>Every fit was cut off before its end, so no model can be called best.</p>"
    same = [escape(row["model"]) for row in rows if row["verdict"] == "same"]
    text = (
        f"<p class='lead'>By {name}, <strong>{escape(best['model'])}</strong> is best: {best[found.metric]:.4f} "
        f"({best['low']:.4f} to {best['high']:.4f}). "
    )
    text += f"{', '.join(same)} cannot be told from it. " if same else ""
    cut = [escape(row["model"]) for row in rows if row["verdict"] == "cut off"]
    text += f"{', '.join(cut)} ran out of time and cannot be judged. " if cut else ""
    worse = sum(row["verdict"] == "worse" for row in rows)
    text += f"{worse} of {len(rows)} models are worse beyond chance." if worse else ""
    return text + "</p>"


def _table(found: Comparison, k: int) -> str:
    frame, metric = found.table(), found.metric
    shown = frame.filter(pl.col("verdict") != "failed")
    bounds = _scale(shown.select(metric, "low", "high").rows())
    others = [name for name in frame.columns if name in _metric_names(found) and name != metric]
    heads = ["model", title_of(metric, k), "95 % interval", "against best", *(title_of(name, k) for name in others)]
    rows = []
    for row in frame.iter_rows(named=True):
        if row["verdict"] == "failed":
            rows.append([_breakable(row["model"]), "failed", "", "", *("" for _ in others), "", "", ""])
            continue
        dot = charts.interval(row[metric], row["low"], row["high"], bounds, row["verdict"])
        cells = [_breakable(row["model"]), f"{row[metric]:.4f}", dot, escape(against_best(row))]
        cells += [_text(row[name], 4) for name in others]
        costs = (("seconds", 2), ("first_seconds", 1), ("megabytes", 1))
        rows.append(cells + [_text(row[name], digits) for name, digits in costs])
    people_ = found.per_user(metric).height
    return (
        "<h2>How well hidden orders are foretold</h2>"
        + html_table([*heads, "fit s", "first s", "MB"], rows, frame["verdict"].to_list())
        + f"<p class='note'>Means over {people_:,} people and {len(found.splits)} split(s), the same for every model. "
        "Intervals by bootstrap over people; p by a paired randomisation test against the best model, corrected for "
        "all of them (Holm). ≈: cannot be told from the best. Calibration: how far probabilities of pairs are off, "
        "less is better. First s: a first, tiny fit, which compiles. MB: memory held at most during a fit beyond what "
        "was held before.</p>"
    )


def _scale(rows: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Ends of the common scale: all intervals, but no further down than a dozen widths of the best one's."""
    if not rows:
        return 0.0, 1.0
    _, low, high = rows[0]
    return max(min(row[1] for row in rows), low - 12.0 * max(high - low, 1e-9)), max(row[2] for row in rows)


def _metric_names(found: Comparison) -> set[str]:
    return {name for result in found.results for name in result.means()}


def _text(value: float | None, digits: int) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def _breakable(name: str) -> str:
    """A name that may be broken before its capitals, where a column is narrow."""
    return "".join(f"<wbr>{escape(c)}" if c.isupper() and i else escape(c) for i, c in enumerate(name))


def html_table(heads: list[str], rows: list[list[str]], kinds: list[str] | None = None) -> str:
    """A table that scrolls inside its own box where the page is narrow. Cells are HTML already."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr{f' class={kind!r}' if kind else ''}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for row, kind in zip(rows, kinds or [""] * len(rows), strict=True)
    )
    return f"<div class='scroll' tabindex='0'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _example(found: Comparison, split: Split) -> Iterator[str]:
    """The person with the median result of the best model: what was given, what was hidden, what was foretold."""
    results = _first(found)
    if not results or found.metric not in results[0].metrics:
        return
    best, model = results[0], results[0].model
    if model is None:
        return
    lengths = np.diff(split.test.indptr[split.test.user_indptr])
    values = best.per_user.filter(pl.col(found.metric).is_not_null()).sort(found.metric, "user")
    fitting = [row for row in values.iter_rows(named=True) if _EXAMPLE[0] <= lengths[_place(split, row)] <= _EXAMPLE[1]]
    if not fitting:
        fitting = values.to_dicts()
    if not fitting:
        return
    row = fitting[len(fitting) // 2]
    place = _place(split, row)
    person = next(who for number, who in people(model, split.test, split.given) if number == place)
    frame = _foretold(model, split, row["user"], person)
    if frame is None:
        return
    said = split.given if split.given is not None else split.train
    given = said.lists(row["user"])[0]
    listed = [[str(i + 1), _names(block)] for i, block in enumerate(given[: _EXAMPLE[1]])]
    more = f"<p class='note'>and {len(given) - _EXAMPLE[1]} more</p>" if len(given) > _EXAMPLE[1] else ""
    interval = "rank_low" in frame.columns
    heads = ["foretold", "item", *(["90 % interval"] if interval else []), "true place"]
    rows = [
        [
            str(line["rank"]),
            escape(str(line["item"])),
            *([f"{line['rank_low']} to {line['rank_high']}"] if interval else []),
            str(line["true"]),
        ]
        for line in frame.head(_EXAMPLE[1]).iter_rows(named=True)
    ]
    value = f"{row[found.metric]:.3f}"
    yield (
        f"<h2>One person</h2><p>{escape(str(row['user']))}, whose result is the median of the best model, "
        f"{escape(best.name)} ({value}). First what the model was told, then the hidden items in the order that it "
        "foretold, with their true places (equal for ties).</p>"
        f"<div class='grid'><div>{html_table(['place', 'told'], listed)}{more}</div>"
        f"<div>{html_table(heads, rows)}</div></div>"
    )


def _place(split: Split, row: dict[str, Any]) -> int:
    return split.test.user_index(row["user"])


def _foretold(model: Ranker, split: Split, user: Any, person: Any) -> pl.DataFrame | None:
    """Hidden items as the model ranks them, with their true places (equal for ties)."""
    hidden = split.test.lists(user)[0]
    places = {name: i + 1 for i, block in enumerate(hidden) for name in (block if isinstance(block, set) else [block])}
    known = [name for name in places if name in model.item_ids]
    if person is None or not known:
        return None
    frame = model.rank(user if isinstance(person, int) else person, known)
    return frame.with_columns(true=pl.Series([places[name] for name in frame["item"]]))


def _names(block: Any) -> str:
    if isinstance(block, set):
        named = sorted(map(str, block))
        return escape(" = ".join(named[:6]) + (f" = … ({len(named)} tied)" if len(named) > 6 else ""))
    return escape(str(block))


def _reliability(found: Comparison) -> Iterator[str]:
    figures = []
    for result in _first(found):
        bins = result.reliability
        # A model that calls every pair even has foretold nothing.
        if bins is None or bins.is_empty() or float(bins["predicted"].max()) <= 0.5:  # type: ignore[arg-type]
            continue
        predicted, observed, error = (bins[name].to_numpy() for name in ("predicted", "observed", "error"))
        chart = charts.reliability_chart(predicted, observed, error, f"Reliability of {result.name}")
        figures.append(_figure(result.name, f"off by {result.means()['calibration_error']:.3f}", chart))
    if figures:
        yield (
            "<h2>May the probabilities be believed?</h2><p>Held-out pairs by the probability that the model gave to "
            "the likelier order, against how often that order came true; bars are two standard errors. On the diagonal "
            f"probabilities are honest, below it they promise too much.</p><div class='grid'>{''.join(figures)}</div>"
        )


def _communities(found: Comparison) -> Iterator[str]:
    for result in _first(found):
        model = result.model
        if not isinstance(model, LatentPlackettLuce):
            continue
        frame = model.communities(n_items=5, n_users=0)
        rows = [
            [
                f"<span class='key c{(row['community'] - 1) % charts.N_COLOURS}'></span>{row['community']}",
                f"{row['size']:.0%}",
                escape(", ".join(map(str, row["items"]))),
            ]
            for row in frame.iter_rows(named=True)
        ]
        chart = charts.membership_chart(model.memberships_[0], f"Memberships of {result.name}")
        yield (
            f"<h2>Communities</h2><p>What {escape(result.name)} found: every person belongs to each community with "
            "some probability. Items are those that a community likes more than the others do.</p><div class='grid'>"
            f"{_figure('People by leading community', '', chart)}"
            f"<div>{html_table(['community', 'size', 'liked more than elsewhere'], rows)}</div></div>"
        )


def _learning(found: Comparison) -> Iterator[str]:
    figures = []
    for result in _first(found):
        history = result.model.history_ if result.model is not None else []
        if len(history) > 2:
            told = "converged" if result.model is not None and result.model.converged_ else "not converged"
            chart = charts.line_chart(history, f"Objective of {result.name} by sweep")
            figures.append(_figure(result.name, f"{len(history)} sweeps, {told}, last {history[-1]:,.6g}", chart))
    if figures:
        yield (
            "<h2>Learning curves</h2><p>The objective of each model on the training part of the first split, less its "
            "last value; every model has a scale of its own. Where it jumps, another part of learning begins, with an "
            f"objective of its own.</p><div class='grid'>{''.join(figures)}</div>"
        )


def _figure(name: str, note: str, chart: str) -> str:
    small = f" <small>{escape(note)}</small>" if note else ""
    return f"<figure><figcaption>{escape(name)}{small}</figcaption>{chart}</figure>"


def _how(found: Comparison, command: str) -> str:
    problems = found.problems()
    wrong = "".join(f"<li><strong>{escape(name)}</strong>: {escape(text)}</li>" for name, text in problems.items())
    splits = "".join(f"<li>{escape(text)}</li>" for text in found.splits)
    versions = ", ".join(
        [f"permrank {__version__}", f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in _PACKAGES)]
    )
    return (
        (f"<h2>What went wrong, and notes</h2><ul>{wrong}</ul>" if wrong else "")
        + "<h2>How this was made</h2>"
        + f"<pre>{escape(command)}</pre><ul>{splits}</ul>"
        + f"<p>{escape(versions)}; {escape(platform.system())} {escape(platform.machine())}; "
        + f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC.</p>"
    )
