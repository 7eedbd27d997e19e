"""The default learner of `FactoredPlackettLuce`: how long the draws go on, and which are kept.

While a fold of entries is held out, the chain finds its way and the weights of the scores are measured; then it sees
everything, and draws are kept. Both parts end when means over the first and over the second half of what was observed
agree: what they differ by is the error of the mean, and whatever way the chain has still to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from permrank.checks import require_memory
from permrank.learning.held_out import choose_by_held_out
from permrank.learning.learner import Learner, State, Step, standing
from permrank.learning.linear_algebra import unthreaded
from permrank.posterior.problem import Problem
from permrank.posterior.sampler import QUIET_SWEEPS, Sampler, Start
from permrank.posterior.store import Draw, Keeper
from permrank.posterior.weights import HeldOut, Weights, best_weights, hold_out_folds, hold_out_pairs
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int64Array, Key

# The most sweeps that folds of held-out entries take together, in parts of all, and the fewest of one of several.
_PART_HELD_OUT, _FOLD_SWEEPS = 1 / 2, 36
# The first fold begins with so many sweeps in which the chain finds its way, others with those in which it forgets what
# it saw, never more than a part of the fold; then so many are measured. If the two halves of these disagree they are
# forgotten, and twice as many are measured.
_FINDING, _FORGETTING, _FIRST_WINDOW, _PART_FORGETTING = 16, 16, 16, 0.6
# When everything is seen, so many sweeps are left out first, after folds or without, never more than a part of all. If,
# without folds, draws still disagree after so many times as many, these are left out too, provided that as many are to
# come.
_AFTER_FOLDS, _SETTLING, _PART_SETTLING, _AGAIN = 4, 16, 1 / 3, 4
# Whether halves agree is asked after so many draws, and again after so many more.
_FEWEST_DRAWS, _MORE_DRAWS = 16, 8
# Halves agree if the error of the mean makes at most this part of the variance of score differences; for the weights
# their spread must be the same too, within this part.
_FOLD_ERROR, _ERROR, _SAME_SPREAD = 0.02, 0.005, 0.03
# Differences of scores that are looked at.
_DIFFERENCES = 2_048
# Where held-out pairs decide: the numbers of factors, and at most so many sweeps for each, the second half measured.
_TRIED_FACTORS, _TRIED_SWEEPS = (4, 8, 16, 32), 60
K = TypeVar("K")


class Stage(NamedTuple):
    """Where the chain is: which fold is held out, or everything seen if there is none left, and since which sweep.

    Attributes
    ----------
    fold : int
    begun : int
        First sweep of the stage.
    window : int
        First sweep of those that are measured, or kept.
    until : int
        Of a fold: the sweep before which the halves of what was measured are compared. Of all: the sweep before which
        draws that do not agree are given up.
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

    @classmethod
    def whole(cls, fold: int, begun: int, n_sweeps: int, quiet: int = 0) -> Stage:
        """The stage in which everything is seen, until the last of the sweeps; quiet: first sweeps without noise."""
        left = n_sweeps - begun
        if begun:  # the chain has found its way while folds were held out
            return cls(fold, begun, begun + min(_AFTER_FOLDS, int(left * _PART_SETTLING)), n_sweeps + 1)
        settling = max(min(_SETTLING, int(left * _PART_SETTLING)), min(quiet, left - 1))
        again = _AGAIN * settling
        return cls(fold, begun, begun + settling, begun + again if 0 < 2 * again <= left else n_sweeps + 1)

    def longer(self, most: int) -> Stage:
        """The same fold with a window twice as long, after the first."""
        until = _window_end(self.until, 2 * (self.until - self.window), self.begun + most)
        return self._replace(window=self.until, until=until)


def _window_end(begin: int, length: int, last: int) -> int:
    """No window is left over that would be too short to tell anything."""
    return begin + length if begin + 2 * length <= last else last


