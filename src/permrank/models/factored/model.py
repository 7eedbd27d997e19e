"""Factored Plackett-Luce (§3.1): a score for every user and item from a few factors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory
from permrank.data.rankings import Rankings
from permrank.data.validate import require_rankings
from permrank.data.with_attributes import KINDS, with_warm
from permrank.distributions.base import RankingDistribution
from permrank.distributions.damped import DampedLuce
from permrank.distributions.luce import LuceMixture
from permrank.errors import InputError, NotSupportedError
from permrank.learning.fit import Job, as_digest
from permrank.learning.learner import Learner
from permrank.models.answers import nearest
from permrank.models.explanation import Reasons
from permrank.models.factored import damped, race
from permrank.models.factored.acquainted import effects, fold_in, said_by, warm_items
from permrank.models.factored.estimate import TIES, FactoredEstimate, Said, rule_of
from permrank.models.factored.explain import contributions
from permrank.models.factored.learning import Settings, grown, usual_sweeps
from permrank.models.factored.new_items import fold_in_item
from permrank.models.factored.parameters import PARAMETERS
from permrank.models.factored.problem import one_user
from permrank.models.fitting import learn_into, more_rankings
from permrank.models.priors.known import Known
from permrank.models.ranker import Ranker
from permrank.models.users import NewUser, UserReference
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

    Parameters
    ----------
    n_factors : int or "auto"
        K. "auto" takes the one of 4, 8, 16 and 32 that predicts held-out pairs best; ``curve_`` shows all of them.
    method : {"draws", "point"}
        ``point`` is the paper's regularised maximum likelihood, Σ_u log P - user_penalty ‖W‖² - item_penalty ‖H‖².
    ties : {"breslow", "efron", "exact", "partition", "shuffle"}
        What a tie says (see the page on ties). For ratings a tie is evidence of closeness, and ``breslow``
        predicts best; strict rankings are not affected.
    intercepts : bool
        Whether items have an intercept b_y; False is the paper's form.
    factor_scale : float or "auto"
        Standard deviation of the score that the factors make around its mean, a priori. "auto": 1 for strict rankings,
        0.7 where there are ties. Only for ``method="draws"``.
    rating_thresholds : bool
        Where there are ratings, let the level of the ratings count and not only their order, by thresholds between
        their values. Only for ``method="draws"``.
    co_listing : bool
        Let what people list together tell of their taste: prior means of users' and items' factors depend on it, as
        far as it stands out from chance. Only for ``method="draws"``.
    user_penalty, item_penalty : float
        Penalties of ``method="point"``, the paper's α and β.
    damping : {"none", "log", "natural_log", "learned"} or sequence of float
        Benter's factors ρ_i of the scores at each stage of a list, for ``method="point"``: 1 / log2(1 + i), the
        paper's 1 / log(1 + i), learnt from the data, or given: the first above 0, never rising, 0 where choices are
        uniform; a short sequence goes on with its last value. They are for strict orders: rankings with ties need
        ``ties="shuffle"``.
    max_iter : int, optional
        The most sweeps over the data, by default 600 under ``draws`` and 5,000 under ``point``. Draws end earlier when
        means over their two halves agree (``score_error_``); ``converged_`` says whether they did.
    n_draws : int
        The most draws that are looked at, evenly spread over the last part of the sweeps. Scores are averaged over
        them; some are kept whole, for probabilities and new users.
    n_starts : int
        Random starts of ``point``, side by side, of which the best is kept: where penalties are weak each ends in a
        maximum of its own, and of four the best is among the better half of these in 15 of 16 cases. The cost of a
        sweep is so many times that of one start. More data go on from the factors that there are.
    tol : float
        ``point`` ends when the objective rises by less than this part of itself.
    seed : int
        The same seed gives the same bits, for any number of threads.

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
        Places of the items by what is listed together; no dimension where that does not stand out from chance.
    user_slopes_ : float16 (n_kept, n_dimensions, n_factors)
        How the prior mean of a user's factors depends on the mean place of the items listed.
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
    parameters = PARAMETERS
    resumable = True
    estimate_type = FactoredEstimate
    estimate_: FactoredEstimate
    item_draws_: Array
    user_factors_: Array
    item_factors_: Array
    factor_scale_: float
    temperature_: float
    thresholds_: Float64Array
    curve_: Float64Array

    def __init__(
        self,
        n_factors: int | Literal["auto"] = 16,
        *,
        method: Literal["draws", "point"] = "draws",
        ties: Ties = "breslow",
        intercepts: bool = True,
        factor_scale: float | Literal["auto"] = "auto",
        rating_thresholds: bool = True,
        co_listing: bool = True,
        user_penalty: float = 1.0,
        item_penalty: float = 1.0,
        damping: str | Sequence[float] = "none",
        max_iter: int | None = None,
        n_draws: int = 64,
        n_starts: int = 4,
        tol: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.method = method
        self.ties = ties
        self.intercepts = intercepts
        self.factor_scale = factor_scale
        self.rating_thresholds = rating_thresholds
        self.co_listing = co_listing
        self.user_penalty = user_penalty
        self.item_penalty = item_penalty
        self.damping = damping
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.n_starts = n_starts
        self.tol = tol
        self.seed = seed

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
        return with_warm(rankings) if self.method == "draws" else rankings

    def _started_from(self, rankings: Rankings) -> str:
        return Known.of(rankings).digest() if self.method == "draws" else "nothing"

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or usual_sweeps(self.method)

    def _learner(self, rankings: Rankings) -> Learner[FactoredEstimate]:
        return Settings.of(self.get_params()).learner(rankings, self._sweeps(rankings), self._rules())

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
        everything = self._prepared(more_rankings(self, rankings, _OF_LEARNING))
        start, n_sweeps = grown(self.estimate_, self.rankings_, everything), self._sweeps(everything)
        if self.method == "draws":
            n_sweeps = max(1, n_sweeps // _SHARE_OF_SWEEPS)

        def learner() -> Learner[FactoredEstimate]:
            return Settings.of(self.get_params()).growing(self.estimate_, start, everything, n_sweeps, self._rules())

        begun = as_digest(start.theta, start.modes) + self._started_from(everything)
        job = Job(type(self).__name__, learner, n_sweeps, everything, self.get_params(), begun)
        learn_into(self, job, callback, verbose, checkpoint)
        return self

    # Scores: averages over the draws

    def _factors(self, user: UserReference) -> Float64Array:
        """Of a user in the mean scores."""
        if isinstance(user, NewUser):
            return user.state["factors"]
        return np.asarray(self.estimate_.user_factors[user], dtype=np.float64)

    def _near_modes(self, user: UserReference) -> Float64Array:
        """Of a user under every draw: where Newton's method finds the mode in a step or two."""
        return user.state["modes"] if isinstance(user, NewUser) else self.estimate_.near_modes(self._factors(user))

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        return self.estimate_.scores(items, self._factors(user))

    def _score_rows(self, users: Sequence[UserReference]) -> Array:
        if any(isinstance(user, NewUser) for user in users):
            return self.estimate_.score_rows(np.stack([self._factors(user) for user in users]))
        return self.estimate_.score_rows(self.estimate_.user_factors[np.array(users, np.int64)])

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        return self.estimate_.score_pairs(who, what)

    @property
    def user_modes_(self) -> Array:
        """Posterior modes of all users given the items of each draw, found anew: float32 (n_kept, n_users, K)."""
        if self.estimate_.factor_scale == 0.0:  # a point estimate
            return np.asarray(self.estimate_.user_factors[None])
        return self.fold_in_many(self.rankings_).transpose(1, 0, 2).astype(np.float32)

    # New users

    fold_in, fold_in_item, effects, _warm_items = fold_in, fold_in_item, effects, warm_items

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Posterior modes of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        return np.asarray(self._law.fold_in(self.estimate_, Said(rankings, self._aligned_items(rankings))))

    # Probabilities: averages over the posterior of items and user

    @property
    def _law(self) -> ModuleType:
        self._require_fitted()
        return damped if self.estimate_.is_damped else race

    @property
    def _knows_ranks(self) -> bool:
        # A draw of n items takes n² steps under damping: too many for intervals over a catalogue.
        return not self.estimate_.is_damped

    def _said(self, user: UserReference) -> Said:
        if isinstance(user, NewUser):
            known = (user.state.get(name) for name in ("features", "pull"))
            return Said(user.rankings, self._aligned_items(user.rankings), *known)
        return said_by(self, one_user(self.rankings_, int(user or 0)), int(user or 0))

    def _score_draws(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Scores of items under draws of them and of the user: (n_kept * size, n_items)."""
        size = max(1, _USER_DRAWS // len(self.item_draws_))
        users = self._law.user_draws(self.estimate_, self._said(user), self._near_modes(user), size)
        scores = self.estimate_.score_draws(items, users)
        # A few draws tell how far scores spread, and together; all of them tell where.
        scores += self._scores(user, items) - scores.mean(axis=0)
        return scores

    def _prefers(self, user: UserReference, first: Int64Array, second: Int64Array) -> Float64Array:
        if self.estimate_.is_damped:
            return super()._prefers(user, first, second)
        modes, roots = race.user_roots(self.estimate_, self._said(user), self._near_modes(user))
        gaps = self._scores(user, first) - self._scores(user, second)
        return self.estimate_.prefers(first, second, gaps, modes, roots)

    def _score_samples(self, user: UserReference, items: Int64Array) -> Float64Array:
        return self._score_draws(user, items)

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        scores = self._score_draws(user, items)
        if self.estimate_.is_damped:
            return DampedLuce(scores, self.estimate_.damping_of(items.size))
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
        self._require_fitted()
        require_int("size", size, 1)
        n = require_rankings(rankings).n_rankings
        require_memory(
            24 * int(size) * n * len(self.item_draws_), f"size={size} draws for each of {n} rankings", "take fewer"
        )
        said = Said(rankings, self._aligned_items(rankings))
        return self._law.log_likelihoods(self.estimate_, said, int(size))  # type: ignore[no-any-return]

    # Likeness and reasons

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that the same people like: cosine of what the factors make of them for all users.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``similarity``, best first, without the item itself.
        """
        self._require_fitted()
        index = self.item_ids.find(item)
        similarity = self.estimate_.likeness_of_items(self.estimate_.item_factors[index])
        return nearest(similarity, index, k, self.item_ids)

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users of the training data who rank as this one does: cosine of what their factors make of all items.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``user``, ``similarity``, best first, without the user.
        """
        reference = self._reference(user)
        similarity = self.estimate_.likeness_of_users(self._factors(reference))
        own = reference if isinstance(reference, int) else -1
        return nearest(similarity, own, k, self.user_ids)

    def _reasons(self, user: UserReference, item: int) -> Reasons:
        """A score as a sum over the list (see explain.py), and the rest: what the item has for everybody."""
        if self.estimate_.is_damped:
            raise NotSupportedError("a damped model cannot answer explain(); fit with damping='none'")
        often = np.bincount(self.rankings_.items, self.rankings_.entry_weights(), len(self.item_ids))
        said, modes = self._said(user), self._near_modes(user)
        listed, parts = contributions(self.estimate_, said, modes, item, often / often.sum())
        items, inverse = np.unique(listed, return_inverse=True)
        rest = float(self._scores(user, np.array([item]))[0] - parts.sum())
        return Reasons(
            items, np.asarray(np.bincount(inverse, parts, items.size), np.float64), rest, "what everybody thinks of it"
        )

    def _check_learned(self) -> None:
        super()._check_learned()
        n_kept, n_factors = len(self.item_draws_), self.estimate_.n_factors
        if n_kept > (1 if self.method == "point" else self.n_draws):
            raise InputError(f"item_draws_ has {n_kept} draws, more than n_draws={self.n_draws} of {self.method!r}")
        if n_factors != self.n_factors and self.n_factors != "auto":
            raise InputError(f"item_draws_ has {n_factors} factors, and n_factors is {self.n_factors}")
