"""Alternating draws of the users and items of `FactoredPlackettLuce`; chain.py says how many, and which are kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.learning.learner import State
from permrank.posterior import odds
from permrank.posterior.kernels.arguments import NO_MEANS, ItemMeans, Items, Newton, Noise
from permrank.posterior.passes import Move, Passes, SomeUsers
from permrank.posterior.prior_means import (
    ScaledItemPrior,
    UserPrior,
    effects_of_features,
    recentre,
    restore,
    state_of,
)
from permrank.posterior.problem import Problem
from permrank.posterior.store import Draw
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

# The first sweeps go to the modes, without noise: a draw around a random start helps nobody.
QUIET_SWEEPS = 3
# The precision of the intercepts around their prior means is learnt after so many sweeps.
_FREE_SWEEPS = 10
# The longest step of an item's factors and intercept, in standard deviations of its prior.
_LONGEST_STEP = 3.0


class Start(NamedTuple):
    """Where draws go on from: items and thresholds (n_rows, n_factors + 1), users (n_users, n_factors)."""

    theta: Float64Array
    modes: Float64Array


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
        self._prior = ScaledItemPrior(problem, n_factors, scale)
        self._users = UserPrior(problem, n_factors)
        self.use(problem, settled=start is not None)

    def go_on(self, problem: Problem, state: State, done: int) -> None:
        """Go on from the state that an earlier run was left in after so many sweeps."""
        self.theta, self.modes = state["theta"], state["modes"]
        self.use(problem, settled=self.settled(done))
        self.draws = state["draws"].copy()
        self._users.hold(state["slopes"].copy(), self.draws, self.modes)
        if not problem.known.is_nothing:  # else all follows from the rest
            restore(self._prior, self._users, self.theta, state)

    def settled(self, done: int) -> bool:
        """Whether intercepts have left their start after so many sweeps."""
        return done > self._free

    def position(self) -> State:
        """What `go_on` needs."""
        here = {"theta": self.theta, "modes": self.modes, "draws": self.draws, "slopes": self.slopes}
        return here if self.problem.known.is_nothing else here | state_of(self._prior, self._users)

    def use(self, problem: Problem, *, settled: bool = True) -> None:
        """Go on with other lists of the same users and items."""
        self.problem = problem
        self.draws, self._passes = self.modes.copy(), Passes(problem, self.modes.shape[1])
        self._prior = ScaledItemPrior(problem, self._n_factors, self._scale, self._prior)
        self._prior.update(self.theta, settled=settled)
        self._users = UserPrior(problem, self._n_factors, self._users)
        self._users.update(self.draws, self.modes)

    @property
    def slopes(self) -> Float64Array:
        """How the prior means of the users' factors depend on their coordinates and features."""
        return self._users.slopes

    def sweep(self, number: int, *, keep: bool, people: SomeUsers | None = None) -> tuple[float, Draw | None]:
        """Draw everything once; returns the log-posterior of the users' modes, and what is kept, if asked.

        people: those who are of interest in what is kept, if not all are.
        """
        problem, prior = self.problem, self._prior
        if problem.shuffle:
            self._passes.use(problem.in_sweep(self._key, number))
        noisy = number >= self._quiet
        move = self._move(self.theta, stream_key(int(self._key), number, 0), noisy, Newton(1 if noisy else 3, 1e-6))
        pull = self._users.pull(stream_key(int(self._key), number, 7) if noisy else None)
        values, self.modes, self.draws = self._passes.users(move, self.modes, self.draws, pull)
        means = self._room() if keep and not problem.shuffle else NO_MEANS
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
        rng = np.random.default_rng(int(stream_key(int(self._key), number, 8))) if noisy else None
        if rng is not None and problem.intercepts and problem.known.items.shape[1]:
            recentre(prior, self._users, self.theta, (self.draws, self.modes), rng)
        prior.update(self.theta, settled=number >= self._free, rng=rng)
        self._users.update(self.draws, self.modes, rng)
        return float(values.sum()), kept

    def _move(self, theta: Float64Array, key: Key, draw: bool, newton: Newton) -> Move:
        # Laplace draws will do for scores, whose weights are learnt; coefficients learnt from them would be too small.
        exact = draw and bool(self.problem.known.users.shape[1])
        return Move(self.problem.pass_over_users(), theta, self._user_precision, self.slopes, key, draw, newton, exact)

    def _item_steps(self, noise: Noise, kept: ItemMeans) -> Float64Array:
        given = Items(self.theta, self._prior.centre, self._prior.precision)
        steps = self._passes.items(given, self.draws, noise, kept)
        if self.problem.odds:
            thresholds = slice(self.problem.rankings.n_items, None)
            for each in (steps, kept.steps):
                each[:, -2], each[thresholds] = 0.0, 0.0
            kept.variance[thresholds] = 0.0
        for each in (steps, kept.steps):
            self._shorten(each)
        return steps

    def _shorten(self, steps: Float64Array) -> None:
        """Steps no longer than `_LONGEST_STEP` standard deviations of the prior, in place.

        Far from where it belongs, the likelihood of an item of few entries is straight, and a Newton step there goes
        beyond everything; the prior's variance would follow, and the chain with it. Elsewhere steps are shorter.
        """
        longest = _LONGEST_STEP * np.sqrt(np.sum(1.0 / self._prior.precision))
        length = np.sqrt(np.sum(steps**2, axis=1, keepdims=True))
        steps *= np.minimum(1.0, longest / np.maximum(length, longest))

    def _room(self) -> ItemMeans:
        return ItemMeans(np.empty_like(self.theta), np.empty(len(self.theta)))

    def _moved_thresholds(self, number: int, noisy: bool) -> Float64Array:
        n = self.problem.thresholds.size
        rng = np.random.default_rng(int(stream_key(int(self._key), number, 5)))
        noise = rng.normal(size=n) if noisy else np.zeros(n)
        return odds.moved_thresholds(self.theta[-n:, -1], self._passes.thresholds, noise)

    def state(self) -> Draw:
        """What stands for a draw before one is kept."""
        return Draw(self.theta, self.modes, self.slopes, np.zeros(self.problem.n_rows), self._effects())

    def _effects(self) -> tuple[Array, ...]:
        """What features and links are worth at present, if there are any."""
        items, n_factors = self._prior, self._n_factors
        slopes = items.slopes[:, [*range(n_factors), items.slopes.shape[1] - 1]]
        return effects_of_features(items, self._users, self.problem, slopes, 1.0 / items.precision[:n_factors])

    @property
    def noise(self) -> Float64Array:
        """By how much the last draw of the users differs from their modes."""
        return np.asarray(self.draws - self.modes)

    def _smoothed(self, means: ItemMeans, people: SomeUsers | None) -> Draw:
        """What is kept of a sweep: the conditional mean of the items given the users drawn, and the users' modes there.

        A draw of the items carries noise that only a large average removes; their mean given the users' draw carries
        that of the users alone, which differs from user to user and averages out within an item. Probabilities want the
        noise back: so the variances of the items' scores given the users are kept too.
        """
        if self.problem.shuffle:
            none = np.zeros(self.problem.n_rows)
            return Draw(self.theta.copy(), self.modes.copy(), self.slopes.copy(), none, self._effects())
        mean, pull = self.theta + means.steps, self._users.friends_pull()
        # One step leaves an error of some thousandths, too little to see in a mean; other models keep modes themselves.
        n_steps = 1 if self.problem.user_pass is None else 2
        move = self._move(mean, np.uint64(0), False, Newton(n_steps, 1e-4))
        users = people.modes(move, self.modes, pull) if people else self._passes.modes(move, self.modes.copy(), pull)
        means.variance[self._prior.new] += self._prior.variance_of_new()
        return Draw(mean, users, self.slopes.copy(), means.variance, self._effects())


def _start(n_items: int, n_users: int, n_factors: int, key: Key) -> tuple[Array, Array]:
    rng = np.random.default_rng(int(key))
    # Large enough to break the symmetry of the factors, small against the scores that are learnt.
    theta = 0.1 * rng.normal(size=(n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta, 0.3 * rng.normal(size=(n_users, n_factors))
