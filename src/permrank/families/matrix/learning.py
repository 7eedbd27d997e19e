"""The one learner of the models that minimise a loss over factors: `PairwiseFactorisation`, `CofiRank`, `ListNet`.

Minimise Σ loss(s) + Σ_u α_u ‖W_u‖² + Σ_y β_y ‖H_y‖² + γ Σ_y d_y² + δ ‖w‖² over W, H, d and w, where
s_e = W_u H_y + d_y + z_y w + x_e w' for the entry e of user u and item y: factors, an intercept, and what is known of
items and entries beforehand (z, x). Losses differ, this does not: it is handed a function from the scores of lists to
values and a gradient, and uses limited-memory BFGS on all variables at once. A pass over the users of a shard gives
scores, the loss of its lists, the gradient of its users, and by block of users that of the items; sums do not depend on
the number of threads or shards.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from permrank.families.matrix.kernels.passes import entry_scores, item_gradients, user_gradients
from permrank.families.matrix.losses import KERNELS, Loss
from permrank.learning.lbfgs import minimise
from permrank.learning.learner import Learner, mapped, run
from permrank.learning.linear_algebra import singular_values
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array, Int64Array

# The constants were set on splits that no benchmark uses (ML-100K with 10, 20 and 50 ratings a user and Sushi, seeds 10
# and 11); they are in units of entries, so that they serve every loss, and the optimum is flat.
# An intercept is pulled half-way to what the item's covariates say by this many entries' worth of curvature.
_HALF_TRUSTED = 10.0
# Weights of covariates are hardly held back: this many entries' worth.
_HALF_BELIEVED = 1.0
# Items are penalised as if each had this many more entries: factors of an item seen twice are mostly noise.
_MORE_ENTRIES = 50.0
# Sweeps of the first fit, without factors, whose end need not be exact.
_SWEEPS_BEFORE = 60
# Sweeps for new users at most: their problems are convex and of a few variables.
_SWEEPS_FOR_USERS = 300
# Products with the matrix of residuals: its norm is then known to about a per cent.
_POWER_STEPS = 40
# A block of users holds an array of the size of the items' gradient, and all of them together at most 24 bytes an
# entry, unless fewer than 4 would be left.
_FEWEST_BLOCKS, _NUMBERS_AN_ENTRY = 4, 3


class Data(NamedTuple):
    """Entries in the form that the passes want.

    Attributes
    ----------
    rankings : Rankings
    items : int32 (n_entries,)
        In the numbering of the model.
    first_of_user : int64 (n_users + 1,)
        Entries of user u are ``first_of_user[u]:first_of_user[u + 1]``.
    user_of_entry : int32 (n_entries,)
    """

    rankings: Rankings
    items: Int32Array
    first_of_user: Int64Array
    user_of_entry: Int32Array

    @classmethod
    def of(cls, rankings: Rankings, items: Int32Array | None = None) -> Data:
        """Prepare rankings; ``items`` replaces their numbers of items."""
        used = rankings.items if items is None else items
        return cls(rankings, *frozen(used, rankings.user_bounds, rankings.entry_users(np.int32)))


class Design(NamedTuple):
    """What scores are made of: covariates of items (n_items, p) and of entries (n_entries, q), intercepts, factors."""

    items: Float64Array
    entries: Float64Array
    intercepts: bool
    n_factors: int


class Penalties(NamedTuple):
    """α_u, β_y, γ and δ of the objective."""

    users: Float64Array
    items: Float64Array
    intercepts: float
    design: float


class Point(NamedTuple):
    """The variables, each an array of its own that shares the memory of one vector."""

    users: Float64Array
    factors: Float64Array
    intercepts: Float64Array
    item_weights: Float64Array
    entry_weights: Float64Array


class Objective:
    """The objective as a function of one vector.

    Parameters
    ----------
    data : Data
    loss : Loss
    design : Design
        Without intercepts d stays 0.
    penalties : Penalties
    """

    def __init__(self, data: Data, loss: Loss, design: Design, penalties: Penalties) -> None:
        self.data, self.loss, self.design, self.penalties = data, loss, design, penalties
        self._shapes = [
            (data.rankings.n_users, design.n_factors),
            (data.rankings.n_items, design.n_factors),
            (data.rankings.n_items,),
            (design.items.shape[1],),
            (design.entries.shape[1],),
        ]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        bounds = blocks_by_entries(data.first_of_user, _n_blocks(data.rankings, design.n_factors))
        of_entries: tuple[Array, ...] = (data.items, design.entries, *loss.of_entries)
        self._shards = shards_of(bounds, (data.rankings.user_indptr, loss.indptr), ((), loss.of_lists, of_entries))

    @property
    def size(self) -> int:
        """Number of variables."""
        return int(self._ends[-1])

    def parts(self, vector: Float64Array) -> Point:
        """The parts of a vector by name, without copying."""
        pieces = np.split(vector, self._ends[:-1])
        return Point(*(piece.reshape(shape) for piece, shape in zip(pieces, self._shapes, strict=True)))

    def theta(self, point: Point) -> Float64Array:
        """Factors and whole intercepts of the items, (n_items, n_factors + 1)."""
        return np.column_stack([point.factors, point.intercepts + _product(self.design.items, point.item_weights)])

    def scores(self, point: Point) -> Float64Array:
        """Scores of all entries."""
        data = self.data
        scores: Float64Array = entry_scores(data.first_of_user, data.items, point.users, self.theta(point))
        return scores + _product(self.design.entries, point.entry_weights) if point.entry_weights.size else scores

    def __call__(self, vector: Float64Array) -> tuple[float, Float64Array]:
        """Value and gradient."""
        point, penalties = self.parts(vector), self.penalties
        kernel = self.loss.kernel, self.loss.constants, len(self.loss.of_lists)
        job = partial(_passed, kernel, self.theta(point), point.entry_weights)
        values, of_users, of_items, of_entries = gathered(job, self._shards, point.users)
        value, of_items = float(values.sum()), of_items.sum(axis=0)
        gradient = np.empty_like(vector)
        out = self.parts(gradient)
        out.users[:] = of_users
        out.factors[:] = of_items[:, :-1]
        out.intercepts[:] = of_items[:, -1] if self.design.intercepts else 0.0
        out.item_weights[:] = _product(self.design.items.T, of_items[:, -1])
        out.entry_weights[:] = of_entries.sum(axis=0)
        strengths: list[Any] = [penalties.users[:, None], penalties.items[:, None], penalties.intercepts]
        strengths += [penalties.design, penalties.design]
        for part, slope, strength in zip(point, out, strengths, strict=True):
            value += float(np.sum(strength * part**2))
            slope += 2.0 * strength * part
        return value, gradient

    def scale(self, curvature: float) -> Float64Array:
        """About the inverse curvature of every variable, where an entry has this curvature in its score."""
        scale = np.empty(self.size)
        parts, counts = self.parts(scale), np.bincount(self.data.items, minlength=self.data.rankings.n_items)
        parts.users[:] = 1.0 / (curvature * np.maximum(np.diff(self.data.first_of_user), 1))[:, None]
        parts.factors[:] = 1.0 / (curvature * np.maximum(counts, 1))[:, None]
        parts.intercepts[:] = 1.0 / (curvature * counts + 2.0 * self.penalties.intercepts)
        parts.item_weights[:] = parts.entry_weights[:] = 1.0 / (curvature * max(self.data.items.size, 1))
        return scale


def _n_blocks(rankings: Rankings, n_factors: int) -> int:
    allowed = _NUMBERS_AN_ENTRY * rankings.n_entries // max(rankings.n_items * (n_factors + 1), 1)
    return n_blocks_of(rankings.n_users, allowed, fewest=_FEWEST_BLOCKS)


def _passed(
    kernel: tuple[str, tuple[object, ...], int],
    theta: Float64Array,
    weights: Float64Array,
    shard: Shard,
    users: Float64Array,
) -> tuple[Float64Array, ...]:
    """Losses of the lists, gradients in their users, and by block those in the items and in the weights of entries.

    kernel: name, constants, and how many of the shard's arrays are of lists; then come items, covariates of entries,
    and what the loss needs.
    """
    name, constants, n = kernel
    (user_indptr, indptr), (items, covariates, *of_entries) = shard.indptrs, shard.data[n:]
    (first_of_user,) = frozen(indptr[user_indptr])
    scores = entry_scores(first_of_user, items, users, theta)
    if weights.size:
        scores += _product(covariates, weights)
    loss = Loss(name, constants, indptr, shard.data[:n], tuple(of_entries))
    values, residual = loss.of_each(scores)
    of_items = item_gradients(shard.bounds, first_of_user, items, users, residual, len(theta))
    blocks = pairwise(first_of_user[shard.bounds].tolist())
    in_weights = [_product(covariates[a:b].T, residual[a:b]) for a, b in blocks]
    return values, user_gradients(first_of_user, items, theta, residual), of_items, np.stack(in_weights)


def _product(table: Float64Array, vector: Float64Array) -> Float64Array:
    """table @ vector with sums in one fixed order, which a BLAS with threads does not promise."""
    return np.asarray(np.einsum("ij,j->i", table, vector))


def mean_curvature(loss: Loss, n_entries: int, seed: int) -> float:
    """Mean second derivative of a loss in a score: gradients at random signs against those at 0 (Hutchinson)."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], n_entries)
    change = loss(signs)[1] - loss(np.zeros(n_entries))[1]
    return max(float(np.mean(signs * change)), 1e-12)


