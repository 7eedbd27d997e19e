"""The pseudo-likelihood of relocations, §4.3: every item of a list in turn over all positions, the others fixed.

Of a list that is longer than ``most`` so many items are relocated, from positions that are evenly spread, and each
counts for several: a sweep is then linear in the entries. The lists of a block are gone through item by item: the
λ of an item are spread out once, and all its relocations find theirs without a search.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit
from permrank.kernels.streams import derive, uniform
from permrank.posterior.kernels.choices import exponentials

# e^-700 is still a normal number.
_LEAST = -700.0


class Ranked(NamedTuple):
    """Lists of a block, entries in the order of their positions: items; coefficients and their gradient (n, B)."""

    items: Any
    unary: Any
    slopes: Any


class Row(NamedTuple):
    """One item: λ of it before each other, and the gradient of each, (n_items,); none if empty."""

    potentials: Any
    gradient: Any


class Room(NamedTuple):
    """For one list, (n,): weights of the positions, their probabilities, the chance to come before each other item.

    bits is the same memory as powers, for exponentials.
    """

    weights: Any
    p: Any
    above: Any
    powers: Any
    bits: Any


@njit(error_model="numpy")
def _log_position(items, unary, source, basis, row, room):
    """log P(position of the item at ``source`` | order of the others); fills what its gradient is made of."""
    n, n_columns, paired = items.size, basis.shape[1], row.potentials.size > 0
    weights, p, above = room.weights, room.p, room.above
    so_far, largest = 0.0, 0.0
    weights[0] = 0.0
    for j in range(n - 1):
        z = j if j < source else j + 1
        delta = 2.0 * row.potentials[items[z]] if paired else 0.0
        for k in range(n_columns):
            delta += (unary[source, k] - unary[z, k]) * (basis[j, k] - basis[j + 1, k])
        so_far -= delta
        largest = max(largest, so_far)
        weights[j + 1] = so_far
    for j in range(n):
        above[j] = max(weights[j] - largest, _LEAST)
    exponentials(above, n, 0.0, room.powers, room.bits, p)
    total = 0.0
    for j in range(n):
        total += p[j]
        above[j] = total
    for j in range(n):
        above[j] /= total
    for j in range(n):
        p[j] /= total
    return weights[source] - largest - math.log(total)


@njit(error_model="numpy")
def _add_gradient(items, source, basis, weight, slopes, row, room):
    """Derivative of the same, times weight, added to the slopes (n, B) and to the row."""
    n, n_columns, paired = items.size, basis.shape[1], row.gradient.size > 0
    for k in range(n_columns):
        total = basis[source, k]
        for j in range(n):
            total -= room.p[j] * basis[j, k]
        slopes[source, k] += weight * total
    for j in range(n - 1):
        # The j-th of the others stands at j + 1 if the item comes before it, else at j.
        z, moved = (j, -room.above[j]) if j < source else (j + 1, 1.0 - room.above[j])
        for k in range(n_columns):
            slopes[z, k] += weight * moved * (basis[j + 1, k] - basis[j, k])
        if paired:
            row.gradient[items[z]] += 2.0 * weight * moved


@njit(error_model="numpy")
def _sources(items, n, most):
    """Which items of a list are relocated, at most ``most``, from positions that are evenly spread: (n or most,).

    Which positions come depends on the list alone, not on where it stands among others.
    """
    if n <= most:
        return np.arange(n)
    begin, out = uniform(derive(np.uint64(items[0]), items[n - 1]), 0), np.empty(most, np.int64)
    for t in range(most):
        out[t] = min(int((t + begin) * (n / most)), n - 1)
    return out


@njit(error_model="numpy")
def _by_item(lists, first, last, ranked, n_items, most):
    """Relocations of a block of lists, item by item: bounds (n_items + 1,), their lists and positions."""
    origin, bounds = lists.indptr[first], np.zeros(n_items + 2, np.int64)
    for r in range(first, last):
        start = lists.indptr[r] - origin
        for source in _sources(ranked.items[start:], lists.indptr[r + 1] - lists.indptr[r], most):
            bounds[ranked.items[start + source] + 2] += 1
    for item in range(n_items):
        bounds[item + 2] += bounds[item + 1]
    where, sources = np.empty(bounds[n_items + 1], np.int64), np.empty(bounds[n_items + 1], np.int64)
    for r in range(first, last):
        start = lists.indptr[r] - origin
        for source in _sources(ranked.items[start:], lists.indptr[r + 1] - lists.indptr[r], most):
            item = ranked.items[start + source]
            where[bounds[item + 1]], sources[bounds[item + 1]] = r, source
            bounds[item + 1] += 1
    return bounds[: n_items + 1], where, sources


@njit(error_model="numpy")
def _ranked(lists, first, last, unary):
    """Lists of a block in the order of their positions."""
    origin, n = lists.indptr[first], lists.indptr[last] - lists.indptr[first]
    items, own = np.empty(n, np.int32), np.empty((n, unary.shape[1]))
    for r in range(first, last):
        start = lists.indptr[r]
        for e in range(start, lists.indptr[r + 1]):
            items[e - origin] = lists.items[start + lists.orders[e]]
            own[e - origin] = unary[start + lists.orders[e]]
    return Ranked(items, own, np.zeros(own.shape))


@njit(error_model="numpy")
def add_relocations(
    first, last, most, lists, unary, positions, partners, pair_values, values, unary_gradient, pair_gradient
):
    """Σ_i log P(position of the i-th item | order of the others) of the lists from ``first`` to before ``last``.

    Of a list longer than ``most`` so many terms stand for all.

    Written: values (n_lists,), unary_gradient (n_entries, B), weighted; pair_gradient (n_pairs,), weighted, added to.
    """
    origin, n_items, longest = lists.indptr[first], partners.indptr.size - 1, 0
    for r in range(first, last):
        longest = max(longest, lists.indptr[r + 1] - lists.indptr[r])
    flat, size = np.empty((4, longest)), n_items if partners.items.size > 0 else 0
    room, ranked = Room(flat[0], flat[1], flat[2], flat[3], flat[3].view(np.int64)), _ranked(lists, first, last, unary)
    row = Row(np.zeros(size), np.zeros(size))
    bounds, where, sources = _by_item(lists, first, last, ranked, n_items, most)
    for item in range(n_items):
        if bounds[item] == bounds[item + 1]:
            continue
        for p in range(partners.indptr[item], partners.indptr[item + 1]):
            other = partners.items[p]
            value = pair_values[partners.stored[p]]
            row.potentials[other], row.gradient[other] = value if item < other else -value, 0.0
        for index in range(bounds[item], bounds[item + 1]):
            r, source = where[index], sources[index]
            a, b = lists.indptr[r] - origin, lists.indptr[r + 1] - origin
            n, items = b - a, ranked.items[a:b]
            basis = positions.table[positions.start[n] : positions.start[n] + n]
            part = n / min(n, most)
            values[r] += part * _log_position(items, ranked.unary[a:b], source, basis, row, room)
            _add_gradient(items, source, basis, part * lists.weights[r], ranked.slopes[a:b], row, room)
        for p in range(partners.indptr[item], partners.indptr[item + 1]):
            other = partners.items[p]
            slope = row.gradient[other]
            pair_gradient[partners.stored[p]] += slope if item < other else -slope
            row.potentials[other] = 0.0
    for r in range(first, last):
        start = lists.indptr[r]
        for e in range(start, lists.indptr[r + 1]):
            unary_gradient[start + lists.orders[e]] = ranked.slopes[e - origin]
