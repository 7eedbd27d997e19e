"""What `PairwiseFactorisation`, `CofiRank` and `ListNet` have in common: factors that minimise a loss over lists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from permrank.core.answers import mean_cosine
from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_FACTORS, MOST_SWEEPS, flag, integer, number, random_seed
from permrank.families.baselines.mean_rating import MeanRating
from permrank.families.matrix.learning import Data, Design, Fit, Shrinkage, best_users, learner_of
from permrank.families.matrix.losses import Loss
from permrank.learning.learner import Learner, mapped, run
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array, Named

Penalty = float | Literal["auto"]

# Ratings of an item that pull its mean, as a covariate, half-way from that of all: so many that a rating counts little
# in what is then said to have been expected of it. Set as the constants of `learning`.
_HALF_MEAN = 50.0


@dataclass(frozen=True, eq=False)
class FactorEstimate(Estimate):
    """Factors of users (n_users, K) and items (n_items, K), intercepts (n_items,), and the penalties that were used."""

    user_factors: Float64Array
    item_factors: Float64Array
    item_intercepts: Float64Array
    user_penalty: float
    item_penalty: float


class MatrixRanker(Ranker):
    """Base of models with s_y^u = b_y + Σ_k W_uk H_ky that minimise a loss over the lists of the users.

    A model supplies `_loss` and `_shrinkage`.
    """

    needs_order = True
    estimate_type: ClassVar[type[Estimate]] = FactorEstimate
    resumable = True
    user_factors_ = Learnt[Float64Array]()
    item_factors_ = Learnt[Float64Array]()
    item_intercepts_ = Learnt[Float64Array]()
    user_penalty_ = Learnt[float]()
    item_penalty_ = Learnt[float]()

    n_factors: int = integer(
        default=16,
        minimum=1,
        maximum=MOST_FACTORS,
        tune=(2, 32),
        kw_only=False,
        help="K, the factors of every user and item.",
    )
    intercepts: bool = flag(default=True, help="Whether items have an intercept b_y; False is the published form.")
    max_iter: int = integer(default=500, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=1e-05,
        above=0.0,
        help="Learning ends when the objective gains less than this part of itself in two sweeps.",
    )
    seed: int = random_seed(default=0)

    @abstractmethod
    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        """The loss of the scores of all entries, as a function."""

    @abstractmethod
    def _shrinkage(self, rankings: Rankings) -> Shrinkage:
        """Penalties of the factors of users and items."""

    def _design(self, data: Data) -> Design:
        """Covariates of items and entries: intercepts are expected to follow an item's mentions and its mean rating."""
        rankings, none = data.rankings, np.zeros((data.items.size, 0))
        if not self.intercepts:
            return Design(np.zeros((rankings.n_items, 0)), none, intercepts=False, n_factors=self.n_factors)
        mentions = np.log1p(np.bincount(data.items, minlength=rankings.n_items))
        usual = MeanRating(item_penalty=_HALF_MEAN, tol=1e-3)
        means = run(usual._learn(rankings), max_iter=usual.max_iter).estimate.item_biases
        table = np.column_stack([mentions, means])
        spread = table.std(axis=0)
        table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return Design(np.asarray(table), none, intercepts=True, n_factors=self.n_factors)

    def _learn(self, rankings: Rankings) -> Learner[Any]:
        data = Data.of(rankings)
        loss, shrinkage = self._loss(rankings, rankings), self._shrinkage(rankings)
        learner = learner_of(data, loss, self._design(data), shrinkage, tol=self.tol, seed=self.seed)
        return mapped(learner, self._learned)

    def _learned(self, fit: Fit) -> FactorEstimate:
        items, intercepts = np.ascontiguousarray(fit.theta[:, :-1]), np.ascontiguousarray(fit.theta[:, -1])
        return FactorEstimate(fit.point.users, items, intercepts, *fit.penalties)

    # Scores

    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        learnt: FactorEstimate = fitted.estimate
        own = np.einsum("ik,k->i", learnt.item_factors[items], _factors(learnt, person))
        return np.asarray(learnt.item_intercepts[items] + own)

    def _score_pairs(self, fitted: Fitted, who: Int64Array, what: Int64Array) -> Float64Array:
        learnt: FactorEstimate = fitted.estimate
        own = np.einsum("ek,ek->e", learnt.user_factors[who], learnt.item_factors[what])
        return np.asarray(learnt.item_intercepts[what] + own)

    # New users: the items stay as they are

    def _meet(self, fitted: Fitted, rankings: Rankings, **about: Any) -> Named:
        return {"factors": self._factors_of(fitted, rankings)[0]}

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Factors of many new users at once, parallel over users: (n_users, n_factors)."""
        fitted = self.fitted_
        return cast(MatrixRanker, fitted.settings)._factors_of(fitted, rankings)

    def _factors_of(self, fitted: Fitted[FactorEstimate], rankings: Rankings) -> Float64Array:
        """Factors of new users, (n_users, n_factors)."""
        if self.n_factors == 0:
            return np.zeros((rankings.n_users, 0))
        learnt, data = fitted.estimate, Data.of(rankings, fitted.aligned(rankings))
        counts = np.ones(rankings.n_users)
        if self._shrinkage(fitted.rankings).by_entries:
            counts[:] = np.bincount(data.user_of_entry, rankings.entry_weights(), rankings.n_users)
        theta = np.column_stack([learnt.item_factors, learnt.item_intercepts])
        loss = self._loss(rankings, fitted.rankings)
        return best_users(data, loss, theta, learnt.user_penalty * np.maximum(counts, 1e-12), self.n_factors)

    # Likeness, by the cosine of factors

    def _item_likeness(self, fitted: Fitted, item: int) -> Float64Array:
        factors = fitted.estimate.item_factors
        return mean_cosine(factors[None], factors[None, item])

    def _user_likeness(self, fitted: Fitted, person: Person) -> Float64Array:
        return mean_cosine(fitted.estimate.user_factors[None], _factors(fitted.estimate, person)[None])

    def _check(self, fitted: Fitted) -> None:
        super()._check(fitted)
        n_users, n_items = fitted.rankings.n_users, fitted.rankings.n_items
        users, items = (n_users, self.n_factors), (n_items, self.n_factors)
        fitted.estimate.check_shapes(
            user_factors=users, item_factors=items, item_intercepts=(n_items,), user_penalty=(), item_penalty=()
        )


class OnePenaltyRanker(MatrixRanker):
    """A `MatrixRanker` with one penalty for users and items."""

    penalty: Penalty = number(
        default="auto",
        above=0.0,
        also=("auto",),
        help=(
            'λ in λ Σ_u n_u ‖W_u‖² + λ Σ_y (n_y + 50) ‖H_y‖², n being numbers of entries. "auto": what keeps most '
            "of the noise out, from the residuals of a fit without factors."
        ),
    )

    def _shrinkage(self, rankings: Rankings) -> Shrinkage:
        penalty = None if self.penalty == "auto" else float(self.penalty)
        return Shrinkage(penalty, penalty, by_entries=True)


def _factors(learnt: FactorEstimate, person: Person) -> Float64Array:
    factors: Float64Array = person.state["factors"] if person.is_new else learnt.user_factors[person.index]
    return factors
