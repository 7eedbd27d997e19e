"""Learners of points: exact, by pseudo-likelihood (§4.3), by contrast (§4.2); and the scale of λ by held-out lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from permrank.families.log_linear.factors import usual_scale
from permrank.families.log_linear.kernels.arguments import Moves, Orders, Pairs, Partners, Positions
from permrank.families.log_linear.kernels.moves import SWAP, advance_chains
from permrank.families.log_linear.kernels.pseudo_likelihood import BY_RELOCATION, BY_SWAPS, BY_WINDOWS, EXACT
from permrank.families.log_linear.lists import (
    grouped,
    likelihoods,
    lists_of_rankings,
    partners_of,
    shards_of_lists,
    statistics,
    strict_lists,
    strict_order,
    weights_of_pairs,
)
from permrank.learning.held_out import LINE, descend
from permrank.learning.lbfgs import minimise
from permrank.learning.learner import Learner, State, Step, mapped, run, standing
from permrank.learning.shards import Shard
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import keep_entries
from permrank.types import Array, Float64Array

STRUCTURES = {"relocation": BY_RELOCATION, "swaps": BY_SWAPS, "windows": BY_WINDOWS, "exact": EXACT}
CONTRASTS = ("contrastive", "persistent")


def precision_of(scale: float | None) -> float:
    """Of a Gaussian prior with this standard deviation; 0 for none."""
    return 0.0 if scale is None else float(scale) ** -2


class Parameters(NamedTuple):
    """Coefficients of items (n_items, B), factors of items (n_items, K) and users (n_users, K), λ of pairs (n_pairs,).

    There are no rows of items where their coefficients are given.
    """

    items: Float64Array
    factors: Float64Array
    users: Float64Array
    pairs: Float64Array

    def joined(self) -> Float64Array:
        """All of them in one vector."""
        return np.concatenate([part.ravel() for part in self])

    def split(self, point: Float64Array) -> Parameters:
        """A vector as parameters of this shape."""
        parts = np.split(point, np.cumsum([part.size for part in self])[:-1])
        return Parameters(*(part.reshape(own.shape) for part, own in zip(parts, self, strict=True)))

    def coefficients(self, items: Array, users: Array) -> Float64Array:
        """Coefficients of (user, item) pairs: (n, B)."""
        own = np.asarray(self.items[items])
        if self.factors.size:
            own[:, 0] += np.einsum("ek,ek->e", self.factors[items], self.users[users])
        return own

    def gradient(self, of_entries: Float64Array, of_pairs: Float64Array, items: Array, users: Array) -> Float64Array:
        """Derivative in all of them from that in the coefficients of entries (n, B) and in λ, in one vector."""
        (n_items, n_factors), slope = self.factors.shape, of_entries[:, 0]
        of_factors, of_users = np.empty(self.factors.shape), np.empty(self.users.shape)
        for k in range(n_factors):
            of_factors[:, k] = np.bincount(items, slope * self.users[users, k], n_items)
            of_users[:, k] = np.bincount(users, slope * self.factors[items, k], len(self.users))
        of_items = self.items
        if len(of_items):
            of_items = np.column_stack([np.bincount(items, column, n_items) for column in of_entries.T])
        return Parameters(of_items, of_factors, of_users, of_pairs).joined()


class Task(NamedTuple):
    """What to learn, from what, and how; see the parameters of the models.

    width: of windows; move: a code of kernels/moves.py; scores: (users, items) to given coefficients (n, B), which are
    not learnt then; factor_scale: None for maximum likelihood.
    """

    rankings: Rankings
    positions: Positions
    pairs: Pairs
    item_precision: float
    pair_precision: float
    width: int
    n_relocations: int
    n_steps: int
    tol: float
    seed: int
    scores: Callable[[Any, Any], Float64Array] | None = None
    move: int = SWAP
    n_factors: int = 0
    factor_scale: float | None = None
    intercepts: bool = True

    def objective(self, lists: Orders) -> Objective:
        """The log-posterior given these lists."""
        offset = None if self.scores is None else self.scores(lists.entry_users(), lists.items)
        n_items, k, scale = self.rankings.n_items, self.n_factors, self.factor_scale
        rng = np.random.default_rng(self.seed)
        spread = scale or (usual_scale(self.rankings) if k else 0.0)
        start = Parameters(
            np.zeros((n_items if offset is None else 0, self.positions.table.shape[1])),
            0.3 * spread / np.sqrt(max(k, 1)) * rng.normal(size=(n_items, k)),
            0.3 * rng.normal(size=(self.rankings.n_users, k)),
            np.zeros(self.pairs.items.size),
        )
        of_factors = (k / scale**2, 1.0) if scale else (0.0, 0.0)
        sizes = [part.size for part in start]
        precision = np.repeat([self.item_precision, *of_factors, self.pair_precision], sizes)
        free = np.repeat([float(self.intercepts), 1.0, 1.0, 1.0], sizes)
        return Objective(self, lists, partners_of(self.pairs), start, precision, free, offset)


class Objective(NamedTuple):
    """A log-posterior: lists, those of the rankings or orders of them, where learning starts, and Gaussian priors.

    free: 0 for a parameter that is held. offset: (n_entries, B), given coefficients of the entries, or None.
    """

    task: Task
    lists: Orders
    partners: Partners
    start: Parameters
    precision: Float64Array
    free: Float64Array
    offset: Float64Array | None

    @property
    def shards(self) -> list[Shard]:
        """The lists in shards."""
        return shards_of_lists(self.lists, self.task.pairs)

    def unary(self, point: Parameters) -> Float64Array:
        """Coefficients of all entries."""
        if self.offset is not None:
            return self.offset
        return point.coefficients(self.lists.items, self.lists.entry_users())

    def statistics(self, point: Parameters, lists: Orders) -> Float64Array:
        """Gradient of minus the energies of some lists."""
        of_entries, of_pairs = statistics(lists, self.task.positions, self.task.pairs)
        return point.gradient(of_entries, of_pairs, lists.items, lists.entry_users())

    def scale(self) -> Float64Array:
        """By which steps are scaled: diagonal of the information under equally likely rankings, and of the prior's.

        That is Σ variance of g, and Σ weights for a pair. With factors, whose curvature changes with them, it is 1.
        """
        if self.start.factors.size:
            return np.ones(self.precision.size)
        lists, positions = self.lists, self.task.positions
        lengths = np.diff(lists.indptr)
        variance = np.zeros((positions.start.size, positions.table.shape[1]))
        for n in np.unique(lengths):
            variance[n] = positions.table[positions.start[n] : positions.start[n] + n].var(axis=0)
        of_entries = variance[np.repeat(lengths, lengths)] * np.repeat(lists.weights, lengths)[:, None]
        of_pairs = weights_of_pairs(self.task.rankings, self.task.pairs)
        return self.start.gradient(of_entries, of_pairs, lists.items, lists.entry_users()) + 1.0 + self.precision

    def likelihood(
        self, shards: list[Shard], structure: int, width: int, point: Parameters
    ) -> tuple[float, Float64Array]:
        """Weighted log-likelihood of all lists, cut into shards, by one of the structures, and its gradient."""
        lists, given = self.lists, (self.task.positions, self.task.pairs, self.partners, point.pairs)
        values, of_entries, of_pairs = likelihoods(shards, self.unary(point), structure, width, *given)
        return float(values @ lists.weights), point.gradient(of_entries, of_pairs, lists.items, lists.entry_users())

    def maximised(self, structure: int, width: int, linear: Float64Array | None = None) -> Learner[Parameters]:
        """Posterior mode by L-BFGS: log-likelihood + linear part - Σ precision * parameter² / 2."""
        precision, shards = self.precision, self.shards
        slope = np.zeros(precision.size) if linear is None else linear

        def descended(x: Float64Array) -> tuple[float, Float64Array]:
            value, gradient = self.likelihood(shards, structure, width, self.start.split(x))
            return float(0.5 * precision @ x**2 - slope @ x) - value, self.free * (precision * x - slope - gradient)

        minimised = minimise(descended, self.start.joined(), 1.0 / self.scale(), tol=self.task.tol)
        return mapped(minimised, self.start.split)


def learner_of(learner: str, task: Task, n_sweeps: int, first: int = 0) -> Learner[Parameters]:
    """Parameters by one of the learners, in sweeps from the first on to n_sweeps."""
    if learner in CONTRASTS:
        return _by_contrast(task, learner == "persistent", n_sweeps, first)
    if learner == "exact" and not task.n_factors:
        return _exact(task)
    width = task.n_relocations if learner == "relocation" else task.width
    return task.objective(strict_lists(task.rankings, task.seed)).maximised(STRUCTURES[learner], width)


def _exact(task: Task) -> Learner[Parameters]:
    """Exact likelihood. Rankings are summed over once for all lists over the same items.

    A list stands for its group, and what the others differ from it by is linear in the parameters; so is a tie, which
    is averaged over its orders. (With given coefficients every list has a sum of its own.)
    """
    lists = lists_of_rankings(task.rankings)
    objective = task.objective(grouped(lists) if task.scores is None else strict_order(lists))
    start = objective.start
    return objective.maximised(
        EXACT, 0, objective.statistics(start, lists) - objective.statistics(start, objective.lists)
    )


def _by_contrast(task: Task, persistent: bool, n_sweeps: int, first: int) -> Learner[Parameters]:
    """Contrastive divergence (Hinton 2002; §4.2): raise what the lists say, lower what short chains from them say.

    Chains start from the lists in every sweep, or go on where they were (persistent; Tieleman 2008). Steps are scaled
    by the curvature, and fall like 1 / sqrt(sweep); those of factors are Adam's (Kingma and Ba 2015). The answer is the
    mean over the last half of the sweeps (Polyak and Juditsky 1992).
    """
    lists, observed = strict_lists(task.rankings, task.seed), lists_of_rankings(task.rankings)
    objective, strict = task.objective(lists), strict_order(lists)
    start, scale = objective.start, objective.scale()
    of_data, users = statistics(observed, task.positions, task.pairs), observed.entry_users()

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        point, chains = start.joined(), lists.orders.copy()
        mean, n_kept, done = np.zeros_like(point), 0, first
        moments = np.zeros((2, point.size if task.n_factors else 0))
        if kept:
            point, moments, mean, n_kept, chains, done = (kept[name] for name in _STATE)

        def estimate() -> Float64Array:
            return mean if n_kept else point

        def state() -> State:
            return dict(zip(_STATE, (point, moments, mean, n_kept, chains, done), strict=True))

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            here = start.split(point)
            if not persistent:
                chains = lists.orders.copy()
            advance_chains(
                lists.indptr, lists.items, chains, objective.unary(here), task.positions, task.pairs, here.pairs,
                Moves(task.move, task.width, task.n_steps), stream_key(task.seed, sweep),
            )  # fmt: skip
            drawn = objective.statistics(here, strict._replace(orders=chains))
            gradient = here.gradient(*of_data, observed.items, users) - drawn - objective.precision * point
            gradient = objective.free * gradient
            if task.n_factors:
                moments, step = _adam(moments, gradient, sweep)
            else:
                step = gradient / (scale * np.sqrt(1.0 + sweep / _SLOWER_AFTER))
            point = point + step
            if 2 * sweep >= n_sweeps:
                n_kept += 1
                mean += (point - mean) / n_kept
            done = sweep + 1
            # There is no objective to be had; how far the chains' statistics are from the data's is driven to 0.
            gap = -float(np.sqrt(np.mean(gradient**2 / scale))) if scale.size else 0.0
            yield Step(gap, estimate, state, converged=done == n_sweeps)

    return mapped(steps, start.split)


def _adam(moments: Float64Array, gradient: Float64Array, sweep: int) -> tuple[Float64Array, Float64Array]:
    """Moments and step after one more gradient."""
    first, second = 0.9 * moments[0] + 0.1 * gradient, 0.99 * moments[1] + 0.01 * gradient**2
    root = np.sqrt(second / (1.0 - 0.99 ** (sweep + 1))) + 1e-8
    return np.stack((first, second)), _STEP * (first / (1.0 - 0.9 ** (sweep + 1)) / root)


_STATE = ("point", "moments", "mean", "n_kept", "chains", "done")
# Sweeps until the steps of contrastive learning have fallen to 1 / sqrt(2) of their first length; and those of factors:
# a parameter crosses its prior's width in some tens of sweeps.
_SLOWER_AFTER, _STEP = 10.0, 0.03


def choose_pair_scale(learner: str, task: Task) -> float:
    """Standard deviation of λ a priori that suits held-out lists best, by their relocations.

    A fifth of the lists is held out; the search goes along a grid from its middle until it gets worse. Of many lists a
    random part is looked at.
    """
    rankings = task.rankings
    lengths, n = rankings.lengths, rankings.n_rankings
    order = np.random.default_rng([task.seed, n]).permutation(n)
    work = np.cumsum((lengths * np.minimum(lengths, task.n_relocations))[order])
    n = int(np.searchsorted(work, _MOST_WORK, side="right"))
    if n < _FEWEST_LISTS or task.pairs.items.size == 0:
        return _USUAL_SCALE
    held, seen = np.zeros((2, lengths.size), bool)
    held[order[: n // 5]], seen[order[n // 5 : n]] = True, True
    part = task._replace(rankings=keep_entries(rankings, np.repeat(seen, lengths)), tol=1e-6)
    test = part.objective(strict_lists(keep_entries(rankings, np.repeat(held, lengths)), task.seed))
    shards, structure = test.shards, "relocation" if learner in CONTRASTS else learner

    def error(step: tuple[int, ...]) -> float:
        index = _SCALES.index(_USUAL_SCALE) + step[0]
        if not 0 <= index < len(_SCALES):
            return np.inf
        trial = part._replace(pair_precision=_SCALES[index] ** -2.0)
        point = run(learner_of(structure, trial, _TRIAL_SWEEPS), max_iter=_TRIAL_SWEEPS).estimate
        return -test.likelihood(shards, BY_RELOCATION, task.n_relocations, point)[0]

    (walked,), _ = descend(error, len(_SCALES) + 2, directions=LINE)
    return _SCALES[_SCALES.index(_USUAL_SCALE) + walked]


_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_USUAL_SCALE = 0.05  # right for Sushi, where two items are ranked together by twenty people
_FEWEST_LISTS, _TRIAL_SWEEPS = 50, 60
_MOST_WORK = 2e6  # positions of relocated items: a search takes a minute or two