def noise_penalty(
    residual: Float64Array, data: Data, user_counts: Float64Array, item_counts: Float64Array, seed: int
) -> float:
    """The penalty λ at which residuals without any structure would give no factor.

    With penalties λ n_u ‖W_u‖² and λ n_y ‖H_y‖² factors are worth their cost only if the matrix of residuals
    g_uy / sqrt(n_u n_y) has a singular value above 2 λ (the penalty is a weighted trace norm). Residuals with random
    signs have no structure; half of their largest singular value is the level of the noise.
    """
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], residual.size)
    weighted = signs * residual / np.sqrt(user_counts[data.user_of_entry] * item_counts[data.items])
    shape = (user_counts.size, item_counts.size)
    matrix = sparse.coo_array((weighted, (data.user_of_entry, data.items)), shape=shape).tocsr()
    transposed = matrix.T.tocsr()
    start = np.random.default_rng([seed, 1]).normal(size=(shape[1], 1))
    products = (lambda x: np.asarray(matrix @ x)), (lambda y: np.asarray(transposed @ y))
    (largest,), _ = singular_values(*products, start, _POWER_STEPS)
    return 0.5 * float(largest)


def best_users(
    data: Data, loss: Loss, theta: Float64Array, penalty: Float64Array, n_factors: int, *, tol: float = 1e-10
) -> Float64Array:
    """W of users whose items are fixed, (n_users, n_factors): one convex problem a user, all solved side by side.

    penalty: (n_users,), the penalty of each user.
    """

    def function(vector: Float64Array) -> tuple[float, Float64Array]:
        users = vector.reshape(-1, n_factors)
        value, residual = loss(entry_scores(data.first_of_user, data.items, users, theta))
        gradient = user_gradients(data.first_of_user, data.items, theta, residual) + 2.0 * penalty[:, None] * users
        return value + float(np.sum(penalty[:, None] * users**2)), gradient.ravel()

    size = data.rankings.n_users * n_factors
    scale = np.repeat(0.5 / np.maximum(penalty, 1e-12), n_factors)
    descent = minimise(function, np.zeros(size), scale, tol=tol)
    return run(descent, max_iter=_SWEEPS_FOR_USERS).estimate.reshape(-1, n_factors)


