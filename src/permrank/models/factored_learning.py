"""The default learner of `FactoredPlackettLuce`: alternating draws (for the point estimate see factored_point.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.data.rankings import ItemView, Rankings
from permrank.inference.convergence import Monitor
from permrank.kernels.factored import item_steps, update_users
from permrank.kernels.swap_users import update_swap_users
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int32Array

# The first sweeps go to the modes, without noise: a draw around a random start helps nobody.
_QUIET_SWEEPS = 3
# Precision of an intercept around its prior mean, until it is learnt.
_FIRST_PRECISION = 4.0
# An item seen this often counts half in the regression of intercepts on their covariates.
_HALF_TRUSTED = 5.0
# Ratings of a user, or of an item, that pull its mean half-way from the overall mean (a usual choice).
_HALF_MEAN = 5.0


class Problem(NamedTuple):
    """Data in the form that the sweeps want.

    Attributes
    ----------
    rankings : Rankings
    ties : int
    shuffle : bool
        Whether ties are put into a new random order every sweep.
    intercepts : bool
    user_of_entry : int32 (n_entries,)
    covariates : float64 (n_items, n_covariates)
        What the prior mean of an intercept may depend on: the logarithm of how often an item is mentioned (what
        many come across is liked more) and, if there are ratings, the item's shrunk mean rating, which knows what an
        order forgets: a user whose ratings are all five says nothing to a ranking.
    places : float64 (n_entries,), optional
        Position function of each entry, for a model that is log-linear in it; without them it is Plackett-Luce.
    """

    rankings: Rankings
    ties: int
    shuffle: bool
    intercepts: bool
    user_of_entry: Int32Array
    covariates: Float64Array
    places: Float64Array | None = None

    def update_users(self, rankings: Rankings, *arguments: Any) -> Float64Array:
        """One pass over the users; see `kernels.factored.update_users`."""
        data = rankings.user_indptr, rankings.indptr, rankings.items
        if self.places is None:
            values = update_users(*data, rankings.levels, rankings.weights, self.ties, *arguments)
        else:
            values = update_swap_users(*data, self.places, rankings.weights, *arguments)
        return np.asarray(values)

    @classmethod
    def of(cls, rankings: Rankings, ties: int, *, shuffle: bool, intercepts: bool) -> Problem:
        """Prepare rankings."""
        per_user = np.diff(rankings.indptr[rankings.user_indptr])
        owner = np.repeat(np.arange(rankings.n_users, dtype=np.int32), per_user)
        columns = [np.log1p(np.bincount(rankings.items, minlength=rankings.n_items))]
        if rankings.ratings is not None:
            columns.append(shrunk_means(rankings.ratings, rankings, owner))
        table = np.column_stack(columns)
        spread = table.std(axis=0)
        table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return cls(rankings, ties, shuffle and rankings.has_ties, intercepts, owner, table)

    def usual_scale(self) -> float:
        """Standard deviation of the factors' part of a score a priori, by a rule.

        It cannot be learnt from the fit itself. Breslow's likelihood takes every tie for evidence of closeness, so with
        ties the marginal likelihood prefers factors that are far too small; on strict lists of few items the draws of
        all items side by side let it drift upwards. The rule was set on splits that no benchmark uses, and the optimum
        is flat: 1 for strict rankings (Sushi, seeds 20 and 21); with ties sqrt(mean number of entries of a user / 25),
        at most sqrt(3) (ML-100K, seeds 10 and 11, with 10, 20 and 50 ratings a user).
        """
        if not self.rankings.has_ties:
            return 1.0
        lengths = np.diff(self.rankings.indptr[self.rankings.user_indptr])
        return float(np.sqrt(min(3.0, lengths[lengths > 0].mean() / 25.0)))

    def in_sweep(self, key: Any, sweep: int) -> tuple[Rankings, ItemView, Int32Array]:
        """Rankings for one sweep: the same, or with ties in a new order."""
        rankings = self.rankings
        if self.shuffle:
            rankings = rankings.shuffled_ties(int(stream_key(int(key), sweep, 2)) % 2**63)
        return rankings, rankings.item_view, self.user_of_entry


def shrunk_means(ratings: Any, rankings: Rankings, owner: Int32Array) -> Float64Array:
    """Shrunk mean of the ratings (n_entries,) of each item, after the users' own means have been taken out."""
    ratings = ratings.astype(np.float64)
    ratings -= ratings.mean()
    n_users, n_items = rankings.n_users, rankings.n_items
    user_counts = np.bincount(owner, minlength=n_users) + _HALF_MEAN
    item_counts = np.bincount(rankings.items, minlength=n_items) + _HALF_MEAN
    of_items = np.zeros(n_items)
    for _ in range(10):  # alternating shrunk means settle to three digits in about five rounds
        of_users = np.bincount(owner, ratings - of_items[rankings.items], n_users) / user_counts
        of_items = np.bincount(rankings.items, ratings - of_users[owner], n_items) / item_counts
    return np.asarray(of_items)


