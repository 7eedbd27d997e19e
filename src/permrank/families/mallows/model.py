"""Mallows: rankings scattered around a centre, or around several."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from scipy.special import logsumexp

from permrank.checks import require_int, require_memory
from permrank.core.answers import assignments_frame
from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.questions import told_of
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_DRAWS, MOST_SWEEPS, choice, integer, number, random_seed
from permrank.errors import AccuracyWarning, InputError
from permrank.families.mallows.inference import mallows_data, mallows_summary
from permrank.families.mallows.kernels.mallows import MOST_ITEMS
from permrank.families.mallows.law import MallowsMixture
from permrank.families.mallows.learning import (
    LARGEST_DISPERSION,
    Distance,
    Kendall,
    Mixture,
    Spearman,
    learner_of,
    lists_to_learn,
    responsibilities,
)
from permrank.inference.summary import Summary, require_level
from permrank.learning.learner import Learner, mapped
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array, Named

# Tables of items by items for every community and block of lists: 1,000 items take 130 MB for a community.
_MOST_ITEMS = 1_000
_BYTES_OF_PAIR = (16 + 4) * 8
# A standard error (nats) beyond which a likelihood that is asked for without its error comes with a warning.
_ROUGH = 0.25


@dataclass(frozen=True, eq=False)
class MallowsEstimate(Estimate):
    """Communities, largest first: centres (K, n), dispersions, weights, gaps (K,), and who is in them."""

    centres: Int64Array
    dispersions: Float64Array
    weights: Float64Array
    memberships: Float64Array
    gaps: Float64Array
    precedence: Float64Array

    @property
    def mixture(self) -> Mixture:
        """As in learning."""
        return Mixture(self.weights, self.centres, self.dispersions, self.gaps)


class Mallows(Ranker):
    """Mallows model: P(π) ∝ e^{-θ d(π, centre)}, and mixtures of such.

    d is Kendall's distance, the number of pairs that π has in another order than the centre, or Spearman's, the sum of
    squared differences of positions. With several communities a user belongs to one of them, with his or her lists.

    Under Kendall's distance a complete list may have ties (a top-k list is one whose last tie holds the rest), and has
    a probability in closed form. A list that leaves items out says nothing about them; the expectation of EM is then
    estimated by repeated insertion around the list, from the same random numbers in every sweep. Its probability is
    exact where that takes no more than a moment (see `log_likelihood_with_error`).

    Attributes
    ----------
    centres_ : int64 (n_communities, n_items)
        Items (indices), best first.
    dispersions_ : float64 (n_communities,)
        θ, from 0 (all orders are equally likely) to 20 (complete agreement).
    weights_ : float64 (n_communities,)
        Shares of the communities.
    memberships_ : float64 (n_users, n_communities)
        P(community | user).
    gaps_ : float64 (n_communities,)
        How many weighted pairs fewer a better centre could contradict at most; 0 where it is proven best for its
        community.
    precedence_ : float64 (n_communities, n_items, n_items)
        P(the i-th item of the centre comes before the j-th).

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"]], weights=[5, 2, 1])
    >>> model = pr.Mallows().fit(ballots)
    >>> model.communities()["ranking"].to_list()
    [['a', 'b', 'c']]
    >>> round(model.prefers(None, "a", "c"), 2)
    0.95
    """

    needs_order = True
    assumes = "people vary around one ranking, or around the ranking of their community"
    takes = "rankings and ratings, ties, top-k, weights; complete ones are quickest"
    reference = "Mallows (1957); Lu and Boutilier (2014) for partial lists"
    resumable = True
    knows_nobody = True
    estimate_type = MallowsEstimate
    centres_ = Learnt[Int64Array]()
    dispersions_ = Learnt[Float64Array]()
    weights_ = Learnt[Float64Array]()
    memberships_ = Learnt[Float64Array]()
    gaps_ = Learnt[Float64Array]()
    precedence_ = Learnt[Float64Array]()

    n_communities: int = integer(default=1, minimum=1, maximum=1000, tune=(1, 8), kw_only=False, help="Centres.")
    distance: Literal["kendall", "spearman"] = choice(
        default="kendall",
        values=("kendall", "spearman"),
        tune=("kendall", "spearman"),
        help="Spearman's takes complete strict rankings of up to 16 items.",
    )
    n_starts: int = integer(
        default=16,
        minimum=1,
        maximum=1000,
        help=(
            "Starts of EM; the best quarter goes on after a few sweeps, and so forth. With one community there is one."
        ),
    )
    n_draws: int = integer(
        default=50,
        minimum=1,
        maximum=MOST_DRAWS,
        help="Completions drawn in learning for each list that leaves items out.",
    )
    max_iter: int = integer(default=500, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=0.0001,
        above=0.0,
        help="Learning ends when no centre changes in a sweep, and no dispersion or share by more than this.",
    )
    seed: int = random_seed(default=0, help="For the starts and the completions.")

    # Learning

    def _learn(self, rankings: Rankings) -> Learner[MallowsEstimate]:
        n = rankings.n_items
        if n > _MOST_ITEMS:
            raise InputError(f"Mallows takes up to {_MOST_ITEMS} items, not {n}; select some")
        k = int(self.n_communities)
        require_memory(
            _BYTES_OF_PAIR * k * n * n, f"pairs of {n} items in {k} communities", "take fewer communities or items"
        )
        distance = self._distance(rankings, n)

        def learned(mixture: Mixture) -> MallowsEstimate:
            return self._learned(rankings, distance, mixture)

        return mapped(learner_of(rankings, distance, k, int(self.n_starts), self.tol), learned)

    def _learned(self, rankings: Rankings, distance: Distance, mixture: Mixture) -> MallowsEstimate:
        """Largest communities first, with all that answers need."""
        order = np.argsort(-mixture.weights, kind="stable")
        mixture = Mixture._make(part[order] for part in mixture)
        table = np.stack([distance.precedence(theta) for theta in mixture.dispersions])
        memberships = responsibilities(lists_to_learn(rankings), mixture, distance)[0]
        return MallowsEstimate(mixture.centres, mixture.dispersions, mixture.weights, memberships, mixture.gaps, table)

    def _distance(self, rankings: Rankings, n: int) -> Distance:
        """The distance between rankings of n items, if these can be taken."""
        if self.distance == "kendall":
            return Kendall(n, stream_key(self.seed), int(self.n_draws))
        if n > MOST_ITEMS:
            raise InputError(f"distance='spearman' takes up to {MOST_ITEMS} items, not {n}; use 'kendall'")
        short = np.flatnonzero(rankings.lengths != n)
        if short.size or rankings.has_ties:
            where = f"ranking {short[0]} leaves items out" if short.size else "there are ties"
            raise InputError(f"distance='spearman' takes complete rankings without ties, but {where}; use 'kendall'")
        return Spearman(n, stream_key(self.seed))

    # What the model answers

    def _scores(self, fitted: Fitted[MallowsEstimate], person: Person, items: Int64Array) -> Float64Array:
        """Expected share of the other items that an item comes before."""
        learnt = fitted.estimate
        n = learnt.centres.shape[1]
        before = (learnt.precedence.sum(axis=2) - 0.5) / max(n - 1, 1)  # an item and itself count one half
        positions = np.argsort(learnt.centres, axis=1)[:, items]
        return np.asarray(_membership(fitted, person) @ np.take_along_axis(before, positions, axis=1))

    def _law(self, fitted: Fitted[MallowsEstimate], person: Person, items: Int64Array) -> MallowsMixture:
        learnt = fitted.estimate
        return MallowsMixture(
            items, _membership(fitted, person), learnt.centres, learnt.dispersions, learnt.precedence,
            kendall=self.distance == "kendall",
        )  # fmt: skip

    def _meet(self, fitted: Fitted[MallowsEstimate], rankings: Rankings, **about: Any) -> Named:
        """What a list tells is the community."""
        lists = lists_to_learn(rankings, fitted.aligned(rankings))
        distance = self._distance(rankings, len(fitted.item_ids))
        return {"memberships": responsibilities(lists, fitted.estimate.mixture, distance)[0][0]}

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking to somebody of an unknown community, weights left out.

        Exact but for lists with many long gaps between their items in the centre; see `log_likelihood_with_error`. An
        `AccuracyWarning` says if some of these are known to less than 0.25.
        """
        values, errors = self.log_likelihood_with_error(rankings)
        if (errors > _ROUGH).any():
            warnings.warn(
                f"{np.count_nonzero(errors > _ROUGH)} of {errors.size} log-likelihoods are estimates with a standard "
                f"error above {_ROUGH:g}; log_likelihood_with_error(rankings, size=...) gives the errors, and better "
                "values from more draws",
                AccuracyWarning,
                stacklevel=3,
            )
        return values

    def log_likelihood_with_error(self, rankings: Rankings, size: int = 1_000) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities, and the standard errors of those that are estimates.

        Exact, with an error of 0: rankings that are complete, or of two items, or of items that are neighbours in the
        centre; and all whose orders can be summed over in a moment. That takes Π (g + 1) numbers for gaps of g items
        in the centre between those that are listed: lists of three or four of a hundred items, say, or of thirty that
        leave a dozen out. Others are estimated by importance sampling, in two ways of which the one that has missed
        less is taken. Of lists over 16 items, where the exact values are known, estimates from 1,000 draws were off by
        up to 0.1 for lists drawn from the model, as their errors said, and by up to 2.6 for random lists under a
        concentrated centre (θ from 1.5), most of them with an infinite error. That says that the draws are too few to
        tell; a larger ``size`` may be enough. The more items a list has, the more draws it takes.

        Parameters
        ----------
        rankings : Rankings
            Every ranking is taken for that of a person of whom nothing else is known.
        size : int
            Draws, of two kinds each, for a ranking that is estimated.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        fitted: Fitted[MallowsEstimate] = self.fitted_
        settings = self._learnt_with
        require_int("size", size, 1)
        lists = lists_to_learn(rankings, fitted.aligned(rankings))
        distance = settings._distance(rankings, len(fitted.item_ids))
        logs, errors = distance.log_likelihoods(lists, fitted.estimate.mixture, int(size))
        with np.errstate(divide="ignore"):
            joint = np.log(fitted.estimate.weights)[None, :] + logs
        total = logsumexp(joint, axis=1)
        shares = np.exp(joint - total[:, None])
        parts = np.multiply(shares, errors, out=np.zeros_like(shares), where=shares > 0)  # 0 times infinity is nothing
        return np.asarray(total), np.sqrt(np.sum(parts**2, axis=1))

    def summary(self, *, level: float = 0.95) -> Summary:
        """Dispersions and shares with standard errors and Wald's intervals, log-likelihood, AIC and BIC.

        From the observed information with the centres held. A centre is discrete: it has no standard error and counts
        as no degree of freedom; `communities` has its ``gap``. No test of θ = 0 is made: a centre that was chosen to
        fit is nearer to the data than chance (`permrank.goodness_of_fit` draws data instead).
        """
        fitted: Fitted[MallowsEstimate] = self.fitted_
        settings = self._learnt_with
        require_level(level)
        distance = settings._distance(fitted.rankings, len(fitted.item_ids))
        return mallows_summary(told_of(fitted), fitted.rankings, fitted.estimate.mixture, distance, float(level))

    def simulate(self, seed: int = 0) -> Rankings:
        """Draw the training data anew from the model: the same lists of the same items, tied as before, another order.

        Every user is given a community first. A ranking of weight 3 is drawn three times.
        """
        fitted: Fitted[MallowsEstimate] = self.fitted_
        settings = self._learnt_with
        learnt, kendall = fitted.estimate, settings.distance == "kendall"
        return mallows_data(fitted.rankings, learnt.mixture, learnt.precedence, kendall=kendall, seed=seed)

    def assignments(self) -> pl.DataFrame:
        """Likeliest community of every user: ``user``, ``community``, its ``probability`` and the ``entropy``."""
        fitted: Fitted[MallowsEstimate] = self.fitted_
        return assignments_frame(fitted.user_ids, fitted.estimate.memberships)

    def communities(self) -> pl.DataFrame:
        """Communities, largest first: ``community`` (from 1), ``size``, ``dispersion``, ``ranking`` (ids), ``gap``."""
        fitted: Fitted[MallowsEstimate] = self.fitted_
        learnt = fitted.estimate
        return pl.DataFrame(
            {
                "community": np.arange(1, learnt.weights.size + 1),
                "size": learnt.weights,
                "dispersion": learnt.dispersions,
                "ranking": [fitted.item_ids.take(centre).to_list() for centre in learnt.centres],
                "gap": learnt.gaps,
            }
        )

    def _check(self, fitted: Fitted[MallowsEstimate]) -> None:
        super()._check(fitted)
        learnt, n, k = fitted.estimate, fitted.rankings.n_items, int(self.n_communities)
        shapes = {
            "centres": (k, n),
            "dispersions": (k,),
            "weights": (k,),
            "memberships": (fitted.rankings.n_users, k),
            "gaps": (k,),
            "precedence": (k, n, n),
        }
        for name, shape in shapes.items():
            values, kind = getattr(learnt, name), np.int64 if name == "centres" else np.float64
            if np.shape(values) != shape or values.dtype != kind:
                raise InputError(f"{name}_ has shape {np.shape(values)}, expected {shape} of {kind.__name__}")
        if (np.sort(learnt.centres, axis=1) != np.arange(n)).any():
            raise InputError("a row of centres_ is no ranking of the items")
        if (learnt.dispersions < 0).any() or (learnt.dispersions > LARGEST_DISPERSION).any():
            raise InputError(f"dispersions_ has values beyond 0 to {LARGEST_DISPERSION:g}")
        for name in ("weights", "memberships", "precedence"):
            if (getattr(learnt, name) < 0).any() or (getattr(learnt, name) > 1 + 1e-9).any():
                raise InputError(f"{name}_ has values that are no probabilities")


def _membership(fitted: Fitted[MallowsEstimate], person: Person) -> Float64Array:
    """P(community | person) (K,); of nobody in particular, the shares of the communities."""
    if person.is_new:
        own: Float64Array = person.state["memberships"]
        return own
    return fitted.estimate.weights if person.index is None else fitted.estimate.memberships[person.index]
