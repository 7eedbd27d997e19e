"""The best items of rows of scores."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from permrank.kernels.top_k import best_items


@pytest.mark.parametrize("size", [1, 5, 3000])
def test_the_best_are_the_first_of_a_sorted_row(size):
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(4, size)).round(1)  # with ties
    rows[rng.random(rows.shape) < 0.3] = -np.inf
    rows[3] = -np.inf
    for k in {1, min(7, size), size}:
        found = best_items(rows, k)
        assert found.shape == (4, k)
        for row, items in zip(rows, found, strict=True):
            order = np.lexsort((np.arange(size), -row))
            wanted = order[np.isfinite(row[order])][:k]
            assert_array_equal(items[: wanted.size], wanted)
            assert (items[wanted.size :] == -1).all()
