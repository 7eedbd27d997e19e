"""What `PairwiseFactorisation`, `CofiRank` and `ListNet` have in common: factors that minimise a loss over lists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from permrank.core.answers import mean_cosine, nearest
from permrank.core.declared import MOST_FACTORS, MOST_SWEEPS, Declared, Flag, Float, Integer, Seed
from permrank.core.estimates import Estimate
from permrank.core.ranker import Ranker
from permrank.core.users import NewUser, UserReference, new_user
from permrank.families.baselines.mean_rating import MeanRating
from permrank.families.matrix.learning import Data, Design, Fit, Loss, Settings, best_users, learner_of
from permrank.families.matrix.relevance import standardised
from permrank.learning.learner import Learner, mapped
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

Penalty = float | Literal["auto"]
Pair = tuple[float | None, float | None]

# Penalty by default, as a share of what keeps noise out altogether; set as the constants of `learning`.
NOISE_SHARE = 0.65
# Ratings of an item that pull its mean, as a covariate, half-way from that of all: so many that a rating counts little
# in what is then said to have been expected of it. Set likewise.
_HALF_MEAN = 50.0
# Parameters that all these models have, and the penalty that most have.
COMMON = Declared(
    n_factors=Integer(1, MOST_FACTORS, tune=(2, 32), help="Factors of every user and item."),
    intercepts=Flag(help="Whether items have an intercept."),
    max_iter=Integer(1, MOST_SWEEPS, help="The most sweeps."),
    tol=Float(above=0.0, help="Ends when the objective gains less than this part of itself in two sweeps."),
    seed=Seed(help="Of the start."),
)
PENALTY = Float(above=0.0, also=("auto",), help="Penalty of the factors; auto: what keeps most of the noise out.")


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

    A model supplies `_loss`; parameters ``n_factors``, ``intercepts``, ``max_iter``, ``tol`` and ``seed`` are common.
    One without a parameter ``penalty`` supplies `_penalties`.
    """

    needs_order = True
    estimate_type: ClassVar[type[Estimate]] = FactorEstimate
    resumable = True
    parameters: ClassVar[Declared] = COMMON
    user_factors_: Array
    item_factors_: Array
    item_intercepts_: Array
    user_penalty_: float
    item_penalty_: float
    n_factors: int
    intercepts: bool
    max_iter: int
    penalty: Penalty
    tol: float
    seed: int

    @abstractmethod
    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        """The loss of the scores of all entries, as a function."""

    def _penalties(self, rankings: Rankings) -> tuple[Pair, bool]:
        """Penalties of users and items (None: to be set from the noise), and whether entries multiply them."""
        penalty = None if self.penalty == "auto" else float(self.penalty)
        return (penalty, penalty), True

    def _noise_share(self) -> float:
        return NOISE_SHARE

    def _design(self, data: Data) -> Design:
        """Covariates of items and entries: intercepts are expected to follow an item's mentions and its mean rating."""
        none = np.zeros((data.items.size, 0))
        if not self.intercepts:
            return Design(np.zeros((data.rankings.n_items, 0)), none)
        mentions = np.log1p(np.bincount(data.items, minlength=data.rankings.n_items))
        means = MeanRating(item_penalty=_HALF_MEAN, tol=1e-3).fit(data.rankings, verbose=False).item_biases_
        return Design(standardised(np.column_stack([mentions, means])), none)

    def _learner(self, rankings: Rankings) -> Learner[Any]:
        data = Data.of(rankings)
        penalties, by_entries = self._penalties(rankings)
        settings = Settings(
            self.n_factors, self.intercepts, penalties, by_entries, self._noise_share(), self.tol, self.seed
        )
        return mapped(learner_of(data, self._loss(rankings, rankings), self._design(data), settings), self._learned)

    def _learned(self, fit: Fit) -> FactorEstimate:
        items, intercepts = np.ascontiguousarray(fit.theta[:, :-1]), np.ascontiguousarray(fit.theta[:, -1])
        return FactorEstimate(fit.point.users, items, intercepts, *fit.penalties)

    # Scores

    def _factors(self, user: UserReference) -> Float64Array:
        return user.state["factors"] if isinstance(user, NewUser) else np.asarray(self.user_factors_[user])

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        own = np.einsum("ik,k->i", self.item_factors_[items], self._factors(user))
        return np.asarray(self.item_intercepts_[items] + own)

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        own = np.einsum("ek,ek->e", self.user_factors_[who], self.item_factors_[what])
        return np.asarray(self.item_intercepts_[what] + own)

    # New users

    def fold_in(self, said: object) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating: the items stay as they are."""
        self._require_fitted()
        made = new_user(said, self.rankings_)
        return NewUser(made.rankings, {"factors": self.fold_in_many(made.rankings)[0]})

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Factors of many new users at once, parallel over users: (n_users, n_factors)."""
        self._require_fitted()
        if self.n_factors == 0:
            return np.zeros((rankings.n_users, 0))
        data = Data.of(rankings, self._aligned_items(rankings))
        counts = np.ones(rankings.n_users)
        if self._penalties(self.rankings_)[1]:
            counts[:] = np.bincount(data.user_of_entry, data.entry_weights(), rankings.n_users)
        theta = np.column_stack([self.item_factors_, self.item_intercepts_])
        loss = self._loss(rankings, self.rankings_)
        return best_users(data, loss, theta, self.user_penalty_ * np.maximum(counts, 1e-12), self.n_factors)

    # Likeness

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that the same people like, by the cosine of their factors: ``rank``, ``item``, ``similarity``."""
        self._require_fitted()
        index = self.item_ids.find(item)
        similarity = mean_cosine(self.item_factors_[None], self.item_factors_[None, index])
        return nearest(similarity, index, k, self.item_ids)

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users of the training data who rank as this one does: ``rank``, ``user``, ``similarity``."""
        reference = self._reference(user)
        similarity = mean_cosine(self.user_factors_[None], self._factors(reference)[None])
        return nearest(similarity, reference if isinstance(reference, int) else -1, k, self.user_ids)

    def _check_learned(self) -> None:
        super()._check_learned()
        n_users, n_items = self.rankings_.n_users, self.rankings_.n_items
        users, items = (n_users, self.n_factors), (n_items, self.n_factors)
        self.estimate_.check_shapes(
            user_factors=users, item_factors=items, item_intercepts=(n_items,), user_penalty=(), item_penalty=()
        )


def pair_weights(indptr: Int64Array) -> Float64Array:
    """2 / (n - 1) for every list of n: the sum over its pairs becomes n times their mean, tied pairs counting as 0.

    Divided by the pairs that are not tied, a list of 49 equal items and one other would hang all on that one.
    """
    return np.asarray(2.0 / np.maximum(np.diff(indptr) - 1, 1))
