"""Learners of coefficients of items and pairs: exact, by pseudo-likelihood (§4.3), by contrast (§4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from permrank.families.log_linear.kernels.arguments import Moves, Pairs, Partners, Positions
from permrank.families.log_linear.kernels.moves import SWAP, advance_chains
from permrank.families.log_linear.kernels.pseudo_likelihood import BY_RELOCATION, BY_SWAPS, BY_WINDOWS, EXACT
from permrank.families.log_linear.lists import (
    Lists,
    by_item,
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
from permrank.learning.lbfgs import minimise
from permrank.learning.learner import Learner, State, Step, mapped, run, standing
from permrank.learning.shards import Shard
from permrank.randomness import stream_key
from permrank.rankings.hold_out import keep_entries
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

STRUCTURES = {"relocation": BY_RELOCATION, "swaps": BY_SWAPS, "windows": BY_WINDOWS, "exact": EXACT}
CONTRASTS = ("contrastive", "persistent")


def precision_of(scale: float | None) -> float:
    """Of a Gaussian prior with this standard deviation; 0 for none."""
    return 0.0 if scale is None else float(scale) ** -2


class Parameters(NamedTuple):
    """Coefficients of items (n_items, B) and of pairs (n_pairs,)."""

    items: Float64Array
    pairs: Float64Array

    def joined(self) -> Float64Array:
        """All of them in one vector."""
        return np.concatenate((self.items.ravel(), self.pairs))

    def split(self, point: Float64Array) -> Parameters:
        """A vector as parameters of this shape."""
        n = self.items.size
        return Parameters(point[:n].reshape(self.items.shape), point[n:])


class Problem(NamedTuple):
    """What a learner needs: lists, position functions, pairs, and the precisions of the Gaussian priors.

    The lists are those of the rankings, or orders of them.
    """

    rankings: Rankings
    lists: Lists
    positions: Positions
    pairs: Pairs
    partners: Partners
    precisions: Parameters
    offset: Float64Array | None = None

    @property
    def start(self) -> Parameters:
        """No preference at all; with an offset the coefficients of items are given, (n_entries, B), and not learnt."""
        n_items = self.rankings.n_items if self.offset is None else 0
        return Parameters(np.zeros((n_items, self.positions.table.shape[1])), np.zeros(self.pairs.items.size))

    @property
    def shards(self) -> list[Shard]:
        """The lists in shards."""
        return shards_of_lists(self.lists, self.pairs)

    def unary(self, point: Parameters) -> Float64Array:
        """Coefficients of all entries."""
        return point.items[self.lists.items] if self.offset is None else self.offset

    def of_items(self, of_entries: Float64Array, lists: Lists) -> Float64Array:
        """Sums over the entries of each item whose coefficients are learnt."""
        return by_item(of_entries, lists.items, self.rankings.n_items) if self.offset is None else of_entries[:0]


def likelihood(
    problem: Problem, shards: list[Shard], structure: int, width: int, point: Parameters
) -> tuple[float, Parameters]:
    """Weighted log-likelihood of all lists, cut into shards, by one of the structures, and its gradient."""
    lists = problem.lists
    values, of_entries, of_pairs = likelihoods(
        shards, structure, width, problem.unary(point), problem.positions, problem.pairs, problem.partners, point.pairs
    )
    gradient = Parameters(problem.of_items(of_entries, lists), of_pairs)
    return float(values @ lists.weights), gradient


def maximise(problem: Problem, structure: int, width: int, linear: Parameters, tol: float) -> Learner[Parameters]:
    """Posterior mode by L-BFGS: log-likelihood + linear part - Σ precision * parameter² / 2."""
    shape = problem.start
    precision, slope = problem.precisions.joined(), linear.joined()
    shards = problem.shards

    def descended(x: Float64Array) -> tuple[float, Float64Array]:
        value, gradient = likelihood(problem, shards, structure, width, shape.split(x))
        return float(0.5 * precision @ x**2 - slope @ x) - value, precision * x - slope - gradient.joined()

    scale = 1.0 / (_curvature(problem) + precision)
    return mapped(minimise(descended, shape.joined(), scale, tol=tol), shape.split)


class Task(NamedTuple):
    """What to learn, from what, and how.

    Attributes
    ----------
    rankings : Rankings
    positions : Positions
    pairs : Pairs
    item_precision, pair_precision : float
        Of the Gaussian priors.
    width : int
        Of windows.
    n_relocations : int
        The most items of a list that are relocated.
    n_steps : int
        Moves of a chain in a sweep; 0 for as many as the list has items.
    tol : float
    seed : int
    scores : callable, optional
        (users, items) to given coefficients (n, B), which are not learnt then.
    move : int
        Of the chains, a code of `kernels.log_linear_moves`.
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

    def problem(self, lists: Lists) -> Problem:
        """For these lists."""
        offset = None
        if self.scores is not None:
            offset = self.scores(lists.entry_users(), lists.items)
        shape = (self.rankings.n_items if offset is None else 0, self.positions.table.shape[1])
        precisions = Parameters(
            np.full(shape, self.item_precision), np.full(self.pairs.items.size, self.pair_precision)
        )
        partners = partners_of(self.pairs)
        return Problem(self.rankings, lists, self.positions, self.pairs, partners, precisions, offset)


