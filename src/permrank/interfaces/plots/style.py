"""What all pictures share: the figure, labels, colours, and writing to a file."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permrank.errors import InputError, NotSupportedError
from permrank.files.atomic import atomic_write
from permrank.interfaces.output import printable
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Int64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that `new_figure` makes."""

        def save(self, path: str | Path) -> None:
            """Write to a file (PNG, SVG or PDF, by the ending), which appears whole or not at all."""


ACCENT, SECOND, QUIET = "#2b6cb0", "#c05621", "#718096"
ROW_INCHES = 0.235
_LONGEST_LABEL = 30
# A picture that is written twice is the same file, and letters in it are letters, which can be searched for.
_SETTINGS: Any = {"svg.hashsalt": "permrank", "svg.fonttype": "none"}


def new_figure(width: float, height: float) -> Picture:
    """A figure with a light background, whatever the reader's settings; it shows itself in a notebook."""
    return _picture_class()(figsize=(width, height), layout="constrained", facecolor="white")


@cache
def _picture_class() -> type[Picture]:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupportedError("pictures need matplotlib: pip install 'permrank[plot]'") from error

    class Picture(Figure):
        """A matplotlib figure that saves atomically and shows itself in a notebook."""

        def save(self, path: str | Path) -> None:
            """Write to a file (PNG, SVG or PDF, by the ending), which appears whole or not at all."""
            ending = Path(path).suffix.removeprefix(".").lower() or "png"
            dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
            try:
                with atomic_write(path) as file, rc_context(_SETTINGS):
                    self.savefig(file, format=ending, metadata=dated, dpi=150)
            except InputError:
                raise
            except ValueError as error:
                raise InputError(f"{path}: {error}") from error

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=110)
            return written.getvalue()

    return Picture  # type: ignore[return-value]


def label(name: object, longest: int = _LONGEST_LABEL) -> str:
    """An id as it is, shortened: no character to be obeyed, and no dollar to begin a formula."""
    text = printable(name)
    text = text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
    return text.replace("$", r"\$")


def names_of(items: Vocabulary, indices: Int64Array) -> list[str]:
    """Labels of items: their titles where the data bring some, else their ids."""
    titles = items.titles
    return [label(name) for name in (items.take(indices) if titles is None else titles.gather(indices))]


def bare(axes: Axes, *, grid: str | None = None) -> None:
    """Take the frame away, but for the axes, and draw a quiet grid along one of them."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    if grid is not None:
        axes.grid(axis=grid, color="#e2e8f0", linewidth=0.8)  # type: ignore[arg-type]
        axes.set_axisbelow(True)


def heading(axes: Axes, text: str) -> None:
    """The title of a panel, to the left."""
    axes.set_title(text, loc="left", fontsize="medium")
