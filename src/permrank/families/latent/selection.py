"""Settings of `LatentPlackettLuce` by held-out people: how strong the priors are, how many communities there are.

A fifth of the users is kept aside. Of each of their lists every item is left out in turn: the membership is worked out
from the rest, and what counts is the log-probability of the position where the item really was (of all positions beside
or among its equals, if it was tied). That is the question which the model will be asked, so a prior that is too weak
shows as much as one that is too strong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from permrank.families.latent.kernels.insertion import position_log_probabilities
from permrank.families.latent.kernels.membership import memberships
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, worth_table
from permrank.families.latent.learning import Fit, Priors, Problem, learner_of, members, starts, warmed
from permrank.kernels.lists import Lists
from permrank.learning.learner import run
from permrank.ragged import frozen, indptr_of, owners, ranges
from permrank.types import Array, Float64Array, Int32Array, Int64Array

STRENGTHS: Float64Array = np.exp2(np.arange(0.0, 5.0))
# Sum of the Dirichlet's parameters: from nearly one community a person to nearly the same mixture for everybody.
TOTALS: Float64Array = np.exp2(np.arange(0.0, 7.0))
NUMBERS = (1, 2, 4, 8, 16, 32)
_MOST_USERS = 6_000
# Items left out of one list: the answer needs no more of a long list.
_MOST_LEFT_OUT = 10
# Sweeps by list, then by stage: settings differ clearly long before convergence.
_LIST_SWEEPS, _STAGE_SWEEPS = 40, 25
_USUAL_STRENGTH, _USUAL_TOTAL = 4.0, 8.0


class LeftOut(NamedTuple):
    """Lists of held-out users with one item left out, the item and where it was.

    Attributes
    ----------
    indptr, items, levels
        One user and one list each.
    candidates : int64 (n,)
        Items that were left out.
    first, last : int64 (n,)
        The positions, from 0, where they were; more than one for an item that was tied.
    """

    indptr: Int64Array
    items: Int32Array
    levels: Int32Array
    candidates: Int64Array
    first: Int64Array
    last: Int64Array


def subset(problem: Problem, users: Int64Array) -> Problem:
    """The problem with some of its users, all items."""
    rankings = ranges(problem.user_indptr[:-1][users], problem.user_indptr[1:][users])
    entries = ranges(problem.indptr[:-1][rankings], problem.indptr[1:][rankings])
    parts = frozen(
        indptr_of(np.diff(problem.user_indptr)[users]),
        indptr_of(np.diff(problem.indptr)[rankings]),
        problem.items[entries],
        problem.levels[entries],
        problem.weights[rankings],
        problem.outer[users],
    )
    return Problem._make((*parts, problem.pooled, problem.ties, problem.m_step))


def left_out(problem: Problem) -> LeftOut:
    """Leave out the items of every list in turn, evenly spread over long lists."""
    lists, entries = [], []
    for r, (start, stop) in enumerate(itertools.pairwise(problem.indptr)):
        if stop - start > 2:
            n = min(int(stop - start), _MOST_LEFT_OUT)
            chosen = start + np.linspace(0, stop - start - 1, n).astype(np.int64)
            entries.append(chosen)
            lists.append(np.full(n, r))
    if not lists:
        empty = np.zeros(0, np.int64)
        return LeftOut(*frozen(np.zeros(1, np.int64), problem.items[:0], problem.levels[:0], empty, empty, empty))
    ranking, entry = np.concatenate(lists), np.concatenate(entries)
    start, stop = problem.indptr[ranking], problem.indptr[ranking + 1]
    kept = ranges(start, stop)
    kept = kept[kept != np.repeat(entry, stop - start)]
    # Levels do not fall within a list: with the number of the list before them they are sorted throughout.
    keys = owners(problem.indptr) * (1 << 32) + problem.levels
    own = keys[entry]
    parts = frozen(
        indptr_of(stop - start - 1),
        problem.items[kept],
        problem.levels[kept],
        problem.items[entry].astype(np.int64),
        np.searchsorted(keys, own, side="left") - start,
        np.searchsorted(keys, own, side="right") - 1 - start,
    )
    return LeftOut(*parts)


def position_scores(test: LeftOut, problem: Problem, fit: Fit, prior: Float64Array, mixing: int) -> Float64Array:
    """Log-probability of each left-out item's position under the first start of a fit."""
    n = test.candidates.size
    worths = worth_table(fit.scores[0])
    each, ones = frozen(np.arange(n + 1), np.ones(n))
    lists, rules = Lists(each, test.indptr, test.items, test.levels, ones), Rules(problem.ties, mixing)
    theta = memberships(lists, worths, prior, rules, 100, 1e-6)
    positions = test.candidates, test.first, test.last
    return np.asarray(position_log_probabilities(lists, worths, theta, *positions, rules))


