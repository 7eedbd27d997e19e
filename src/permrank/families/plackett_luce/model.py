"""Pooled Plackett-Luce: one worth for each item, the same for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import ItemScores, LuceChoiceRanker
from permrank.core.settings import MOST_SWEEPS, choice, integer, number, random_seed
from permrank.errors import InputError, NotSupportedError
from permrank.families.plackett_luce.inference import drawn_from, draws_ties, evaluated_at, likelihood_at
from permrank.families.plackett_luce.statistics import PooledStatistics
from permrank.inference.existence import require_estimates, require_partition_estimates
from permrank.inference.likelihood import Likelihood, WorthRanker
from permrank.inference.profile import Evaluated
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION, stage_statistics
from permrank.learning.learner import Learner, State, Step, at_once, mapped, run, standing
from permrank.learning.optimisers import Evaluation, minorise_maximise, newton
from permrank.posterior.item_covariates import informed_prior
from permrank.posterior.item_scores import Flat, GammaPrior, GaussianPrior, Prior
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

Ties = Literal["exact", "efron", "breslow", "partition", "shuffle"]
TIES = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION, "shuffle": EXACT}
# Sweeps allowed by default: Newton needs about ten, MM hundreds to thousands, shuffling averages over all.
_MAX_ITER = {"newton": 100, "mm": 20_000, "shuffle": 200}
# A new order every sweep: the first sweeps follow the last order, the later ones average (Robbins-Monro).
_BURN_IN = 20
# Beyond these a Gaussian prior is a constraint, or none at all, and its square leaves no digits for the data.
_SCALES = (1e-6, 1e6)
# What a model file may claim: differences and sums of such scores are far from overflow.
_LARGEST_SCORE = 1e100


@dataclass(frozen=True, eq=False)
class PooledEstimate(ItemScores):
    """Log-worths of the items, and the scale of their Gaussian prior (0 without one)."""

    prior_scale: float

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless scores are of sensible size, and the scale may be one."""
        super().check(n_users, n_items)
        if np.abs(self.scores).max(initial=0.0) > _LARGEST_SCORE:
            raise InputError(f"scores_ has values beyond {_LARGEST_SCORE:g}")
        if not isinstance(self.prior_scale, float) or not self.prior_scale >= 0.0:
            raise InputError(f"prior_scale_ is {self.prior_scale!r}, expected a number from 0")


