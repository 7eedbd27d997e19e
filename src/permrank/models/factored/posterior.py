"""Alternating draws of the users and items of `FactoredPlackettLuce`; chain.py says how many, and which are kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.kernels.cooccurrence import cross
from permrank.kernels.factored.arguments import NOTHING_KEPT, Items, Kept, Newton, Noise
from permrank.models.factored import odds
from permrank.models.factored.kept import Found
from permrank.models.factored.passes import Move, Passes, People
from permrank.models.factored.problem import Problem, item_mentions
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

# The first sweeps go to the modes, without noise: a draw around a random start helps nobody.
QUIET_SWEEPS = 3
# Precision of an intercept around its prior mean, until it is learnt after so many sweeps.
_FIRST_PRECISION, _FREE_SWEEPS = 4.0, 10
# An item seen this often counts half in the regression of items on their covariates.
_HALF_TRUSTED = 5.0
# Ridge of the two regressions, in rows' worth: covariates may be constant.
_ITEM_RIDGE, _USER_RIDGE = 0.01, 1.0
# Precision of what is held at its prior mean.
_WALL = 1e12


class ItemPrior:
    """θ_y ~ N(covariates_y Γ, 1 / precision): factors and intercept; thresholds have Γ = 0.

    Γ is learnt, and so is the precision of the intercepts; that of the factors is given. With proportional odds the
    variance falls as 1, 1/2, 1/3, ... from factor to factor: factors that are not needed would add their variance to
    every score. The loading on the users' level is held where it is.
    """

    def __init__(self, problem: Problem, n_factors: int, scale: float) -> None:
        mentions = item_mentions(problem.rankings)
        self._trust = mentions / (mentions + _HALF_TRUSTED)
        self._covariates, self._problem = problem.covariates, problem
        self.centre = np.zeros((problem.n_rows, n_factors + problem.odds + 1))
        self.precision = np.full(n_factors + problem.odds + 1, n_factors / scale**2)
        if problem.odds:
            place = np.arange(1.0, n_factors + 1.0)
            self.precision[:n_factors] = place * np.sum(1.0 / place) / scale**2
            self.precision[-2] = _WALL
        # Without intercepts their prior is a wall at 0.
        self.precision[-1] = _FIRST_PRECISION if problem.intercepts else _WALL

    def update(self, theta: Float64Array, *, settled: bool = True) -> None:
        """Weighted least squares for Γ, then the precision of what is left; two imaginary items keep it finite.

        settled: whether the intercepts have left their start; while they are near 0 they would say that all are.
        """
        n_items = self._trust.size
        slopes = regression(self._covariates, theta[:n_items], self._trust, _ITEM_RIDGE)
        self.centre[:n_items] = np.einsum("yj,jk->yk", self._covariates, slopes)
        if self._problem.intercepts and settled:
            away = (theta - self.centre)[:n_items, -1]
            self.precision[-1] = (self._trust.sum() + 2.0) / (float(np.sum(self._trust * away**2)) + 1.0)
        if self._problem.odds:
            self.centre[:n_items, -2] = theta[:n_items, -2]


def regression(known: Float64Array, wanted: Float64Array, weights: Float64Array | float, ridge: float) -> Float64Array:
    """Slopes of wanted (n, K) on known (n, p) by weighted least squares: (p, K)."""
    weighted = np.ascontiguousarray((known.T * weights).T)
    normal = cross(weighted, known) + ridge * np.eye(known.shape[1])
    return np.asarray(np.linalg.solve(normal, cross(weighted, np.ascontiguousarray(wanted))))


class Start(NamedTuple):
    """Where draws go on from: items and thresholds (n_rows, n_factors + 1), users (n_users, n_factors).

    slopes: (n_dimensions, n_factors), how the users' prior means depend on their places; by default from their modes.
    """

    theta: Float64Array
    modes: Float64Array
    slopes: Float64Array | None = None


class Sampler:
    """State of the alternating draws; `sweep` draws users, then items."""

    def __init__(self, problem: Problem, n_factors: int, scale: float, key: Key, start: Start | None) -> None:
        self._key, self._quiet, self._free = key, 0 if start else QUIET_SWEEPS, 0 if start else _FREE_SWEEPS
        self._n_factors, self._scale = n_factors, scale
        n_columns = n_factors + problem.odds
        begin = start or Start(*_start(problem.n_rows, problem.rankings.n_users, n_columns, key))
        self.theta, self.modes = begin.theta.copy(), begin.modes.copy()
        if problem.odds and not start:
            self.theta = odds.started(self.theta, problem)
        self._user_precision = np.ones(n_columns)
        self.use(problem, settled=start is not None)

    def go_on(self, problem: Problem, state: Start, done: int) -> None:
        """Go on from the state that an earlier run was left in after so many sweeps: all else follows from it."""
        self.theta, self.modes = state.theta, state.modes
        self.use(problem, settled=done > self._free)
        if state.slopes is not None:
            self.slopes = state.slopes

    def use(self, problem: Problem, *, settled: bool = True) -> None:
        """Go on with other lists of the same users and items."""
        self.problem = problem
        self.draws, self._passes = np.zeros_like(self.modes), Passes(problem, self.modes.shape[1])
        self._prior = ItemPrior(problem, self._n_factors, self._scale)
        self._prior.update(self.theta, settled=settled)
        self.slopes = self._slopes(self.modes)

    def _slopes(self, users: Float64Array) -> Float64Array:
        """Prior means of the users' factors, W_u ~ N(place_u slopes, 1), as these users have them."""
        return regression(self.problem.user_coordinates, users, 1.0, _USER_RIDGE)

    def sweep(self, number: int, *, keep: bool, people: People | None = None) -> tuple[float, Found | None]:
        """Draw everything once; returns the log-posterior of the users' modes, and what is kept, if asked.

        people: those who are of interest in what is kept, if not all are.
        """
        problem, prior = self.problem, self._prior
        if problem.shuffle:
            self._passes.use(problem.in_sweep(self._key, number))
        noisy = number >= self._quiet
        move = self._move(self.theta, stream_key(int(self._key), number, 0), noisy, Newton(1 if noisy else 3, 1e-6))
        values, self.modes, self.draws = self._passes.users(move, self.modes, self.draws)
        means = self._room() if keep and not problem.shuffle else NOTHING_KEPT
        steps = self._item_steps(Noise(stream_key(int(self._key), number, 1), noisy), means)
        kept = self._smoothed(means, people) if keep else None
        moved = self._moved_thresholds(number, noisy) if problem.odds else None
        self.theta += steps
        if moved is not None:
            self.theta[-moved.size :, -1] = moved
            means = np.einsum("uj,j->u", problem.user_coordinates, self.slopes[:, -1])
            odds.settle_levels(self.theta, self.modes, self.draws, means, moved.size)
        if problem.intercepts:
            self.theta[:, -1] -= self.theta[: problem.rankings.n_items, -1].mean()
        else:
            self.theta[: problem.rankings.n_items if problem.odds else None, -1] = 0.0
        prior.update(self.theta, settled=number >= self._free)
        self.slopes = self._slopes(self.draws)
        return float(values.sum()), kept

    def _move(self, theta: Float64Array, key: Key, draw: bool, newton: Newton) -> Move:
        return Move(self.problem.pass_over_users(), theta, self._user_precision, self.slopes, key, draw, newton)

    def _item_steps(self, noise: Noise, kept: Kept) -> Float64Array:
        given = Items(self.theta, self._prior.centre, self._prior.precision)
        steps = self._passes.items(given, self.draws, noise, kept)
        if self.problem.odds:
            thresholds = slice(self.problem.rankings.n_items, None)
            for each in (steps, kept.steps):
                each[:, -2], each[thresholds] = 0.0, 0.0
            kept.variance[thresholds] = 0.0
        return steps

    def _room(self) -> Kept:
        return Kept(np.empty_like(self.theta), np.empty(len(self.theta)))

    def _moved_thresholds(self, number: int, noisy: bool) -> Float64Array:
        n = self.problem.thresholds.size
        rng = np.random.default_rng(int(stream_key(int(self._key), number, 5)))
        noise = rng.normal(size=n) if noisy else np.zeros(n)
        return odds.moved_thresholds(self.theta[-n:, -1], self._passes.thresholds(self.theta, n, self.draws), noise)

    def state(self) -> Found:
        """What stands for a draw before one is kept."""
        return Found(self.theta, self.modes, self.slopes, np.zeros(self.problem.n_rows))

    @property
    def noise(self) -> Float64Array:
        """By how much the last draw of the users differs from their modes."""
        return np.asarray(self.draws - self.modes)

    def _smoothed(self, means: Kept, people: People | None) -> Found:
        """What is kept of a sweep: the conditional mean of the items given the users drawn, and the users' modes there.

        A draw of the items carries noise that only a large average removes; their mean given the users' draw carries
        that of the users alone, which differs from user to user and averages out within an item. Probabilities want the
        noise back: so the variances of the items' scores given the users are kept too.
        """
        if self.problem.shuffle:
            return Found(self.theta.copy(), self.modes.copy(), self.slopes, np.zeros(self.problem.n_rows))
        mean = self.theta + means.steps
        move = self._move(mean, np.uint64(0), False, Newton(1, 1e-4))
        users = people.modes(move, self.modes) if people else self._passes.modes(move, self.modes.copy())
        return Found(mean, users, self.slopes, means.variance)


def _start(n_items: int, n_users: int, n_factors: int, key: Key) -> tuple[Array, Array]:
    rng = np.random.default_rng(int(key))
    # Large enough to break the symmetry of the factors, small against the scores that are learnt.
    theta = 0.1 * rng.normal(size=(n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta, 0.3 * rng.normal(size=(n_users, n_factors))