class Shrinkage(NamedTuple):
    """How much the factors are held back.

    Attributes
    ----------
    users, items : float or None
        Penalties; one that is None is set from the noise of the residuals.
    by_entries : bool
        Whether they are multiplied by the number of entries of the user or item.
    """

    users: float | None
    items: float | None
    by_entries: bool


class Fit(NamedTuple):
    """What was learnt: variables, factors and whole intercepts of the items, and the penalties that were used."""

    point: Point
    theta: Float64Array
    penalties: tuple[float, float]


def learner_of(data: Data, loss: Loss, design: Design, shrinkage: Shrinkage, *, tol: float, seed: int) -> Learner[Fit]:
    """Intercepts and weights first, which is a convex problem; then all variables together."""
    n_users, n_items = data.rankings.n_users, data.rankings.n_items
    curvature = mean_curvature(loss, data.items.size, seed)
    ridge = 0.5 * curvature * _HALF_TRUSTED, 0.5 * curvature * _HALF_BELIEVED
    none = Penalties(np.zeros(n_users), np.zeros(n_items), *ridge)

    def without_factors(covariates: Design) -> tuple[Objective, Learner[Float64Array]]:
        objective = Objective(data, loss, covariates._replace(n_factors=0), none)
        return objective, minimise(objective, np.zeros(objective.size), objective.scale(curvature), tol=tol)

    before, descent = without_factors(design)
    if design.n_factors == 0:
        return mapped(descent, lambda vector: _fit(before, vector, (0.0, 0.0)))
    start = before.parts(run(descent, max_iter=_SWEEPS_BEFORE).estimate)
    counts = _counts(data) if shrinkage.by_entries else (np.ones(n_users), np.ones(n_items))
    of_users, of_items = shrinkage.users, shrinkage.items
    if of_users is None or of_items is None:
        probe, point = before, start
        if not design.intercepts:  # what every item has is no noise, although here factors have to tell it
            level = np.column_stack([design.items, np.ones(n_items)])
            probe, descent = without_factors(design._replace(items=level, intercepts=True))
            point = probe.parts(run(descent, max_iter=_SWEEPS_BEFORE).estimate)
        noise = noise_penalty(loss(probe.scores(point))[1], data, *counts, seed)
        usual = max(KERNELS[loss.kernel].noise_share * noise, 1e-12)
        of_users, of_items = (usual if value is None else value for value in (of_users, of_items))
    used = float(of_users), float(of_items)
    penalties = Penalties(used[0] * counts[0], used[1] * counts[1], *ridge)
    objective = Objective(data, loss, design, penalties)
    descent = minimise(objective, _start(objective, start, seed), objective.scale(curvature), tol=tol)
    return mapped(descent, lambda vector: _fit(objective, vector, used))