class InterceptPrior:
    """b_y ~ N(covariates_y β, 1 / precision), with β and the precision learnt as the sweeps go."""

    def __init__(self, problem: Problem) -> None:
        counts = np.bincount(problem.rankings.items, minlength=problem.rankings.n_items)
        self._trust = counts / (counts + _HALF_TRUSTED)
        self._covariates = problem.covariates
        self.centre = np.zeros(counts.size)
        self.precision = _FIRST_PRECISION

    def update(self, intercepts: Float64Array) -> None:
        """Weighted least squares for β, then the precision of what is left; two imaginary items keep it finite."""
        weighted = self._covariates * self._trust[:, None]
        # A hundredth of an item's worth of ridge: covariates may be constant.
        normal = weighted.T @ self._covariates + 0.01 * np.eye(weighted.shape[1])
        self.centre = np.asarray(self._covariates @ np.linalg.solve(normal, weighted.T @ intercepts))
        seen = self._trust > 0
        squares = float(np.sum((intercepts - self.centre)[seen] ** 2))
        self.precision = (seen.sum() + 2.0) / (squares + 1.0)


def draw_posterior(
    problem: Problem, n_factors: int, scale: float, n_draws: int, key: Any, monitor: Monitor
) -> tuple[Any, Any]:
    """Alternate draws of users and items; keep some of them.

    Returns
    -------
    items : float32 (n_kept, n_items, n_factors + 1)
    users : float32 (n_kept, n_users, n_factors)
    """
    n_users, n_items = problem.rankings.n_users, problem.rankings.n_items
    theta, modes = _start(n_items, n_users, n_factors, key, problem.intercepts)
    draws, residual, curvature = _scratch(problem, n_factors)
    prior = InterceptPrior(problem)
    user_precision = np.ones(n_factors)
    precision = np.full(n_factors + 1, n_factors / scale**2)
    kept_sweeps = _kept(monitor.max_iter, n_draws)
    items, users = [], []
    while not monitor.exhausted:
        sweep = len(monitor.history)
        rankings, view, owner = problem.in_sweep(key, sweep)
        noisy = sweep >= _QUIET_SWEEPS
        values = problem.update_users(
            rankings, theta, user_precision, modes, draws, stream_key(int(key), sweep, 0), noisy, 1 if noisy else 3,
            1e-6, residual, curvature,
        )  # fmt: skip
        # Without intercepts their prior is a wall at 0.
        precision[-1] = prior.precision if problem.intercepts else 1e12
        if sweep in kept_sweeps:
            kept_items, kept_users = _smoothed(problem, theta, modes, draws, prior, precision, residual, curvature)
            items.append(kept_items)
            users.append(kept_users)
        theta += item_steps(
            view.indptr, view.entries, owner, draws, theta, prior.centre, precision, residual, curvature,
            stream_key(int(key), sweep, 1), noisy,
        )  # fmt: skip
        if problem.intercepts:
            theta[:, -1] -= theta[:, -1].mean()
            prior.update(theta[:, -1])
        else:
            theta[:, -1] = 0.0
        monitor.update(float(values.sum()))
    if not items:  # stopped by a callback before the first draw was due
        items, users = [theta.astype(np.float32)], [modes.astype(np.float32)]
    monitor.converged = len(monitor.history) >= monitor.max_iter
    return np.stack(items), np.stack(users)


def _smoothed(
    problem: Problem,
    theta: Float64Array,
    modes: Float64Array,
    draws: Float64Array,
    prior: InterceptPrior,
    precision: Float64Array,
    residual: Float64Array,
    curvature: Float64Array,
) -> tuple[Any, Any]:
    """What is kept of a sweep: the conditional mean of the items given the users drawn, and the users' modes there.

    A draw of the items carries noise that only a large average removes; their mean given the users' draw carries
    that of the users alone, which differs from user to user and averages out within an item.
    """
    rankings, view = problem.rankings, problem.rankings.item_view
    if problem.shuffle:
        return theta.astype(np.float32), modes.astype(np.float32)
    mean = theta + item_steps(
        view.indptr, view.entries, problem.user_of_entry, draws, theta, prior.centre, precision, residual, curvature,
        np.uint64(0), False,
    )  # fmt: skip
    users, scratch = modes.copy(), np.empty((2, residual.size))
    problem.update_users(
        rankings, mean, np.ones(modes.shape[1]), users, np.empty_like(users), np.uint64(0), False, 2, 1e-4, scratch[0],
        scratch[1],
    )  # fmt: skip
    return mean.astype(np.float32), users.astype(np.float32)


def _start(n_items: int, n_users: int, n_factors: int, key: Any, intercepts: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(int(key))
    # Large enough to break the symmetry of the factors, small against the scores that are learnt.
    theta = 0.1 * rng.normal(size=(n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta, 0.3 * rng.normal(size=(n_users, n_factors))


def _scratch(problem: Problem, n_factors: int) -> tuple[Float64Array, Float64Array, Float64Array]:
    n_entries = problem.rankings.n_entries
    return np.zeros((problem.rankings.n_users, n_factors)), np.empty(n_entries), np.empty(n_entries)


def _kept(n_sweeps: int, n_draws: int) -> set[int]:
    """Sweeps whose state is kept: evenly spread over the last three quarters, the last one among them."""
    first = min(n_sweeps - 1, max(n_sweeps // 4, _QUIET_SWEEPS + 1))
    return set(np.unique(np.linspace(first, n_sweeps - 1, n_draws).round().astype(int)).tolist())
