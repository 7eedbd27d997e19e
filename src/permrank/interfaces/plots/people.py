"""People and learning: communities, curves of learning, reliability, Markov chains."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.families.log_linear.base import LogLinearRanker
from permrank.interfaces.plots.style import ACCENT, QUIET, SECOND, bare, heading, label, new_figure
from permrank.types import Array, Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from permrank.interfaces.plots.style import Picture

# A picture has about a thousand columns.
_MOST_BARS = 1000
_NAMED = 3


def memberships_of(model: Ranker) -> Any:
    """P(community | user) of the best fit, (n_users, K); None for a model without communities."""
    found = getattr(model.estimate_, "memberships", None)
    return None if found is None else found[0] if np.ndim(found) == 3 else found


def membership_bands(memberships: Float64Array, most: int) -> tuple[Float64Array, Float64Array]:
    """Bars of people from 0 to 1, sorted by leading community and then by how clear it is.

    Parameters
    ----------
    memberships : float64 (n_people, n_communities)
    most : int
        More people than this are thinned out evenly: a picture has only so many columns.

    Returns
    -------
    edges : float64 (n_bars + 1,)
        Sides of the bars.
    bounds : float64 (n_communities + 1, n_bars)
        Community ``z`` fills a bar from ``bounds[z]`` to ``bounds[z + 1]``.

    Examples
    --------
    >>> import numpy as np
    >>> from permrank.interfaces.plots.people import membership_bands
    >>> edges, bounds = membership_bands(np.array([[0.25, 0.75], [1.0, 0.0]]), 100)
    >>> edges.tolist(), bounds.tolist()
    ([0.0, 0.5, 1.0], [[0.0, 0.0], [1.0, 0.25], [1.0, 1.0]])
    """
    order = np.lexsort((-memberships.max(axis=1), memberships.argmax(axis=1)))
    order = order[np.linspace(0, order.size - 1, min(order.size, most)).astype(np.int64)]
    bounds = np.zeros((memberships.shape[1] + 1, order.size))
    bounds[1:] = np.cumsum(memberships[order], axis=1).T
    return np.linspace(0.0, 1.0, order.size + 1), bounds


def draw_memberships(model: Ranker, axes: Axes) -> None:
    """Stacked bars, one per user, sorted by leading community: who belongs where, and how clearly."""
    from matplotlib import colormaps

    edges, bounds = membership_bands(memberships_of(model), _MOST_BARS)
    colours = colormaps["tab20" if len(bounds) > 11 else "tab10"]
    for z, text in enumerate(_descriptions(model, len(bounds) - 1)):
        axes.stairs(bounds[z + 1], edges, baseline=bounds[z], fill=True, label=text, color=colours(z % 20), alpha=0.85)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of users, by leading community", ylabel="P(community | user)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    heading(axes, "communities")


def _descriptions(model: Ranker, n: int) -> list[str]:
    """Number, size and first items of each community."""
    if not hasattr(model, "communities"):
        return [f"community {z + 1}" for z in range(n)]
    frame = model.communities()
    texts = []
    for row in frame.iter_rows(named=True):
        names = row["ranking"] if "ranking" in frame.columns else row["items"]
        first = (" > " if "ranking" in frame.columns else ", ").join(label(name, 20) for name in names[:_NAMED])
        texts.append(f"{row['community']} ({row['size']:.0%}): {first}")
    return texts


def draw_curve(model: Ranker, axes: Axes) -> None:
    """Held-out log-probability of an item's position by the number of communities, with standard errors."""
    estimate = model.estimate_
    numbers, values, errors = estimate.curve.T
    axes.errorbar(numbers, values, yerr=errors, marker="o", capsize=3, color=ACCENT)
    axes.axvline(estimate.scores.shape[2], linestyle=":", color=QUIET)
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(int(number)) for number in numbers])
    axes.set(xlabel="communities", ylabel="log P(position of a left-out item)")
    bare(axes, grid="y")
    heading(axes, "number of communities")


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


def save_chains(
    model: LogLinearRanker, path: str | Path, user: object, items: Iterable[object] | None = None, size: int = 500
) -> None:
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


def chains_figure(model: LogLinearRanker, user: object, items: Iterable[object] | None, size: int) -> Picture:
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


def draw_trace(values: Array, axes: Axes) -> None:
    """One line per chain; chains that mix look alike and go nowhere."""
    for chain in values:
        axes.plot(chain, linewidth=0.6)


def draw_ranks(values: Array, axes: Axes, n_bins: int = 20) -> None:
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