def learner_of(learner: str, task: Task, n_sweeps: int, first: int = 0) -> Learner[Parameters]:
    """Coefficients of items and pairs by one of the learners, in sweeps from the first on to n_sweeps."""
    if learner in CONTRASTS:
        return _by_contrast(task, learner == "persistent", n_sweeps, first)
    if learner == "exact":
        return _exact(task)
    problem = task.problem(strict_lists(task.rankings, task.seed))
    width = task.n_relocations if learner == "relocation" else task.width
    return maximise(problem, STRUCTURES[learner], width, problem.start, task.tol)


def _exact(task: Task) -> Learner[Parameters]:
    """Exact likelihood. Rankings are summed over once for all lists over the same items.

    A list stands for its group, and what the others differ from it by is linear in the parameters; so is a tie, which
    is averaged over its orders. (With given coefficients every list has a sum of its own.)
    """
    lists = lists_of_rankings(task.rankings)
    problem = task.problem(grouped(lists) if task.scores is None else strict_order(lists))
    said = _statistics(problem, lists) - _statistics(problem, problem.lists)
    return maximise(problem, EXACT, 0, problem.start.split(said), task.tol)


def _by_contrast(task: Task, persistent: bool, n_sweeps: int, first: int) -> Learner[Parameters]:
    """Contrastive divergence (Hinton 2002; §4.2): raise what the lists say, lower what short chains from them say.

    Chains start from the lists in every sweep, or go on where they were (persistent; Tieleman 2008). Steps are scaled
    by the curvature of the likelihood of equally likely rankings, fall like 1 / sqrt(sweep), and the answer is the mean
    over the last half of the sweeps (Polyak and Juditsky 1992).
    """
    lists = strict_lists(task.rankings, task.seed)
    problem = task.problem(lists)
    said = _statistics(problem, lists_of_rankings(task.rankings))
    start, precision = problem.start, problem.precisions.joined()
    scale = _curvature(problem) + precision
    strict = strict_order(lists)

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        point, chains = start.joined(), lists.orders.copy()
        mean, n_kept, done = np.zeros_like(point), 0, first
        if kept:
            point, mean, n_kept, chains, done = (kept[name] for name in ("point", "mean", "n_kept", "chains", "done"))

        def estimate() -> Float64Array:
            return mean if n_kept else point

        def state() -> State:
            return {"point": point, "mean": mean, "n_kept": n_kept, "chains": chains, "done": done}

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            here = start.split(point)
            if not persistent:
                chains = lists.orders.copy()
            advance_chains(
                lists.indptr, lists.items, chains, problem.unary(here), task.positions, task.pairs, here.pairs,
                Moves(task.move, task.width, task.n_steps), stream_key(task.seed, sweep),
            )  # fmt: skip
            gradient = said - _statistics(problem, strict._replace(orders=chains)) - precision * point
            point = point + gradient / (scale * np.sqrt(1.0 + sweep / _SLOWER_AFTER))
            if 2 * sweep >= n_sweeps:
                n_kept += 1
                mean += (point - mean) / n_kept
            done = sweep + 1
            # There is no objective to be had; how far the chains' statistics are from the data's is driven to 0.
            gap = -float(np.sqrt(np.mean(gradient**2 / scale))) if scale.size else 0.0
            yield Step(gap, estimate, state, converged=done == n_sweeps)

    return mapped(steps, start.split)


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
    test = part.problem(strict_lists(keep_entries(rankings, np.repeat(held, lengths)), task.seed))
    found: dict[int, float] = {}

    def value(index: int) -> float:
        if index not in found:
            trial = part._replace(pair_precision=_SCALES[index] ** -2.0)
            structure = learner if learner in ("exact", "swaps", "windows") else "relocation"
            point = run(learner_of(structure, trial, _TRIAL_SWEEPS), max_iter=_TRIAL_SWEEPS).estimate
            found[index] = likelihood(test, test.shards, BY_RELOCATION, task.n_relocations, point)[0]
        return found[index]

    index = _SCALES.index(_USUAL_SCALE)
    for step in (-1, 1):
        while 0 <= index + step < len(_SCALES) and value(index + step) > value(index):
            index += step
    return _SCALES[index]


_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_USUAL_SCALE = 0.05  # right for Sushi, where two items are ranked together by twenty people
_FEWEST_LISTS, _TRIAL_SWEEPS = 50, 60
_MOST_WORK = 2e6  # positions of relocated items: a search takes a minute or two
# Sweeps until the steps of contrastive learning have fallen to 1 / sqrt(2) of their first length.
_SLOWER_AFTER = 10.0


def _statistics(problem: Problem, lists: Lists) -> Float64Array:
    of_entries, of_pairs = statistics(lists, problem.positions, problem.pairs)
    return Parameters(problem.of_items(of_entries, lists), of_pairs).joined()


def _curvature(problem: Problem) -> Float64Array:
    """Diagonal of the information under equally likely rankings: Σ variance of g, and Σ weights for a pair."""
    lists, positions = problem.lists, problem.positions
    lengths = np.diff(lists.indptr)
    variance = np.zeros((positions.start.size, positions.table.shape[1]))
    for n in np.unique(lengths):
        variance[n] = positions.table[positions.start[n] : positions.start[n] + n].var(axis=0)
    weights = np.repeat(lists.weights, lengths)
    of_items = problem.of_items(variance[np.repeat(lengths, lengths)] * weights[:, None], lists)
    return Parameters(of_items, weights_of_pairs(problem.rankings, problem.pairs)).joined() + 1.0
