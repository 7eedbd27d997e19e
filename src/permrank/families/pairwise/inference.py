"""The Bradley-Terry likelihood at the estimate and elsewhere, and data drawn from the model."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

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


class PairLikelihood(NamedTuple):
    """The log-likelihood of comparisons at any point: the scores and, with ties, the logarithm of their parameter.

    Attributes
    ----------
    met : Comparisons
    form : int
        How ties are modelled, `DAVIDSON` or `RAO_KUPPER`.
    """

    met: Comparisons
    form: int

    @property
    def share_of_ties(self) -> float:
        """Part of the comparisons that are ties."""
        total = float((self.met.wins + self.met.losses + self.met.ties).sum())
        return float(self.met.ties.sum()) / total if total > 0 else 0.0

    @property
    def equal_worths(self) -> Float64Array:
        """The point of equal scores, with the tie parameter that has the share of ties in the data."""
        zeros, share = np.zeros(self.met.rows.size - 1), self.share_of_ties
        if not share > 0:
            return zeros
        rao_kupper = self.form == RAO_KUPPER
        return np.append(zeros, math.log((1.0 + share if rao_kupper else 2.0 * share) / (1.0 - share)))

    def split(self, point: Float64Array) -> tuple[Float64Array, float]:
        """Scores, and the logarithm of the tie parameter, also where it is none of the parameters."""
        n = self.met.rows.size - 1
        unused = 0.0 if self.form == RAO_KUPPER else -math.inf
        return point[:n], float(point[n]) if point.size > n else unused

    def sums(self, point: Float64Array) -> Float64Array:
        """`bradley_terry_sums` at the point."""
        scores, log_tie = self.split(point)
        return np.asarray(bradley_terry_sums(*self.met, scores, log_tie, self.form))

    def allows(self, point: Float64Array) -> bool:
        """Whether ties have a positive probability there, if they have a parameter."""
        return self.form != RAO_KUPPER or point.size < self.met.rows.size or bool(point[-1] > 0.0)

    def evaluated(self, point: Float64Array) -> Evaluated:
        """Log-likelihood, gradient and information."""
        if not self.allows(point):
            return Evaluated(-np.inf, np.zeros_like(point), partial(np.eye, point.size))
        (scores, log_tie), sums = self.split(point), self.sums(point)
        gradient = np.append(sums[:, 1] - sums[:, 2], [sums[:, 3].sum()] if point.size > scores.size else [])
        return Evaluated(float(sums[:, 0].sum()), gradient, partial(self.information, scores, math.exp(log_tie)))

    def information(self, scores: Float64Array, tie: float) -> Float64Array:
        """Minus the Hessian by the scores and, if there are ties, the logarithm of the tie parameter."""
        met, n, has_ties = self.met, scores.size, bool(self.met.ties.any())
        d = scores[met.items] - scores[met.partners]
        if self.form == DAVIDSON:
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

    def at(self, rankings: Rankings, scores: Float64Array, tie: float, prior: Prior, ties: str) -> Likelihood:
        """The likelihood of the training data at the estimate; ``ties`` is their treatment in words."""
        flat, met = isinstance(prior, Flat), self.met
        point = np.append(scores, [math.log(tie)] if self.share_of_ties > 0 else [])
        broken = int(rankings.lengths.max(initial=0)) > 2
        notes = ((_BROKEN,) if broken else ()) + ((_HALVES,) if ties == "half" and rankings.has_ties else ())
        treated = ties if rankings.has_ties else "none"
        return Likelihood(
            family=f"Bradley-Terry, ties={treated}" + (", lists broken into pairs" if broken else ""),
            point=point,
            information=self.information(scores, tie),
            penalty=prior.curvature(scores),
            flat=flat,
            value=float(self.sums(point)[:, 0].sum()),
            null=float(self.sums(self.equal_worths)[:, 0].sum()) if flat else None,
            n=float((met.wins + met.losses + met.ties).sum()) / 2.0,
            unit="comparisons",
            notes=notes,
        )


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
