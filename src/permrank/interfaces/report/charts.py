"""Small SVG pictures for a page: no library, colours by CSS variables, so that light and dark both work.

What builds HTML returns `Markup`; all other text is escaped.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from markupsafe import escape as escape_html

from permrank.interfaces.output import printable
from permrank.interfaces.plots.people import membership_bands
from permrank.types import Float64Array

# A chart is drawn for 340 pixels, the width of a telephone, and never shown wider than about twice that.
WIDTH, HEIGHT = 340, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 24, 36
N_COLOURS = 8
_MOST_POINTS = 200


def escape(text: object) -> Markup:
    r"""Text for HTML: what would steer a terminal or turn the direction of text is shown and not obeyed.

    Examples
    --------
    >>> print(escape("<b> & \x1b"))
    &lt;b&gt; &amp; \x1b
    """
    return text if isinstance(text, Markup) else escape_html(printable(text, keep="\n"))


def difference_bar(value: float, low: float, high: float, bounds: tuple[float, float], kind: str) -> Markup:
    """A dot with its interval on a common scale with a line at 0; what lies beyond is an arrow at the edge.

    Places are shares of the width, so that the picture is as wide as there is room.
    """
    span = bounds[1] - bounds[0]
    x, a, b, zero = (100.0 * min(max((v - bounds[0]) / span, 0.0), 1.0) for v in (value, low, high, 0.0))
    label = f"{value:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}"
    dot = f'<circle cx="{x:.2f}%" cy="11" r="4.5"/>'
    if value < bounds[0]:
        dot = '<path d="M8 5 L1 11 L8 17 Z"/>'
    return Markup(
        f'<svg class="bar {kind}" width="100%" height="22" role="img" aria-label="{label}">'
        '<line x1="0" x2="100%" y1="11" y2="11" class="rail"/>'
        f'<line x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="22" class="zero"/>'
        f'<line x1="{a:.2f}%" x2="{b:.2f}%" y1="11" y2="11" class="whisker"/>{dot}</svg>'
    )


def difference_axis(bounds: tuple[float, float], sign: float) -> Markup:
    """The scale under such bars; `sign` turns it for a metric of which lower is better."""
    span = bounds[1] - bounds[0]
    texts = []
    for value in _ticks(*bounds):
        place = 100.0 * (value - bounds[0]) / span
        anchor = "start" if place < 6 else "end" if place > 94 else "middle"
        shown = _short(sign * value) if value else "0"
        texts.append(f'<text x="{place:.2f}%" y="12" text-anchor="{anchor}">{shown}</text>')
    return Markup(f'<svg class="bar" width="100%" height="16" aria-hidden="true">{"".join(texts)}</svg>')


def histogram(values: Float64Array, weights: Float64Array, label: str) -> Markup:
    """How many people have which difference: losses and gains in two colours, no change in a bar of its own."""
    reach = float(np.quantile(np.abs(values), 0.98)) or float(np.abs(values).max())
    half = 12
    width = reach / half
    gain, share = np.clip(values, -reach, reach), 100.0 * weights / weights.sum()
    bins = np.where(np.abs(values) <= 1e-12, half, np.where(
        gain > 0, half + 1 + np.minimum((gain / width).astype(np.int64), half - 1),
        half - 1 - np.minimum((-gain / width).astype(np.int64), half - 1)))  # fmt: skip
    heights = np.bincount(bins, share, minlength=2 * half + 1)
    frame = _Frame((-reach, reach), (0.0, float(heights.max()) * 1.05), pad=0.0)
    inside = frame.axes("gain of a person", "% of people")
    for n in [*range(half), *range(half + 1, 2 * half + 1), half]:  # no change last: a thin bar on top of the others
        if heights[n] > 0:
            kind = "same" if n == half else "gain" if n > half else "loss"
            middle, room = (n - half - 0.5 * np.sign(n - half)) * width, width * (0.2 if n == half else 0.45)
            left, right, top = frame.x(middle - room), frame.x(middle + room), frame.y(float(heights[n]))
            size = f'width="{right - left:.1f}" height="{frame.y(0.0) - top:.1f}"'
            inside += f'<rect x="{left:.1f}" y="{top:.1f}" {size} class="{kind}"/>'
    return _figure(inside, label)


def line_chart(values: Sequence[float], label: str, first: int = 1) -> Markup:
    """A learning curve: the objective after every sweep less the last, since these are long numbers that change little.

    The first value of many is left out: it dwarfs the others. `first` is the number of the first sweep.
    """
    y = np.asarray(values, np.float64)
    y = y - y[-1]
    x = np.arange(first, y.size + first, dtype=np.float64)
    keep = np.isfinite(y)
    keep[0] &= y.size <= 5
    x, y = x[keep], y[keep]
    if x.size > _MOST_POINTS:
        thin = np.linspace(0, x.size - 1, _MOST_POINTS).astype(np.int64)
        x, y = x[thin], y[thin]
    frame = _Frame((float(x.min()), float(x.max())), (float(y.min()), float(y.max())))
    points = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in zip(x, y, strict=True))
    inside = frame.axes("sweep", whole=True) + f'<polyline points="{points}" class="curve"/>'
    return _figure(inside, label)


def reliability_chart(predicted: Float64Array, observed: Float64Array, error: Float64Array, label: str) -> Markup:
    """Observed against predicted frequencies, with two standard errors and the diagonal of perfect calibration."""
    low = min(0.5, float((observed - 2 * error).min(initial=0.5)))
    frame = _Frame((0.5, 1.0), (max(low, 0.0), 1.0), pad=0.0)
    inside = frame.axes("predicted", "observed")
    inside += f'<line {frame.line(0.5, 0.5, 1.0, 1.0)} class="ideal"/>'
    for p, y, e in zip(predicted, observed, error, strict=True):
        up, down = min(y + 2 * e, 1.0), max(y - 2 * e, max(low, 0.0))
        inside += f'<line {frame.line(p, down, p, up)} class="whisker"/>'
        inside += f'<circle cx="{frame.x(p):.1f}" cy="{frame.y(y):.1f}" r="4"/>'
    return _figure(inside, label)


def membership_chart(memberships: Float64Array, label: str) -> Markup:
    """Stacked bars, one per person, sorted by leading community: who belongs where, and how clearly."""
    edges, bounds = membership_bands(memberships, _MOST_POINTS)
    frame = _Frame((0.0, 100.0), (0.0, 1.0), pad=0.0)
    inside = frame.axes("% of people", "P(community)")
    for z, (bottom, top) in enumerate(itertools.pairwise(bounds)):
        # Along the upper edges from left to right and back along the lower ones.
        steps = [(edges[i + side], top[i]) for i in range(top.size) for side in (0, 1)]
        steps += [(edges[i + side], bottom[i]) for i in range(top.size - 1, -1, -1) for side in (1, 0)]
        points = " ".join(f"{frame.x(100.0 * a):.1f},{frame.y(b):.1f}" for a, b in steps)
        inside += f'<polygon points="{points}" class="fill" style="--colour: var(--c{z % N_COLOURS})"/>'
    return _figure(inside, label)


class _Frame:
    """A plotting area with two linear scales."""

    def __init__(self, across: tuple[float, float], up: tuple[float, float], pad: float = 0.05) -> None:
        self.across = across if across[1] > across[0] else (across[0] - 0.5, across[0] + 0.5)
        room = pad * (up[1] - up[0]) or (0.0 if up[1] > up[0] else max(abs(up[0]) * 0.01, 1e-9))
        self.up = (up[0] - room, up[1] + room)

    def x(self, value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value - self.across[0]) / (self.across[1] - self.across[0])

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - self.up[0]) / (self.up[1] - self.up[0])

    def line(self, x1: float, y1: float, x2: float, y2: float) -> str:
        return f'x1="{self.x(x1):.1f}" y1="{self.y(y1):.1f}" x2="{self.x(x2):.1f}" y2="{self.y(y2):.1f}"'

    def axes(self, below: str, beside: str = "", whole: bool = False) -> str:
        bottom, left = HEIGHT - _BOTTOM, _LEFT
        out = f'<line x1="{left}" y1="{bottom}" x2="{WIDTH - _RIGHT}" y2="{bottom}" class="axis"/>'
        out += f'<line x1="{left}" y1="{_TOP}" x2="{left}" y2="{bottom}" class="axis"/>'
        for value in _ticks(*self.across, whole=whole):
            out += f'<text x="{self.x(value):.1f}" y="{bottom + 15}" text-anchor="middle">{_short(value)}</text>'
        for value in _ticks(*self.up):
            y = self.y(value)
            out += f'<line x1="{left}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="rail"/>'
            out += f'<text x="{left - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        out += f'<text x="{WIDTH - _RIGHT}" y="{bottom + 30}" text-anchor="end">{escape(below)}</text>'
        return out + (f'<text x="{left}" y="{_TOP - 12}">{escape(beside)}</text>' if beside else "")


def _ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Three to six round numbers between two."""
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    step = max(1.0, float(np.ceil(step))) if whole else step
    first = np.ceil(low / step - 1e-9)
    return [float(round(i * step, 12)) + 0.0 for i in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:.8g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.8g}k"
    return f"{value:.0e}" if 0.0 < abs(value) < 1e-3 else f"{value:g}"


def _figure(inside: str, label: str) -> Markup:
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{head}{inside}</svg>")
