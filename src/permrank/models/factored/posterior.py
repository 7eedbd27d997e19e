"""The default learner of `FactoredPlackettLuce`: alternating draws (for the point estimate see point.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from permrank.checks import require_memory
from permrank.kernels.factored.arguments import NOTHING_KEPT, Items, Kept, Newton, Noise
from permrank.learning.learner import Learner, State, Step, standing
from permrank.models.factored import odds
from permrank.models.factored.calibration import HeldOut, Weights, best_weights, hold_out_pairs, n_folds
from permrank.models.factored.passes import Move, Passes
from permrank.models.factored.prior_means import ItemPrior, UserPrior, coefficients, explained, restore, state_of
from permrank.models.factored.problem import Problem
from permrank.models.priors.effects import Effects
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

# The first sweeps go to the modes, without noise: a draw around a random start helps nobody.
_QUIET_SWEEPS = 3
# The precision of the intercepts around their prior means is learnt after so many sweeps.
_FREE_SWEEPS = 10
# Draws are kept after this part of the sweeps; where entries are held out, the weights of scores are measured in it.
_FIRST_KEPT, _FIRST_KEPT_TIED = 1 / 3, 1 / 2
# Sweeps of a fold of held-out entries, if there are several, and the part of them that is measured.
_FOLD_SWEEPS, _PART_MEASURED = 50, 0.6
# Where held-out pairs decide: the numbers of factors, and at most so many sweeps for each, the second half measured.
_TRIED_FACTORS, _TRIED_SWEEPS = (4, 8, 16, 32), 60
# What is kept of a sweep, as checkpoints name it.
_KEPT = ("items", "users", "slopes_kept", "variances")


class Start(NamedTuple):
    """Where draws go on from: items and thresholds (n_rows, n_factors + 1), users (n_users, n_factors).

    slopes: (n_dimensions, n_factors), how the users' prior means depend on their places; by default from their modes.
    """

    theta: Float64Array
    modes: Float64Array
    slopes: Float64Array | None = None


class Posterior(NamedTuple):
    """What is kept of the draws.

    Attributes
    ----------
    items : float32 (n_kept, n_rows, n_factors + 1)
    users : float32 (n_kept, n_users, n_factors)
    slopes : float32 (n_kept, n_dimensions, n_factors)
    variances : float32 (n_kept, n_rows)
        What the items' own uncertainty adds to the variance of their scores, which means given the users leave out.
    weights : Weights
        What scores are made with, from held-out pairs; 1 if there are no ties.
    effects : dict of arrays
        What features and links are worth (models/priors/effects.py).
    """

    items: Array
    users: Array
    slopes: Array
    variances: Array
    weights: Weights
    effects: dict[str, Array]


class Sampler:
    """State of the alternating draws; `sweep` draws users, then items."""

    def __init__(self, problem: Problem, n_factors: int, scale: float, key: Key, start: Start | None) -> None:
        self._key, self._quiet, self._free = key, 0 if start else _QUIET_SWEEPS, 0 if start else _FREE_SWEEPS
        self._n_factors, self._scale = n_factors, scale
        n_columns = n_factors + problem.odds
        begin = start or Start(*_start(problem.n_rows, problem.rankings.n_users, n_columns, key))
        self.theta, self.modes = begin.theta.copy(), begin.modes.copy()
        if problem.odds and not start:
            self.theta = odds.started(self.theta, problem)
        self._user_precision = np.ones(n_columns)
        self._prior: ItemPrior | None = None
        self._users: UserPrior | None = None
        self.use(problem, settled=start is not None)

    def go_on(self, problem: Problem, state: State, done: int) -> None:
        """Go on from the state that an earlier run was left in after so many sweeps."""
        self.theta, self.modes = state["theta"], state["modes"]
        self.use(problem, settled=done > self._free)
        self.slopes[:], self.draws = state["slopes"], state["draws"].copy()
        if not problem.known.is_nothing:  # else all follows from the rest
            restore(self._prior, self._users, self.theta, state)

    def position(self) -> State:
        """What `go_on` needs."""
        here = {"theta": self.theta, "modes": self.modes, "slopes": self.slopes, "draws": self.draws}
        return here if self.problem.known.is_nothing else here | state_of(self._prior, self._users)

    def use(self, problem: Problem, *, settled: bool = True) -> None:
        """Go on with other lists of the same users and items."""
        self.problem = problem
        self.draws, self._passes = self.modes.copy(), Passes(problem)
        self._prior = ItemPrior(problem, self._n_factors, self._scale, self._prior)
        self._prior.update(self.theta, settled=settled)
        self._users = UserPrior(problem, self._n_factors, self._users)
        self._users.update(self.modes)

    @property
    def slopes(self) -> Float64Array:
        """How the prior means of the users' factors depend on their coordinates and features."""
        return self._users.slopes

    def sweep(self, number: int, *, keep: bool) -> tuple[float, tuple[Array, ...] | None]:
        """Draw everything once; returns the log-posterior of the users' modes, and what is kept, if asked."""
        problem, prior = self.problem, self._prior
        if problem.shuffle:
            self._passes.use(*problem.in_sweep(self._key, number))
        noisy = number >= self._quiet
        move = self._move(self.theta, stream_key(int(self._key), number, 0), noisy, Newton(1 if noisy else 3, 1e-6))
        pull = self._users.pull(self.draws, stream_key(int(self._key), number, 7), draw=noisy)
        values, self.modes, self.draws = self._passes.users(move, self.modes, self.draws, pull)
        means = self._room() if keep and not problem.shuffle else NOTHING_KEPT
        steps = self._item_steps(Noise(stream_key(int(self._key), number, 1), noisy), means)
        kept = self._smoothed(means) if keep else None
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
        prior.update(self.theta, settled=number >= self._free, rng=rng)
        self._users.update(self.draws, rng)
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

    def state(self) -> tuple[Float64Array, ...]:
        """What stands for a draw before one is kept, in the order of `Posterior`."""
        return self.theta, self.modes, self.slopes, np.zeros(self.problem.n_rows)

    def keep_effects(self, effects: Effects) -> None:
        """Keep what features and links are worth at present, if there are any."""
        if not self.problem.known.is_nothing:
            found = coefficients(self._prior, self._users, self.problem, self._n_factors)
            effects.add(found, *explained(self._prior, self.problem, found))

    @property
    def noise(self) -> Float64Array:
        """By how much the last draw of the users differs from their modes."""
        return np.asarray(self.draws - self.modes)

    def _smoothed(self, means: Kept) -> tuple[Float64Array, ...]:
        """What is kept of a sweep: the conditional mean of the items given the users drawn, and the users' modes there.

        A draw of the items carries noise that only a large average removes; their mean given the users' draw carries
        that of the users alone, which differs from user to user and averages out within an item. Probabilities want the
        noise back: so the variances of the items' scores given the users are kept too.
        """
        if self.problem.shuffle:
            return self.theta.copy(), self.modes.copy(), self.slopes.copy(), np.zeros(self.problem.n_rows)
        mean, pull = self.theta + means.steps, self._users.friends_pull(self.modes)
        users = self._passes.modes(self._move(mean, np.uint64(0), False, Newton(2, 1e-4)), self.modes.copy(), pull)
        new = np.diff(self.problem.view.indptr)[: self.problem.rankings.n_items] == 0
        means.variance[: new.size][new] += self._prior.variance_of_new()
        return mean, users, self.slopes.copy(), means.variance


