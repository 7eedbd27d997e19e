"""Curves: how learning went, what validation said, whether probabilities can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.interfaces.plots.style import ACCENT, QUIET, SECOND, bare, heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_learning(model: Ranker, axes: Axes) -> None:
    """The objective after every sweep; the range is that of the last nine tenths of them."""
    history = np.asarray(model.history_, np.float64)
    sweeps = np.arange(1, history.size + 1)
    axes.plot(sweeps, history, color=ACCENT, marker="o" if history.size <= 30 else None, markersize=3)
    late = history[history.size // 10 :]
    late = late[np.isfinite(late)]
    if late.size > 1 and late.max() > late.min():
        margin = 0.06 * (late.max() - late.min())
        axes.set_ylim(late.min() - margin, late.max() + margin)
    axes.set(xlabel="sweep", ylabel="objective")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.locator_params(axis="x", integer=True)
    bare(axes, grid="y")
    heading(axes, "learning" if model.converged_ else "learning, not converged")


def draw_validation(model: Ranker, axes: Axes) -> None:
    """Score on the held-out part by sweep, and the sweep whose estimate was kept."""
    sweeps, scores = model.validation_.T
    axes.plot(sweeps, scores, color=ACCENT, marker="o", markersize=3.5)
    axes.axvline(model.best_iter_, color=SECOND, linestyle=":", label=f"kept: sweep {model.best_iter_}")
    axes.set(xlabel="sweep", ylabel="score on the held-out part")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, fontsize="small")
    bare(axes, grid="y")
    heading(axes, "validation")


def draw_reliability(bins: pl.DataFrame, axes: Axes) -> None:
    """Predicted probabilities of pairs against how often they came true, with two standard errors.

    Parameters
    ----------
    bins : polars.DataFrame
        As `permrank.metrics.reliability` or ``Evaluation.reliability`` give them.
    axes : matplotlib.axes.Axes
    """
    axes.plot([0.5, 1.0], [0.5, 1.0], color=QUIET, linestyle="--", linewidth=1, label="perfect")
    predicted, observed, n = (bins[name].to_numpy() for name in ("predicted", "observed", "n"))
    # A bin that always came true still has an error: that of its predicted probability.
    error = 2.0 * np.sqrt(predicted * (1.0 - predicted) / n)
    axes.errorbar(predicted, observed, yerr=error, color=ACCENT, elinewidth=1, marker="o", markersize=0)
    axes.scatter(predicted, observed, s=12 + 120 * n / n.max(), color=ACCENT, zorder=3)
    axes.set(xlabel="predicted probability", ylabel="share that came true", xlim=(0.48, 1.02), ylim=(0.4, 1.04))
    axes.set_aspect("equal", adjustable="box")
    axes.legend(frameon=False, fontsize="small", loc="lower right")
    bare(axes)
    heading(axes, f"reliability, {int(n.sum()):,} pairs")
