"""The Bradley-Terry likelihood at the estimate and elsewhere, and data drawn from the model."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from permrank.core.comparisons import Comparisons
from permrank.errors import NotSupportedError
from permrank.families.pairwise.kernels.bradley_terry import DAVIDSON, RAO_KUPPER, bradley_terry_sums
from permrank.inference.likelihood import Likelihood
from permrank.inference.profile import Evaluated
from permrank.posterior.item_scores import Flat, Prior
from permrank.randomness import generator
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import reordered, repeated
from permrank.types import BoolArray, Float64Array

_BROKEN = (
    "lists of more than two items were broken into pairs, which are not independent: errors are too small, and "
    "likelihoods compare nothing; PlackettLuce takes lists whole"
)
_HALVES = "a tie counts as half a win for either, which is no probability model of ties"


def likelihood_at(
    rankings: Rankings, met: Comparisons, scores: Float64Array, tie: float, form: int, prior: Prior, ties: str
) -> Likelihood:
    """The likelihood of the comparisons at the estimate; ``ties`` is their treatment in words."""
    flat, share = isinstance(prior, Flat), share_of_ties(met)
    log_tie = math.log(tie) if tie > 0 else -math.inf
    null = _value(met, np.zeros_like(scores), first_log_tie(share, form), form) if flat else None
    broken = int(rankings.lengths.max(initial=0)) > 2
    notes = ((_BROKEN,) if broken else ()) + ((_HALVES,) if ties == "half" and rankings.has_ties else ())
    treated = ties if rankings.has_ties else "none"
    return Likelihood(
        family=f"Bradley-Terry, ties={treated}" + (", lists broken into pairs" if broken else ""),
        point=np.append(scores, [log_tie] if share > 0 else []),
        information=information_of(met, scores, tie, form),
        penalty=prior.curvature(scores),
        flat=flat,
        value=_value(met, scores, log_tie, form),
        null=null,
        n=float((met.wins + met.losses + met.ties).sum()) / 2.0,
        unit="comparisons",
        notes=notes,
    )


def evaluated_at(met: Comparisons, point: Float64Array, form: int) -> Evaluated:
    """Log-likelihood, gradient and information at any scores and logarithm of the tie parameter."""
    n = met.rows.size - 1
    has_tie = point.size > n
    log_tie = float(point[n]) if has_tie else 0.0 if form == RAO_KUPPER else -math.inf
    if form == RAO_KUPPER and has_tie and log_tie <= 0.0:  # P(tie) would not be positive
        return Evaluated(-np.inf, np.zeros_like(point), partial(np.eye, point.size))
    sums = bradley_terry_sums(*met, point[:n], log_tie, form)
    gradient = np.append(sums[:, 1] - sums[:, 2], [sums[:, 3].sum()] if has_tie else [])
    information = partial(information_of, met, point[:n], math.exp(log_tie), form)
    return Evaluated(float(sums[:, 0].sum()), gradient, information)


def drawn_from(rankings: Rankings, logs: Float64Array, keep: BoolArray, seed: int) -> Rankings:
    """The same comparisons with other outcomes.

    Parameters
    ----------
    rankings : Rankings
        With weight 1 each, see `repeated`.
    logs : float64 (3, n)
        log P of win, tie and loss of the first item of every ranking of two.
    keep : bool (n,)
        Comparisons that stay as they are.
    seed : int
    """
    two = np.flatnonzero(rankings.lengths == 2)
    first = rankings.indptr[two]
    outcome = np.argmax(logs + generator(seed).gumbel(size=logs.shape), axis=0)
    items, levels = rankings.items.copy(), rankings.levels.copy()
    drawn = first[~keep]
    turned = drawn[outcome[~keep] == 2]
    items[turned], items[turned + 1] = rankings.items[turned + 1], rankings.items[turned]
    levels[drawn + 1] = outcome[~keep] != 1
    return reordered(rankings, items, levels)


def comparisons_to_draw(rankings: Rankings, ties: str) -> Rankings:
    """Comparisons with weight 1 each; raise where the model has no law of them."""
    if rankings.lengths.max(initial=0) > 2:
        raise NotSupportedError("Bradley-Terry gives probabilities to comparisons of two; for lists use PlackettLuce")
    if ties == "half" and rankings.has_ties:
        raise NotSupportedError("under ties='half' ties have no probability; fit with ties='davidson'")
    return repeated(rankings)


def _value(met: Comparisons, scores: Float64Array, log_tie: float, form: int) -> float:
    return float(bradley_terry_sums(*met, scores, log_tie, form)[:, 0].sum())


def share_of_ties(met: Comparisons) -> float:
    """Part of the comparisons that are ties."""
    total = float((met.wins + met.losses + met.ties).sum())
    return float(met.ties.sum()) / total if total > 0 else 0.0


def first_log_tie(share: float, form: int) -> float:
    """The tie parameter that has this share of ties between equal items."""
    if form == RAO_KUPPER:
        return math.log((1.0 + share) / (1.0 - share))
    return math.log(2.0 * share / (1.0 - share)) if share > 0 else -math.inf


def information_of(met: Comparisons, scores: Float64Array, tie: float, form: int) -> Float64Array:
    """Minus the Hessian by the scores and, if there are ties, the logarithm of the tie parameter."""
    n, has_ties = scores.size, bool(met.ties.any())
    d = scores[met.items] - scores[met.partners]
    if form == DAVIDSON:
        # An exponential family: the covariance of (wins - losses) / 2 and ties.
        total = met.wins + met.losses + met.ties
        up, down = np.exp((d - np.abs(d)) / 2), np.exp((-d - np.abs(d)) / 2)
        level = tie * np.exp(-np.abs(d) / 2)
        both = up + down + level
        p, q, r = up / both, down / both, level / both
        by_score = total * (p + q - (p - q) ** 2) / 4
        by_tie, mixed = total * r * (1.0 - r), -total * r * (p - q) / 2
    else:
        eta = np.log(tie)
        a, b = 1.0 / (1.0 + np.exp(d - eta)), 1.0 / (1.0 + np.exp(-d - eta))
        from_wins, from_losses = (met.wins + met.ties) * a * (1 - a), (met.losses + met.ties) * b * (1 - b)
        by_score, mixed = from_wins + from_losses, from_losses - from_wins
        by_tie = by_score + (met.ties / np.sinh(eta) ** 2 if has_ties else 0.0)
    information = np.zeros((n + has_ties, n + has_ties))
    information[:n, :n] = -met.matrix(by_score)
    information[np.arange(n), np.arange(n)] = met.sums(by_score)
    if has_ties:
        information[n, :n] = information[:n, n] = met.sums(mixed)
        information[n, n] = by_tie.sum() / 2  # every pair is there twice
    return information
