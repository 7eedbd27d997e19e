"""The point estimate of `FactoredPlackettLuce`: the paper's regularised maximum likelihood (§3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from permrank.errors import InputError
from permrank.families.factored.estimate import TIES, FactoredEstimate, rule_of
from permrank.families.factored.kernels import Steps, Sums, add_blocks, climb_users
from permrank.kernels.lbfgs import differences, moved
from permrank.kernels.lists import Lists
from permrank.kernels.luce.damping import damping_sequence
from permrank.learning.lbfgs import LimitedMemory, inner
from permrank.learning.learner import Best, Learner, State, Step, best_of, mapped, standing
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.posterior.kernels.choices import Law
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array, Key

if TYPE_CHECKING:
    from permrank.families.factored.model import FactoredPlackettLuce

# Steps remembered, each two arrays of the size of the items. 4, 6 and 12 needed as many sweeps, 2 more (Sushi, ML-100K
# seed 10).
_MEMORY = 3
# Newton steps of a user in a sweep, and conjugate gradients in each; from the random start a few more.
_STEPS, _FIRST_STEPS, _CONJUGATE = 1, 3, 5
# No number of an item changes by more than this in a sweep.
_LONGEST = 1.0
# A step that fails is shortened at most so often: 0.1^8 of it is lost in float32.
_SHORTENED = 8
# The rise of the objective is judged over so many sweeps: a single short one means little.
_JUDGED = 5
# Damping is learnt when the scores are worth it, when the objective rises by less than this part of itself: from a
# random start the ascent might go where it cannot come back from.
_ROUGHLY = 1e-3
# A block of users holds an array of the size of the items, and all of them together at most 12 bytes an entry, unless
# fewer than 4 would be left.
_FEWEST_BLOCKS, _NUMBERS_AN_ENTRY = 4, 3


class AscentPoint(NamedTuple):
    """Where the ascent is.

    Attributes
    ----------
    theta : float32 (n_items, K + 1)
    slopes : float64 (n_stages - 1,)
        What the learnt damping is made from (see `learnt_damping`); empty if it is given.
    users : float32 (n_users, K)
    value : float
        Σ_u log P - α ‖W‖² - β ‖H‖².
    gradient : float64 (n,)
        In the items, then in the slopes. The users are (nearly) at their maxima, so by the envelope theorem it is also
        the gradient of the objective with the users maximised out.
    diagonal : float64 (n,)
        About the inverse of minus its second derivatives.
    """

    theta: Array
    slopes: Float64Array
    users: Array
    value: float
    gradient: Float64Array
    diagonal: Float64Array

    def vector(self) -> Any:
        """All that the ascent changes, users apart."""
        return np.concatenate((self.theta.ravel(), self.slopes)) if self.slopes.size else self.theta.ravel()


class AscentShard(NamedTuple):
    """A shard of users, with arrays for its sums that are made once: they are the largest that there are.

    Attributes
    ----------
    shard : Shard
        Its data are weights, items and levels.
    gradients : float32 (n_blocks, n_items, K + 2)
    moments : float64 (n_blocks, K + 1)
    """

    shard: Shard
    gradients: Array
    moments: Float64Array

    @property
    def spans(self) -> tuple[slice, ...]:
        """Where its users, rankings and entries lie among all."""
        return self.shard.spans

    @classmethod
    def of(cls, shard: Shard, n_items: int, n_factors: int) -> AscentShard:
        """With new arrays."""
        sums = np.empty((shard.n_blocks, n_items, n_factors + 2), np.float32)
        return cls(shard, sums, np.empty((shard.n_blocks, n_factors + 1)))


def _climbed(law: Law, theta: Array, penalty: Any, n_steps: int, part: AscentShard, users: Array) -> tuple[Any, ...]:
    """Values of the users, users where they have climbed to, and the sums by block; see `climb_users`."""
    (user_indptr, indptr), (weights, items, levels) = part.shard.indptrs, part.shard.data
    lists, steps = Lists(user_indptr, indptr, items, levels, weights), Steps(n_steps, _CONJUGATE)
    sums = Sums(part.gradients, part.moments, np.empty((part.shard.n_blocks, law.damping.size)))
    values = climb_users(part.shard.bounds, lists, law, theta, penalty, users, steps, sums)
    return values, users, *sums


class Objective:
    """The objective as a function of the items (and of the damping), with the users climbing along.

    Parameters
    ----------
    rankings : Rankings
    ties : int
    n_factors : int
    user_penalty, item_penalty : float
    intercepts : bool
    damping : float64 (n_stages,)
        Empty for none.
    """

    def __init__(
        self,
        rankings: Rankings,
        ties: int,
        n_factors: int,
        user_penalty: float,
        item_penalty: float,
        *,
        intercepts: bool,
        damping: Float64Array,
    ) -> None:
        self.ties, self.damping = ties, damping
        self._user_penalty, self._item_penalty, self._intercepts = float(user_penalty), float(item_penalty), intercepts
        self._bounds = blocks_of_users(rankings, n_factors)
        self._parts = [AscentShard.of(shard, rankings.n_items, n_factors) for shard in self._shards(rankings)]
        self.rankings = rankings
        self.hold_slopes = True

    def _shards(self, rankings: Rankings) -> list[Shard]:
        levels = (), (rankings.weights,), (rankings.items, rankings.levels)
        return shards_of(self._bounds, (rankings.user_indptr, rankings.indptr), levels)

    def use(self, rankings: Rankings) -> None:
        """Go on with other orders of the same lists."""
        self.rankings, shards = rankings, self._shards(rankings)
        self._parts = [part._replace(shard=shard) for part, shard in zip(self._parts, shards, strict=True)]

    def at(self, theta: Array, slopes: Float64Array, users: Array, n_steps: int = _STEPS) -> AscentPoint:
        """Climb with copies of the users at given items and slopes."""
        damping = learnt_damping(slopes) if slopes.size else self.damping
        job = partial(_climbed, Law(self.ties, damping), theta, np.float32(2.0 * self._user_penalty), n_steps)
        values, users, gradients, moments, in_damping = gathered(job, self._parts, users.copy())
        n, moments = theta.size, moments.sum(axis=0)
        # As if every item had been met by the same mean of users: Σ_e c w² = (Σ_e c) mean(w²).
        spread = moments / max(float(moments[-1]), 1e-300)
        gradient, diagonal = np.zeros((2, n + slopes.size))
        add_blocks(
            gradients, theta, 2.0 * self._item_penalty, spread, self._intercepts, gradient[:n].reshape(theta.shape),
            diagonal[:n].reshape(theta.shape),
        )  # fmt: skip
        if slopes.size and not self.hold_slopes:
            gradient[n:], diagonal[n:] = _in_slopes(slopes, in_damping.sum(axis=0), self.rankings)
        value = float(values.sum()) - self._item_penalty * inner(theta, theta)
        return AscentPoint(theta, slopes, users, value, gradient, diagonal)


def learnt_damping(slopes: Float64Array) -> Float64Array:
    """ρ_1 = 1, log ρ_i = log ρ_{i-1} - log(1 + e^{a_i}): decreasing and positive whatever the slopes a.

    The last ρ is there twice, because the last stage of a list is certain and says nothing about its own.
    """
    damping = np.exp(-np.concatenate(([0.0], np.cumsum(np.logaddexp(0.0, slopes)))))
    return np.append(damping, damping[-1])


def _in_slopes(slopes: Float64Array, in_damping: Float64Array, rankings: Rankings) -> tuple[Float64Array, Float64Array]:
    """Derivatives in the slopes from those in ρ, and about their inverse curvatures, for scores of variance one."""
    damping = learnt_damping(slopes)[1:-1]
    counts = np.bincount(rankings.lengths, rankings.weights, slopes.size + 2)
    lists = np.cumsum(counts[::-1])[::-1]  # with this many items or more
    rise = 1.0 / (1.0 + np.exp(-slopes))
    gradient = -rise * np.cumsum((in_damping[1:-1] * damping)[::-1])[::-1]
    curvature = rise**2 * np.cumsum((lists[3:] * damping**2)[::-1])[::-1]
    return gradient, 1.0 / (1.0 + curvature)


def first_slopes(n_stages: int) -> Float64Array:
    """Slopes that make ρ_i = 1 / sqrt(log2(1 + i)), half-way between no damping and the paper's."""
    steps = np.diff(0.5 * np.log(np.log2(1.0 + np.arange(1.0, n_stages))))
    return np.asarray(np.log(np.expm1(steps)))


