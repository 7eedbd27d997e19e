"""Does a maximum-likelihood estimate exist, and if not, because of which items?"""

from __future__ import annotations

import numpy as np

from permrank.data.connectivity import strong_components
from permrank.data.rankings import Rankings
from permrank.errors import EstimateError
from permrank.types import Int64Array

_SHOWN = 20


def require_estimates(rankings: Rankings, *, ties_connect: bool) -> None:
    """Raise an error that names the items without an estimate, says why, and what to do."""
    components = strong_components(rankings, ties_connect=ties_connect)
    if components.connected:
        return
    outside = components.outside
    won, lost = _won_and_lost(rankings)
    reasons = {
        "never ranked above another item": outside[~won[outside] & lost[outside]],
        "never ranked below another item": outside[won[outside] & ~lost[outside]],
        "never compared with another item": outside[~won[outside] & ~lost[outside]],
        "compared in one direction only with the other items": outside[won[outside] & lost[outside]],
    }
    parts = [f"{reason}: {_names(rankings, items)}" for reason, items in reasons.items() if items.size]
    raise EstimateError(
        f"no maximum-likelihood estimate exists for {outside.size} of {rankings.n_items} items; "
        f"{'; '.join(parts)}. Use prior='gaussian', or leave them out with rankings.drop(items=error.items)",
        items=rankings.item_ids.take(outside).to_list(),
    )


def _won_and_lost(rankings: Rankings) -> tuple[np.ndarray, np.ndarray]:
    last = np.repeat(rankings.levels[rankings.indptr[1:] - 1], np.diff(rankings.indptr))
    won, lost = np.zeros(rankings.n_items, bool), np.zeros(rankings.n_items, bool)
    won[rankings.items[rankings.levels < last]] = True
    lost[rankings.items[rankings.levels > 0]] = True
    return won, lost


def _names(rankings: Rankings, items: Int64Array) -> str:
    shown = ", ".join(repr(name) for name in rankings.item_ids.take(items[:_SHOWN]))
    return shown if items.size <= _SHOWN else f"{shown} and {items.size - _SHOWN} more"
