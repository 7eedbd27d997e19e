"""From coded rows (ranking, key, item) to the flat arrays of `Rankings`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from permrank.errors import InputError, argument, shown
from permrank.ragged import first_entries, new_blocks, owners
from permrank.types import Array, BoolArray, Float64Array, Int32Array, Int64Array

Duplicates: TypeAlias = Literal["error", "first", "last", "mean"]
DUPLICATES = ("error", "first", "last", "mean")

# Ratings are mostly whole, half, quarter, decimal or percent steps: then a key is arithmetic, no search.
_STEPS = (1, 2, 4, 10, 100)
_FEW = 2**20
# Entries that are worked on at once.
_BLOCK = 2**20


# Up to here every model learns: matrices of sums of weights can still be solved with the priors in them. More people
# than these there are not.
MOST_WEIGHT = 1e9
# Squares and products of ratings, and sums of these, are far from overflow.
MOST_RATING = 1e15


def weight_problem(weight: float, what: str = "weight") -> str | None:
    """What is wrong with a weight, or with a count, or None."""
    if not weight > 0:
        return f"{what} {weight:g} is not positive"
    if not 1 / MOST_WEIGHT <= weight <= MOST_WEIGHT:
        return f"{what} {weight:g} is not between {1 / MOST_WEIGHT:g} and {MOST_WEIGHT:g}; scale all {what}s alike"
    return None


def rating_problem(rating: float) -> str:
    """What is wrong with a rating that is too large."""
    return f"rating {rating:g} is not between {-MOST_RATING:g} and {MOST_RATING:g}; scale all ratings alike"


def bad_weights(weights: Float64Array) -> BoolArray:
    """Which weights have a problem."""
    return ~((weights >= 1 / MOST_WEIGHT) & (weights <= MOST_WEIGHT))


def check_weights(weights: Float64Array, of: str, what: str = "weight", first: int = 0) -> None:
    """Raise if a weight has a problem, and name whose it is by its number, from ``first`` on."""
    bad = bad_weights(weights)
    if bad.any():
        index = int(np.argmax(bad))
        raise InputError(f"{of} {first + index}: {weight_problem(weights[index], what)}")


def check_sums(weights: Float64Array, of: str = "equal rankings") -> None:
    """Raise if the weights of equal rankings, or of the same entry, add up to more than a weight may be."""
    most = float(weights.max(initial=0))
    if most > MOST_WEIGHT:
        raise InputError(f"weights of {of} add up to {most:g}, more than {MOST_WEIGHT:g}; scale all weights alike")


def added_up(pairs: Int64Array, counts: Float64Array) -> tuple[Int64Array, Float64Array]:
    """The different pairs (user, item) of interactions, sorted, and the sum of the counts of each."""
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    sums = np.add.reduceat(counts[order], first) if first.size else counts
    check_sums(sums, "rows with the same user and item")
    return pairs[first], sums


class Keys(NamedTuple):
    """Sort keys of rows: ``codes`` not negative, lower is better; ``decode`` gives the value back."""

    codes: Int64Array
    decode: Callable[[Int64Array], Float64Array]


class Layout(NamedTuple):
    """Entries in their final order."""

    indptr: Int64Array
    items: Int32Array
    levels: Int32Array
    codes: Int64Array


def keys_of(values: Float64Array, *, descending: bool) -> Keys:
    """Order-preserving integer keys of finite numbers; equal numbers get equal keys."""
    if values.size == 0:
        return Keys(np.zeros(0, np.int64), lambda codes: codes.astype(np.float64))
    sign, values = -1 if descending else 1, values + 0.0  # which makes -0 a 0
    for step in _STEPS:
        with np.errstate(over="ignore"):
            scaled = values * step
        low, high = float(scaled.min()), float(scaled.max())
        if high - low < _FEW and abs(low) < 2**52 and np.array_equal(np.rint(scaled) / step, values):
            best = round(high if descending else low)  # 0.29 * 100 is a little less than 29
            codes = sign * (np.rint(scaled).astype(np.int64) - best)
            return Keys(codes, lambda codes, best=best, step=step: (best + sign * codes) / step)  # type: ignore[misc]
    distinct = np.unique(values)[::sign]
    ranks = np.searchsorted(distinct[::sign], values)
    codes = ranks if not descending else distinct.size - 1 - ranks
    return Keys(codes.astype(np.int64), lambda codes: distinct[codes])


def lay_out(rankings: Int64Array, codes: Int64Array, items: Int32Array, n_rankings: int, n_items: int) -> Layout:
    """Sort rows by ranking, key and item; number the tie blocks of each ranking from 0."""
    if rankings.size == 0:
        empty = np.zeros(0, np.int32)
        return Layout(np.zeros(n_rankings + 1, np.int64), empty, empty, np.zeros(0, np.int64))
    item_bits = max(n_items - 1, 1).bit_length()
    code_bits = max(int(codes.max()), 1).bit_length()
    if max(n_rankings - 1, 1).bit_length() + code_bits + item_bits <= 63:
        # All three in one integer: sorting plain integers is several times as fast as sorting a frame.
        packed = ((rankings << code_bits) | codes) << item_bits | items
        packed = pl.Series(packed).sort().to_numpy()
        items = (packed & ((1 << item_bits) - 1)).astype(np.int32)
        packed = packed >> item_bits
        codes = packed & ((1 << code_bits) - 1)
        starts = np.searchsorted(packed >> code_bits, np.arange(n_rankings + 1))
        new_level = np.empty(packed.size, bool)
        np.not_equal(packed[1:], packed[:-1], out=new_level[1:])
    else:
        order = np.lexsort((items, codes, rankings))
        rankings, codes, items = rankings[order], codes[order], items[order]
        starts = np.searchsorted(rankings, np.arange(n_rankings + 1))
        new_level = np.empty(order.size, bool)
        new_level[1:] = (rankings[1:] != rankings[:-1]) | (codes[1:] != codes[:-1])
    new_level[0] = True
    return Layout(starts.astype(np.int64), items, number_levels(new_level, starts), codes)


class Block(NamedTuple):
    """Consecutive lists: the first of them, one past the last, their entries, and where each begins among these."""

    first: int
    last: int
    entries: slice
    indptr: Int64Array


def blocks(indptr: Int64Array) -> Iterator[Block]:
    """Blocks of lists with about as many entries each: work on a few needs little memory."""
    first, n_lists = 0, indptr.size - 1
    while first < n_lists:
        last = min(max(int(np.searchsorted(indptr, indptr[first] + _BLOCK)), first + 1), n_lists)
        entries = slice(int(indptr[first]), int(indptr[last]))
        yield Block(first, last, entries, indptr[first : last + 1] - indptr[first])
        first = last


def number_levels(new_level: BoolArray, indptr: NDArray[np.integer]) -> Int32Array:
    """Levels from 0 in every ranking, given where a new tie block begins."""
    levels = np.cumsum(new_level, dtype=np.int32)
    lengths = np.diff(indptr)
    first = levels[np.minimum(indptr[:-1], max(levels.size - 1, 0))] if levels.size else np.zeros(0, np.int32)
    levels -= np.repeat(first, lengths)
    return levels


def renumbered(levels: Int32Array, indptr: Int64Array) -> Int32Array:
    """Levels without the gaps that dropped entries have left."""
    return number_levels(new_blocks(levels, indptr), indptr)


def repeated_rows(rankings: Int64Array, items: Int32Array, n_items: int) -> tuple[int, int] | None:
    """The earliest row that repeats a (ranking, item) and the row it repeats, or None."""
    pairs = pl.Series(rankings * n_items + items)
    ordered = pairs.sort().to_numpy()
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    again = ~pairs.is_first_distinct().to_numpy()
    row = int(np.argmax(again))
    return int(np.argmax(pairs.to_numpy() == pairs[row])), row


def repeated_entry(where: str, user: object, item: object, first: str) -> InputError:
    """The error for a row that repeats the user and item of an earlier one."""
    return InputError(
        f"{where}: user {shown(user)} has item {shown(item)} a second time (first in {first}); drop one, or pass "
        f"{argument('duplicates', 'first', 'last', 'mean')}"
    )


def inverted_entries(indptr: Int64Array, levels: Int32Array, ratings: Float64Array) -> tuple[int, int] | None:
    """Two entries of a ranking of which the later has the higher rating, or None.

    Equal ratings may stand apart (a tie that was broken) and different ones together (a coarser order).
    """
    if not (~first_entries(indptr)[1:] & (ratings[1:] > ratings[:-1])).any():
        return None
    owner = owners(indptr)
    order = np.lexsort((-ratings, levels, owner))
    before, after = order[:-1], order[1:]
    bad = (owner[before] == owner[after]) & (levels[after] > levels[before]) & (ratings[after] > ratings[before])
    index = int(np.argmax(bad))
    return (int(before[index]), int(after[index])) if bad[index] else None


def settle_duplicates(
    rankings: Int64Array, items: Int32Array, values: Float64Array, how: Duplicates
) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Keep the first, the last or the mean value of a repeated (ranking, item)."""
    if how not in DUPLICATES:
        raise InputError(f"duplicates={how!r}, expected one of {', '.join(DUPLICATES)}")
    value = {
        "first": pl.col("value").first(),
        "last": pl.col("value").last(),
        "mean": pl.col("value").mean(),
    }[how]
    kept = (
        pl.DataFrame({"ranking": rankings, "item": items, "value": values})
        .group_by("ranking", "item", maintain_order=True)
        .agg(value)
    )
    return kept["ranking"].to_numpy(), kept["item"].to_numpy(), kept["value"].to_numpy()


def compact(ratings: Array) -> Any:
    """Ratings or counts as float32 where that loses nothing, which is nearly always."""
    if ratings.dtype == np.float32:
        return ratings
    return ratings.astype(np.float32) if are_single(ratings) else ratings.astype(np.float64, copy=False)


def are_single(values: Array) -> bool:
    """Whether all are numbers of single precision; a piece at a time, for there may be many."""
    with np.errstate(over="ignore", under="ignore"):
        return all(
            np.array_equal(part.astype(np.float32).astype(np.float64), part.astype(np.float64))
            for part in (values[first : first + _FEW] for first in range(0, values.size, _FEW))
        )
