"""Markov chains of the log-linear models: traces and rank plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.families.log_linear.base import LogLinearRanker
from permrank.interfaces.plots.style import label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_chains(model: LogLinearRanker, path: str | Path, user: object, items: Any = None, size: int = 500) -> None:
    """Draw four Markov chains of a log-linear model: the trace of the energy, and rank plots of it and of two items.

    Parameters
    ----------
    model : LogLinearRanker
        A fitted log-linear model.
    path : str or Path
        PNG, SVG or PDF, by the ending.
    user : id, or None
    items : sequence of ids, optional
        The items to be ranked, as in ``model.sample``.
    size : int
        Draws of each chain.
    """
    chains_figure(model, user, items, size).save(path)


def chains_figure(model: LogLinearRanker, user: object, items: Any, size: int) -> Any:
    """The figure of `save_chains`."""
    orders, energies, names = model.chains(user, items, 4, size)
    positions = np.argsort(orders, axis=2)
    shown = {"energy": energies, **{str(names[a]): positions[:, :, a] for a in (0, len(names) - 1)}}
    figure = new_figure(12.0, 2.8 * len(shown))
    axes = figure.subplots(len(shown), 2)
    for (name, values), (left, right) in zip(shown.items(), axes, strict=True):
        draw_trace(values, left)
        draw_ranks(values, right)
        left.set(ylabel=name if name == "energy" else f"position of {label(name)}")
    axes[-1, 0].set(xlabel="draw")
    axes[-1, 1].set(xlabel="rank among the draws of all chains")
    return figure


def draw_trace(values: Any, axes: Axes) -> None:
    """One line per chain; chains that mix look alike and go nowhere."""
    for chain in values:
        axes.plot(chain, linewidth=0.6)


def draw_ranks(values: Any, axes: Axes, n_bins: int = 20) -> None:
    """Where the draws of each chain lie among those of all; level bars mean that the chains agree (Vehtari 2021)."""
    # Equal values are put in a random order: positions are whole numbers.
    jitter = np.random.default_rng(0).random(values.size)
    ranks = np.empty(values.size)
    ranks[np.lexsort((jitter, values.ravel()))] = np.arange(values.size)
    for c, chain in enumerate(ranks.reshape(values.shape)):
        counts, edges = np.histogram(chain, bins=n_bins, range=(0, values.size))
        axes.stairs(counts, edges, label=f"chain {c + 1}")
    axes.axhline(values.shape[1] / n_bins, linestyle=":", color="grey")
    axes.legend(fontsize="small", frameon=False)
