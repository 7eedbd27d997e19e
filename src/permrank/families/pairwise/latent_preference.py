"""Probabilistic latent preference analysis: communities, and comparisons in pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_SWEEPS, integer, number, random_seed
from permrank.errors import InputError
from permrank.families.pairwise.latent_preference_learning import PairedLists, appeal, learner_of, memberships_of
from permrank.learning.learner import Learner, mapped, run
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array, Named

# Imaginary choices of every item as good as the others, under the scores of everybody together.
_POOLED_STRENGTH = 5.0


@dataclass(frozen=True, eq=False)
class PreferenceEstimate(Estimate):
    """Scores and memberships of every start, scores for everybody, and the appeal of items to communities."""

    scores: Float64Array
    memberships: Float64Array
    pooled_scores: Float64Array
    appeal: Float64Array


class LatentPreference(Ranker):
    """Probabilistic latent preference analysis (pLPA): communities that compare in pairs.

    P(y before x | u) = Σ_z P(z | u) π_y^z / (π_y^z + π_x^z): for each pair of a user's list one of the user's
    communities decides, by a Bradley-Terry model of its own. Pairs of equal ratings do not count. Learnt by EM with
    Hunter's update of the worths; the published point estimates are shrunk by two priors, and all starts are kept: an
    answer is the mean over them. An item scores the probability to come before an item drawn as often as it is listed.

    Attributes
    ----------
    scores_ : float64 (n_starts, n_items, n_communities)
        Log-worths.
    memberships_ : float64 (n_starts, n_users, n_communities)
        P(z | u).
    pooled_scores_ : float64 (n_items,)
        Log-worths of one community.
    appeal_ : float64 (n_starts, n_items, n_communities)
        P(item before a random one | z).

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated")
    >>> model = pr.LatentPreference(4, n_starts=1).fit(rankings)
    >>> new = model.fold_in(["paella", "goulash", "onion soup"])
    >>> 0 < model.prefers(new, "paella", "onion soup") < 1
    True
    """

    needs_order = True
    assumes = "a few communities; each pair is compared by one of the user's communities"
    takes = "rankings and ratings, weights; tied pairs do not count"
    reference = "Liu, Zhao and Yang (2009), probabilistic latent preference analysis"
    resumable = True
    knows_nobody = True
    estimate_type = PreferenceEstimate
    scores_ = Learnt[Float64Array]()
    memberships_ = Learnt[Float64Array]()
    pooled_scores_ = Learnt[Float64Array]()
    appeal_ = Learnt[Float64Array]()

    n_communities: int = integer(default=4, minimum=1, maximum=1000, tune=(2, 16), kw_only=False, help="Communities.")
    prior_strength: float = number(
        default=1.0,
        above=0.0,
        tune=(0.1, 30.0),
        help=(
            "Imaginary choices of every item in every community, as everybody together makes them: worths are "
            "Gamma distributed around those of one community. Small numbers are the published model."
        ),
    )
    concentration: float = number(
        default=2.0,
        above=0.0,
        tune=(0.1, 30.0),
        help="Sum of the parameters of the memberships' Dirichlet prior, in choices.",
    )
    n_starts: int = integer(default=4, minimum=1, maximum=1000, help="Starts of EM.")
    max_pairs: int = integer(
        default=2000, minimum=1, maximum=1000000000, help="Of a list with more pairs as many are drawn."
    )
    max_iter: int = integer(default=500, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=1e-05,
        above=0.0,
        help="Learning ends when the objective grows by less than this part of itself in three sweeps.",
    )
    seed: int = random_seed(default=0, help="For the starts and the pairs that are drawn.")

    def _learn(self, rankings: Rankings) -> Learner[PreferenceEstimate]:
        one = self._data(rankings, rankings.items, np.zeros(rankings.n_items))._replace(strength=_POOLED_STRENGTH)
        pooled = run(learner_of(one, 1, 1, self.seed, 1e-9), max_iter=200).estimate[0][0, :, 0]
        data = one._replace(pooled=pooled, strength=float(self.prior_strength))
        weights = rankings.entry_weights()
        listed = np.bincount(rankings.items, weights, rankings.n_items).astype(np.float64)

        def learned(reached: tuple[Float64Array, Float64Array]) -> PreferenceEstimate:
            scores, memberships = reached
            return PreferenceEstimate(scores, memberships, pooled, np.stack([appeal(part, listed) for part in scores]))

        return mapped(learner_of(data, int(self.n_communities), int(self.n_starts), self.seed, self.tol), learned)

    def _data(self, rankings: Rankings, items: Array, pooled: Float64Array) -> PairedLists:
        priors = {"strength": float(self.prior_strength), "concentration": float(self.concentration)}
        return PairedLists.of(rankings, items, pooled, self.seed, max_pairs=int(self.max_pairs), **priors)

    # What the model answers

    def _scores(self, fitted: Fitted[PreferenceEstimate], person: Person, items: Int64Array) -> Float64Array:
        learnt = fitted.estimate
        found = np.einsum("sz,siz->i", _membership(fitted, person), learnt.appeal[:, items])
        return np.asarray(found / learnt.scores.shape[0])

    def _has_pairs(self, fitted: Fitted[PreferenceEstimate]) -> bool:
        return True

    def _prefers(
        self, fitted: Fitted[PreferenceEstimate], person: Person, first: Int64Array, second: Int64Array
    ) -> Float64Array:
        scores = fitted.estimate.scores
        gap = np.clip(scores[:, second] - scores[:, first], -700.0, 700.0)
        by_start = np.sum(_membership(fitted, person)[:, None] / (1.0 + np.exp(gap)), axis=2)
        return np.asarray(np.mean(np.ascontiguousarray(by_start.T), axis=1))

    def _meet(self, fitted: Fitted[PreferenceEstimate], rankings: Rankings, **about: object) -> Named:
        """Memberships by EM, all else as it is."""
        learnt = fitted.estimate
        data = self._data(rankings, fitted.aligned(rankings), learnt.pooled_scores)
        return {"memberships": memberships_of(data, learnt.scores)[:, 0]}

    def communities(self, n_items: int = 5) -> pl.DataFrame:
        """Communities of the first start, largest first: ``community``, ``size``, and ``items`` that set it apart."""
        fitted: Fitted[PreferenceEstimate] = self.fitted_
        require_int("n_items", n_items, 0)
        sizes, learnt = _sizes(fitted)[0], fitted.estimate
        order = np.argsort(-sizes, kind="stable")
        lift = learnt.scores[0] - learnt.pooled_scores[:, None]
        best = [np.argsort(-lift[:, z], kind="stable")[:n_items] for z in order]
        return pl.DataFrame(
            {
                "community": np.arange(1, order.size + 1),
                "size": sizes[order],
                "items": [fitted.item_ids.take(items).to_list() for items in best],
            }
        )

    def _check(self, fitted: Fitted[PreferenceEstimate]) -> None:
        super()._check(fitted)
        s, k, n = int(self.n_starts), int(self.n_communities), fitted.rankings.n_items
        shapes = {
            "scores": (s, n, k),
            "memberships": (s, fitted.rankings.n_users, k),
            "pooled_scores": (n,),
            "appeal": (s, n, k),
        }
        for name, shape in shapes.items():
            values = getattr(fitted.estimate, name)
            if np.shape(values) != shape or values.dtype != np.float64:
                raise InputError(f"{name}_ has shape {np.shape(values)}, expected {shape} of float64")
        if np.abs(fitted.estimate.scores).max(initial=0.0) > 1e4:
            raise InputError("scores_ has values beyond 10,000")


def _membership(fitted: Fitted[PreferenceEstimate], person: Person) -> Float64Array:
    """P(z | u) (n_starts, K); of nobody in particular, the mean over the users."""
    if person.is_new:
        known: Float64Array = person.state["memberships"]
        return known
    return _sizes(fitted) if person.index is None else fitted.estimate.memberships[:, person.index]


def _sizes(fitted: Fitted[PreferenceEstimate]) -> Float64Array:
    """Shares of the communities (n_starts, K); a ballot without a voter counts as often as it was given."""
    data = fitted.rankings
    people = data.weights if data.anonymous else np.ones(data.n_users)
    return np.asarray(np.average(fitted.estimate.memberships, axis=1, weights=people))
