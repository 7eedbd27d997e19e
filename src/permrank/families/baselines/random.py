"""Baseline: every order is as likely as every other."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from permrank.core.estimates import Estimate
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import random_seed
from permrank.errors import InputError
from permrank.families.baselines.uniform import Uniform
from permrank.inference.likelihood import Likelihood
from permrank.learning.learner import Learner, at_once
from permrank.ragged import new_blocks
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

_WORD = 2**64


class Random(Ranker):
    """Baseline: a random order for each user, every order having the probability 1 / n!.

    What any model must beat. A tie says nothing about the order inside it, so a ranking with blocks of sizes m_1,
    m_2, ... has the probability Π m_b! / n!.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["ebi", "uni", "ika"]})
    >>> model = pr.Random(seed=1).fit(rankings)
    >>> model.log_likelihood(rankings).round(4).tolist()  # log(1 / 6)
    [-1.7918]
    """

    assumes = "nothing: every order is equally likely"
    takes = "rankings and ratings, ties, weights"
    reference = "the uniform distribution over permutations"

    knows_nobody = True
    personal = False

    seed: int = random_seed(default=0, help="Of the scores.")

    def _learn(self, rankings: Rankings) -> Learner[Estimate]:
        return at_once(Estimate(), float(rankings.weights @ _log_probabilities(rankings)))

    def _scores(self, fitted: Fitted[Estimate], person: Person, items: Int64Array) -> Float64Array:
        # All items are drawn, so that a score does not depend on what else is asked.
        key = stream_key(self.seed, *_numbers(person))
        return generator(int(key)).random(len(fitted.item_ids))[items]

    def _law(self, fitted: Fitted[Estimate], person: Person, items: Int64Array) -> Uniform:
        return Uniform(items.size)

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking, weights left out."""
        self.fitted_.aligned(rankings)  # an unknown item raises
        return _log_probabilities(rankings)

    def _likelihood(self, fitted: Fitted[Estimate]) -> Likelihood:
        """The likelihood of a law without parameters: the special case of equal worths."""
        data, none = fitted.rankings, np.zeros(0)
        value, n = float(data.weights @ _log_probabilities(data)), float(data.weights[data.lengths > 1].sum())
        return Likelihood("uniform", none, np.zeros((0, 0)), none, False, value, None, n, "rankings")

    def _check(self, fitted: Fitted[Estimate]) -> None:
        super()._check(fitted)
        if len(fitted.trace.history) != 1:
            raise InputError(f"history_ has {len(fitted.trace.history)} values, expected one")


def _numbers(person: Person) -> list[int]:
    """Numbers that stand for a person: the index, or for a new one what was listed."""
    if person.rankings is not None:
        return [1, int(person.rankings.fingerprint, 16) % _WORD]
    return [0] if person.index is None else [0, person.index]


def _log_probabilities(rankings: Rankings) -> Float64Array:
    """log Π m_b! - log n!   of each ranking with blocks of sizes m_b."""
    new_block = new_blocks(rankings.levels, rankings.indptr)
    sizes = np.diff(np.flatnonzero(new_block), append=rankings.n_entries)
    inside = np.bincount(rankings.entry_rankings()[new_block], gammaln(sizes + 1.0), rankings.n_rankings)
    return np.asarray(inside - gammaln(rankings.lengths + 1.0))