def maximise(
    objective: Objective,
    n_factors: int,
    tol: float,
    key: Key,
    n_sweeps: int,
    *,
    shuffle: bool,
    slopes: Float64Array,
    begin: Callable[[], tuple[Array, Array]],
) -> Learner[AscentPoint]:
    """Maximise Σ_u log P(π | u) - α ‖W‖² - β ‖H‖² (§3.1); the value never falls from sweep to sweep.

    The users are maximised out: what is left is a function of the items alone, climbed by limited-memory BFGS, so that
    a step of the items takes account of how the users will follow. (Turns of users and items, each with the other
    fixed, need many times as many sweeps.) With ``shuffle`` ties are in a new random order every sweep, the value is
    another function each time, and steps follow the gradient alone.
    """
    given = objective.rankings
    n_numbers = given.n_items * (n_factors + 1) + slopes.size

    def shuffled(sweep: int) -> Rankings:
        return given.shuffled_ties(int(stream_key(int(key), sweep, 2)) % 2**63)

    def steps(kept: State | None) -> Iterator[Step[AscentPoint]]:
        memory = LimitedMemory(_MEMORY, n_numbers, np.float32)
        done, release, values = 0, False, []
        if kept:
            done, release, values = kept["done"], bool(kept["release"]), kept["values"].tolist()
            objective.hold_slopes = bool(kept["hold_slopes"])
            memory.restore({name: kept[name] for name in ("steps", "falls", "order")})
            here = AscentPoint(**{name: kept[name] for name in AscentPoint._fields})
            if shuffle and done:
                objective.use(shuffled(done - 1))
        else:
            theta, users = begin()
            theta, users = theta.astype(np.float32, copy=False), users.astype(np.float32, copy=False)
            here = objective.at(theta, slopes, users, _FIRST_STEPS)
            del theta, users  # the largest arrays there are

        def estimate() -> AscentPoint:
            return here

        def state() -> State:
            return here._asdict() | memory.state() | {
                "hold_slopes": objective.hold_slopes, "done": done, "release": release, "values": np.array(values),
            }  # fmt: skip

        yield standing(estimate, state)
        while True:
            if release:
                objective.hold_slopes = False
                memory.forget()
                here = objective.at(here.theta, here.slopes, here.users)
            if shuffle:
                objective.use(shuffled(done))
                memory.forget()
                here = objective.at(here.theta, here.slopes, here.users)
            new = _step(objective, here, memory)
            progress = new is not here
            if progress:
                memory.remember(differences(new.vector(), here.vector()), differences(here.gradient, new.gradient))
            here = new
            del new
            values, done = [*values[-_JUDGED:], here.value], done + 1
            before = values[0] if len(values) > _JUDGED else -np.inf
            rise = (here.value - before) / (_JUDGED * (abs(here.value) + 1.0)) if progress else 0.0
            release = bool(slopes.size and objective.hold_slopes and rise < _ROUGHLY)
            converged = done == n_sweeps if shuffle else not release and rise < tol
            yield Step(here.value, estimate, state, converged)

    return steps


