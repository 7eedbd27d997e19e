"""Which items a set of items drags along when a whole tie block pulls in all that follows it."""

from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit


class Blocks(NamedTuple):
    """Entries by item and by tie block.

    Attributes
    ----------
    item_indptr : int64 (n_items + 1,)
        Entries of item y are ``item_entries[item_indptr[y]:item_indptr[y + 1]]``.
    item_entries : int (n_entries,)
    items : int32 (n_entries,)
    block : int64 (n_entries,)
        Of each entry.
    bounds : int64 (n_blocks + 1,)
        First entries of blocks.
    is_last : bool (n_blocks,)
        Nothing follows in its ranking.
    """

    item_indptr: Any
    item_entries: Any
    items: Any
    block: Any
    bounds: Any
    is_last: Any


@njit(error_model="numpy")
def _close(item, blocks, left, reached, verified, queue):
    """Closure of one item: the length of queue that it fills, and whether it met a verified item.

    Reaching the next block is enough: that block is then whole itself, and reaches the one after it.
    """
    item_indptr, item_entries, items, block, bounds, is_last = blocks
    queue[0], reached[item] = item, True
    n_reached, n_done = 1, 0
    while n_done < n_reached:
        y = queue[n_done]
        n_done += 1
        if verified[y]:
            return n_reached, n_done, True
        for index in range(item_indptr[y], item_indptr[y + 1]):
            b = block[item_entries[index]]
            left[b] -= 1
            if left[b] == 0 and not is_last[b]:
                for e in range(bounds[b + 1], bounds[b + 2]):
                    if not reached[items[e]]:
                        reached[items[e]] = True
                        queue[n_reached] = items[e]
                        n_reached += 1
    return n_reached, n_done, False


@njit(error_model="numpy")
def small_closed_sets(starts, blocks):
    """Whether the closure of every item of `starts` is everything; if not, what stands in the way: bool (n_items,).

    C is closed if, for every block T and all R that follows it in its ranking, T inside C means R inside C.
    Of a closure that is not everything, or what it leaves out, the smaller part is marked.
    """
    item_indptr, item_entries, block = blocks.item_indptr, blocks.item_entries, blocks.block
    n_items = item_indptr.size - 1
    left = blocks.bounds[1:] - blocks.bounds[:-1]
    reached, verified = np.zeros(n_items, np.bool_), np.zeros(n_items, np.bool_)
    marked = np.zeros(n_items, np.bool_)
    queue = np.empty(n_items, np.int64)
    for item in starts:
        n_reached, n_done, met = _close(item, blocks, left, reached, verified, queue)
        if met or n_reached == n_items:
            verified[item] = True  # whoever reaches this item reaches everything
        elif 2 * n_reached <= n_items:
            marked[queue[:n_reached]] = True
        else:
            marked |= ~reached
        for k in range(n_reached):
            reached[queue[k]] = False
            if k < n_done and not (met and k == n_done - 1):
                for index in range(item_indptr[queue[k]], item_indptr[queue[k] + 1]):
                    left[block[item_entries[index]]] += 1
    return marked