class Observed:
    """Which sweeps that see everything are kept, and some differences of scores by which convergence is seen.

    Every sweep is kept from the first on that is not left out. When there would be more than ``n_draws`` draws only
    every second of these is kept from then on, and counts for two; and so on.
    Differences are of any users, and of items as often as they are listed.
    """

    def __init__(self, problem: Problem, key: Key, n_draws: int) -> None:
        rng, rankings = np.random.default_rng(int(stream_key(int(key), 6))), problem.rankings
        lengths = np.diff(rankings.user_bounds)
        users, n = np.flatnonzero(lengths > 0), min(_DIFFERENCES, 8 * rankings.n_entries)
        self._users: Int64Array = users[rng.integers(users.size, size=n)] if users.size else users
        self._items: Int64Array = rankings.items[rng.integers(max(rankings.n_entries, 1), size=(2, n))].astype(np.int64)
        self._most, self.spacing = n_draws, 1
        self._rows: list[Float64Array] = []

    def wants(self, sweep: int, first: int) -> bool:
        """Whether this sweep is one to keep."""
        return sweep >= first and (sweep - first) % self.spacing == 0

    def add(self, found: Draw, personal: float) -> None:
        """Look at a draw that is kept."""
        first, second = self._items
        rows = found.items[first] - found.items[second]
        users = found.users[self._users] if self._users.size else np.zeros((len(rows), rows.shape[1] - 1))
        self._rows.append(personal * np.einsum("ek,ek->e", rows[:, :-1], users) + rows[:, -1])
        if len(self._rows) > self._most:
            del self._rows[1::2]
            self.spacing *= 2

    def forget(self) -> None:
        """Begin anew."""
        self._rows.clear()

    @property
    def asked(self) -> bool:
        """Whether there are so many draws that it is worth asking for their error."""
        more = len(self._rows) - self._fewest
        return more >= 0 and more % _MORE_DRAWS == 0

    @property
    def enough(self) -> bool:
        """Whether there are enough draws to see convergence by."""
        return len(self._rows) >= self._fewest

    @property
    def _fewest(self) -> int:
        return min(_FEWEST_DRAWS, self._most)

    def error(self) -> float:
        """Part of the variance of the differences that is the error of their means over the draws."""
        return error_of_mean(np.stack(self._rows)) if self._rows else 1.0

    def state(self) -> State:
        """What a checkpoint has to hold."""
        rows = np.array(self._rows).reshape(len(self._rows), self._items.shape[1])
        return {"observed": rows, "spacing": self.spacing}

    def restore(self, kept: State) -> None:
        """Go on from what `state` gave."""
        self._rows, self.spacing = list(kept["observed"]), int(kept["spacing"])


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
    keeper: Callable[[], Keeper[K]],
    start: Start | None = None,
) -> Learner[K]:
    """Alternate draws of users and items until means over them are steady; what is kept of them is the keeper's.

    First a part of the entries is held out: it measures the weights of the scores while the chain finds its way. A
    start, which is the state of an earlier posterior, is taken as it is and needs no such part.
    """
    holds_out = start is None and (problem.user_pass is None or problem.adapted is not None)
    require_memory(
        keeper().n_bytes(problem.n_rows, min(2 * n_draws, n_sweeps)),
        f"{min(n_draws, n_sweeps)} draws of {n_factors} factors", "take fewer draws (n_draws) or factors (n_factors)",
    )  # fmt: skip
    for_folds = int(n_sweeps * _PART_HELD_OUT)

    def steps(kept: State | None) -> Iterator[Step[K]]:
        folds: list[HeldOut] = []
        if holds_out and for_folds > 0:
            seed = int(stream_key(int(key), 3)) % 2**63
            folds = hold_out_folds(problem, seed, max(1, for_folds // _FOLD_SWEEPS))
        most_of_fold = for_folds // max(1, len(folds))
        sampler = Sampler(folds[0].problem if folds else problem, n_factors, scale, key, start)
        observed, weights, error = Observed(problem, key, n_draws), Weights(), 1.0
        done = fold_seen = 0
        stage = (
            Stage.of_fold(0, 0, most_of_fold)
            if folds else Stage.whole(0, 0, n_sweeps, 0 if start else QUIET_SWEEPS + 1)
        )  # fmt: skip
        draws = keeper()
        if kept:
            weights, done, error = Weights(kept["temperature"], kept["personal"]), kept["done"], kept["error"]
            fold_seen = kept["fold_seen"]
            stage = Stage(*kept["stage"].tolist())
            observed.restore(kept)
            draws.restore(kept)
            for number, fold in enumerate(folds):
                fold.restore({name: kept[f"held_{number}_{name}"] for name in fold.state()})
            # What is seen changes at the beginning of a sweep.
            last = stage._replace(fold=kept["fold_seen"])
            sampler.go_on(_seen(problem, folds, last), kept, done)

        def estimate() -> K:
            if draws.n_draws:
                return draws.posterior(weights, error)
            # Before the first draw that is kept, the present state stands for it.
            present = keeper()
            present.add(sampler.state(), 1)
            return present.posterior(weights, error)

        def state() -> State:
            held_out = {f"held_{n}_{name}": part for n, fold in enumerate(folds) for name, part in fold.state().items()}
            return {
                **sampler.position(), "done": done,
                "temperature": weights.temperature, "personal": weights.personal, "error": error,
                "stage": np.array(stage, np.int64), "fold_seen": fold_seen,
                **observed.state(), **draws.state(), **held_out,
            }  # fmt: skip

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            seen = _seen(problem, folds, stage)
            if seen is not sampler.problem:
                sampler.use(seen, settled=sampler.settled(sweep))
            fold_seen = stage.fold
            held = folds[stage.fold] if stage.fold < len(folds) else None
            wanted = sweep >= stage.window if held else observed.wants(sweep, stage.window)
            value, found = sampler.sweep(sweep, keep=wanted, people=held.people if held else None)
            if held and found:
                held.observe(found.items, found.users, sampler.noise, found.variances)
                draws.add_effects(found)
            elif found:
                observed.add(found, weights.personal)  # from then on draws may stand for twice as many sweeps
                draws.add(found, observed.spacing)
            done, converged = sweep + 1, False
            if held and done == stage.until:
                if done == stage.begun + most_of_fold or _steady(held.differences()):
                    over = stage.fold + 1 == len(folds)
                    weights = best_weights(folds) if over else weights
                    stage = (
                        Stage.whole(stage.fold + 1, done, n_sweeps)
                        if over else Stage.of_fold(stage.fold + 1, done, most_of_fold)
                    )  # fmt: skip
                else:
                    held.forget()
                    draws.forget_effects()
                    stage = stage.longer(most_of_fold)
            elif found and not held and (observed.asked or done == n_sweeps):
                error = observed.error()
                converged = error <= _ERROR and observed.enough
            # Whatever is held out, the posterior is of other data.
            yield Step(value, estimate, state, converged, not draws.n_draws, min(fold_seen, len(folds)), sampled=True)
            if not held and done == stage.until:
                draws, stage = keeper(), stage._replace(window=done, until=n_sweeps + 1)
                observed.forget()

    return unthreaded(steps)


def _seen(problem: Problem, folds: list[HeldOut], stage: Stage) -> Problem:
    return folds[stage.fold].problem if stage.fold < len(folds) else problem


def _steady(values: Float64Array) -> bool:
    """Whether both halves of what a fold has observed agree, in their values and in the spread of these."""
    half = len(values) // 2
    first, second = (float(np.sqrt(np.mean(part.mean(axis=0) ** 2))) for part in (values[:half], values[-half:]))
    return error_of_mean(values) <= _FOLD_ERROR and abs(first - second) <= _SAME_SPREAD * second


def choose_factors(problem: Problem, scale: float, key: Key, n_sweeps: int) -> Float64Array:
    """Loss of held-out pairs for several numbers of factors: rows of number, loss, standard error."""
    n_sweeps = min(_TRIED_SWEEPS, n_sweeps)  # a short chain, never longer than the whole
    held = hold_out_pairs(problem, int(stream_key(int(key), 4)) % 2**63)
    if held is None:
        return np.array([[_TRIED_FACTORS[0], 0.0, 0.0]])

    def score(n_factors: int) -> Float64Array:
        held.forget()
        sampler = Sampler(held.problem, n_factors, scale, key, None)
        for sweep in range(n_sweeps):
            _, kept = sampler.sweep(sweep, keep=sweep >= n_sweeps // 2, people=held.people)
            if kept:
                held.observe(kept.items, kept.users, sampler.noise, kept.variances)
        return -held.losses()

    choice = choose_by_held_out(_TRIED_FACTORS, score)
    return np.column_stack((choice.candidates, -choice.means, choice.errors))
