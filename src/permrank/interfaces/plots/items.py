"""Items: worths with error bars, probabilities of positions, a map by factors, and the spectral analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.families.spectral.model import SpectralAnalysis
from permrank.interfaces.plots.style import ACCENT, QUIET, bare, heading, label, names_of
from permrank.types import Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two intervals of so many equal errors each touch where the difference is 1.96 of its own (Goldstein and Healy 1995).
COMPARISON = 1.96 / np.sqrt(2.0)
# Draws behind a heat map: the error of a cell is below one percentage point.
_DRAWS = 4_000
# Cells are wide enough for their numbers up to so many columns.
_NUMBERED = 10


def draw_worths(frame: pl.DataFrame, axes: Axes, *, n_items: int = 40) -> None:
    """Scores of items, best first, with bars for comparisons.

    Bars are 1.39 quasi standard errors to either side: where two of them do not overlap, the items differ at the level
    of about 5 %. Where there are no quasi standard errors, bars are 95 % intervals of the scores.

    Parameters
    ----------
    frame : polars.DataFrame
        As ``model.standard_errors()`` or ``model.summary().frame``: ``item``, ``score`` or ``estimate``, and errors. If
        there is a column ``title``, it names the items.
    axes : matplotlib.axes.Axes
    n_items : int
        The most that are shown.
    """
    if "parameter" in frame.columns:
        frame = frame.filter(pl.col("parameter") == "score")
    scores = "score" if "score" in frame.columns else "estimate"
    shown = frame.sort(scores, descending=True, maintain_order=True).head(n_items)
    quasi = "quasi_standard_error" in frame.columns and shown["quasi_standard_error"].null_count() == 0
    known = quasi or "standard_error" in frame.columns
    width = np.zeros(shown.height)
    if known:
        name, times = ("quasi_standard_error", COMPARISON) if quasi else ("standard_error", 1.96)
        width = times * shown[name].fill_null(0.0).to_numpy()
    rows = np.arange(shown.height)
    axes.errorbar(
        shown[scores], rows, xerr=width if known else None, fmt="o", color=ACCENT, ecolor=ACCENT, markersize=4.5,
        elinewidth=1.6, capsize=0,
    )  # fmt: skip
    names = shown["title"].fill_null(shown["item"].cast(pl.String)) if "title" in shown.columns else shown["item"]
    axes.set_yticks(rows, [label(name) for name in names])
    axes.set_ylim(shown.height - 0.4, -0.6)
    said = "bars that do not overlap: different at about 5 %" if quasi else "95 % intervals" if known else ""
    axes.set_xlabel(f"score; {said}" if said else "score")
    bare(axes, grid="x")
    heading(axes, _shown_of(shown.height, frame.height))


def draw_positions(model: Ranker, axes: Axes, *, user: object = None, n_items: int = 25) -> None:
    """Probability of every position for the items that a person, or everybody, is expected to like best.

    Positions are those among the items that are shown.
    """
    items = np.argsort(-model.score(user), kind="stable")[:n_items]
    orders = model.fitted_.law(model.person(user), items).sample(_DRAWS, seed=0)
    n = items.size
    chances = np.stack([np.bincount(orders[:, place], minlength=n) for place in range(n)], axis=1) / len(orders)
    order = np.argsort(chances @ np.arange(n), kind="stable")
    names = names_of(model.item_ids, items[order])
    _heat_map(axes, 100.0 * chances[order], names, "probability, %", cmap="Blues", vmin=0.0)
    axes.set_xlabel("position")
    if n <= _NUMBERED:
        _write_numbers(axes, 100.0 * chances[order])
    heading(axes, _shown_of(n, len(model.item_ids)))


def draw_map(model: Ranker, axes: Axes, *, n_items: int = 60) -> None:
    """Items by the first two principal axes of their factors: what is near is liked by the same people.

    The items that are listed most often are shown, and named where there is room.
    """
    vectors = item_vectors(model)
    if vectors is None:
        raise ValueError("a model without factors has no map")
    data = model.rankings_
    listed = np.bincount(data.items, minlength=data.n_items)
    shown = np.argsort(-listed, kind="stable")[:n_items]
    centred = vectors - vectors[listed > 0].mean(axis=0)
    _, values, axes_of = np.linalg.svd(centred[listed > 0], full_matrices=False)
    # The sign of an axis is arbitrary: the largest coordinate is positive.
    axes_of = axes_of[:2] * np.sign(axes_of[:2][np.arange(2), np.abs(axes_of[:2]).argmax(axis=1)])[:, None]
    places = centred[shown] @ axes_of.T
    share = values**2 / max(float(np.sum(values**2)), 1e-300)
    sizes = 14 + 50 * np.sqrt(listed[shown] / max(listed.max(), 1))
    axes.scatter(places[:, 0], places[:, 1], s=sizes, color=ACCENT, alpha=0.55)
    axes.axhline(0.0, color="#e2e8f0", zorder=0)
    axes.axvline(0.0, color="#e2e8f0", zorder=0)
    axes.set_xlabel(f"first axis ({share[0]:.0%} of the variance)")
    axes.set_ylabel(f"second axis ({share[1]:.0%})")
    axes.margins(0.12)
    bare(axes)
    heading(axes, f"{_shown_of(shown.size, data.n_items)}, most often listed")
    name_points(axes, places, names_of(model.item_ids, shown))


def draw_effects(model: SpectralAnalysis, axes: Axes, *, n_items: int = 40) -> None:
    """Items by positions, best item first: how many more, or fewer, put it there than chance would."""
    n, total = model.rankings_.n_items, model.rankings_.weights.sum()
    order = np.argsort(-model.scores_, kind="stable")[:n_items]
    effects = 100.0 * (model.first_order_[order] / total - 1.0 / n)
    widest = max(float(np.abs(effects).max()), 1e-9)
    names = names_of(model.item_ids, order)
    _heat_map(axes, effects, names, "percentage points", cmap="RdBu_r", vmin=-widest, vmax=widest)
    axes.set_xlabel("rank")
    heading(axes, "first-order effects")


def _heat_map(axes: Axes, percent: Float64Array, names: list[str], unit: str, **colours: Any) -> None:
    """Items by positions, of which at most twenty are numbered."""
    image = axes.imshow(percent, aspect="auto", **colours)
    axes.set_yticks(range(len(names)), names)
    n = percent.shape[1]
    every = max(1, -(-n // 20))
    axes.set_xticks(range(0, n, every), [str(position + 1) for position in range(0, n, every)])
    axes.figure.colorbar(image, ax=axes, label=unit, shrink=0.8)


def draw_shares(model: SpectralAnalysis, axes: Axes) -> None:
    """Mean squares of the parts on a logarithmic scale, beside those of orders drawn at random."""
    frame = model.components()[1:]
    bars = np.arange(frame.height)
    axes.bar(bars, np.maximum(frame["mean_square"].to_numpy(), 1e-300), label="data", color=ACCENT, width=0.6)
    axes.plot(bars, frame["by_chance"], "k_", markersize=20, label="by chance")
    axes.set_yscale("log")
    low = max(float(frame["by_chance"].min()), 1e-290) / 10.0  # type: ignore[arg-type]
    axes.set_ylim(bottom=low)
    axes.set_xticks(bars, frame["component"].to_list(), rotation=30, ha="right")
    axes.set(ylabel="mean square")
    bare(axes)
    heading(axes, "parts of the counts")
    axes.legend(frameon=False)


def name_points(axes: Axes, places: Float64Array, names: list[str]) -> None:
    """Write names beside points, the first ones first; one that would cover another name is left out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    figure: Any = axes.figure
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # the layout decides where points are
    renderer = canvas.get_renderer()
    inside, taken = axes.get_window_extent(renderer), []
    for x, y in axes.transData.transform(places):  # no name covers a point
        taken.append(Bbox.from_extents(x - 4, y - 4, x + 4, y + 4))
    for place, name in zip(places, names, strict=True):
        for shift, side in (((6, 3), "left"), ((-6, 3), "right"), ((6, -9), "left"), ((-6, -9), "right")):
            text = axes.annotate(name, place, xytext=shift, textcoords="offset points", ha=side, fontsize="x-small")
            box = text.get_window_extent(renderer).padded(1.0)
            fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if fits and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def item_vectors(model: Ranker) -> Float64Array | None:
    """Factors of the items, (n_items, K) for K of at least two; of several draws all side by side."""
    estimate: Any = model.estimate_
    n = model.rankings_.n_items
    if hasattr(estimate, "item_factors"):
        found = np.asarray(estimate.item_factors, np.float64)[:n]
    elif hasattr(estimate, "item_draws"):
        # Principal axes of all draws beside each other are those of their mean Gram matrix.
        draws = np.asarray(estimate.item_draws, np.float64)
        factors = draws.reshape(-1, *draws.shape[-2:])[:, :n, : estimate.n_factors]  # components are like draws
        found = np.concatenate(list(factors), axis=1)
    else:
        return None
    return found if found.ndim == 2 and found.shape[1] >= 2 and n >= 3 else None


def _write_numbers(axes: Axes, percent: Float64Array) -> None:
    most = percent.max()
    for (row, column), value in np.ndenumerate(percent):
        colour = "white" if value > 0.6 * most else QUIET if value < 0.5 else "black"
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize="small", color=colour)


def _shown_of(shown: int, total: int) -> str:
    return f"{total:,} items" if shown >= total else f"the first {shown:,} of {total:,} items"
