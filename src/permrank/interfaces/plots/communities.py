"""Communities: who belongs where, how many there are, what they rank first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.core.ranker import Ranker
from permrank.interfaces.memberships import membership_bands
from permrank.interfaces.plots.style import ACCENT, QUIET, bare, heading, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A picture has about a thousand columns.
_MOST_BARS = 1000
_NAMED = 3


def memberships_of(model: Any) -> Any:
    """P(community | user) of the best fit, (n_users, K); None for a model without communities."""
    found = getattr(model.estimate_, "memberships", None)
    return None if found is None else found[0] if np.ndim(found) == 3 else found


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


def _descriptions(model: Any, n: int) -> list[str]:
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


def draw_curve(model: Any, axes: Axes) -> None:
    """Held-out log-probability of an item's position by the number of communities, with standard errors."""
    numbers, values, errors = model.curve_.T
    axes.errorbar(numbers, values, yerr=errors, marker="o", capsize=3, color=ACCENT)
    axes.axvline(model.scores_.shape[2], linestyle=":", color=QUIET)
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(int(number)) for number in numbers])
    axes.set(xlabel="communities", ylabel="log P(position of a left-out item)")
    bare(axes, grid="y")
    heading(axes, "number of communities")
