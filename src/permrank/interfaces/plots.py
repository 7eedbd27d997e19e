"""Pictures of models; they need matplotlib, the extra ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from permrank.errors import InputError, NotSupportedError
from permrank.models.base import Ranker
from permrank.models.latent import LatentPlackettLuce


def save_plot(model: Ranker, path: str | Path) -> None:
    """Draw what there is to see of a model and write it to a file (PNG, SVG or PDF, by the ending).

    Parameters
    ----------
    model : Ranker
        A fitted `LatentPlackettLuce`: memberships, and the curve if the number of communities was chosen.
    path : str or Path
    """
    if not isinstance(model, LatentPlackettLuce):
        raise NotSupportedError(f"there is no picture of a {type(model).__name__}")
    figure_class = _matplotlib()
    n_panels = 2 if model.curve_.size else 1
    figure = figure_class(figsize=(7.0 * n_panels, 4.0), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, n_panels))
    draw_memberships(model, axes[0])
    if n_panels == 2:
        draw_curve(model, axes[1])
    try:
        figure.savefig(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def draw_memberships(model: LatentPlackettLuce, axes: Any) -> None:
    """Stacked bars, one a user, sorted by leading community: who belongs where, and how clearly."""
    theta = model.memberships_[0]
    order = np.lexsort((-theta.max(axis=1), theta.argmax(axis=1)))
    # A picture has about a thousand columns: more people than that are thinned out evenly.
    order = order[np.linspace(0, order.size - 1, min(order.size, 1000)).astype(np.int64)]
    frame = model.communities(n_items=2, n_users=0)
    labels = [
        f"{row['community']}: {', '.join(map(str, row['items']))} ({row['size']:.0%})"
        for row in frame.iter_rows(named=True)
    ]
    from matplotlib import colormaps  # the figure has been made, so it is there

    colours = colormaps["tab20"]
    edges = np.linspace(0.0, 1.0, order.size + 1)
    bottom = np.zeros(order.size)
    for z, label in enumerate(labels):
        top = bottom + theta[order, z]
        axes.stairs(top, edges, baseline=bottom, fill=True, label=label, color=colours(z % 20))
        bottom = top
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of users, by leading community", ylabel="P(community | user)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)


def draw_curve(model: LatentPlackettLuce, axes: Any) -> None:
    """Held-out log-probability of an item's place by the number of communities, with standard errors."""
    numbers, values, errors = model.curve_.T
    axes.errorbar(numbers, values, yerr=errors, marker="o", capsize=3)
    axes.axvline(model.scores_.shape[2], linestyle=":", color="grey")
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(int(number)) for number in numbers])
    axes.set(xlabel="communities", ylabel="log P(place of a left-out item)")


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupportedError("pictures need matplotlib: pip install 'permrank[plot]'") from error
    return Figure
