"""Settings of `LatentPlackettLuce` by held-out people: how strong the priors are, how many communities there are.

A fifth of the users is kept aside. Of each of their lists every item is left out in turn: the membership is worked out
from the rest, and what counts is the log-probability of the place where the item really was. That is the question which
the model will be asked, so a prior that is too weak shows as much as one that is too strong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.inference.convergence import Monitor
from permrank.kernels.latent import BY_LIST, BY_STAGE, worth_table
from permrank.kernels.latent_insertion import place_log_probabilities
from permrank.kernels.latent_membership import memberships
from permrank.models.latent_learning import Fit, Priors, Problem, learn, members, starts, warmed
from permrank.types import Float64Array, Int32Array, Int64Array

STRENGTHS = 2.0 ** np.arange(0, 4)
# Sum of the Dirichlet's parameters: from nearly one community a person to nearly the same mixture for everybody.
TOTALS = 2.0 ** np.arange(0, 7)
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
    places : int64 (n,)
        Entries of the list that were before them.
    """

    indptr: Int64Array
    items: Int32Array
    levels: Int32Array
    candidates: Int64Array
    places: Int64Array


def subset(problem: Problem, users: Int64Array) -> Problem:
    """The problem with some of its users, all items."""
    rankings = _ranges(problem.user_indptr[:-1][users], problem.user_indptr[1:][users])
    entries = _ranges(problem.indptr[:-1][rankings], problem.indptr[1:][rankings])
    return problem._replace(
        user_indptr=_pointers(np.diff(problem.user_indptr)[users]),
        indptr=_pointers(np.diff(problem.indptr)[rankings]),
        items=problem.items[entries],
        levels=problem.levels[entries],
        weights=problem.weights[rankings],
        outer=problem.outer[users],
    )


def left_out(problem: Problem) -> LeftOut:
    """Leave out the items of every list in turn, evenly spread over long lists; ties of the item are no place."""
    parts: list[tuple[Any, Any, int, int]] = []
    for first, last in zip(problem.indptr[:-1], problem.indptr[1:], strict=True):
        items, levels = problem.items[first:last], problem.levels[first:last]
        n = int(last - first)
        alone = np.ones(n, bool)
        alone[1:] &= levels[1:] != levels[:-1]
        alone[:-1] &= levels[1:] != levels[:-1]
        chosen = np.flatnonzero(alone) if n > 2 else np.zeros(0, np.int64)
        if chosen.size > _MOST_LEFT_OUT:
            chosen = chosen[np.linspace(0, chosen.size - 1, _MOST_LEFT_OUT).astype(np.int64)]
        parts += [(np.delete(items, i), np.delete(levels, i), int(items[i]), int(i)) for i in chosen]
    if not parts:
        empty = np.zeros(0, np.int64)
        return LeftOut(np.zeros(1, np.int64), problem.items[:0], problem.levels[:0], empty, empty)
    kept, kept_levels, candidates, places = zip(*parts, strict=True)
    return LeftOut(
        _pointers(np.array([each.size for each in kept])),
        np.concatenate(kept),
        np.concatenate(kept_levels),
        np.array(candidates, np.int64),
        np.array(places, np.int64),
    )


def place_scores(test: LeftOut, problem: Problem, fit: Fit, prior: Float64Array, mixing: int) -> Float64Array:
    """Log-probability of each left-out item's place under the first start of a fit."""
    n = test.candidates.size
    worths = worth_table(fit.scores[0])
    theta = memberships(
        np.arange(n + 1),
        test.indptr,
        test.items,
        test.levels,
        np.ones(n),
        worths,
        prior,
        problem.ties,
        mixing,
        100,
        1e-6,
    )
    return np.asarray(
        place_log_probabilities(
            test.indptr, test.items, test.levels, worths, theta, test.candidates, test.places, problem.ties, mixing
        )
    )


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

    def strength(self) -> float:
        """Imaginary choices that serve held-out people best, with one community a list."""
        if not self.possible:
            return _USUAL_STRENGTH
        found = [self.by_list(float(strength)).mean() for strength in STRENGTHS]
        return float(STRENGTHS[int(np.argmax(found))])

    def by_list(self, strength: float) -> Float64Array:
        """Held-out scores with one community a list."""
        fit = warmed(self.train, strength, self._begin, _LIST_SWEEPS)
        return place_scores(self.test, self.train, fit, fit.mixtures[0, 0], BY_LIST)

    def by_stage(self, strength: float, total: float, warm: Fit | None = None) -> Float64Array:
        """Held-out scores with a community for each stage."""
        warm = warmed(self.train, strength, self._begin) if warm is None else warm
        prior = total * warm.mixtures[:, 0]
        fit = members(self.train, warm, prior)
        fit = learn(self.train, Priors(strength, prior), BY_STAGE, fit, Monitor(_STAGE_SWEEPS), 0.0, True)
        return place_scores(self.test, self.train, fit, prior[0], BY_STAGE)

    def total(self, strength: float) -> float:
        """Sum of the Dirichlet's parameters that serves held-out people best."""
        if not self.possible:
            return _USUAL_TOTAL
        warm = warmed(self.train, strength, self._begin)
        found = [self.by_stage(strength, float(total), warm).mean() for total in TOTALS]
        return float(TOTALS[int(np.argmax(found))])


def choose_number(problem: Problem, mixing: int, settings: tuple[Any, Any], seed: int) -> tuple[Float64Array, int]:
    """Number of communities by held-out people, and the curve: number, mean log-probability, standard error."""
    strength, total = settings
    curve = []
    for number in NUMBERS:
        selection = Selection(problem, number, seed)
        if not selection.possible:
            return np.zeros((0, 3)), 1
        chosen = selection.strength() if strength == "auto" else float(strength)
        if mixing == BY_LIST:
            values = selection.by_list(chosen)
        else:
            values = selection.by_stage(chosen, selection.total(chosen) if total == "auto" else float(total))
        curve.append((number, values.mean(), values.std() / np.sqrt(values.size)))
        if number >= problem.n_users // 5:
            break
    table = np.array(curve, np.float64)
    return table, int(table[int(np.argmax(table[:, 1])), 0])


def _pointers(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _ranges(first: Int64Array, last: Int64Array) -> Int64Array:
    """Concatenation of the ranges [first, last)."""
    pointers = _pointers(last - first)
    return np.asarray(np.repeat(first - pointers[:-1], last - first) + np.arange(pointers[-1]))
