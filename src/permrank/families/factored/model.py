"""Factored Plackett-Luce (§3.1): a score for every user and item from a few factors."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory
from permrank.core.distribution import RankingDistribution
from permrank.core.estimates import Learnt
from permrank.core.explanation import Reasons
from permrank.core.fitted import Fitted
from permrank.core.fitting import Job, as_digest, learnt_by, more_rankings
from permrank.core.luce import LuceMixture
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import (
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_STARTS,
    MOST_SWEEPS,
    checked,
    choice,
    flag,
    integer,
    number,
    random_seed,
)
from permrank.errors import InputError, NotSupportedError
from permrank.families.factored import damped, undamped
from permrank.families.factored.estimate import TIES, FactoredEstimate, check_damping, rule_of
from permrank.families.factored.learning import growing, grown, learner, usual_sweeps
from permrank.families.factored.new_items import FactoredItems
from permrank.learning.learner import Learner
from permrank.posterior.estimate import Evidence
from permrank.posterior.known import Known
from permrank.posterior.new_items import with_item
from permrank.posterior.side_information import effects, evidence_of, evidence_of_new
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.with_attributes import KINDS, with_featured
from permrank.types import Array, Callback, Float64Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint

Ties = Literal["exact", "efron", "breslow", "partition", "shuffle"]
# `partial_fit` makes this part of the sweeps; before it what concerns how learning goes on may be changed.
_SHARE_OF_SWEEPS = 3
_OF_LEARNING = frozenset({"max_iter", "n_draws", "n_starts", "tol", "seed"})
# Vectors of a user that are drawn, evenly over the draws of the items that are kept: the sampling error of an averaged
# probability is at most 0.5 / sqrt(64) = 0.06 and mostly a tenth of that.
_USER_DRAWS = 64


class FactoredPlackettLuce(Ranker):
    """Factored Plackett-Luce model with a posterior over its factors (§3.1).

    P(ranking | u) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j} with s_y^u = b_y + Σ_k W_uk H_ky. Point estimates of W and H
    overfit short lists badly, so by default they are not estimated but drawn: users and items in turn from the
    Laplace approximation of their conditional posterior, and answers are averages over the draws that are kept.

    Attributes
    ----------
    user_factors_, item_factors_ : float16 (n_users, rank), (n_items, rank)
        What the factors make of users and items, averaged over all draws, as a product: twice as many columns as
        factors leave next to nothing of that mean out. float32, and as many as factors, for a point estimate.
    item_intercepts_ : float32 (n_items,)
        Intercepts averaged over all draws.
    item_draws_ : float16 (n_kept, n_items + n_thresholds, n_factors + 1)
        Factors and intercept of every item, then of every threshold, under some of the draws. With proportional odds
        there is one column more before the intercept: the loading on the users' levels.
    bases_ : float32 (n_kept, n_factors, rank)
        What a user's factors under each of those draws are in the basis of the mean.
    factor_scale_ : float
        The scale that was used; 0 for a point estimate.
    temperature_ : float
        What scores are multiplied with to be log-odds: learnt from held-out pairs where there are ties, 1 elsewhere.
    personal_weight_ : float
        What the factors' part of a score is multiplied with, likewise.
    score_error_ : float
        Part of the variance of score differences that is the error of averaging over draws, from their two halves.
    thresholds_ : float64
        Ratings between which the thresholds stand.
    curve_ : float64 (n_tried, 3)
        With ``n_factors="auto"``: number, loss (nats) of a held-out pair, its standard error.
    co_listing_ : float64 (n_items, n_dimensions)
        Coordinates of the items by what is listed together; no dimension where that does not stand out from chance.
    user_slopes_ : float16 (n_kept, n_dimensions, n_factors)
        How the prior mean of a user's factors depends on the mean coordinates of the items listed.
    item_variances_ : float16 (1, n_items + n_thresholds)
        What an item's own uncertainty adds to the variance of its score, which probabilities average over.
    damping_ : float64 (n_stages,)
        Damping factors of the stages; one 1 without damping.
    start_objectives_ : float64
        Of a point estimate: the objective that each start has reached; the highest is that of the estimate.
    item_effects_, pair_effects_, item_shares_, user_shares_, link_strength_ : float32
        Draws of what features and links are worth, where there are any: see `effects`.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.FactoredPlackettLuce(n_factors=4, max_iter=40).fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    needs_order = True
    assumes = "scores of users and items come from a few factors"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 3.1"
    resumable = True
    takes_side_information = True
    estimate_type = FactoredEstimate
    user_factors_ = Learnt[Array]()
    item_factors_ = Learnt[Array]()
    item_intercepts_ = Learnt[Array]()
    item_draws_ = Learnt[Array]()
    bases_ = Learnt[Array]()
    factor_scale_ = Learnt[float]()
    temperature_ = Learnt[float]()
    personal_weight_ = Learnt[float]()
    score_error_ = Learnt[float]()
    thresholds_ = Learnt[Float64Array]()
    curve_ = Learnt[Float64Array]()
    co_listing_ = Learnt[Float64Array]()
    user_slopes_ = Learnt[Array]()
    item_variances_ = Learnt[Array]()
    damping_ = Learnt[Float64Array]()
    item_effects_ = Learnt[Array]()
    pair_effects_ = Learnt[Array]()
    item_shares_ = Learnt[Array]()
    user_shares_ = Learnt[Array]()
    link_strength_ = Learnt[Array]()
    start_objectives_ = Learnt[Array]()

    n_factors: int | Literal["auto"] = integer(
        default=16,
        minimum=1,
        maximum=MOST_FACTORS,
        also=("auto",),
        tune=(2, 32),
        kw_only=False,
        help=(
            'K. "auto" takes the one of 4, 8, 16 and 32 that predicts held-out pairs best; ``curve_`` shows all '
            "of them."
        ),
    )
    factor_scale: float | Literal["auto"] = number(
        default="auto",
        above=0.0,
        also=("auto",),
        tune=(0.3, 3.0),
        tune_also=("auto",),
        when=("method", "draws"),
        help=(
            'Standard deviation of the score that the factors make around its mean, a priori. "auto": 1 for '
            'strict rankings, 0.7 where there are ties. Only for ``method="draws"``.'
        ),
    )
    user_penalty: float = number(
        default=1.0,
        above=0.0,
        tune=(0.03, 30.0),
        when=("method", "point"),
        help='Penalties of ``method="point"``, the paper\'s α and β.',
    )
    item_penalty: float = number(
        default=1.0,
        above=0.0,
        tune=(0.03, 30.0),
        when=("method", "point"),
        help='Penalties of ``method="point"``, the paper\'s α and β.',
    )
    intercepts: bool = flag(
        default=True, tune=(True, False), help="Whether items have an intercept b_y; False is the paper's form."
    )
    method: Literal["draws", "point"] = choice(
        default="draws",
        values=("draws", "point"),
        help=(
            "``point`` is the paper's regularised maximum likelihood, Σ_u log P - user_penalty ‖W‖² - "
            "item_penalty ‖H‖²."
        ),
    )
    ties: Ties = choice(
        default="breslow",
        values=("exact", "efron", "breslow", "partition", "shuffle"),
        help=(
            "What a tie says (see the page on ties). For ratings a tie is evidence of closeness, and ``breslow`` "
            "predicts best; strict rankings are not affected."
        ),
    )
    rating_thresholds: bool = flag(
        default=True,
        when=("method", "draws"),
        help=(
            "Where there are ratings, let the level of the ratings count and not only their order, by thresholds "
            'between their values. Only for ``method="draws"``.'
        ),
    )
    co_listing: bool = flag(
        default=True,
        when=("method", "draws"),
        help=(
            "Let what people list together tell of their taste: prior means of users' and items' factors depend "
            'on it, as far as it stands out from chance. Only for ``method="draws"``.'
        ),
    )
    damping: str | Sequence[float] = checked(
        default="none",
        function=check_damping,
        words="none, log, natural_log, learned, list of numbers",
        when=("method", "point"),
        help=(
            'Benter\'s factors ρ_i of the scores at each stage of a list, for ``method="point"``: 1 / log2(1 + i), '
            "the paper's 1 / log(1 + i), learnt from the data, or given: the first above 0, never rising, 0 where "
            "choices are uniform; a short sequence goes on with its last value. They are for strict orders: "
            'rankings with ties need ``ties="shuffle"``.'
        ),
    )
    max_iter: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_SWEEPS,
        also=(None,),
        help=(
            "The most sweeps over the data, by default 600 under ``draws`` and 5,000 under ``point``. Draws end "
            "earlier when means over their two halves agree (``score_error_``); ``converged_`` says whether they "
            "did."
        ),
    )
    n_draws: int = integer(
        default=64,
        minimum=1,
        maximum=MOST_DRAWS,
        when=("method", "draws"),
        help=(
            "The most draws that are looked at, evenly spread over the last part of the sweeps. Scores are "
            "averaged over them; some are kept whole, for probabilities and new users."
        ),
    )
    n_starts: int = integer(
        default=4,
        minimum=1,
        maximum=MOST_STARTS,
        when=("method", "point"),
        help=(
            "Random starts of ``point``, side by side, of which the best is kept: where penalties are weak "
            "each ends in a maximum of its own, and of four the best is among the better half of these in 15 "
            "of 16 cases. The cost of a sweep is so many times that of one start. More data go on from the "
            "factors that there are."
        ),
    )
    tol: float = number(
        default=1e-06,
        above=0.0,
        when=("method", "point"),
        help="``point`` ends when the objective rises by less than this part of itself.",
    )
    seed: int = random_seed(default=0, help="The same seed gives the same bits, for any number of threads.")

    def _validate(self) -> None:
        super()._validate()
        if self.n_factors == "auto" and self.method == "point":
            raise InputError("n_factors='auto' is for method='draws'; give a number")
        if rule_of(self.damping) != "none" and self.method != "point":
            raise InputError(f"damping={self.damping!r} is for method='point'; draws are made without damping")

    def _rules(self) -> Named:
        # 1 by convention, 2 α for the paper's penalty.
        precision = 2.0 * float(self.user_penalty) if self.method == "point" else 1.0
        damping = rule_of(self.damping)
        return {"ties": TIES[self.ties], "precision": precision, "rule_of_damping": damping, "seed": int(self.seed)}

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS if self.method == "draws" else ())

    def _prepared(self, rankings: Rankings) -> Rankings:
        # What is known by its features alone is drawn with all else.
        return with_featured(rankings) if self.method == "draws" else rankings

    def _started_from(self, rankings: Rankings) -> str:
        return Known.of(rankings).digest() if self.method == "draws" else "nothing"

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or usual_sweeps(self.method)

    def _learn(self, rankings: Rankings) -> Learner[FactoredEstimate]:
        return learner(self, rankings, self._sweeps(rankings))

    # More data

    def partial_fit(
        self,
        rankings: Rankings,
        *,
        callback: Callback | None = None,
        verbose: bool | None = None,
        checkpoint: Checkpoint | str | Path | None = None,
    ) -> Self:
        """Add users, items and lists to a fitted model, in a third of the sweeps of a full fit.

        The draws go on from where they are, with new users and items at 0; a point estimate goes on to its new optimum.
        Afterwards the model stands about where a full fit of all the data would: on simulated lists its scores of a
        user's items correlate with those of a full fit as those of two full fits with different seeds do, to 0.01.
        Thresholds, scale and weights of scores stay as they were learnt. How learning goes on (``max_iter``,
        ``n_draws``, ``tol``, ``seed``) may be set between `fit` and this; any other parameter that was changed since is
        refused, for it belongs to another model.

        Parameters
        ----------
        rankings : Rankings
            A newer rating of an item replaces an older one of the same user; lists without ratings are added.
        callback, verbose, checkpoint
            As in `fit`; a run that was killed goes on from the checkpoint if the model is as it was before it.

        Examples
        --------
        >>> import permrank as pr
        >>> old = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "b", "a"]})
        >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=30).fit(old)
        >>> model.partial_fit(pr.Rankings.from_lists({"cat": ["d", "a"]})).user_ids.index("cat")
        2
        """
        everything, settings = self._prepared(more_rankings(self, rankings, _OF_LEARNING)), self._copied()
        fitted: Fitted[FactoredEstimate] = self.fitted_
        start, n_sweeps = grown(fitted.estimate, fitted.rankings, everything), self._sweeps(everything)
        if self.method == "draws":
            n_sweeps = max(1, n_sweeps // _SHARE_OF_SWEEPS)
        prepared = partial(growing, settings, fitted.estimate, start, everything, n_sweeps)
        begun = as_digest(start.theta, start.modes) + self._started_from(everything)
        job = Job(settings, everything, prepared, n_sweeps, begun)
        self.fitted_ = learnt_by(job, callback, verbose, checkpoint)
        return self

    def fold_in_item(
        self, item: str | int, *, features: Mapping[str, Any] | None = None, rankings: Rankings | None = None
    ) -> Self:
        """A model that knows one item more, without retraining; users and other items stay as they are.

        Parameters
        ----------
        item : id
            Not among the items of the model.
        features : dict, optional
            Attributes of the item, where the model has learnt from such features.
        rankings : Rankings, optional
            Lists, or ratings, of users of the model that mention the item, beside other items of the model.

        Returns
        -------
        FactoredPlackettLuce
            A copy; ``score``, ``rank`` and ``prefers`` take the item like any other. Its training data have no entry of
            the item, which `recommend` includes if asked (``include_new=True``).

        Examples
        --------
        >>> import permrank as pr
        >>> lists = {"ann": ["a", "b", "c"], "bob": ["c", "b", "a"], "cat": ["a", "c", "b"]}
        >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=30).fit(pr.Rankings.from_lists(lists))
        >>> more = model.fold_in_item("d", rankings=pr.Rankings.from_lists({"ann": ["d", "a"], "bob": ["d", "c"]}))
        >>> more.prefers("cat", "d", "b") > 0.5
        True
        """
        made = copy.copy(self)
        fitted: Fitted[FactoredEstimate] = self.fitted_
        if fitted.estimate.is_point:
            raise NotSupportedError(
                "fold_in_item() needs method='draws', whose items have a prior; this model has 'point'"
            )
        items = FactoredItems(fitted, cast("FactoredPlackettLuce", fitted.settings).intercepts)
        made.fitted_ = with_item(fitted, item, features, rankings, items)
        return made

    # Scores: averages over the draws

    def _scores(self, fitted: Fitted[FactoredEstimate], person: Person, items: Int64Array) -> Float64Array:
        return fitted.estimate.scores(items, _factors_of(fitted, person))

    def _rows(self, fitted: Fitted[FactoredEstimate], people: Sequence[Person]) -> Array:
        if any(person.is_new for person in people):
            return fitted.estimate.score_rows(np.stack([_factors_of(fitted, person) for person in people]))
        indices = np.array([person.index for person in people], np.int64)
        return fitted.estimate.score_rows(fitted.estimate.user_factors[indices])

    def _score_pairs(self, fitted: Fitted[FactoredEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        return fitted.estimate.score_pairs(who, what)

    @property
    def user_modes_(self) -> Array:
        """Posterior modes of all users given the items of each draw, found anew: float32 (n_kept, n_users, K)."""
        fitted: Fitted[FactoredEstimate] = self.fitted_
        if fitted.estimate.is_point:
            return np.asarray(fitted.estimate.user_factors[None])
        return self.fold_in_many(fitted.rankings).transpose(1, 0, 2).astype(np.float32)

    # Users

    def _meet(self, fitted: Fitted[FactoredEstimate], rankings: Rankings, **about: Any) -> Named:
        evidence = evidence_of_new(fitted, rankings, **about)
        modes = np.asarray(_users(fitted).fold_in(fitted.estimate, evidence))
        known = {"features": evidence.features, "pull": evidence.pull}
        state = {"modes": modes[0], "factors": fitted.estimate.mean_factors(modes)[0]}
        return state | {name: part for name, part in known.items() if part is not None}

    def _featured_items(self, fitted: Fitted[FactoredEstimate]) -> Int64Array:
        if self.method == "point" or fitted.rankings.features("item") is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(fitted.rankings.items, minlength=fitted.rankings.n_items) == 0)

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Posterior modes of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        fitted: Fitted[FactoredEstimate] = self.fitted_
        return np.asarray(_users(fitted).fold_in(fitted.estimate, Evidence(rankings, fitted.aligned(rankings))))

    def effects(self, level: float = 0.9) -> pl.DataFrame:
        """What features and links are worth, with intervals.

        Parameters
        ----------
        level : float
            Probability with which an effect lies between ``low`` and ``high``.

        Returns
        -------
        polars.DataFrame
            Columns ``of``, ``item_feature``, ``user_feature``, ``mean``, ``deviation``, ``low``, ``high``. Rows
            ``score`` are what a feature of an item adds to its score: for everybody, or, with a feature of a user, for
            those who have it beyond that. Of `FactoredPlackettLuce` they are log-odds as the likelihood has them,
            before the weights under which held-out pairs come true; of `FactoredThurstone` they are in deviations of
            the noise. Numbers count by standard deviations, categories against not having them. Rows ``share`` are the
            parts of the variance of personal scores that an attribute explains, and the row ``links`` is τ, which is 0
            if friends have nothing in common.

        Examples
        --------
        >>> import permrank as pr
        >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
        >>> sizes = {"item": rankings.item_ids.ids, "size": [float(n % 5) for n in range(20)]}
        >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=30).fit(rankings.with_features(items=sizes))
        >>> model.effects().select("of", "item_feature").rows()
        [('score', 'size'), ('share', 'size')]
        """
        return effects(self.fitted_, level)

    # Probabilities: averages over the posterior of items and user

    def _knows_ranks(self, fitted: Fitted[FactoredEstimate]) -> bool:
        # A draw of n items takes n² steps under damping: too many for intervals over a catalogue.
        return not fitted.estimate.is_damped

    def _score_draws(self, fitted: Fitted[FactoredEstimate], person: Person, items: Int64Array) -> Float64Array:
        """Scores of items under draws of them and of the user: (n_kept * size, n_items)."""
        estimate, evidence, near = fitted.estimate, evidence_of(fitted, person), _near_modes(fitted, person)
        size = max(1, _USER_DRAWS // len(estimate.item_draws))
        scores = estimate.score_draws(items, _users(fitted).user_draws(estimate, evidence, near, size))
        # A few draws tell how far scores spread, and together; all of them tell where.
        scores += self._scores(fitted, person, items) - scores.mean(axis=0)
        return scores

    def _prefers(
        self, fitted: Fitted[FactoredEstimate], person: Person, first: Int64Array, second: Int64Array
    ) -> Float64Array:
        if fitted.estimate.is_damped:
            return super()._prefers(fitted, person, first, second)
        evidence, near = evidence_of(fitted, person), _near_modes(fitted, person)
        modes, roots = undamped.user_roots(fitted.estimate, evidence, near)
        gaps = self._scores(fitted, person, first) - self._scores(fitted, person, second)
        return fitted.estimate.prefers(first, second, gaps, modes, roots)

    def _law(self, fitted: Fitted[FactoredEstimate], person: Person, items: Int64Array) -> RankingDistribution:
        scores = self._score_draws(fitted, person, items)
        if fitted.estimate.is_damped:
            return damped.DampedLuce(scores, fitted.estimate.damping_of(items.size))
        return LuceMixture(scores)

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking with its user integrated out, as if given by somebody new.

        Items are at their means given the users of each draw that was kept; their own uncertainty is left out here.
        See `log_likelihood_with_error` for the error of the estimator.
        """
        return self.log_likelihood_with_error(rankings)[0]

    def log_likelihood_with_error(self, rankings: Rankings, size: int = 64) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities with the user integrated over the prior by importance sampling, and standard errors.

        Parameters
        ----------
        rankings : Rankings
            Every ranking is taken for that of a person of whom nothing else is known.
        size : int
            Draws from the Laplace posterior for every kept draw of the items.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        fitted: Fitted[FactoredEstimate] = self.fitted_
        require_int("size", size, 1)
        n, n_kept = require_rankings(rankings).n_rankings, len(fitted.estimate.item_draws)
        require_memory(24 * int(size) * n * n_kept, f"size={size} draws for each of {n} rankings", "take fewer")
        evidence = Evidence(rankings, fitted.aligned(rankings))
        return _users(fitted).log_likelihoods(fitted.estimate, evidence, int(size))  # type: ignore[no-any-return]

    # Likeness and reasons

    def _item_likeness(self, fitted: Fitted[FactoredEstimate], item: int) -> Float64Array:
        """Cosine of what the factors make of items for all users."""
        return fitted.estimate.likeness_of_items(fitted.estimate.item_factors[item])

    def _user_likeness(self, fitted: Fitted[FactoredEstimate], person: Person) -> Float64Array:
        """Cosine of what users' factors make of all items."""
        return fitted.estimate.likeness_of_users(_factors_of(fitted, person))

    def _reasons(self, fitted: Fitted[FactoredEstimate], person: Person, item: int) -> Reasons:
        """A score as a sum over the list (see explain.py), and the rest: what the item has for everybody."""
        if fitted.estimate.is_damped:
            raise NotSupportedError("a damped model cannot answer explain(); fit with damping='none'")
        data = fitted.rankings
        often = np.bincount(data.items, data.entry_weights(), data.n_items)
        evidence, near = evidence_of(fitted, person), _near_modes(fitted, person)
        listed, parts = undamped.contributions(fitted.estimate, evidence, near, item, often / often.sum())
        items, inverse = np.unique(listed, return_inverse=True)
        rest = float(self._scores(fitted, person, np.array([item]))[0] - parts.sum())
        return Reasons(
            items, np.asarray(np.bincount(inverse, parts, items.size), np.float64), rest, "what everybody thinks of it"
        )

    def _check(self, fitted: Fitted[FactoredEstimate]) -> None:
        super()._check(fitted)
        n_kept, n_factors = len(fitted.estimate.item_draws), fitted.estimate.n_factors
        if n_kept > (1 if self.method == "point" else self.n_draws):
            raise InputError(f"item_draws_ has {n_kept} draws, more than n_draws={self.n_draws} of {self.method!r}")
        if n_factors != self.n_factors and self.n_factors != "auto":
            raise InputError(f"item_draws_ has {n_factors} factors, and n_factors is {self.n_factors}")


def _factors_of(fitted: Fitted[FactoredEstimate], person: Person) -> Float64Array:
    """Of a person in the mean scores."""
    if person.index is None:
        return person.state["factors"]  # type: ignore[no-any-return]
    return np.asarray(fitted.estimate.user_factors[person.index], dtype=np.float64)


def _near_modes(fitted: Fitted[FactoredEstimate], person: Person) -> Float64Array:
    """Of a person under every draw: where Newton's method finds the mode in a step or two."""
    if person.index is None:
        return person.state["modes"]  # type: ignore[no-any-return]
    return fitted.estimate.near_modes(_factors_of(fitted, person))


def _users(fitted: Fitted[FactoredEstimate]) -> ModuleType:
    """What works out users: their posterior and the likelihood of their lists, with damping or without."""
    return damped if fitted.estimate.is_damped else undamped
