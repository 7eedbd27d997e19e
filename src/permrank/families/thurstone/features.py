"""Features in Thurstone's model: learnt scales of their coefficients, what they are worth, items known by them alone.

Scales are those of posterior/regression.py, as arrays with a line for every block of columns.
"""

from __future__ import annotations

import numpy as np

from permrank.families.thurstone.problem import Problem
from permrank.families.thurstone.state import State
from permrank.posterior.effects import Coefficients, effects_of, shares_of
from permrank.posterior.regression import Scales, least_variance
from permrank.types import Array, Float64Array, Int64Array


def first_scales(n_blocks: int, groups: Int64Array) -> Float64Array:
    """Of blocks of columns, (n_blocks, n); groups: the attribute of every feature."""
    if not groups.size:
        return np.zeros((n_blocks, 0))
    return np.stack([Scales.start(int(groups.max()) + 1).packed()] * n_blocks)


def precisions(scales: Float64Array, groups: Int64Array) -> Float64Array:
    """Prior precision of the coefficients of every feature, in units of what they explain: (n_blocks, n_features)."""
    if not groups.size:
        return np.zeros((len(scales), 0))
    return np.stack([1.0 / Scales.unpacked(each).groups[groups] for each in scales])


def drawn_scales(
    scales: Float64Array,
    groups: Int64Array,
    squares: list[Float64Array],
    n_rows: float,
    rng: np.random.Generator,
) -> Float64Array:
    """The next draw. squares: of every block the squares of its coefficients, (n_features, ...), in those units."""
    if not groups.size:
        return scales
    n_groups, found = int(groups.max()) + 1, []
    for each, part in zip(scales, squares, strict=True):
        part = part.reshape(groups.size, -1)
        sums: Float64Array = np.bincount(groups, part.sum(axis=1), n_groups).astype(np.float64)
        counts: Float64Array = (np.bincount(groups, minlength=n_groups) * part.shape[1]).astype(np.float64)
        found.append(Scales.unpacked(each).drawn(sums, counts, rng, least_variance(n_rows)).packed())
    return np.stack(found)


def with_popularity(
    problem: Problem, theta: Float64Array, slopes: Float64Array, new: Int64Array, rng: np.random.Generator
) -> Float64Array:
    """Items, with a draw of what features leave open of the popularity and co-listing of those that nobody lists."""
    base = problem.n_base
    if not new.size or not base:
        return theta
    values, vectors = np.linalg.eigh(problem.unsure)
    away = rng.normal(size=(new.size, base)) * np.sqrt(np.maximum(values, 0.0))
    theta = theta.copy()
    theta[:, new] += np.einsum("yi,ji,zjk->zyk", away, vectors, slopes[:, :base])
    return theta


def effects_at(
    problem: Problem, state: State, n_factors: int, covariances: tuple[Float64Array, Float64Array]
) -> tuple[Array, ...]:
    """What features are worth in a state, if there are any (priors/effects.py): over components, the mean.

    covariances: of the features of items and of users.
    """
    known = problem.known
    if not (known.items.shape[1] or known.users.shape[1]):
        return ()
    of_items = np.einsum("z,zjk->jk", state.shares, state.slopes[:, problem.n_base :])
    spread = np.einsum("z,zk->k", state.shares, state.spreads)[:n_factors]
    of_users = state.user_slopes[problem.co_listing.shape[1] :, :n_factors]
    found = Coefficients(of_items[:, [*range(n_factors), -1]], of_users, 0.0)
    shares = (
        shares_of(covariances[0], found.items[:, :-1], known.item_groups, spread),
        shares_of(covariances[1], of_users, known.user_groups, np.ones(n_factors)),
    )
    return effects_of(found, *shares)
