"""Orders in the form that the kernels of log-linear models want, and the pairs of items that have a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from permrank.families.log_linear.kernels.arguments import Orders, Pairs, Partners, Positions
from permrank.families.log_linear.kernels.pseudo_likelihood import list_likelihoods, list_statistics
from permrank.learning.shards import MOST_BLOCKS, Shard, blocks_by_rows, gathered, shards_of
from permrank.ragged import frozen, indptr_of, owners, positions, ranges
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

# Gradients of pairs are collected in blocks of lists, in no more than so many numbers altogether.
_MOST_CELLS = 2**25
# Orders that two items must share to have a parameter; and numbers of pairs by which it is raised.
_USUAL_COOCCURRENCE, _FEWEST_PAIRS, _MOST_PAIRS = 5, 2**18, 2**22
# Of a longer list so many items, evenly spread, are looked for beside each item, and count for all.
MOST_PARTNERS = 1024
# Items whose pairs are counted at once; and counts that are told apart.
_BLOCK, _N_BINS = 256, 65_536
# Orders of a tied list that a learner of strict lists is shown, each with its part of the weight.
N_SHUFFLES = 4


def no_pairs(n_items: int) -> Pairs:
    """No pair has a parameter."""
    return Pairs(*frozen(np.zeros(n_items + 1, np.int64), np.zeros(0, np.int32)))


def _together(rankings: Rankings) -> Iterator[tuple[int, Any]]:
    """Weights of the lists that items share with larger ones: the first item of a block, and its sparse rows."""
    lengths, shape = rankings.lengths, (rankings.n_rankings, rankings.n_items)
    kept, of = np.minimum(lengths, MOST_PARTNERS), rankings.entry_rankings()
    weights = (rankings.weights * lengths / np.maximum(kept, 1))[of]
    items = sp.csr_array((weights, rankings.items, rankings.indptr), shape).T.tocsr()
    # So many of each list, from another one on in the next.
    some = (positions(rankings.indptr) * kept[of] + of) % lengths[of] < kept[of]
    lists = sp.csr_array((np.ones(int(some.sum())), rankings.items[some], indptr_of(kept)), shape)
    for first in range(0, rankings.n_items, _BLOCK):
        block = sp.triu(items[first : first + _BLOCK] @ lists, first + 1, format="csr")
        block.sort_indices()
        yield first, block


def pairs_of(rankings: Rankings, least: float) -> Pairs:
    """Pairs of items that are ranked together at least so often, by weight."""
    counts, items = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for _, block in _together(rankings):
        kept = (block.data >= least) & (block.data > 0.0)
        counts.append(np.bincount(owners(block.indptr)[kept], minlength=block.shape[0]))
        items.append(block.indices[kept])
    return Pairs(*frozen(indptr_of(np.concatenate(counts)), np.concatenate(items).astype(np.int32)))


def usual_cooccurrence(rankings: Rankings) -> int:
    """How often two items must be ranked together to have a parameter, where the user does not say.

    Five times; more often where there were more pairs than entries otherwise, from `_FEWEST_PAIRS` pairs on, or more
    than `_MOST_PAIRS`. A parameter for less than one entry could not be learnt, and memory stays bounded.
    """
    allowed = min(max(rankings.n_entries, _FEWEST_PAIRS), _MOST_PAIRS)
    n_items, lengths = rankings.n_items, rankings.lengths.astype(np.float64)
    if min(0.5 * n_items * (n_items - 1.0), 0.5 * float(np.sum(lengths**2)) / _USUAL_COOCCURRENCE) <= allowed:
        return _USUAL_COOCCURRENCE  # there cannot be as many
    histogram = np.zeros(_N_BINS, np.int64)
    for _, block in _together(rankings):
        histogram += np.bincount(np.minimum(block.data.astype(np.int64), _N_BINS - 1), minlength=_N_BINS)
    at_least = np.cumsum(histogram[::-1])[::-1]
    enough = np.flatnonzero(at_least[_USUAL_COOCCURRENCE:] <= allowed)
    return _USUAL_COOCCURRENCE + (int(enough[0]) if enough.size else _N_BINS - 1)


def partners_of(pairs: Pairs) -> Partners:
    """The same pairs with all partners of every item."""
    row, column = owners(pairs.indptr), pairs.items
    both, partner = np.concatenate((row, column)), np.concatenate((column, row)).astype(np.int32)
    order = np.lexsort((partner, both))
    indptr = indptr_of(np.bincount(both, minlength=pairs.indptr.size - 1))
    return Partners(*frozen(indptr, partner[order], np.tile(np.arange(row.size), 2)[order]))


def weights_of_pairs(rankings: Rankings, pairs: Pairs) -> Float64Array:
    """Weight of the lists in which the items of each pair are ranked together."""
    weights, rows, n_items = np.zeros(pairs.items.size), owners(pairs.indptr), rankings.n_items
    for first, block in _together(rankings):
        part = slice(*np.searchsorted(rows, (first, first + _BLOCK)))
        keys = owners(block.indptr) * n_items + block.indices
        wanted = (rows[part] - first) * n_items + pairs.items[part]
        at = np.searchsorted(keys, wanted)
        together = at < keys.size
        together[together] = keys[at[together]] == wanted[together]
        weights[part][together] = block.data[at[together]]
    return weights


def lists_of_rankings(rankings: Rankings) -> Orders:
    """Rankings as they are, ties by their levels."""
    by_item = np.lexsort((rankings.items, rankings.entry_rankings()))
    orders = np.empty(by_item.size, np.int64)
    orders[by_item] = positions(rankings.indptr)
    rest = rankings.levels, rankings.weights, rankings.ranking_users
    return Orders(*frozen(rankings.indptr, rankings.items[by_item], orders, *rest))


def strict_lists(rankings: Rankings, seed: int) -> Orders:
    """Lists without ties: where there are some, a few random orders of each list share its weight."""
    if not rankings.has_ties:
        return lists_of_rankings(rankings)
    copies = [lists_of_rankings(rankings.shuffled_ties(int(stream_key(seed, c)))) for c in range(N_SHUFFLES)]
    items, orders, levels = (np.concatenate(parts) for parts in zip(*(copy[1:4] for copy in copies), strict=True))
    indptr, weights = indptr_of(np.tile(rankings.lengths, N_SHUFFLES)), np.tile(rankings.weights, N_SHUFFLES)
    owners_of_lists = np.tile(copies[0].owners, N_SHUFFLES)
    return Orders(*frozen(indptr, items, orders, levels, weights / N_SHUFFLES, owners_of_lists))


def grouped(lists: Orders) -> Orders:
    """One list for all those over the same items, with their summed weight; its order is that of one of them."""
    parts = [lists.items[a:b].tobytes() for a, b in pairwise(lists.indptr)]
    groups: dict[bytes, int] = {}
    group = np.array([groups.setdefault(part, len(groups)) for part in parts], np.int64)
    first = np.unique(group, return_index=True)[1]
    entries = ranges(lists.indptr[first], lists.indptr[first + 1])
    indptr = indptr_of(np.diff(lists.indptr)[first])
    weights = np.bincount(group, lists.weights, minlength=len(groups)).astype(np.float64)
    levels = positions(indptr).astype(np.int32)
    return Orders(*frozen(indptr, lists.items[entries], lists.orders[entries], levels, weights, lists.owners[first]))


def strict_order(lists: Orders) -> Orders:
    """The same lists with every position a level of its own."""
    return lists._replace(levels=frozen(positions(lists.indptr).astype(np.int32))[0])


def position_functions(n: int, position: str | Sequence[float], degree: int) -> Float64Array:
    """Functions g(i) of a list of n: (n, degree).

    ``centred`` is (1 + n - 2 i) / n, ``linear`` 1 - i / n, numbers are a function from the first to the last position,
    to be interpolated. Higher degrees are Legendre polynomials of the first column.
    """
    i = np.arange(1, n + 1)
    if isinstance(position, str):
        x = (1.0 + n - 2.0 * i) / n if position == "centred" else 1.0 - i / n
    else:
        x = np.interp((i - 0.5) / n, np.linspace(0.0, 1.0, len(position)), np.asarray(position, np.float64))
    if degree == 1:
        return np.ascontiguousarray(x[:, None])
    return np.ascontiguousarray(np.polynomial.legendre.legvander(x, degree)[:, 1:])


def position_table(lengths: Any, position: str | Sequence[float], degree: int) -> Positions:
    """Position functions for all lengths that occur."""
    wanted = np.unique(np.append(np.asarray(lengths, np.int64), 1))
    start = np.zeros(int(wanted.max()) + 1, np.int64)
    start[wanted] = np.cumsum(wanted) - wanted
    return Positions(start, np.concatenate([position_functions(int(n), position, degree) for n in wanted]))


def statistics(lists: Orders, positions: Positions, pairs: Pairs) -> tuple[Float64Array, Float64Array]:
    """Weighted position functions of every entry (n_entries, B), and orders of pairs summed over lists (n_pairs,)."""
    of_entries, of_pairs = gathered(partial(_statistics, positions, pairs), shards_of_lists(lists, pairs))
    return of_entries, of_pairs.sum(axis=0)


def _statistics(positions: Positions, pairs: Pairs, shard: Shard) -> tuple[Float64Array, ...]:
    lists = _orders(shard)
    sums = np.zeros((lists.items.size, positions.table.shape[1])), np.zeros((shard.n_blocks, pairs.items.size))
    list_statistics(shard.bounds, lists, positions, pairs, *sums)
    return sums


def shards_of_lists(lists: Orders, pairs: Pairs) -> list[Shard]:
    """Shards of lists, the same for any number of threads; see `_orders`."""
    data = (lists.weights, lists.owners), (lists.items, *frozen(lists.orders), lists.levels)
    n_blocks = int(np.clip(_MOST_CELLS // max(pairs.items.size, 1), 2, MOST_BLOCKS))
    return shards_of(blocks_by_rows(lists.weights.size, n_blocks), (lists.indptr,), data)


def _orders(shard: Shard) -> Orders:
    """The lists of a shard."""
    weights, owners, items, orders, levels = shard.data
    return Orders(shard.indptrs[0], items, orders, levels, weights, owners)


def likelihoods(
    shards: list[Shard], unary: Float64Array, *given: Any
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Log-likelihood of each list, and the weighted gradients of all entries (n_entries, B) and pairs (n_pairs,).

    unary: (n_entries, B), coefficients of the entries; given: structure, width, positions, pairs, partners and values
    of pairs, as in `kernels.pseudo_likelihood.list_likelihoods`.
    """
    values, of_entries, of_pairs = gathered(partial(_likelihoods, given), shards, unary, level=1)
    return values, of_entries, of_pairs.sum(axis=0)


def _likelihoods(given: tuple[Any, ...], shard: Shard, unary: Float64Array) -> tuple[Float64Array, ...]:
    (structure, width, positions, pairs, partners, pair_values), lists = given, _orders(shard)
    slopes = np.zeros((lists.items.size, positions.table.shape[1])), np.zeros((shard.n_blocks, pairs.items.size))
    values = list_likelihoods(
        shard.bounds, structure, width, lists, unary, positions, pairs, partners, pair_values, *slopes
    )
    return values, *slopes