def _fit(objective: Objective, vector: Float64Array, penalties: tuple[float, float]) -> Fit:
    point = objective.parts(vector)
    return Fit(point, objective.theta(point), penalties)


def _counts(data: Data) -> tuple[Float64Array, Float64Array]:
    """Entries of users and of items, weights included, as penalties count them."""
    weights = data.rankings.entry_weights()
    users = np.bincount(data.user_of_entry, weights, data.rankings.n_users)
    items = np.bincount(data.items, weights, data.rankings.n_items) + _MORE_ENTRIES
    return np.maximum(users, 1e-12), np.asarray(items, np.float64)


def _start(objective: Objective, without_factors: Point, seed: int) -> Float64Array:
    """Factors drawn at random, large enough to break their symmetry and small against the scores that are learnt."""
    data, rng = objective.data, np.random.default_rng(seed)
    vector = np.zeros(objective.size)
    point = objective.parts(vector)
    # Those of whom nothing is known start, and stay, at 0.
    listed = np.bincount(data.items, minlength=data.rankings.n_items) > 0
    point.users[:] = 0.3 * rng.normal(size=point.users.shape) * (np.diff(data.first_of_user) > 0)[:, None]
    point.factors[:] = 0.3 * rng.normal(size=point.factors.shape) * listed[:, None]
    for part, begin in zip(point[2:], without_factors[2:], strict=True):
        part[:] = begin
    return vector
