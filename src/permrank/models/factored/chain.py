"""The default learner of `FactoredPlackettLuce`: how long the draws go on, and which are kept.

While a fold of entries is held out, the chain finds its way and the weights of the scores are measured; then it sees
everything, and draws are kept. Both parts end when means over the first and over the second half of what was observed
agree: what they differ by is the error of the mean, and whatever way the chain has still to go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from permrank.checks import require_memory
from permrank.learning.learner import Learner, State, Step, standing
from permrank.models.factored.calibration import HeldOut, Weights, best_weights, hold_out_pairs, n_folds
from permrank.models.factored.posterior import QUIET_SWEEPS, Posterior, Sampler, Start
from permrank.models.factored.problem import Problem
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int64Array, Key

# The most sweeps that folds of held-out entries take together, in parts of all, and that one of several takes.
_PART_HELD_OUT, _FOLD_SWEEPS = 1 / 2, 50
# The first fold begins with so many sweeps in which the chain finds its way, others with those in which it forgets what
# it saw, never more than a part of the fold; then so many are measured. If the two halves of these disagree they are
# forgotten, and twice as many are measured.
_FINDING, _FORGETTING, _FIRST_WINDOW, _PART_FORGETTING = 24, 16, 16, 0.4
# Draws of the last part of the sweeps are kept: after those that find the way, and after folds, which have found it.
_PART_FINDING, _PART_SETTLING = 1 / 3, 1 / 10
# Whether halves agree is asked after so many draws, and again after so many more.
_FEWEST_DRAWS, _MORE_DRAWS = 16, 8
# Halves agree if the error of the mean makes at most this part of the variance of score differences; for the weights
# their spread must be the same too, within this part.
_FOLD_ERROR, _ERROR, _SAME_SPREAD = 0.02, 0.005, 0.03
# Differences of scores that are looked at.
_DIFFERENCES = 2_048
# Where held-out pairs decide: the numbers of factors, and at most so many sweeps for each, the second half measured.
_TRIED_FACTORS, _TRIED_SWEEPS = (4, 8, 16, 32), 60
# What is kept of a sweep, as checkpoints name it.
_KEPT = ("items", "users", "slopes_kept", "variances")


class Stage(NamedTuple):
    """Where the chain is: which fold is held out, or everything seen if there is none left, and since which sweep.

    Attributes
    ----------
    fold : int
    begun : int
        First sweep of the stage.
    window : int
        Of a fold: first sweep of those that are measured.
    until : int
        Of a fold: the sweep before which the halves of what was measured are compared.
    """

    fold: int
    begun: int
    window: int
    until: int

    @classmethod
    def of_fold(cls, fold: int, begun: int, most: int) -> Stage:
        """The beginning of a fold of at most so many sweeps."""
        finding = min(_FORGETTING if begun else _FINDING, int(most * _PART_FORGETTING))
        window = begun + max(finding, 0 if begun else min(QUIET_SWEEPS + 1, most - 1))
        return cls(fold, begun, window, _window_end(window, _FIRST_WINDOW, begun + most))

    def longer(self, most: int) -> Stage:
        """The same fold with a window twice as long, after the first."""
        until = _window_end(self.until, 2 * (self.until - self.window), self.begun + most)
        return self._replace(window=self.until, until=until)


def _window_end(begin: int, length: int, last: int) -> int:
    """No window is left over that would be too short to tell anything."""
    return begin + length if begin + 2 * length <= last else last


class Draws:
    """What is kept of the sweeps that see everything: at most so many draws, evenly spread over the last of them.

    When there is no room, every second draw goes, and from then on every second sweep is kept of those that were.
    """

    def __init__(self, most: int, spacing: int, left_out: float) -> None:
        self._most, self._left_out = most, left_out
        self.parts: tuple[list[Array], ...] = ([], [], [], [])
        self.sweeps: list[int] = []
        self.spacing = spacing

    def wants(self, sweep: int, begun: int) -> bool:
        """Whether this sweep is one to keep."""
        return (sweep - begun) % self.spacing == 0

    def keep(self, sweep: int, begun: int, found: tuple[Array, ...]) -> None:
        """Add what a sweep has found, and forget what is too early by now."""
        early = int(np.searchsorted(self.sweeps, begun + self._left_out * (sweep - begun)))
        if len(self.sweeps) - early == self._most:
            self._only(slice(early + 1, None, 2))
            self.spacing *= 2
        else:
            self._only(slice(early, None))
        self.sweeps.append(sweep)
        for kept, part in zip(self.parts, found, strict=True):
            kept.append(part.astype(np.float32))

    def _only(self, part: slice) -> None:
        self.sweeps, self.parts = self.sweeps[part], tuple(kept[part] for kept in self.parts)

    def state(self, like: tuple[Float64Array, ...]) -> State:
        """As arrays by name; like: what one draw looks like."""
        stacked = (
            np.array(part, np.float32).reshape(len(part), *one.shape)
            for part, one in zip(self.parts, like, strict=True)
        )
        return {**dict(zip(_KEPT, stacked, strict=True)), "kept_sweeps": np.array(self.sweeps, np.int64)}

    def restore(self, kept: State) -> None:
        """Go on from what `state` gave."""
        self.parts, self.sweeps = tuple(list(kept[name]) for name in _KEPT), kept["kept_sweeps"].tolist()
        self.spacing = kept["spacing"]


class Differences:
    """Some differences of scores by which convergence is seen: any users, items as often as they are listed."""

    def __init__(self, problem: Problem, key: Key) -> None:
        rng, rankings = np.random.default_rng(int(stream_key(int(key), 6))), problem.rankings
        lengths = np.diff(rankings.user_bounds)
        users, n = np.flatnonzero(lengths > 0), min(_DIFFERENCES, 8 * rankings.n_entries)
        self._users: Int64Array = users[rng.integers(users.size, size=n)] if users.size else users
        self._items: Int64Array = rankings.items[rng.integers(max(rankings.n_entries, 1), size=(2, n))].astype(np.int64)

    def error(self, draws: Draws, personal: float) -> float:
        """Part of the variance of the differences that is the error of their means over the draws."""
        if len(draws.sweeps) < 2 or self._users.size == 0:
            return 1.0
        first, second = self._items
        found = []
        for items, users in zip(*draws.parts[:2], strict=True):
            rows = (items[first] - items[second]).astype(np.float64)
            found.append(personal * np.einsum("ek,ek->e", rows[:, :-1], users[self._users]) + rows[:, -1])
        return error_of_mean(np.stack(found))


def error_of_mean(values: Float64Array) -> float:
    """Variance of the mean over rows, from its two halves, in parts of the variance between the columns; 1 at most."""
    half = len(values) // 2
    if half == 0:
        return 1.0
    first, second = values[:half].mean(axis=0), values[-half:].mean(axis=0)
    # The mean of both differs from the truth by half of what they differ by; their errors are not in the product.
    telling = float(np.mean(first * second))
    error = float(np.mean((first - second) ** 2)) / 4.0
    return error / telling if telling > error else 1.0


def draw_posterior(
    problem: Problem,
    n_factors: int,
    scale: float,
    n_draws: int,
    key: Key,
    n_sweeps: int,
    start: Start | None = None,
) -> Learner[Posterior]:
    """Alternate draws of users and items until means over them are steady; keep some of them.

    First a part of the entries is held out: it measures the weights of the scores while the chain finds
    its way. A start, which is the state of an earlier posterior, is taken as it is and needs no such part.
    """
    holds_out = start is None and problem.user_pass is None
    n_numbers = problem.n_rows * (n_factors + 2) + problem.rankings.n_users * n_factors
    require_memory(
        2 * 4 * min(n_draws, n_sweeps) * n_numbers,  # float32, once in parts and once together
        f"{min(n_draws, n_sweeps)} draws of {n_factors} factors", "take fewer draws (n_draws) or factors (n_factors)",
    )  # fmt: skip
    for_folds = int(n_sweeps * _PART_HELD_OUT)

    def steps(kept: State | None) -> Iterator[Step[Posterior]]:
        folds: list[HeldOut] = []
        if holds_out and for_folds > 0:
            seed = int(stream_key(int(key), 3)) % 2**63
            numbers = range(min(n_folds(problem), max(1, for_folds // _FOLD_SWEEPS)))
            folds = [held for fold in numbers if (held := hold_out_pairs(problem, seed, fold))]
        most_of_fold = for_folds // max(1, len(folds))
        sampler = Sampler(folds[0].problem if folds else problem, n_factors, scale, key, start)
        differences, weights, error = Differences(problem, key), Weights(), 1.0
        done = fold_seen = 0
        stage = Stage.of_fold(0, 0, most_of_fold)
        draws = Draws(n_draws, 2 if n_sweeps > 2 * n_draws else 1, _PART_SETTLING if folds else _PART_FINDING)
        if kept:
            weights, done, error = Weights(kept["temperature"], kept["personal"]), kept["done"], kept["error"]
            fold_seen = kept["fold_seen"]
            stage = Stage(*kept["stage"].tolist())
            draws.restore(kept)
            for number, fold in enumerate(folds):
                fold.restore({name: kept[f"held_{number}_{name}"] for name in fold.state()})
            # What is seen changes at the beginning of a sweep.
            last = stage._replace(fold=kept["fold_seen"])
            sampler.go_on(_seen(problem, folds, last), Start(kept["theta"], kept["modes"], kept["slopes"]), done)

        def estimate() -> Posterior:
            # Before the first draw that is kept, the present state stands for it.
            parts = draws.parts if draws.sweeps else tuple([part] for part in sampler.state())
            items, users, slopes, variances = (np.array(part, np.float32) for part in parts)
            return Posterior(items, users, slopes, variances, weights, error)

        def state() -> State:
            observed = {f"held_{n}_{name}": part for n, fold in enumerate(folds) for name, part in fold.state().items()}
            return {
                "theta": sampler.theta, "modes": sampler.modes, "slopes": sampler.slopes, "done": done,
                "temperature": weights.temperature, "personal": weights.personal, "error": error,
                "stage": np.array(stage, np.int64), "fold_seen": fold_seen, "spacing": draws.spacing,
                **draws.state(sampler.state()), **observed,
            }  # fmt: skip

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            seen = _seen(problem, folds, stage)
            if seen is not sampler.problem:
                sampler.use(seen)
            fold_seen = stage.fold
            held = folds[stage.fold] if stage.fold < len(folds) else None
            settled = sweep >= (0 if start else QUIET_SWEEPS + 1) or sweep == n_sweeps - 1
            wanted = sweep >= stage.window if held else settled and draws.wants(sweep, stage.begun)
            value, found = sampler.sweep(sweep, keep=wanted)
            if held and found:
                held.observe(found[0], found[1], sampler.noise, found[3])
            elif found:
                draws.keep(sweep, stage.begun, found)
            done, converged = sweep + 1, False
            if held and done == stage.until:
                if done == stage.begun + most_of_fold or _steady(held.differences()):
                    stage = Stage.of_fold(stage.fold + 1, done, most_of_fold)
                    weights = best_weights(folds) if stage.fold == len(folds) else weights
                else:
                    held.forget()
                    stage = stage.longer(most_of_fold)
            elif found and not held and (_asked(len(draws.sweeps)) or done == n_sweeps):
                error = differences.error(draws, weights.personal)
                converged = error <= _ERROR and len(draws.sweeps) >= _FEWEST_DRAWS
            # Whatever is held out, the posterior is of other data.
            yield Step(value, estimate, state, converged, not draws.sweeps, min(fold_seen, len(folds)), sampled=True)

    return steps


def _seen(problem: Problem, folds: list[HeldOut], stage: Stage) -> Problem:
    return folds[stage.fold].problem if stage.fold < len(folds) else problem


def _steady(values: Float64Array) -> bool:
    """Whether both halves of what a fold has observed agree, in their values and in the spread of these."""
    half = len(values) // 2
    first, second = (float(np.sqrt(np.mean(part.mean(axis=0) ** 2))) for part in (values[:half], values[-half:]))
    return error_of_mean(values) <= _FOLD_ERROR and abs(first - second) <= _SAME_SPREAD * second


def _asked(n_draws: int) -> bool:
    return n_draws >= _FEWEST_DRAWS and (n_draws - _FEWEST_DRAWS) % _MORE_DRAWS == 0


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
