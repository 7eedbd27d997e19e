"""Checks that something is `Rankings`, and that the arrays of `Rankings` are what they should be."""

from __future__ import annotations

import numpy as np

from permrank.errors import InputError
from permrank.processes import refuse_after_fork
from permrank.ragged import first_entries, owners
from permrank.rankings.build import (
    MOST_RATING,
    Block,
    blocks,
    check_weights,
    inverted_entries,
    rating_problem,
    repeated_rows,
)
from permrank.rankings.rankings import Rankings
from permrank.types import BoolArray, Int64Array


def require_rankings(data: object) -> Rankings:
    """Say what to do when something else than `Rankings` is passed where they are needed."""
    refuse_after_fork()
    if not isinstance(data, Rankings):
        raise InputError(
            f"expected Rankings, got {type(data).__name__}; make them with permrank.read(path), "
            "Rankings.from_lists(...) or Rankings.from_ratings(frame)"
        )
    return data


def check_arrays(rankings: Rankings) -> None:
    """Raise unless the arrays are what `Rankings` says; the message names the first that is wrong."""
    n_rankings, n_entries = rankings.n_rankings, rankings.n_entries
    for name, bounds, end, n in (
        ("user_indptr", rankings.user_indptr, n_rankings, len(rankings.user_ids)),
        ("indptr", rankings.indptr, n_entries, n_rankings),
    ):
        if bounds.ndim != 1 or bounds.size != n + 1 or n < 0:
            raise InputError(f"{name} has {bounds.size} entries, expected {n + 1}")
        if bounds[0] != 0 or bounds[-1] != end or (np.diff(bounds) < 0).any():
            raise InputError(f"{name} must rise from 0 to {end}, got {bounds[0]} ... {bounds[-1]}")
    for ids in (rankings.user_ids, rankings.item_ids):
        if not (ids.ids.is_sorted() and ids.ids.n_unique() == len(ids)):
            raise InputError(f"the {ids.kind} ids are not sorted and different; make them with Vocabulary.of")
    if rankings.weights.shape != (n_rankings,):
        raise InputError(f"{rankings.weights.size} weights for {n_rankings} rankings")
    of_entries = (rankings.levels, rankings.ratings, rankings.counts)
    if any(array is not None and array.shape != (n_entries,) for array in of_entries):
        raise InputError(f"levels, ratings and counts must have one value for each of the {n_entries} entries")
    _refuse(np.diff(rankings.indptr) == 0, "ranking", "is empty; leave it out")
    check_weights(rankings.weights, "ranking")
    for block in blocks(rankings.indptr):
        _check_entries(rankings, block)


def order_in_ties(rankings: Rankings) -> Int64Array | None:
    """Order that sorts the items inside every tie, or None if they are: equal rankings have equal arrays."""
    if not any(_are_unordered(rankings, block) for block in blocks(rankings.indptr)):
        return None
    return np.lexsort((rankings.items, rankings.levels, rankings.entry_rankings()))


def _are_unordered(rankings: Rankings, block: Block) -> bool:
    tied = (np.diff(rankings.levels[block.entries]) == 0) & ~first_entries(block.indptr)[1:]
    return bool((tied & (np.diff(rankings.items[block.entries]) < 0)).any())


def _check_entries(rankings: Rankings, block: Block) -> None:
    """Raise unless the entries of some rankings are right."""
    part, indptr, start = block.entries, block.indptr, block.entries.start
    items, levels = rankings.items[part], rankings.levels[part]
    if rankings.counts is not None:
        check_weights(rankings.counts[part], "entry", "count", start)
    _refuse((items < 0) | (items >= rankings.n_items), "entry", "has an item that does not exist", start)
    starts, step = first_entries(indptr), np.diff(levels)
    _refuse(starts & (levels != 0), "entry", "begins a ranking but its level is not 0", start)
    inside = ~starts[1:]
    _refuse(inside & (step < 0), "entry", "has a lower level than the one before", start + 1)
    _refuse(inside & (step > 1), "entry", "has a level that skips one; number them 0, 1, 2", start + 1)
    if rankings.ratings is not None:
        ratings = rankings.ratings[part]
        _refuse(~np.isfinite(ratings), "entry", "has a rating that is not finite", start)
        if (far := np.abs(ratings) > MOST_RATING).any():
            at = int(np.argmax(far))
            raise InputError(f"entry {start + at}: {rating_problem(ratings[at])}")
        inverted = inverted_entries(indptr, levels, ratings)
        if inverted is not None:
            raise InputError(
                f"entry {start + inverted[1]} has a higher rating than entry {start + inverted[0]}, which is ranked "
                "above it"
            )
    owner = owners(indptr)
    repeat = repeated_rows(owner, items, rankings.n_items)
    if repeat is not None:
        item = rankings.item_ids[items[repeat[1]]]
        raise InputError(
            f"entry {start + repeat[1]}: item {item!r} comes twice in ranking {block.first + owner[repeat[1]]}"
        )


def _refuse(bad: BoolArray, what: str, complaint: str, start: int = 0) -> None:
    if bad.any():
        raise InputError(f"{what} {start + int(np.argmax(bad))} {complaint}")
