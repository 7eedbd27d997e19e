"""Settings of `LatentPlackettLuce` by held-out people: how strong the priors are, how many communities there are.

A fifth of the users is kept aside. Of each of their lists every item is left out in turn: the membership is worked out
from the rest, and what counts is the log-probability of the position where the item really was (of all positions beside
or among its equals, if it was tied). That is the question which the model will be asked, so a prior that is too weak
shows as much as one that is too strong.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from permrank.families.latent.kernels.insertion import position_log_probabilities
from permrank.families.latent.kernels.membership import memberships
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, worth_table
from permrank.families.latent.learning import CommunityData, Fit, Priors, learner_of, members, starts, warmed
from permrank.kernels.lists import Lists
from permrank.learning.held_out import choose_by_held_out
from permrank.learning.learner import run
from permrank.ragged import frozen, indptr_of, owners, ranges
from permrank.types import Float64Array, Int64Array

STRENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
# Sum of the Dirichlet's parameters: from nearly one community a person to nearly the same mixture for everybody.
TOTALS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
NUMBERS = (1, 2, 4, 8, 16, 32)
_MOST_USERS = 6_000
# Items left out of one list: the answer needs no more of a long list.
_MOST_LEFT_OUT = 10
# Sweeps by list, then by stage: settings differ clearly long before convergence.
_LIST_SWEEPS, _STAGE_SWEEPS = 40, 25
_USUAL_STRENGTH, _USUAL_TOTAL = 4.0, 8.0


class Split(NamedTuple):
    """Held-out people, and the data of the others.

    Attributes
    ----------
    lists : Lists
        Lists of the held-out with one item left out, one user and one list each.
    candidates : int64 (n,)
        Items that were left out.
    first, last : int64 (n,)
        The positions, from 0, where they were; more than one for an item that was tied.
    train : CommunityData
    begin : Fit
        Where learning starts.
    """

    lists: Lists
    candidates: Int64Array
    first: Int64Array
    last: Int64Array
    train: CommunityData
    begin: Fit

    @classmethod
    def of(cls, data: CommunityData, n_communities: int, seed: int) -> Split:
        """Every fifth user is held out; of very many users some are not looked at."""
        users = np.arange(0, data.n_users, max(1, -(-data.n_users // _MOST_USERS)))
        aside = np.arange(users.size) % 5 == 4
        train = data.of_users(users[~aside])
        return cls(*left_out(data.of_users(users[aside]).lists), train, starts(train, n_communities, 1, seed))

    @property
    def possible(self) -> bool:
        """Whether anything is held out."""
        return self.candidates.size > 0

    def scores(self, mixing: int, strength: float, total: float) -> Float64Array:
        """Log-probabilities of the positions of left-out items, learnt with these settings."""
        if mixing == BY_LIST:
            fit = warmed(self.train, strength, self.begin, _LIST_SWEEPS)
            prior = fit.mixtures[0, 0]
        else:
            warm = warmed(self.train, strength, self.begin)
            priors = Priors(strength, total * warm.mixtures[:, 0])
            start, prior = members(self.train, warm, priors.concentration), priors.concentration[0]
            fit = run(learner_of(self.train, priors, BY_STAGE, start, 0.0, True), max_iter=_STAGE_SWEEPS).estimate
        rules, worths = Rules(self.train.ties, mixing), worth_table(fit.scores[0])
        theta = memberships(self.lists, worths, prior, rules, 100, 1e-6)
        positions = self.candidates, self.first, self.last
        return np.asarray(position_log_probabilities(self.lists, worths, theta, *positions, rules))

    def priors(self, mixing: int, strength: Any, total: Any) -> tuple[float, float]:
        """What serves held-out people best; "auto" is chosen, the first before the second, and numbers are kept."""
        usual = _USUAL_TOTAL if total == "auto" else float(total)
        if strength == "auto":
            strength = _USUAL_STRENGTH
            if self.possible:
                strength = choose_by_held_out(STRENGTHS, lambda each: self.scores(mixing, each, usual)).best
        strength = float(strength)
        if total == "auto" and mixing == BY_STAGE and self.possible:
            usual = choose_by_held_out(TOTALS, lambda each: self.scores(mixing, strength, each)).best
        return strength, usual


def left_out(lists: Lists) -> tuple[Lists, Int64Array, Int64Array, Int64Array]:
    """Leave out the items of every list in turn, evenly spread over long lists; see `Split`."""
    rankings, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for r, (begin, end) in enumerate(itertools.pairwise(lists.indptr)):
        if end - begin > 2:
            n = min(int(end - begin), _MOST_LEFT_OUT)
            entries.append(begin + np.linspace(0, end - begin - 1, n).astype(np.int64))
            rankings.append(np.full(n, r))
    ranking, entry = np.concatenate(rankings), np.concatenate(entries)
    start, stop = lists.indptr[ranking], lists.indptr[ranking + 1]
    rest = ranges(start, stop)
    rest = rest[rest != np.repeat(entry, stop - start)]
    # Levels do not fall within a list: with the number of the list before them they are sorted throughout.
    keys = owners(lists.indptr) * (1 << 32) + lists.levels
    own, each = keys[entry], np.arange(entry.size + 1)
    *parts, candidates, first, last = frozen(
        each, indptr_of(stop - start - 1), lists.items[rest], lists.levels[rest], np.ones(entry.size),
        lists.items[entry].astype(np.int64), np.searchsorted(keys, own, side="left") - start,
        np.searchsorted(keys, own, side="right") - 1 - start,
    )  # fmt: skip
    return Lists(*parts), candidates, first, last


def choose_priors(
    data: CommunityData, n_communities: int, mixing: int, strength: Any, total: Any, seed: int
) -> tuple[float, float]:
    """Imaginary choices, and the sum of the Dirichlet's parameters (not used with one community a list).

    Numbers are kept, and "auto" is chosen by held-out people.
    """
    if strength == "auto" or (total == "auto" and mixing == BY_STAGE):
        return Split.of(data, n_communities, seed).priors(mixing, strength, total)
    return float(strength), 1.0 if total == "auto" else float(total)


def choose_number(data: CommunityData, mixing: int, strength: Any, total: Any, seed: int) -> tuple[Float64Array, int]:
    """Number of communities by held-out people, and the curve: number, mean log-probability, standard error."""

    def score(number: int) -> Float64Array:
        split = Split.of(data, number, seed)
        return split.scores(mixing, *split.priors(mixing, strength, total))

    if not Split.of(data, 1, seed).possible:
        return np.zeros((0, 3)), 1
    # Of the numbers from that of the held-out people on only the first is tried.
    n_tried = 1 + sum(number < data.n_users // 5 for number in NUMBERS)
    choice = choose_by_held_out(NUMBERS[:n_tried], score)
    errors = choice.scores.std(axis=1) / np.sqrt(choice.scores.shape[1])
    return np.column_stack((choice.candidates, choice.means, errors)), choice.best