class Selection:
    """Held-out people and what was learnt without them.

    Parameters
    ----------
    problem : Problem
    n_communities : int
    seed : int
    """

    def __init__(self, problem: Problem, n_communities: int, seed: int) -> None:
        users = np.arange(problem.n_users)
        step = max(1, -(-users.size // _MOST_USERS))
        users = users[::step]
        aside = np.arange(users.size) % 5 == 4
        self.test = left_out(subset(problem, users[aside]))
        self.train = subset(problem, users[~aside])
        self.possible = self.test.candidates.size > 0
        self._begin = starts(self.train, n_communities, 1, seed)

    def settings(self, mixing: int, strength: Any, total: Any) -> tuple[float, float]:
        """What serves held-out people best: imaginary choices, and the sum of the Dirichlet's parameters.

        "auto" is chosen, the first before the second, and numbers are kept.
        """
        if strength == "auto":
            usual = _USUAL_TOTAL if total == "auto" else float(total)
            strength = self._best(STRENGTHS, _USUAL_STRENGTH, lambda each: self.scores(mixing, each, usual))
        if total == "auto":
            total = _USUAL_TOTAL
            if mixing == BY_STAGE:
                chosen = float(strength)
                total = self._best(TOTALS, _USUAL_TOTAL, lambda each: self.scores(mixing, chosen, each))
        return float(strength), float(total)

    def _best(self, grid: Float64Array, usual: float, ask: Callable[[float], Float64Array]) -> float:
        if not self.possible:
            return usual
        return float(grid[int(np.argmax([ask(float(each)).mean() for each in grid]))])

    def scores(self, mixing: int, strength: float, total: float) -> Float64Array:
        """Log-probabilities of the positions of left-out items, learnt with these settings."""
        if mixing == BY_LIST:
            fit = warmed(self.train, strength, self._begin, _LIST_SWEEPS)
            return position_scores(self.test, self.train, fit, fit.mixtures[0, 0], BY_LIST)
        warm = warmed(self.train, strength, self._begin)
        prior = total * warm.mixtures[:, 0]
        fit = members(self.train, warm, prior)
        learner = learner_of(self.train, Priors(strength, prior), BY_STAGE, fit, 0.0, True)
        fit = run(learner, max_iter=_STAGE_SWEEPS).estimate
        return position_scores(self.test, self.train, fit, prior[0], BY_STAGE)


def choose_number(problem: Problem, mixing: int, settings: tuple[Array, Array], seed: int) -> tuple[Float64Array, int]:
    """Number of communities by held-out people, and the curve: number, mean log-probability, standard error."""
    strength, total = settings
    curve = []
    for number in NUMBERS:
        selection = Selection(problem, number, seed)
        if not selection.possible:
            return np.zeros((0, 3)), 1
        values = selection.scores(mixing, *selection.settings(mixing, strength, total))
        curve.append((number, values.mean(), values.std() / np.sqrt(values.size)))
        if number >= problem.n_users // 5:
            break
    table = np.array(curve, np.float64)
    return table, int(table[int(np.argmax(table[:, 1])), 0])
