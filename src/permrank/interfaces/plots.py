"""Pictures of models; they need matplotlib, the extra ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.errors import InputError, NotSupportedError
from permrank.interfaces.memberships import membership_bands
from permrank.interfaces.output import printable
from permrank.models.latent.model import LatentPlackettLuce
from permrank.models.log_linear.base import LogLinearRanker
from permrank.models.ranker import Ranker
from permrank.models.spectral.spectral import SpectralAnalysis
from permrank.storage.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A picture has about a thousand columns.
_MOST_BARS = 1000


def save_plot(model: Ranker, path: str | Path) -> None:
    """Draw what there is to see of a model and write it to a file (PNG, SVG or PDF, by the ending).

    Parameters
    ----------
    model : Ranker
        A fitted `LatentPlackettLuce`: memberships, and the curve if the number of communities was chosen. Or a
        fitted `SpectralAnalysis`: effects of items at positions, and the shares of the parts. Or a log-linear model:
        Markov chains over its first twenty items (see `save_chains` for others).
    path : str or Path
    """
    panels: list[Any]
    if isinstance(model, LatentPlackettLuce):
        panels = [draw_memberships, draw_curve] if model.curve_.size else [draw_memberships]
    elif isinstance(model, SpectralAnalysis):
        panels = [draw_effects, draw_shares]
    elif isinstance(model, LogLinearRanker):
        save_chains(model, path, None, list(model.item_ids)[:20])
        return
    else:
        raise NotSupportedError(f"there is no picture of a {type(model).__name__}")
    figure_class = _matplotlib()
    figure = figure_class(figsize=(7.0 * len(panels), 4.0), layout="constrained")
    for draw, axes in zip(panels, np.atleast_1d(figure.subplots(1, len(panels))), strict=True):
        draw(model, axes)
    _write(figure, path)


def draw_memberships(model: LatentPlackettLuce, axes: Axes) -> None:
    """Stacked bars, one per user, sorted by leading community: who belongs where, and how clearly."""
    from matplotlib import colormaps  # the figure has been made, so it is there

    edges, bounds = membership_bands(model.memberships_[0], _MOST_BARS)
    frame = model.communities(n_items=2, n_users=0)
    colours = colormaps["tab20"]
    for z, row in enumerate(frame.iter_rows(named=True)):
        label = f"{row['community']}: {', '.join(map(_label, row['items']))} ({row['size']:.0%})"
        axes.stairs(bounds[z + 1], edges, baseline=bounds[z], fill=True, label=label, color=colours(z % 20))
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of users, by leading community", ylabel="P(community | user)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)


def draw_curve(model: LatentPlackettLuce, axes: Axes) -> None:
    """Held-out log-probability of an item's position by the number of communities, with standard errors."""
    numbers, values, errors = model.curve_.T
    axes.errorbar(numbers, values, yerr=errors, marker="o", capsize=3)
    axes.axvline(model.scores_.shape[2], linestyle=":", color="grey")
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(int(number)) for number in numbers])
    axes.set(xlabel="communities", ylabel="log P(position of a left-out item)")


def draw_effects(model: SpectralAnalysis, axes: Axes) -> None:
    """Items by positions, best item first: how many more, or fewer, put it there than chance would."""
    n, total = model.rankings_.n_items, model.rankings_.weights.sum()
    order = np.argsort(-model.scores_, kind="stable")
    effects = 100.0 * (model.first_order_[order] / total - 1.0 / n)
    widest = max(float(np.abs(effects).max()), 1e-9)
    image = axes.imshow(effects, cmap="RdBu_r", vmin=-widest, vmax=widest, aspect="auto")
    axes.set_yticks(range(n), [_label(name) for name in model.item_ids.take(order)])
    axes.set_xticks(range(n), [str(position + 1) for position in range(n)])
    axes.set(xlabel="rank", title="first-order effects, percentage points")
    axes.figure.colorbar(image, ax=axes)


def draw_shares(model: SpectralAnalysis, axes: Axes) -> None:
    """Mean squares of the parts on a logarithmic scale, beside those of orders drawn at random."""
    frame = model.components()[1:]
    bars = np.arange(frame.height)
    axes.bar(bars, np.maximum(frame["mean_square"].to_numpy(), 1e-300), label="data")
    axes.plot(bars, frame["by_chance"], "k_", markersize=20, label="by chance")
    axes.set_yscale("log")
    low = max(float(frame["by_chance"].min()), 1e-290) / 10.0  # type: ignore[arg-type]
    axes.set_ylim(bottom=low)
    axes.set_xticks(bars, frame["component"].to_list(), rotation=30)
    axes.set(ylabel="mean square", title="parts of the counts")
    axes.legend(frameon=False)


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupportedError("pictures need matplotlib: pip install 'permrank[plot]'") from error
    return Figure


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
    orders, energies, names = model.chains(user, items, 4, size)
    positions = np.argsort(orders, axis=2)
    shown = {"energy": energies, **{str(names[a]): positions[:, :, a] for a in (0, len(names) - 1)}}
    figure = _matplotlib()(figsize=(12.0, 3.2 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 2)
    for (name, values), (left, right) in zip(shown.items(), axes, strict=True):
        draw_trace(values, left)
        draw_ranks(values, right)
        left.set(ylabel=name if name == "energy" else f"position of {_label(name)}")
    axes[-1, 0].set(xlabel="draw")
    axes[-1, 1].set(xlabel="rank among the draws of all chains")
    _write(figure, path)


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


def _label(name: object) -> str:
    """An id as it is: no character to be obeyed, and no dollar to begin a formula."""
    return printable(name).replace("$", r"\$")


def _write(figure: Figure, path: str | Path) -> None:
    try:
        with atomic_write(path) as file:
            figure.savefig(file, format=Path(path).suffix.removeprefix(".") or "png")
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
