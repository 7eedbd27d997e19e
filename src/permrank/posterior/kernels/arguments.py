"""What a pass over the users is given beside the lists, grouped by meaning; Numba takes these tuples as they are.

A parallel kernel must not write into a field of a tuple itself: Numba does not see that the array is an argument's, and
leaves such a write out. Functions that the kernel calls may write (tests/kernels/test_tuples.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Prior(NamedTuple):
    """A priori W_u ~ N(places_u slopes, 1 / precision).

    coordinates: (n_users, n_dimensions), slopes: (n_dimensions, K), precision: (K,). pull: (n_users, K + 1), what links
    say: K numbers that are added to the mean, and one that the precision is multiplied with; or (n_users, 0).
    """

    coordinates: Any
    slopes: Any
    precision: Any
    pull: Any


class Gaussian(NamedTuple):
    """The same for one user: W_u ~ N(mean, 1 / precision), both (K,)."""

    mean: Any
    precision: Any


class Users(NamedTuple):
    """Modes of the users, start and result, and draws around them, written; (n_users, K)."""

    modes: Any
    draws: Any


class Newton(NamedTuple):
    """An ascent takes at most so many steps, and ends with one that is shorter than ``tol``."""

    most: Any
    tol: Any


class Noise(NamedTuple):
    """Whether to draw, and from which streams: those of users that others come ``before`` are numbered after theirs.

    exact: whether draws of users are proposals of a Metropolis step.
    """

    key: Any
    draw: Any
    before: Any = 0
    exact: Any = False


NO_NOISE = Noise(np.uint64(0), False)


class Entries(NamedTuple):
    """What entries say about their items, (n_entries,), written: gradient in the score, and curvature."""

    residual: Any
    curvature: Any


class Items(NamedTuple):
    """Items, their prior means, (n_items, K + 1) both, and precisions, (K + 1,): factors, then the intercept."""

    theta: Any
    centre: Any
    precision: Any


class ItemMeans(NamedTuple):
    """What is kept of the items, written; or empty arrays.

    Attributes
    ----------
    steps : (n_items, K + 1)
        To the conditional mean given the users, without noise.
    variance : (n_items,)
        What the item's own uncertainty adds to the variance of its score for a user with factors of variance one: the
        trace of Λ_y^-1.
    """

    steps: Any
    variance: Any


NO_MEANS = ItemMeans(np.zeros((0, 2)), np.zeros(0))
