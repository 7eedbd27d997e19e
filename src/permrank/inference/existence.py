"""Does a maximum-likelihood estimate exist, and if not, because of which items?"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

from permrank.core.comparisons import Comparisons
from permrank.errors import EstimateError
from permrank.kernels.closure import Blocks, small_closed_sets
from permrank.ragged import new_blocks
from permrank.rankings.describe import strong_components
from permrank.rankings.rankings import Rankings
from permrank.types import Int64Array

_SHOWN = 20
_REMEDY = (
    "Use prior='gaussian' (--set prior=gaussian), or leave them out with rankings.drop(items=error.items) "
    "(--drop-inestimable)"
)


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
        f"{'; '.join(parts)}. {_REMEDY}",
        items=rankings.item_ids.take(outside).to_list(),
    )


def require_partition_estimates(rankings: Rankings) -> None:
    """`require_estimates` for ties="partition", where a block is chosen with its mean worth.

    Along a direction d the log-probability of a block T before R has the slope max_T d - max_{T + R} d: the
    block holds its own as long as *one* of its items rises with the rest. So nothing may rise for ever
    against a set C only if some block lies inside C altogether and is ranked before an item outside; an
    estimate exists if and only if no set but that of all items is closed under "all of T in C: R in C".
    """
    require_estimates(rankings, ties_connect=False)
    if not rankings.has_ties:
        return
    new_block = new_blocks(rankings.levels, rankings.indptr)
    block = np.cumsum(new_block) - 1
    bounds = np.append(np.flatnonzero(new_block), rankings.n_entries)
    is_last = np.zeros(bounds.size - 1, bool)
    is_last[block[rankings.indptr[1:] - 1]] = True
    starts = _dead_ends(rankings, block, bounds, is_last)
    view = rankings.item_view
    blocks = Blocks(view.indptr, view.entries, rankings.items, block, bounds, is_last)
    outside = np.flatnonzero(small_closed_sets(starts, blocks))
    if outside.size:
        raise EstimateError(
            f"no maximum-likelihood estimate exists under ties='partition' for {outside.size} of "
            f"{rankings.n_items} items, because a tied block leaves the shares of its items open, and no block "
            f"settles them: {_names(rankings, outside)}. {_REMEDY}, or treat ties in another way",
            items=rankings.item_ids.take(outside).to_list(),
        )


def require_tie_estimate(met: Comparisons) -> None:
    """Raise if the tie parameter of Davidson, or of Rao and Kupper, can grow for ever with the scores.

    It can if there are scores with a difference of at least 1 wherever somebody won, and of at most 1 wherever there
    was a tie: all wins and ties then become certain together. By the theorem on difference constraints there are
    such scores if and only if no cycle of comparisons has more wins than ties.
    """
    shape = (met.rows.size - 1, met.rows.size - 1)
    won = met.wins > 0
    ones = np.ones(np.count_nonzero(won), np.int8)
    victories = coo_array((ones, (met.items[won], met.partners[won])), shape=shape).tocsr()
    if connected_components(victories, directed=True, connection="strong")[0] < shape[0]:
        return  # a cycle of wins alone
    edge = won | (met.ties > 0)
    length = np.where(won, -1.0, 1.0)[edge]
    graph = coo_array((length, (met.items[edge], met.partners[edge])), shape=shape).tocsr()
    try:
        bellman_ford(graph, indices=[0])
    except NegativeCycleError:
        return
    raise EstimateError(
        "no maximum-likelihood estimate of the tie parameter exists: no chain of comparisons leads back to its first "
        "item by more wins than ties. Use prior='gaussian' (--set prior=gaussian), or ties='half'"
    )


def _dead_ends(rankings: Rankings, block: Int64Array, bounds: Int64Array, is_last: np.ndarray) -> Int64Array:
    """One item of each strong component that no block of a single item leads out of.

    Every closed set contains such a component, so it is enough to look at the closures of these items.
    """
    n, n_blocks = rankings.n_items, bounds.size - 1
    inner = np.flatnonzero(~is_last)
    single = inner[np.diff(bounds)[inner] == 1]
    # Node n + b stands for the gap under block b: it leads to the next block, and to the gap under that.
    is_first = rankings.levels == 0
    chained = inner[~is_last[inner + 1]]
    source = [rankings.items[bounds[single]], n + block[~is_first] - 1, n + chained]
    target = [n + single, rankings.items[~is_first], n + chained + 1]
    sources, targets = np.concatenate(source).astype(np.int64), np.concatenate(target).astype(np.int64)
    shape = (n + n_blocks, n + n_blocks)
    graph = coo_array((np.ones(sources.size, np.int8), (sources, targets)), shape=shape).tocsr()
    n_components, labels = connected_components(graph, directed=True, connection="strong")
    open_end = np.ones(n_components, bool)
    open_end[labels[sources[labels[sources] != labels[targets]]]] = False
    _, first = np.unique(labels[:n], return_index=True)
    return np.asarray(first[open_end[labels[first]]], np.int64)


def _won_and_lost(rankings: Rankings) -> tuple[np.ndarray, np.ndarray]:
    last = np.repeat(rankings.last_levels, rankings.lengths)
    won, lost = np.zeros(rankings.n_items, bool), np.zeros(rankings.n_items, bool)
    won[rankings.items[rankings.levels < last]] = True
    lost[rankings.items[rankings.levels > 0]] = True
    return won, lost


def _names(rankings: Rankings, items: Int64Array) -> str:
    shown = ", ".join(repr(name) for name in rankings.item_ids.take(items[:_SHOWN]))
    return shown if items.size <= _SHOWN else f"{shown} and {items.size - _SHOWN} more"
