"""Pictures of models; they need matplotlib, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from permrank.checks import require_int
from permrank.core.ranker import ItemScores, Ranker
from permrank.errors import InputError, NotSupportedError
from permrank.evaluation.evaluate import evaluate
from permrank.families.log_linear.base import LogLinearRanker
from permrank.families.spectral.model import SpectralAnalysis
from permrank.inference.likelihood import WorthRanker
from permrank.interfaces.plots.items import (
    draw_effects,
    draw_map,
    draw_positions,
    draw_shares,
    draw_worths,
    item_vectors,
)
from permrank.interfaces.plots.people import (
    chains_figure,
    draw_curve,
    draw_learning,
    draw_memberships,
    draw_ranks,
    draw_reliability,
    draw_trace,
    draw_validation,
    memberships_of,
    save_chains,
)
from permrank.interfaces.plots.style import ROW_INCHES, new_figure

if TYPE_CHECKING:
    from permrank.interfaces.plots.style import Picture

__all__ = [
    "draw_curve", "draw_effects", "draw_learning", "draw_map", "draw_memberships", "draw_positions", "draw_ranks",
    "draw_reliability", "draw_shares", "draw_trace", "draw_validation", "draw_worths", "kinds", "plot", "save_chains",
    "save_plot",
]  # fmt: skip

_PAIRS = 20_000


class _Kind(NamedTuple):
    """A kind of picture: which models have it, and how it is drawn; of items, with so many of them by default."""

    suits: Callable[[Ranker], bool]
    draw: Callable[..., Picture]
    n_items: int = 0


def _height(model: Ranker, n_items: int) -> float:
    """What the rows of items take."""
    return 1.4 + ROW_INCHES * min(n_items, model.rankings_.n_items)


def _worths(model: Ranker, n_items: int, **_: object) -> Picture:
    figure = new_figure(6.8, max(_height(model, n_items), 2.4))
    frame = model.standard_errors() if isinstance(model, WorthRanker) else model.rank(None, model.item_ids)
    titles = model.item_ids.titles
    if titles is not None and "title" not in frame.columns:
        frame = frame.with_columns(title=titles.gather(model.item_ids.indices(frame["item"])))
    draw_worths(frame, figure.subplots(), n_items=n_items)
    return figure


def _positions(model: Ranker, n_items: int, user: object, **_: object) -> Picture:
    figure = new_figure(7.4, max(_height(model, n_items) + 0.4, 3.0))
    draw_positions(model, figure.subplots(), user=user, n_items=n_items)
    return figure


def _communities(model: Ranker, **_: object) -> Picture:
    curved = np.size(getattr(model.estimate_, "curve", ())) > 0
    figure = new_figure(12.5 if curved else 7.0, 3.6 + 0.21 * _n_communities(model))
    axes = np.atleast_1d(figure.subplots(1, 1 + curved))
    draw_memberships(model, axes[0])
    if curved:
        draw_curve(model, axes[1])
    return figure


def _effects(model: SpectralAnalysis, n_items: int, **_: object) -> Picture:
    figure = new_figure(12.5, max(_height(model, n_items) + 0.4, 4.2))
    left, right = figure.subplots(1, 2)
    draw_effects(model, left, n_items=n_items)
    draw_shares(model, right)
    return figure


def _chains(model: LogLinearRanker, n_items: int, user: object, **_: object) -> Picture:
    return chains_figure(model, user, list(model.item_ids)[:n_items], 500)


def _panel(draw: Callable[..., None], width: float, height: float, *options: str) -> Callable[..., Picture]:
    """A figure with one panel of a fixed size; ``options`` are what it is told of what was asked."""

    def drawn(model: Ranker, **asked: object) -> Picture:
        figure = new_figure(width, height)
        draw(model, figure.subplots(), **{name: asked[name] for name in options})
        return figure

    return drawn


def _reliability(model: Ranker, rankings: Any, **_: object) -> Picture:
    if rankings is None:
        raise InputError(
            "a reliability diagram is about held-out rankings: give rankings= (--data on the command line)"
        )
    # Pairs are drawn, list by list: about as many as there are, so that few come twice and errors are honest.
    hidden = getattr(rankings, "test", rankings)
    n_pairs = min(_PAIRS, max(1, int(np.sum(hidden.lengths * (hidden.lengths - 1) // 2))))
    bins = evaluate(model, rankings, n_pairs=n_pairs).reliability
    if bins is None or bins.is_empty():
        raise InputError("the held-out rankings have no pairs of known users and items whose order is known")
    figure = new_figure(5.2, 4.6)
    draw_reliability(bins, figure.subplots())
    return figure


def _n_communities(model: Ranker) -> int:
    found = memberships_of(model)
    return 0 if found is None else int(found.shape[1])


def _has_item_biases(model: Ranker) -> bool:
    """Whether it has one score an item for nobody in particular, though not as `ItemScores`."""
    return model.knows_nobody and hasattr(model.estimate_, "item_biases")


# The first kind that suits a model is what is drawn if nothing is said.
_KINDS: dict[str, _Kind] = {
    "effects": _Kind(lambda model: isinstance(model, SpectralAnalysis), _effects, 40),
    "chains": _Kind(lambda model: isinstance(model, LogLinearRanker), _chains, 20),
    "worths": _Kind(lambda model: isinstance(model.estimate_, ItemScores) or _has_item_biases(model), _worths, 40),
    "communities": _Kind(lambda model: _n_communities(model) > 1, _communities),
    "map": _Kind(lambda model: item_vectors(model) is not None, _panel(draw_map, 7.5, 6.2, "n_items"), 60),
    "positions": _Kind(lambda model: model.fitted_.has_law, _positions, 25),
    "learning": _Kind(lambda model: len(model.history_) > 1, _panel(draw_learning, 6.4, 3.8)),
    "validation": _Kind(lambda model: model.validation_.size > 0, _panel(draw_validation, 6.4, 3.8)),
    "reliability": _Kind(lambda model: model.fitted_.has_pairs, _reliability),
}


def kinds(model: Ranker) -> list[str]:
    """Pictures that there are of a fitted model; the first is drawn if nothing is said.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]], weights=[3, 2, 1])
    >>> pr.plots.kinds(pr.PlackettLuce().fit(ballots))
    ['worths', 'positions', 'learning', 'reliability']
    """
    model = model.fitted_.as_model()
    return [name for name, kind in _KINDS.items() if kind.suits(model)]


def plot(
    model: Ranker,
    kind: str | None = None,
    *,
    path: str | Path | None = None,
    n_items: int | None = None,
    user: object = None,
    rankings: object = None,
) -> Picture:
    """Draw a fitted model; this is ``model.plot``, and takes the same arguments (`Ranker.plot`)."""
    known = kinds(model)
    if kind is None and not known:
        raise NotSupportedError(f"there is no picture of a {type(model).__name__}")
    chosen = known[0] if kind is None else kind
    if chosen not in known:
        raise NotSupportedError(
            f"there is no picture {chosen!r} of this {type(model).__name__}; there are: {', '.join(known) or 'none'}"
        )
    if n_items is not None:
        require_int("n_items", n_items, 1)
    if user is None and chosen in ("positions", "chains") and not model.knows_nobody:
        user = model.user_ids[0]
    drawn = _KINDS[chosen]
    figure = drawn.draw(model, n_items=n_items or drawn.n_items, user=user, rankings=rankings)
    if path is not None:
        figure.save(path)
    return figure


def save_plot(model: Ranker, path: str | Path) -> None:
    """Draw what there is to see of a model and write it to a file; `plot` with a ``path``.

    Parameters
    ----------
    model : Ranker
        A fitted model.
    path : str or Path
        PNG, SVG or PDF, by the ending.
    """
    plot(model, path=path)
