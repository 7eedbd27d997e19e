"""Characters against the orthogonality relations, and parts of functions against their definition."""

import itertools
import math

import numpy as np
import pytest

from permrank.families.spectral import kernels as group
from permrank.ragged import frozen  # the kinds of arrays that models pass, for which kernels are compiled


def cycle_type(permutation):
    left, found = set(range(len(permutation))), []
    while left:
        place, length = left.pop(), 1
        following = permutation[place]
        while following != place:
            left.discard(following)
            following, length = permutation[following], length + 1
        found.append(length)
    return tuple(sorted(found, reverse=True))


@pytest.mark.parametrize("n", range(1, 8))
def test_characters_are_orthogonal_and_dimensions_are_those_at_the_identity(n):
    shapes = group.partitions(n)
    table = np.array([[group.character(shape, cycles) for cycles in shapes] for shape in shapes])
    order = [math.prod(k ** c.count(k) * math.factorial(c.count(k)) for k in set(c)) for c in shapes]
    np.testing.assert_array_equal(table @ np.diag([math.factorial(n) // size for size in order]) @ table.T,
                                  math.factorial(n) * np.eye(len(shapes)))  # fmt: skip
    assert [group.dimension(shape) for shape in shapes] == table[:, -1].tolist()
    assert sum(group.dimension(shape) ** 2 for shape in shapes) == math.factorial(n)


def test_the_first_characters_count_fixed_points():
    for permutation in itertools.permutations(range(5)):
        cycles, fixed = cycle_type(permutation), sum(place == to for place, to in enumerate(permutation))
        assert group.character((4, 1), cycles) == fixed - 1
        assert group.character((1, 1, 1, 1, 1), cycles) == (-1) ** sum(length - 1 for length in cycles)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_parts_follow_their_definition_add_up_and_are_orthogonal(n):
    rng = np.random.default_rng(n)
    values = rng.poisson(3.0, math.factorial(n)).astype(float)
    shapes, parts = group.isotypic_components(values)
    np.testing.assert_allclose(parts.sum(axis=0), values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts @ parts.T, np.diag(np.sum(parts**2, axis=1)), rtol=0, atol=1e-9)
    elements = list(itertools.permutations(range(n)))
    for shape, part in zip(shapes, parts, strict=True):
        for g, value in zip(elements, part, strict=True):
            wanted = 0.0
            for h, weight in zip(elements, values, strict=True):
                product = [g[h.index(i)] for i in range(n)]
                wanted += group.character(shape, cycle_type(product)) * weight
            assert math.isclose(value, wanted * group.dimension(shape) / len(elements), abs_tol=1e-10)


def test_marginals_count_places_and_spread_ties_evenly():
    lists = [[[2], [0, 3], [1]], [[1], [2], [3], [0]], [[0, 1, 2], [3]]]
    weights = np.array([2.0, 1.0, 3.0])
    levels = [level for ranking in lists for level, block in enumerate(ranking) for _ in block]
    items = [item for ranking in lists for block in ranking for item in block]
    first, together, apart = group.ranking_marginals(
        *frozen(np.arange(4) * 4, np.array(items, np.int32), np.array(levels, np.int32), weights), 4, True
    )
    wanted_first, exact = np.zeros((4, 4)), np.zeros((4, 4, 4, 4))
    for ranking, weight in zip(lists, weights, strict=True):
        orders = [sum(choice, ()) for choice in itertools.product(*(itertools.permutations(b) for b in ranking))]
        for order in orders:
            for k, y in enumerate(order):
                wanted_first[y, k] += weight / len(orders)
                for m, x in enumerate(order):
                    exact[y, x, k, m] += weight / len(orders)
    np.testing.assert_allclose(first, wanted_first, rtol=0, atol=1e-12)
    pairs = list(itertools.combinations(range(4), 2))
    for row, (y, x) in enumerate(pairs):
        assert group.pair_index(y, x, 4) == row
        for column, (k, m) in enumerate(pairs):
            assert math.isclose(together[row, column], exact[y, x, k, m] + exact[x, y, k, m], abs_tol=1e-12)
            assert math.isclose(apart[row, column], (exact[y, x, k, m] - exact[x, y, k, m]) / 2, abs_tol=1e-12)
