"""The symmetric group: its characters, sums over conjugacy classes, and marginals of rankings."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.jit import njit, prange

Array = NDArray[Any]
Partition = tuple[int, ...]

# One prime for each length of a cycle: a cycle type is then the product of those of its cycles, at most 2^n.
_PRIMES = np.array([1, 2, 3, 5, 7, 11, 13, 17, 19])


def partitions(n: int, largest: int | None = None) -> list[Partition]:
    """Partitions of n in falling order: (n), (n-1, 1), (n-2, 2), (n-2, 1, 1), ..."""
    if n == 0:
        return [()]
    first = range(min(n, n if largest is None else largest), 0, -1)
    return [(part, *rest) for part in first for rest in partitions(n - part, part)]


@cache
def character(shape: Partition, cycles: Partition) -> int:
    """χ_shape at a permutation with these cycles, by the rule of Murnaghan and Nakayama.

    Removing a rim hook of length c lowers one of the beta numbers shape_i + (rows - i) by c to a number that is not
    among them; the sign is (-1)^(number of beta numbers that are jumped over).
    """
    if not cycles:
        return 1
    length, rest = cycles[0], cycles[1:]
    rows = len(shape)
    beta = [part + rows - 1 - row for row, part in enumerate(shape)]
    total = 0
    for number in beta:
        lowered = number - length
        if lowered < 0 or lowered in beta:
            continue
        jumped = sum(lowered < other < number for other in beta)
        changed = sorted((lowered if other == number else other for other in beta), reverse=True)
        smaller = tuple(value - (rows - 1 - row) for row, value in enumerate(changed))
        total += (-1) ** jumped * character(tuple(part for part in smaller if part), rest)
    return total


def dimension(shape: Partition) -> int:
    """χ_shape at the identity: n! over the product of the hook lengths."""
    below = [sum(part > column for part in shape) for column in range(shape[0])]
    hooks = [part - column + below[column] - row - 1 for row, part in enumerate(shape) for column in range(part)]
    return math.factorial(sum(shape)) // math.prod(hooks)


def permutations(n: int) -> Array:
    """All orders of n, first to last (n!, n), sorted."""
    return np.array(list(itertools.permutations(range(n))), np.int64).reshape(math.factorial(n), n)


@njit(parallel=True)
def _class_sums(elements, inverses, values, class_of, primes, n_classes):
    """F[g, c] = Σ_h [g h^-1 is of class c] f(h), over the h that have a value."""
    n_elements, n = elements.shape
    out = np.zeros((n_elements, n_classes))
    for g in prange(n_elements):
        product = np.empty(n, np.int64)
        for h in range(inverses.shape[0]):
            for i in range(n):
                product[i] = elements[g, inverses[h, i]]
            code, left = 1, (1 << n) - 1
            for i in range(n):
                length, j = 0, i
                while left >> j & 1:
                    left ^= 1 << j
                    length += 1
                    j = product[j]
                code *= primes[length]
            out[g, class_of[code]] += values[h]
    return out


def isotypic_components(values: Array) -> tuple[list[Partition], Array]:
    """f = Σ_λ f_λ for f over all n! orders as `permutations` lists them.

    f_λ(g) = (d_λ / n!) Σ_h χ_λ(g h^-1) f(h)   (Diaconis 1988, chapter 2): the projection on the copies of λ.

    Returns
    -------
    partitions, components (n_partitions, n!)
    """
    n = next(n for n in range(1, 20) if math.factorial(n) == values.size) if values.size > 1 else 1
    elements = permutations(n)
    shapes = partitions(n)
    class_of = np.zeros(int(2**n) + 1, np.int64)
    for index, cycles in enumerate(shapes):
        class_of[math.prod(int(_PRIMES[length]) for length in cycles)] = index
    seen = np.flatnonzero(values)
    inverses = np.argsort(elements[seen], axis=1)
    sums = _class_sums(elements, inverses, values[seen].astype(np.float64), class_of, _PRIMES, len(shapes))
    table = np.array([[character(shape, cycles) for cycles in shapes] for shape in shapes], np.float64)
    table *= np.array([dimension(shape) for shape in shapes])[:, None] / math.factorial(n)
    return shapes, table @ sums.T


@njit
def pair_index(first, second, n):
    """Index of the pair first < second among the n (n - 1) / 2 pairs in lexicographic order."""
    return first * (2 * n - first - 1) // 2 + second - first - 1


@njit
def ranking_marginals(indptr, items, levels, weights, n, pairs_too):
    """How often items stand in positions, over complete rankings; a tie is spread evenly over its positions.

    Returns first[y, k], the weight of rankings with item y at position k; together[{y, x}, {k, l}], with y and x at k
    and l in either order; and apart[(y, x), (k, l)] for y < x and k < l, half of (y at k, x at l) - (x at k, y at l).
    """
    n_pairs = n * (n - 1) // 2 if pairs_too else 0
    first = np.zeros((n, n))
    together, apart = np.zeros((n_pairs, n_pairs)), np.zeros((n_pairs, n_pairs))
    begin, size = np.empty(n, np.int64), np.empty(n, np.int64)
    for r in range(indptr.size - 1):
        start = indptr[r]
        e = 0
        while e < n:
            stop = e + 1
            while stop < n and levels[start + stop] == levels[start + e]:
                stop += 1
            for i in range(e, stop):
                begin[i], size[i] = e, stop - e
            e = stop
        for i in range(n):
            y = items[start + i]
            for k in range(begin[i], begin[i] + size[i]):
                first[y, k] += weights[r] / size[i]
            if not pairs_too:
                continue
            for j in range(i + 1, n):
                x = items[start + j]
                row = pair_index(np.int64(min(y, x)), np.int64(max(y, x)), n)
                same = begin[i] == begin[j]
                share = 2.0 * weights[r] / (size[i] * (size[i] - 1)) if same else weights[r] / (size[i] * size[j])
                sign = 0.0 if same else (0.5 if y < x else -0.5)
                for k in range(begin[i], begin[i] + size[i]):
                    for l in range(k + 1 if same else begin[j], begin[j] + size[j]):  # noqa: E741
                        column = pair_index(k, l, n)
                        together[row, column] += share
                        apart[row, column] += sign * share
    return first, together, apart
