"""Spectral analysis: effects of items at positions, and the shares of the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from permrank.families.spectral.model import SpectralAnalysis
from permrank.interfaces.plots.style import ACCENT, bare, heading, names_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_effects(model: SpectralAnalysis, axes: Axes, *, n_items: int = 40) -> None:
    """Items by positions, best item first: how many more, or fewer, put it there than chance would."""
    n, total = model.rankings_.n_items, model.rankings_.weights.sum()
    order = np.argsort(-model.scores_, kind="stable")[:n_items]
    effects = 100.0 * (model.first_order_[order] / total - 1.0 / n)
    widest = max(float(np.abs(effects).max()), 1e-9)
    image = axes.imshow(effects, cmap="RdBu_r", vmin=-widest, vmax=widest, aspect="auto")
    axes.set_yticks(range(order.size), names_of(model.item_ids, order))
    every = max(1, -(-n // 20))
    axes.set_xticks(range(0, n, every), [str(position + 1) for position in range(0, n, every)])
    axes.set(xlabel="rank")
    heading(axes, "first-order effects")
    axes.figure.colorbar(image, ax=axes, label="percentage points", shrink=0.8)


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
