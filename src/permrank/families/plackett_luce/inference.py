"""The Plackett-Luce likelihood at the estimate and elsewhere, and data drawn from the model."""

from __future__ import annotations

from functools import partial

import numpy as np

from permrank.families.plackett_luce.kernels.pooled import observed_information
from permrank.families.plackett_luce.statistics import PooledStatistics
from permrank.inference.likelihood import Likelihood
from permrank.inference.profile import Evaluated
from permrank.kernels.luce.likelihood import EXACT, stage_statistics
from permrank.posterior.item_scores import Flat, Prior
from permrank.randomness import generator
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import reordered, repeated
from permrank.types import Float64Array

_NOTES = {
    "efron": "Efron's treatment of ties is an approximation; compare its likelihood with no other treatment's",
    "breslow": "Breslow's treatment of ties is an approximation; compare its likelihood with no other treatment's",
    "shuffle": "ties were shuffled: the estimate is a stochastic one, the likelihood that of ties='exact'",
}


def likelihood_at(rankings: Rankings, scores: Float64Array, ties: int, prior: Prior, name: str) -> Likelihood:
    """The likelihood of the training data at the estimate; ``name`` is the treatment of ties in words."""
    flat = isinstance(prior, Flat)
    informative = rankings.lengths > 1
    return Likelihood(
        family=f"Plackett-Luce, ties={'exact' if not rankings.has_ties else name}",
        point=scores,
        information=_information(rankings, scores, ties),
        penalty=prior.curvature(scores),
        flat=flat,
        value=_total(rankings, scores, ties),
        null=_total(rankings, np.zeros_like(scores), ties) if flat else None,
        n=float(rankings.weights[informative].sum()),
        unit="rankings",
        notes=(_NOTES[name],) if rankings.has_ties and name in _NOTES else (),
    )


def evaluated_at(rankings: Rankings, scores: Float64Array, ties: int) -> Evaluated:
    """Log-likelihood, gradient and information at any scores."""
    value, chosen, expected = PooledStatistics.of(rankings, ties)(scores)
    return Evaluated(value, chosen - expected, partial(_information, rankings, scores, ties))


def drawn_from(rankings: Rankings, scores: Float64Array, seed: int) -> Rankings:
    """The same lists in an order of the model: an exponential race, log-worths with Gumbel noise."""
    design = repeated(rankings)
    keys = scores[design.items] + generator(seed).gumbel(size=design.n_entries)
    order = np.lexsort((-keys, design.entry_rankings()))
    return reordered(design, design.items[order])


def draws_ties(ties: int, rankings: Rankings) -> bool:
    """Whether `drawn_from` has the law of the model: ties hide an order, and say nothing else."""
    return ties == EXACT or not rankings.has_ties


def _total(rankings: Rankings, scores: Float64Array, ties: int) -> float:
    by_entry = scores[rankings.items]
    unused = np.empty_like(by_entry), np.empty_like(by_entry)
    return float(np.sum(rankings.weights * stage_statistics(rankings.indptr, rankings.levels, by_entry, ties, *unused)))


def _information(rankings: Rankings, scores: Float64Array, ties: int) -> Float64Array:
    return np.asarray(
        observed_information(rankings.indptr, rankings.items, rankings.levels, scores, rankings.weights, ties)
    )
