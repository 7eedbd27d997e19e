"""Bradley-Terry: comparisons in pairs, with ties by Davidson or by Rao and Kupper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from permrank.core.comparisons import comparisons
from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import ItemScores, OneOrderRanker
from permrank.core.settings import MOST_SWEEPS, choice, integer, number
from permrank.errors import EstimateError, InputError
from permrank.families.pairwise.inference import PairLikelihood, comparisons_to_draw, drawn_from
from permrank.families.pairwise.kernels.bradley_terry import DAVIDSON, RAO_KUPPER
from permrank.inference.existence import require_estimates, require_tie_estimate
from permrank.inference.likelihood import Likelihood, WorthRanker
from permrank.inference.profile import Evaluated
from permrank.learning.learner import Learner, mapped
from permrank.learning.optimisers import Evaluation, Objective, minorise_maximise, newton
from permrank.posterior.item_scores import Flat, GaussianPrior, Prior
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

Ties = Literal["davidson", "rao-kupper", "half", "ignore"]
_MAX_ITER = {"newton": 100, "mm": 20_000}
_SCALES = (1e-6, 1e6)


class Outcomes(NamedTuple):
    """Probabilities of the three outcomes of one comparison."""

    win: float
    tie: float
    loss: float


@dataclass(frozen=True, eq=False)
class PairEstimate(ItemScores):
    """Log-worths of the items, and the parameter of ties."""

    tie_parameter: float


class BradleyTerry(WorthRanker, OneOrderRanker):
    """Bradley-Terry model of comparisons in pairs.

    P(y before x) = π_y / (π_y + π_x) with worths π = e^s. A list is broken into all its pairs, each of the list's
    weight; they count as independent, so errors of long lists are understated (`PlackettLuce` is made for lists).

    Attributes
    ----------
    scores_ : float64 (n_items,)
        Log-worths, of mean 0 under maximum likelihood.
    tie_parameter_ : float
        ν of Davidson's model, from 0, or θ of Rao and Kupper's, from 1; there are no ties at 0 and at 1.

    Examples
    --------
    >>> import permrank as pr
    >>> frame = {"winner": ["a", "b", "a", "b", "c", "a"], "loser": ["b", "a", "c", "c", "a", "b"]}
    >>> model = pr.BradleyTerry().fit(pr.Rankings.from_pairs(frame, user=None))
    >>> round(model.prefers(None, "a", "b"), 3)
    0.546
    """

    needs_order = True
    assumes = "each comparison of two depends on their worths only; lists are broken into pairs"
    takes = "pairs, rankings and ratings, ties, weights"
    reference = "Bradley and Terry (1952); Davidson (1970); Rao and Kupper (1967); Hunter (2004)"
    resumable = True
    estimate_type = PairEstimate
    tie_parameter_ = Learnt[float]()

    ties: Ties = choice(
        default="davidson",
        values=("davidson", "rao-kupper", "half", "ignore"),
        help=(
            "``davidson``: P(tie) ∝ ν √(π_y π_x) beside π_y and π_x. ``rao-kupper``: P(y before x) = π_y / (π_y + "
            "θ π_x), and what is left is the tie. ``half``: a tie is half a win for either. ``ignore``: it is no "
            "comparison."
        ),
    )
    prior: Literal["gaussian"] | None = choice(
        default=None,
        values=(None, "gaussian"),
        help=(
            "None is maximum likelihood, which exists only if every item was, directly or by a chain, both above "
            "and below every other; `fit` names the items that are in the way. With a prior there is always an "
            "estimate."
        ),
    )
    prior_scale: float = number(
        default=1.0,
        above=0.0,
        minimum=1e-06,
        maximum=1000000.0,
        tune=(0.05, 5.0),
        when=("prior", "gaussian"),
        help="Standard deviation of the scores under the Gaussian prior.",
    )
    method: Literal["newton", "mm"] = choice(
        default="newton",
        values=("newton", "mm"),
        help="Truncated Newton, or Hunter's (2004) minorise-maximise; both end at the same maximum.",
    )
    max_iter: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_SWEEPS,
        also=(None,),
        help="The most sweeps; 100 for Newton, 20,000 for MM if not given.",
    )
    tol: float = number(
        default=1e-08, above=0.0, help="Learning ends when no score changes by more than this in a sweep."
    )

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or _MAX_ITER[self.method]

    @property
    def _prior(self) -> Prior:
        return Flat() if self.prior is None else GaussianPrior(float(self.prior_scale))

    # Learning

    def _learn(self, rankings: Rankings) -> Learner[PairEstimate]:
        likelihood, n = self._pair_likelihood(rankings), rankings.n_items
        share = likelihood.share_of_ties
        if self.prior is None and n > 1:
            require_estimates(rankings, ties_connect=self.ties != "ignore")
            if share > 0:
                require_tie_estimate(likelihood.met)
        if share == 1.0:
            raise EstimateError("every comparison is a tie, so nothing is preferred; ties='half' takes them for draws")
        start = likelihood.equal_worths
        sums = likelihood.sums(start)
        # One MM step from equal worths, with half a choice added to either side against infinities.
        guess = np.log((sums[:, 1] + 0.5) / (sums[:, 2] + 0.5))
        start[:n] = guess - guess.mean()

        def learned(point: Float64Array) -> PairEstimate:
            tie = float(np.exp(point[n])) if share > 0 else float(likelihood.form == RAO_KUPPER)
            return PairEstimate(self._prior.centred(point[:n]), tie)

        if self.method == "mm":
            return mapped(minorise_maximise(self._update(likelihood), start, tol=self.tol), learned)
        return mapped(newton(self._objective(likelihood), start, tol=self.tol), learned)

    def _pair_likelihood(self, rankings: Rankings) -> PairLikelihood:
        met = comparisons(rankings)
        if self.ties in ("half", "ignore"):
            half = 0.5 * met.ties if self.ties == "half" else 0.0
            met = met._replace(wins=met.wins + half, losses=met.losses + half, ties=np.zeros_like(met.ties))
        return PairLikelihood(met, RAO_KUPPER if self.ties == "rao-kupper" else DAVIDSON)

    def _objective(self, likelihood: PairLikelihood) -> Objective:
        def objective(point: Float64Array) -> Evaluation:
            if not likelihood.allows(point):
                return Evaluation(-np.inf, np.zeros_like(point), np.ones_like(point))
            (scores, _), sums = likelihood.split(point), likelihood.sums(point)
            gradient = sums[:, 1] - sums[:, 2] + self._prior.gradient(scores)
            curvature = sums[:, 2] + self._prior.curvature(scores)
            if point.size > scores.size:
                gradient, curvature = np.append(gradient, sums[:, 3].sum()), np.append(curvature, sums[:, 4].sum())
            return Evaluation(float(sums[:, 0].sum()) + self._prior.value(scores), gradient, curvature)

        return objective

    def _update(self, likelihood: PairLikelihood) -> Callable[[Float64Array], tuple[Float64Array, float]]:
        """Scores by Hunter's step, then the tie parameter by its own: neither lowers the objective."""
        n_ties = float(likelihood.met.ties.sum()) / 2.0

        def update(point: Float64Array) -> tuple[Float64Array, float]:
            (scores, log_tie), sums = likelihood.split(point), likelihood.sums(point)
            value, n = float(sums[:, 0].sum()) + self._prior.value(scores), scores.size
            better = point.copy()
            better[:n] = self._prior.centred(self._prior.maximise(scores, sums[:, 1], sums[:, 2]))
            if point.size == n:
                return better, value
            slope = float(likelihood.sums(better)[:, 3].sum())
            if likelihood.form == DAVIDSON:  # slope = ties - expected ties
                better[n] += math.log(n_ties / (n_ties - slope))
            else:
                # argmax of T log(θ² - 1) - S θ, where S θ_now is what the slope takes from its ties' part
                ratio = n_ties * math.exp(log_tie) / (n_ties * (1.0 + 1.0 / math.tanh(log_tie)) - slope)
                better[n] = math.log(ratio + math.sqrt(ratio * ratio + 1.0))
            return better, value

        return update

    # What the model answers

    def outcomes(self, item: object, other: object) -> Outcomes:
        """Probabilities that ``item`` wins, ties and loses against ``other``."""
        fitted: Fitted[PairEstimate] = self.fitted_
        settings = self._learnt_with
        items = fitted.item_ids.find_all([item, other])
        return Outcomes(*np.exp(settings._log_outcomes(fitted, items[:1], items[1:])[:, 0]).tolist())

    def _has_pairs(self, fitted: Fitted[PairEstimate]) -> bool:
        return True

    def _prefers(
        self, fitted: Fitted[PairEstimate], person: Person, first: Int64Array, second: Int64Array
    ) -> Float64Array:
        """Given that they are not tied."""
        win, _, loss = np.exp(self._log_outcomes(fitted, first, second))
        return np.asarray(win / (win + loss))

    def _log_outcomes(self, fitted: Fitted[PairEstimate], first: Int64Array, second: Int64Array) -> Float64Array:
        """log P of win, tie and loss (3, n) of items against others."""
        d, tie = fitted.estimate.scores[first] - fitted.estimate.scores[second], fitted.estimate.tie_parameter
        with np.errstate(divide="ignore"):
            log_tie = np.log(tie)
            if self.ties != "rao-kupper":
                logs = np.stack((d / 2, np.full_like(d, log_tie), -d / 2))
                return np.asarray(logs - np.logaddexp.reduce(logs))
            win, loss = -np.logaddexp(0.0, log_tie - d), -np.logaddexp(0.0, log_tie + d)
            return np.stack((win, win + loss + np.log(np.expm1(2.0 * log_tie)), loss))

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each comparison; longer rankings have none under this model, and raise.

        With ``ties="half"`` a tie has the mean of the two orders, and with ``"ignore"`` 0.
        """
        fitted: Fitted[PairEstimate] = self.fitted_
        settings = self._learnt_with
        items = fitted.aligned(rankings)
        lengths = rankings.lengths
        if lengths.max(initial=0) > 2:
            longest = int(lengths.argmax())
            raise InputError(
                f"ranking {longest} has {lengths[longest]} items; Bradley-Terry gives probabilities to comparisons of "
                "two. Break lists into pairs, or use PlackettLuce"
            )
        first = rankings.indptr[:-1][lengths == 2]
        logs = settings._log_outcomes(fitted, items[first], items[first + 1])
        tied = {"half": (logs[0] + logs[2]) / 2, "ignore": np.zeros_like(logs[0])}.get(settings.ties, logs[1])
        values = np.zeros(lengths.size)
        values[lengths == 2] = np.where(rankings.levels[first + 1] == 0, tied, logs[0])
        return values

    def tie_standard_error(self) -> float | None:
        """Return the standard error of log ν, or log θ; None where no ties were seen."""
        fitted: Fitted[PairEstimate] = self.fitted_
        covariance = self.likelihood().covariance
        return float(np.sqrt(covariance[-1, -1])) if covariance.shape[0] > len(fitted.item_ids) else None

    def _likelihood(self, fitted: Fitted[PairEstimate]) -> Likelihood:
        learnt, likelihood = fitted.estimate, self._pair_likelihood(fitted.rankings)
        return likelihood.at(fitted.rankings, learnt.scores, learnt.tie_parameter, self._prior, self.ties)

    def _evaluated(self, fitted: Fitted[PairEstimate], point: Float64Array) -> Evaluated:
        return self._pair_likelihood(fitted.rankings).evaluated(point)

    def simulate(self, seed: int = 0) -> Rankings:
        """Draw the training data anew from the model: the same comparisons, each as often as before, other outcomes.

        With ``ties="ignore"`` ties stay ties.
        """
        fitted: Fitted[PairEstimate] = self.fitted_
        settings = self._learnt_with
        design = comparisons_to_draw(fitted.rankings, settings.ties)
        first = design.indptr[:-1][design.lengths == 2]
        logs = settings._log_outcomes(fitted, design.items[first], design.items[first + 1])
        tied = design.levels[first + 1] == 0
        return drawn_from(design, logs, tied & (settings.ties == "ignore"), seed)

    def _check(self, fitted: Fitted[PairEstimate]) -> None:
        super()._check(fitted)
        learnt, least = fitted.estimate, float(self.ties == "rao-kupper")
        if not isinstance(learnt.tie_parameter, float) or learnt.tie_parameter < least:
            raise InputError(f"tie_parameter_ is {learnt.tie_parameter!r}, expected a number from {least:g}")
        if np.abs(learnt.scores).max(initial=0.0) > 1e100:
            raise InputError("scores_ has values beyond 1e100")
