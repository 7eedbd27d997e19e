"""How `FactoredThurstone` learns: from its settings and data to a stream of estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from permrank.checks import require_memory
from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.learning.blas import unthreaded
from permrank.learning.learner import Learner, Step, standing
from permrank.learning.learner import State as Kept
from permrank.models.factored.problem import thresholds_of
from permrank.models.thurstone.estimate import ThurstoneEstimate
from permrank.models.thurstone.full import FullSampler
from permrank.models.thurstone.problem import Problem, coordinates_of
from permrank.models.thurstone.sampler import Sampler, State
from permrank.ragged import indptr_of, ranges
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int64Array, Named

# Sweeps by default: this many entries are visited in all, within the bounds.
_ENTRIES_VISITED, _FEWEST_SWEEPS, _MOST_SWEEPS = 20_000_000, 100, 600
# Items at most that have a full covariance matrix by default, and at all: moves of a user who speaks of all take n³.
_MOST_ITEMS, _MOST_FULL = 50, 200
# A component for so many people for each number in its mean and covariance, and at most so many.
_PEOPLE, _MOST_COMPONENTS = 10, 4
# Draws are kept after the first third of the sweeps.
_FIRST_KEPT = 3
# Utilities are kept with every draw where users speak of few items: so many times the numbers of a user's factors.
_TIMES_FACTORS = 4
# Fields of the estimate with a slice for every draw.
_DRAWN = (
    "item_draws", "noise_variances", "shares", "threshold_draws", "flips", "user_slopes", "user_means",
    "user_components", "utilities",
)  # fmt: skip


class Begun(NamedTuple):
    """An estimate of less data, and where its items stand among all."""

    estimate: ThurstoneEstimate
    places: Int64Array

    def state(self, state: State) -> State:
        """A state that begins at the last draw, as far as it fits."""
        theta, variances = state.theta.copy(), state.variances.copy()
        last, own = self.estimate.item_draws[-1], self.estimate.noise_variances[-1]
        theta[:, self.places, -1] = last[..., -1]
        if last.shape[2] == theta.shape[2]:
            theta[:, self.places], variances[:, self.places] = last, own
        shares, thresholds = self.estimate.shares[-1], self.estimate.threshold_draws[-1]
        return state._replace(
            theta=theta, variances=variances, shares=np.maximum(shares.astype(np.float64), 1e-300),
            thresholds=thresholds.astype(np.float64) if thresholds.size else state.thresholds,
        )  # fmt: skip


class Settings(NamedTuple):
    """Parameters of the model that learning depends on, by their names there."""

    n_factors: int
    covariance: str
    n_components: int | None
    one_draw: bool
    item_noise: bool
    rating_thresholds: bool
    co_listing: bool
    n_draws: int
    seed: int

    @classmethod
    def of(cls, parameters: Named) -> Settings:
        """From all parameters of a model."""
        return cls(**{name: parameters[name] for name in cls._fields})

    def learner(
        self, rankings: Rankings, n_sweeps: int, rules: Named, begun: Begun | None = None
    ) -> Learner[ThurstoneEstimate]:
        """From the data alone, or from an estimate of less data."""
        thresholds = thresholds_of(rankings, odds=True) if self.rating_thresholds else np.zeros(0)
        if begun is not None and thresholds.size:
            thresholds = begun.estimate.thresholds
        full = self.is_full(rankings, thresholds)
        table = coordinates_of(rankings, self.seed, wanted=self.co_listing and not full)
        problem = Problem.of(rankings, one_draw=self.one_draw, thresholds=thresholds, co_listing=table, popularity=True)
        kind = FullSampler if full else Sampler
        n_components = begun.estimate.shares.shape[1] if begun else self.n_components
        n_components = n_components or usual_components(rankings, full=full)
        sizes = rankings.n_items if full else self.n_factors, n_components

        def sampler() -> Sampler:
            key = stream_key(self.seed) if begun is None else stream_key(self.seed, 1)
            made = kind(problem, *sizes, self.item_noise, key)
            if begun is not None:
                made.state = begun.state(made.state)
            return made

        return draw_posterior(problem, rankings.n_users, sampler, sizes, kept_sweeps(n_sweeps, self.n_draws), rules)

    def is_full(self, rankings: Rankings, thresholds: Float64Array) -> bool:
        """Whether there is a full covariance matrix."""
        fresh = not self.one_draw and bool((np.diff(rankings.user_indptr) > 1).any())
        if self.covariance != "full":
            small = rankings.n_items <= _MOST_ITEMS and not fresh and thresholds.size == 0
            return self.covariance == "auto" and small
        for wrong, what in (
            (thresholds.size > 0, "thresholds of ratings; take rating_thresholds=False"),
            (fresh, "fresh noise for every ranking; take one_draw=True"),
            (rankings.n_items > _MOST_FULL, f"{rankings.n_items:,} items, more than {_MOST_FULL}"),
        ):
            if wrong:
                raise InputError(f'covariance="full" does not go with {what}, or covariance="factors"')
        return True


def usual_sweeps(rankings: Rankings) -> int:
    """Sweeps where none are asked for."""
    return int(np.clip(_ENTRIES_VISITED // max(rankings.n_entries, 1), _FEWEST_SWEEPS, _MOST_SWEEPS))


def usual_components(rankings: Rankings, *, full: bool) -> int:
    """Populations where no number is asked for: with a full covariance as many as the people can tell apart.

    Components that the data do not need stay nearly empty, or resemble others: a few too many cost time.
    """
    n, n_people = rankings.n_items, float(np.sum(rankings.weights)) if rankings.anonymous else rankings.n_users
    return int(np.clip(n_people // (_PEOPLE * (n * (n + 3) // 2)), 1, _MOST_COMPONENTS)) if full else 1


def kept_sweeps(n_sweeps: int, n_draws: int) -> list[int]:
    """Sweeps whose state is kept: evenly spread over the last two thirds, the last one among them."""
    first = min(n_sweeps - 1, n_sweeps // _FIRST_KEPT)
    return np.unique(np.linspace(first, n_sweeps - 1, n_draws).round().astype(int)).tolist()  # type: ignore[no-any-return]


class _Collected:
    """Draws that are kept, and the mean of what they leave of the utilities."""

    def __init__(self, problem: Problem, n_users: int, rules: Named) -> None:
        said = problem.said
        self._users, self._rules, self._problem = problem.first_copies, rules, problem
        first, last = said.slot_indptr[self._users], said.slot_indptr[self._users + 1]
        self._slots = None if n_users == problem.n_users else ranges(first, last)
        self._indptr, self._items = indptr_of(last - first), self._of_slots(said.slot_items)
        n_columns = 0
        self.drawn: dict[str, list[Array]] = {name: [] for name in _DRAWN}
        self.total, self.count, self._n_columns = np.zeros(self._items.size), 0, n_columns

    def _of_slots(self, values: Array) -> Array:
        return np.asarray(values if self._slots is None else values[..., self._slots])

    def parts(self, state: State) -> Named:
        """What is kept of a state."""
        small = self._items.size <= _TIMES_FACTORS * self._users.size * (state.draws.shape[1] + 1)
        x = self._of_slots(state.x)
        return {
            "item_draws": state.theta, "noise_variances": state.variances, "shares": state.shares,
            "threshold_draws": state.thresholds, "flips": np.float64(state.flip), "user_slopes": state.user_slopes,
            "user_means": state.means[self._users], "user_components": state.components[self._users],
            "utilities": x if small and self._problem.thresholds.size == 0 else x[:0],
        }  # fmt: skip

    def keep(self, sampler: Sampler) -> None:
        """Keep a draw."""
        for name, part in self.parts(sampler.state).items():
            self.drawn[name].append(_compact(part))

    def average(self, sampler: Sampler) -> None:
        """Add to the mean of the residuals."""
        self.total, self.count = self.total + self._of_slots(sampler.state.residuals), self.count + 1

    def estimate(self, sampler: Sampler) -> ThurstoneEstimate:
        """Of the draws so far; before the first, of the present state."""
        parts: Named = dict(self.drawn)
        total, count = self.total, self.count
        if not self.drawn["item_draws"]:
            parts = {name: [_compact(part)] for name, part in self.parts(sampler.state).items()}
            total, count = self._of_slots(sampler.state.residuals), 1
        stacked: Named = {name: np.stack(draws) for name, draws in parts.items()}
        if stacked["utilities"].shape[1] != self._items.size:
            stacked["utilities"] = np.zeros((0, self._items.size), np.float32)
        return ThurstoneEstimate(
            **stacked, residuals=(total / count).astype(np.float32), slot_indptr=self._indptr, slot_items=self._items,
            thresholds=self._problem.thresholds, co_listing=self._problem.co_listing, **self._rules,
        )  # fmt: skip

    def state(self, sampler: Sampler) -> Kept:
        """What a later run needs."""
        like = self.parts(sampler.state)
        stacked = {
            f"kept_{name}": np.array(draws, _compact(like[name]).dtype).reshape(len(draws), *np.shape(like[name]))
            for name, draws in self.drawn.items()
        }
        return {**stacked, "total": self.total, "count": self.count}

    def resume(self, kept: Kept) -> None:
        """Take up what `state` gave."""
        self.drawn = {name: list(kept[f"kept_{name}"]) for name in _DRAWN}
        self.total, self.count = kept["total"], kept["count"]


def _compact(part: Any) -> Array:
    values = np.asarray(part)
    return values.astype(np.int32 if values.dtype.kind == "i" else np.float32)


def draw_posterior(
    problem: Problem,
    n_users: int,
    make: Callable[[], Sampler],
    sizes: tuple[int, int],
    wanted: list[int],
    rules: Named,
) -> Learner[ThurstoneEstimate]:
    """Sweeps of a sampler; the wanted ones are kept. sizes: numbers of factors and of components."""
    n_factors, n_components = sizes
    n_numbers = n_components * problem.n_items * (n_factors + 3)
    n_numbers += n_users * (n_factors + 2) * (1 + _TIMES_FACTORS)
    require_memory(
        2 * 4 * len(wanted) * n_numbers, f"{len(wanted)} draws of {n_factors} factors",
        "take fewer draws (n_draws) or factors (n_factors)",
    )  # fmt: skip

    def steps(kept: Kept | None) -> Iterator[Step[ThurstoneEstimate]]:
        sampler, n_sweeps = make(), wanted[-1] + 1
        collected, done = _Collected(problem, n_users, rules), 0
        if kept:
            sampler.state = State(**{name: kept[name] for name in State._fields})
            collected.resume(kept)
            done = kept["done"]

        def estimate() -> ThurstoneEstimate:
            return collected.estimate(sampler)

        def state() -> Kept:
            return {**sampler.state._asdict(), **collected.state(sampler), "done": done}

        def look(now: Sampler) -> None:
            if sweep in wanted:
                collected.keep(now)
            if sweep >= wanted[0]:
                collected.average(now)

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            value = sampler.sweep(sweep, look)
            done = sweep + 1
            yield Step(value, estimate, state, converged=done == n_sweeps, burn_in=done <= wanted[0])

    return unthreaded(steps)