def draw_posterior(
    problem: Problem,
    n_factors: int,
    scale: float,
    n_draws: int,
    key: Key,
    n_sweeps: int,
    start: Start | None = None,
) -> Learner[Posterior]:
    """Alternate draws of users and items; keep some of them.

    Until the first draw is kept, a part of the entries of tied lists is held out: it measures the weights of the
    scores, and costs nothing. A start, which is the state of an earlier posterior, is taken as it is and needs no such
    part.
    """
    holds_out = start is None and problem.rankings.has_ties and problem.user_pass is None
    part = _FIRST_KEPT_TIED if holds_out else _FIRST_KEPT
    kept_sweeps = _kept(n_sweeps, n_draws, max(int(n_sweeps * part), 0 if start else _QUIET_SWEEPS + 1))
    n_numbers = problem.n_rows * (n_factors + 2) + problem.rankings.n_users * n_factors
    require_memory(
        2 * 4 * len(kept_sweeps) * n_numbers,  # float32, once in parts and once together
        f"{len(kept_sweeps)} draws of {n_factors} factors", "take fewer draws (n_draws) or factors (n_factors)",
    )  # fmt: skip
    first = 0 if start else min(kept_sweeps)

    def steps(kept: State | None) -> Iterator[Step[Posterior]]:
        folds: list[HeldOut] = []
        if holds_out:
            seed = int(stream_key(int(key), 3)) % 2**63
            numbers = range(min(n_folds(problem), max(1, first // _FOLD_SWEEPS)))
            folds = [held for fold in numbers if (held := hold_out_pairs(problem, seed, fold))]
        plan = _measured(first, len(folds))
        sampler = Sampler(folds[0].problem if folds else problem, n_factors, scale, key, start)
        weights, done, effects = Weights(), 0, Effects()
        drawn: tuple[list[Array], ...] = ([], [], [], [])
        if kept:
            weights, done = Weights(kept["temperature"], kept["personal"]), kept["done"]
            drawn = tuple(list(kept[name]) for name in _KEPT)
            effects.restore({name: kept[f"effects_{name}"] for name in effects.arrays()})
            for number, fold in enumerate(folds):
                fold.restore({name: kept[f"held_{number}_{name}"] for name in fold.state()})
            # What is seen changes at the beginning of a sweep, so the last sweep saw what the plan has for it.
            before = plan.get(done - 1, _Seen(None, False)) if done else plan.get(0, _Seen(None, False))
            seen = problem if before.fold is None else folds[before.fold].problem
            sampler.go_on(seen, kept, done)

        def estimate() -> Posterior:
            # Before the first draw that is kept, the present state stands for it.
            parts = drawn if drawn[0] else tuple([part] for part in sampler.state())
            items, users, slopes, variances = (np.array(part, np.float32) for part in parts)
            return Posterior(items, users, slopes, variances, weights, effects.arrays())

        def state() -> State:
            stacked = (_stacked(parts, like) for parts, like in zip(drawn, sampler.state(), strict=True))
            observed = {f"held_{n}_{name}": part for n, fold in enumerate(folds) for name, part in fold.state().items()}
            return {
                **sampler.position(), "done": done,
                "temperature": weights.temperature, "personal": weights.personal,
                **dict(zip(_KEPT, stacked, strict=True)), **observed,
                **{f"effects_{name}": array for name, array in effects.arrays().items()},
            }  # fmt: skip

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            now = plan.get(sweep, _Seen(None, False))
            seen = problem if now.fold is None else folds[now.fold].problem
            if seen is not sampler.problem:
                if now.fold is None:
                    weights = best_weights(folds)
                sampler.use(seen)
            value, found = sampler.sweep(sweep, keep=now.measured or (now.fold is None and sweep in kept_sweeps))
            if found and now.fold is not None:
                folds[now.fold].observe(found[0], found[1], sampler.noise, found[3])
            elif found:
                sampler.keep_effects(effects)
                for parts, part in zip(drawn, found, strict=True):
                    parts.append(part.astype(np.float32))
            done = sweep + 1
            # Whatever is held out, the posterior is of other data.
            last, early = done == n_sweeps, done <= min(kept_sweeps)
            yield Step(value, estimate, state, last, early, part=len(folds) if now.fold is None else now.fold)

    return steps


def choose_factors(problem: Problem, scale: float, key: Key, n_sweeps: int) -> Float64Array:
    """Loss of held-out pairs for several numbers of factors: rows of number, loss, standard error."""
    rows = []
    for n_factors in _TRIED_FACTORS:
        held = _tried(problem, n_factors, scale, key, n_sweeps)
        if held is None:
            return np.array([[_TRIED_FACTORS[0], 0.0, 0.0]])
        each = held.losses()
        rows.append((n_factors, float(each.mean()), float(each.std() / np.sqrt(each.size))))
    return np.array(rows)


def _tried(problem: Problem, n_factors: int, scale: float, key: Key, n_sweeps: int) -> HeldOut | None:
    """Held-out pairs as a short chain tells them, never longer than the whole; None if there are none."""
    n_sweeps = min(_TRIED_SWEEPS, n_sweeps)
    held = hold_out_pairs(problem, int(stream_key(int(key), 4)) % 2**63)
    if held is None:
        return None
    sampler = Sampler(held.problem, n_factors, scale, key, None)
    for sweep in range(n_sweeps):
        _, kept = sampler.sweep(sweep, keep=sweep >= n_sweeps // 2)
        if kept:
            held.observe(kept[0], kept[1], sampler.noise, kept[3])
    return held


def _start(n_items: int, n_users: int, n_factors: int, key: Key) -> tuple[Array, Array]:
    rng = np.random.default_rng(int(key))
    # Large enough to break the symmetry of the factors, small against the scores that are learnt.
    theta = 0.1 * rng.normal(size=(n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta, 0.3 * rng.normal(size=(n_users, n_factors))


class _Seen(NamedTuple):
    """What a sweep sees: all but the held-out entries of a fold, or everything; and whether it measures the fold."""

    fold: int | None
    measured: bool


def _measured(first: int, n_folds: int) -> dict[int, _Seen]:
    """What the sweeps before the first that is kept see: folds in turn, each measured in the last part of its sweeps.

    Until then the chain finds its way, or forgets what it has seen of the entries that are held out now.
    """
    plan: dict[int, _Seen] = {}
    for fold in range(n_folds):
        begin, end = fold * first // n_folds, (fold + 1) * first // n_folds
        measured = max(end - (end - begin) * _PART_MEASURED, _QUIET_SWEEPS + 1)
        plan |= {sweep: _Seen(fold, sweep >= measured) for sweep in range(begin, end)}
    return plan


def _stacked(draws: list[Array], like: Float64Array) -> Array:
    return np.array(draws, np.float32).reshape(len(draws), *like.shape)


def _kept(n_sweeps: int, n_draws: int, least: int) -> set[int]:
    """Sweeps whose state is kept: evenly spread, the last one among them.

    least: sweeps that are left out, if there are more.
    """
    first = min(n_sweeps - 1, least)
    return set(np.unique(np.linspace(first, n_sweeps - 1, n_draws).round().astype(int)).tolist())
