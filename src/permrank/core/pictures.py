"""`Ranker.plot`: asked of a model, drawn by a layer above, which hands in how.

Models know nothing of pictures. ``permrank/__init__.py``, which knows where everything is, sets `draw`; so nothing here
imports upwards, and matplotlib is loaded when the first picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from permrank.errors import NotSupportedError


def _nothing(*arguments: Any, **options: Any) -> Any:
    raise NotSupportedError("nothing draws pictures here; import permrank, not a part of it")


draw: Callable[..., Any] = _nothing


def plot(
    self: Any,
    kind: str | None = None,
    *,
    path: str | Path | None = None,
    n_items: int | None = None,
    user: object = None,
    rankings: Any = None,
) -> Any:
    """Draw the fitted model; it needs matplotlib (``pip install 'permrank[plot]'``).

    Parameters
    ----------
    kind : str, optional
        ``worths`` (scores, with bars for comparisons), ``positions`` (probability of every position, as a heat map),
        ``communities``, ``map`` (items by two factors), ``effects`` (of a `SpectralAnalysis`), ``chains`` (of a
        log-linear model), ``learning`` and ``validation`` (curves) or ``reliability``. ``permrank.plots.kinds(model)``
        says which a model has; the first of them if not given.
    path : str or Path, optional
        Write it to this file too (PNG, SVG or PDF, by the ending).
    n_items : int, optional
        The most items that are shown.
    user : id, or new user, optional
        Whose positions, or chains; everybody's if not given.
    rankings : Rankings or Split, optional
        Held-out rankings, for ``reliability``.

    Returns
    -------
    matplotlib.figure.Figure
        It shows itself in a notebook, and has a method ``save(path)``.
    """
    return draw(self, kind, path=path, n_items=n_items, user=user, rankings=rankings)