class PlackettLuce(WorthRanker, LuceChoiceRanker):
    """Pooled Plackett-Luce model of rankings with ties (§3, eq. 1).

    P(ranking) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j}: at every stage the next item is chosen among those
    that are left, with probability proportional to its worth e^s. Users do not differ.

    Attributes
    ----------
    scores_ : float64 (n_items,)
        Log-worths, of mean 0 under maximum likelihood.
    prior_scale_ : float
        The standard deviation that was used or learnt; 0 without a Gaussian prior.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"], ["c", "a"]])
    >>> model = pr.PlackettLuce().fit(ballots)
    >>> model.rank(None, ["b", "c", "a"])["item"].to_list()
    ['a', 'b', 'c']
    >>> round(model.prefers(None, "a", "b"), 2)
    0.65
    """

    needs_order = True
    assumes = "everybody chooses by the same worths"
    takes = "rankings and ratings, ties, weights"
    reference = "Plackett (1975); Hunter (2004)"
    resumable = True
    knows_nobody = True
    personal = False
    estimate_type = PooledEstimate
    prior_scale_ = Learnt[float]()

    prior: Literal["gaussian", "gamma"] | None = choice(
        default=None,
        values=(None, "gaussian", "gamma"),
        help=(
            "None is maximum likelihood, which exists only if every item was ranked, directly or by a chain, both "
            "above and below every other (and more under ``partition``); `fit` names the items that are in the "
            "way. With a prior there is always an estimate (the posterior mode), and it is the better one on "
            "sparse data."
        ),
    )
    prior_scale: float | Literal["auto"] = number(
        default="auto",
        above=0.0,
        minimum=1e-06,
        maximum=1000000.0,
        also=("auto",),
        tune=(0.05, 5.0),
        tune_also=("auto",),
        when=("prior", "gaussian"),
        help=(
            'Standard deviation of the scores under the Gaussian prior, from 1e-6 to 1e6; "auto" learns it from '
            "the data (empirical Bayes)."
        ),
    )
    prior_shape: float = number(
        default=2.0,
        above=1.0,
        tune=(1.05, 20.0),
        when=("prior", "gamma"),
        help=("Shape (> 1) of the Gamma prior on worths; its rate is ``prior_shape - 1``, so that worths average one."),
    )
    ties: Ties = choice(
        default="exact",
        values=("exact", "efron", "breslow", "partition", "shuffle"),
        tune=("exact", "efron", "breslow"),
        help=(
            "What a tie says. ``exact``: nothing about the order inside it (the sum over all orders). ``efron``, "
            "``breslow``: the approximations of survival analysis, under which tied items are close. "
            "``partition``: ordered partitions, where a block is chosen with its mean worth. ``shuffle``: a new "
            "random order every sweep."
        ),
    )
    method: Literal["newton", "mm"] = choice(
        default="newton",
        values=("newton", "mm"),
        help=(
            "Truncated Newton, or Hunter's (2004) minorise-maximise. Both reach the same optimum where there is "
            "one; under ``partition`` the objective need not be concave, and they may end on different peaks."
        ),
    )
    max_iter: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_SWEEPS,
        also=(None,),
        help="The most sweeps; 100 for Newton, 20,000 for MM, 200 for shuffled ties if not given.",
    )
    tol: float = number(
        default=1e-08, above=0.0, help="Learning ends when no score changes by more than this in a sweep."
    )
    seed: int = random_seed(default=0, help='For ``ties="shuffle"``.', when=("ties", "shuffle"))

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or _MAX_ITER["shuffle" if self.ties == "shuffle" else self.method]

    def _learn(self, rankings: Rankings) -> Learner[PooledEstimate]:
        if self.prior is None:
            if rankings.n_items == 1:  # nothing to choose from: any score will do
                return at_once(PooledEstimate(np.zeros(1), 0.0))
            if self.ties == "partition":
                require_partition_estimates(rankings)
            else:
                require_estimates(rankings, ties_connect=self.ties in ("efron", "breslow", "shuffle"))
        start = _first_guess(rankings)
        prior = self._chosen_prior(rankings, start)
        scale = prior.scale if isinstance(prior, GaussianPrior) else 0.0

        def learned(scores: Float64Array) -> PooledEstimate:
            return PooledEstimate(prior.centred(scores), float(scale))

        if self.ties == "shuffle" and rankings.has_ties:
            return mapped(_shuffled(rankings, start, prior, self._sweeps(rankings), self.seed), learned)
        return mapped(self._solver(rankings, start, prior, self.tol), learned)

    def _solver(self, rankings: Rankings, start: Float64Array, prior: Prior, tol: float) -> Learner[Float64Array]:
        statistics = PooledStatistics.of(rankings, TIES[self.ties])

        def objective(scores: Float64Array) -> Evaluation:
            value, chosen, expected = statistics(scores)
            return Evaluation(
                value + prior.value(scores),
                chosen - expected + prior.gradient(scores),
                expected + prior.curvature(scores),
            )

        def update(scores: Float64Array) -> tuple[Float64Array, float]:
            value, chosen, expected = statistics(scores)
            return prior.centred(prior.maximise(scores, chosen, expected)), value + prior.value(scores)

        if self.method == "mm":
            return minorise_maximise(update, start, tol=tol)
        return newton(objective, start, tol=tol)

    def _chosen_prior(self, rankings: Rankings, start: Float64Array) -> Prior:
        if self.prior is None:
            return Flat()
        if self.prior == "gamma":
            return GammaPrior(float(self.prior_shape))
        if self.prior_scale != "auto":
            return GaussianPrior(float(self.prior_scale))
        return self._learnt_scale(rankings, start)

    def _learnt_scale(self, rankings: Rankings, scores: Float64Array) -> GaussianPrior:
        """EM for the prior's variance, with a diagonal Laplace posterior: σ² <- mean(s² + var s).

        Two imaginary items with s² = 1 keep it from collapsing to 0 where there are few items.
        """
        prior, statistics = GaussianPrior(1.0), PooledStatistics.of(rankings, TIES[self.ties])
        for _ in range(50):
            scores = run(self._solver(rankings, scores, prior, 1e-3), max_iter=_MAX_ITER[self.method]).estimate
            _, _, expected = statistics(scores)
            variance = 1.0 / (expected + prior.curvature(scores))
            scale = float(np.sqrt((np.sum(scores**2 + variance) + 2.0) / (scores.size + 2)))
            scale = min(max(scale, _SCALES[0]), _SCALES[1])
            settled = abs(np.log(scale / prior.scale)) < 0.005
            prior = GaussianPrior(scale)
            if settled:
                break
        return prior

    def _score_prior(self, estimate: PooledEstimate) -> Prior:
        """The prior of the scores, with the scale that was learnt."""
        if self.prior == "gaussian":
            return GaussianPrior(estimate.prior_scale)
        return GammaPrior(float(self.prior_shape)) if self.prior == "gamma" else Flat()

    def _informed_scores(self, fitted: Fitted[PooledEstimate]) -> Float64Array:
        """Scores under a prior whose mean depends on how often an item is mentioned and on its mean rating."""
        rankings, scores = fitted.rankings, fitted.estimate.scores
        _, _, expected = PooledStatistics.of(rankings, TIES[self.ties])(scores)
        variances = 1.0 / (expected + self._score_prior(fitted.estimate).curvature(scores))
        prior = informed_prior(rankings, scores, variances)
        return run(self._solver(rankings, scores, prior, self.tol), max_iter=self._sweeps(rankings)).estimate

    # What the model answers

    def _scores(self, fitted: Fitted[PooledEstimate], person: Person, items: Int64Array) -> Float64Array:
        return fitted.estimate.scores[items]

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking, weights left out.

        Ties count as in the model's ``ties`` (``shuffle`` as ``exact``). Under ``partition`` it is the
        probability of the ordered partition, block sizes included; under ``efron`` and ``breslow`` that of
        one order, on average, so the numbers of different treatments are not comparable.
        """
        fitted: Fitted[PooledEstimate] = self.fitted_
        settings = self._learnt_with
        scores, ties = fitted.estimate.scores[fitted.aligned(rankings)], TIES[settings.ties]
        unused = np.empty_like(scores), np.empty_like(scores)
        values: Float64Array = stage_statistics(rankings.indptr, rankings.levels, scores, ties, *unused)
        return values

    def worths(self) -> pl.DataFrame:
        """All items, best first: ``rank``, ``item``, ``score`` and ``worth`` (e^score, adding up to one)."""
        return self._table(self.fitted_)

    def _table(self, fitted: Fitted[PooledEstimate]) -> pl.DataFrame:
        """All items, best first: ``rank``, ``item``, ``score`` and ``worth`` (e^score, adding up to one)."""
        frame = super()._table(fitted)
        worth = np.exp(fitted.estimate.scores - fitted.estimate.scores.max())
        worths = pl.DataFrame({"item": fitted.item_ids.ids, "worth": worth / worth.sum()})
        return frame.join(worths, on="item", how="left", maintain_order="left")

    def _likelihood(self, fitted: Fitted[PooledEstimate]) -> Likelihood:
        prior = self._score_prior(fitted.estimate)
        return likelihood_at(fitted.rankings, fitted.estimate.scores, TIES[self.ties], prior, self.ties)

    def _evaluated(self, fitted: Fitted[PooledEstimate], point: Float64Array) -> Evaluated:
        if self.ties == "shuffle" and fitted.rankings.has_ties:
            raise NotSupportedError("ties='shuffle' has no likelihood of its own to profile; take another treatment")
        return evaluated_at(fitted.rankings, point, TIES[self.ties])

    def simulate(self, seed: int = 0) -> Rankings:
        """Draw the training data anew from the model: the same lists of the same items, tied as before, another order.

        A ranking of weight 3 is drawn three times. Ties say nothing about the order inside them (``ties="exact"``).
        """
        fitted: Fitted[PooledEstimate] = self.fitted_
        settings = self._learnt_with
        if not draws_ties(TIES[settings.ties], fitted.rankings):
            raise NotSupportedError(
                f"there is no law to draw ties from under ties={settings.ties!r}; fit with ties='exact'"
            )
        return drawn_from(fitted.rankings, fitted.estimate.scores, seed)

    def _check(self, fitted: Fitted[PooledEstimate]) -> None:
        super()._check(fitted)
        if self.prior == "gaussian" and fitted.estimate.prior_scale == 0.0:
            raise InputError("prior_scale_ is 0, expected the scale of the Gaussian prior")


def _first_guess(rankings: Rankings) -> Float64Array:
    """One MM step from equal worths, with half a choice added to either side against infinities."""
    zeros = np.zeros(rankings.n_items)
    # Efron's treatment is cheap and close enough for a start, whatever the ties.
    _, chosen, expected = PooledStatistics.of(rankings, EFRON)(zeros)
    guess = np.log((chosen + 0.5) / (expected + 0.5))
    return np.asarray(guess - guess.mean())


def _shuffled(rankings: Rankings, start: Float64Array, prior: Prior, n_sweeps: int, seed: int) -> Learner[Float64Array]:
    """Stochastic MM: a new order inside ties every sweep, statistics averaged after the burn-in.

    The trace has the objective of each sweep's order at the scores that the sweep began with.
    """
    chosen = _mean_choices(rankings)

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        scores, expected, done = start, np.zeros(rankings.n_items), 0
        if kept:
            scores, expected, done = kept["scores"], kept["expected"], kept["done"]

        def estimate() -> Float64Array:
            return scores

        def state() -> State:
            return {"scores": scores, "expected": expected, "done": done}

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            # Keys, not seed + sweep: the runs of neighbouring seeds would share nearly all their orders.
            strict = rankings.shuffled_ties(seed=int(stream_key(seed, sweep)))
            value, _, new_expected = PooledStatistics.of(strict, EXACT)(scores)
            value += prior.value(scores)
            rate = 1.0 / max(1, sweep - _BURN_IN + 1)
            # Kept per unit of worth: scores move while it is averaged.
            expected = expected + rate * (new_expected * np.exp(-scores) - expected)
            scores = prior.centred(prior.maximise(scores, chosen, expected * np.exp(scores)))
            done = sweep + 1
            yield Step(value, estimate, state, converged=done == n_sweeps and done > _BURN_IN)

    return steps


def _mean_choices(rankings: Rankings) -> Float64Array:
    """Times that each item is chosen, averaged over all orders inside ties: all but the last of a ranking are."""
    ranking = rankings.entry_rankings()
    in_last_block = rankings.levels == rankings.last_levels[ranking]
    size = np.bincount(ranking, in_last_block)
    each = rankings.weights[ranking] * (1.0 - in_last_block / size[ranking])
    return np.bincount(rankings.items, each, minlength=rankings.n_items).astype(np.float64)
