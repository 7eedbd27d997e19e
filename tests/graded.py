"""Graded entries for tests of what is taken up."""

import numpy as np

from permrank.families.catalogue.entries import Entries
from permrank.ragged import frozen, indptr_of


def random_entries(seed, n_users=30, n_items=9, density=0.4):
    """Graded entries and the same as a dense matrix."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n_users, n_items)) < density, rng.uniform(0.2, 1.0, (n_users, n_items)), 0.0)
    dense = dense.astype(np.float32)
    users, items = np.nonzero(dense)
    indptr = indptr_of(np.bincount(users, minlength=n_users))
    return Entries(*frozen(indptr, items.astype(np.int32), dense[users, items])), dense.astype(np.float64)