def _step(objective: Objective, here: AscentPoint, memory: LimitedMemory) -> AscentPoint:
    """One step that does not lower the objective; the same place if float32 allows none."""
    n = here.theta.size
    while True:
        direction = memory.direction(here.gradient, here.diagonal)
        slope = inner(direction, here.gradient)
        length = min(1.0, _LONGEST / max(float(direction.max()), -float(direction.min()), 1e-300))
        for _ in range(_SHORTENED if slope > 0.0 else 0):
            theta = moved(here.theta.ravel(), direction[:n], length).reshape(here.theta.shape)
            new = objective.at(theta, here.slopes + length * direction[n:], here.users)
            if new.value >= here.value:
                return new
            # Where a parabola through the two values and the slope is highest.
            lack = here.value + length * slope - new.value
            del new
            length *= min(0.5, max(0.1, 0.5 * length * slope / lack))
        if not len(memory):
            return here
        memory.forget()


def point_estimate(
    settings: FactoredPlackettLuce, rankings: Rankings, n_sweeps: int, begin: tuple[Array, Array] | None
) -> Learner[FactoredEstimate]:
    """A learner of the model's estimate, from several starts, or from given items and users."""
    damping, n_factors = settings.damping, int(settings.n_factors)
    shuffle = settings.ties == "shuffle" and rankings.has_ties
    damped, slopes = np.zeros(0), np.zeros(0)
    n_stages = int(rankings.lengths.max())
    if rule_of(damping) != "none":
        if rankings.has_ties and not shuffle:
            raise InputError("damping is for strict orders, and these rankings have ties: set ties='shuffle'")
        if rule_of(damping) == "learned":
            slopes = first_slopes(n_stages)  # none for lists of two, whose only stage has the factor 1
        else:
            damped = damping_sequence(damping, n_stages)
    objective = Objective(
        rankings, TIES[settings.ties], n_factors, settings.user_penalty, settings.item_penalty,
        intercepts=settings.intercepts, damping=damped,
    )  # fmt: skip

    def learned(best: Best[AscentPoint]) -> FactoredEstimate:
        found = best.estimate
        factors = learnt_damping(found.slopes) if found.slopes.size else damped
        return FactoredEstimate(
            item_draws=found.theta[None], user_factors=found.users, item_factors=found.theta[:, :-1],
            item_intercepts=found.theta[:, -1], bases=np.eye(n_factors, dtype=np.float32)[None], factor_scale=0.0,
            thresholds=np.zeros(0), co_listing=np.zeros((rankings.n_items, 0)),
            user_slopes=np.zeros((1, 0, n_factors), np.float32),
            item_variances=np.zeros((1, rankings.n_items), np.float32),
            damping=factors if factors.size else np.ones(1), start_objectives=best.objectives, **settings._rules(),
        )  # fmt: skip

    key, n_starts = stream_key(settings.seed), int(settings.n_starts)
    begins = (
        [lambda: begin] if begin else [partial(start, rankings, n_factors, key, number) for number in range(n_starts)]
    )
    ascents = [  # copies have the same arrays for their sums, which are the largest there are
        maximise(copy(objective), n_factors, settings.tol, key, n_sweeps, shuffle=shuffle, slopes=slopes, begin=each)
        for each in begins
    ]
    return mapped(best_of(ascents), learned)


def start(rankings: Rankings, n_factors: int, key: Key, number: int) -> tuple[Array, Array]:
    """Random factors: large enough to break their symmetry, small against the scores that are learnt."""
    rng = np.random.default_rng([int(key), number])
    theta = 0.1 * rng.normal(size=(rankings.n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta.astype(np.float32), (0.3 * rng.normal(size=(rankings.n_users, n_factors))).astype(np.float32)


def blocks_of_users(rankings: Rankings, n_factors: int) -> Int64Array:
    """Bounds of blocks of users with about as many entries each, whatever the number of threads."""
    allowed = _NUMBERS_AN_ENTRY * rankings.n_entries // max(rankings.n_items * (n_factors + 2), 1)
    n_blocks = n_blocks_of(rankings.n_users, allowed, fewest=_FEWEST_BLOCKS)
    return blocks_by_entries(rankings.indptr[rankings.user_indptr], n_blocks)
