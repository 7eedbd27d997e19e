"""Baseline: the mean rating of an item, shrunk, after the users' own levels have been taken out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_SWEEPS, flag, integer, number
from permrank.errors import InputError
from permrank.families.baselines.borda import shares_below
from permrank.learning.learner import Learner, Step, standing
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array, Named


@dataclass(frozen=True, eq=False)
class Biases(Estimate):
    """The mean of all ratings, and what items and users add to it."""

    mean: float
    item_biases: Float64Array
    user_biases: Float64Array

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is a finite number for each user and item."""
        super().check(n_users, n_items)
        for name, size in (("item_biases", n_items), ("user_biases", n_users)):
            values = getattr(self, name)
            if np.shape(values) != (size,) or values.dtype != np.float64:
                raise InputError(f"{name}_ has shape {np.shape(values)}, expected {size} of float64")
        if not isinstance(self.mean, float):
            raise InputError(f"mean_ is {self.mean!r}, expected a number")


class MeanRating(Ranker):
    """Baseline: rating = mean + b_user + b_item, with shrunk biases.

    Minimises Σ w (r - m - b_u - b_y)² + λ_user Σ b_u² + λ_item Σ b_y² by exact alternating steps, m being the mean
    of all ratings and w the weight of the ranking. Where there are no ratings, the position in the list stands for one:
    the share of the other listed items that an item comes before, ties half. Everybody has the same order of items.

    Attributes
    ----------
    mean_ : float
        Mean of all ratings.
    item_biases_ : float64 (n_items,)
    user_biases_ : float64 (n_users,)

    Examples
    --------
    >>> import permrank as pr
    >>> frame = {"user": [1, 1, 2, 2], "item": ["ebi", "uni", "ebi", "ika"], "rating": [5, 3, 4, 2]}
    >>> model = pr.MeanRating().fit(pr.Rankings.from_ratings(frame))
    >>> model.recommend(1)["item"].to_list()
    ['ika']
    """

    needs_order = True
    assumes = "a rating is the sum of a user's level and an item's, whatever the taste"
    takes = "ratings, or rankings by their positions; ties, weights"
    reference = "Koren (2010), baseline estimates"
    knows_nobody = True
    personal = False
    estimate_type = Biases
    mean_ = Learnt[float]()
    item_biases_ = Learnt[Float64Array]()
    user_biases_ = Learnt[Float64Array]()

    item_penalty: float = number(
        default=10.0,
        above=0.0,
        tune=(0.3, 100.0),
        help="λ_item: as many imaginary ratings of the mean are added to every item.",
    )
    user_penalty: float = number(default=5.0, above=0.0, tune=(0.3, 100.0), help="λ_user, likewise for users.")
    centred: bool = flag(default=True, help="False leaves the users' biases out: the plain shrunk mean of an item.")
    max_iter: int = integer(default=200, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=1e-06,
        above=0.0,
        help="Learning ends when no bias changes by more than this part of the ratings' standard deviation.",
    )

    def _learn(self, rankings: Rankings) -> Learner[Biases]:
        return lambda kept: self._alternations(rankings)

    def _alternations(self, rankings: Rankings) -> Iterator[Step[Biases]]:
        """Users and items in turn, each at its best given the other."""
        values, weights, owner = _rated(rankings)
        mean = float(np.average(values, weights=weights)) if weights.any() else 0.0
        residual = values - mean
        items, n_items, n_users = rankings.items, rankings.n_items, rankings.n_users
        of_item, of_user = np.zeros(n_items), np.zeros(n_users)
        per_item = np.bincount(items, weights, n_items) + self.item_penalty
        per_user = np.bincount(owner, weights, n_users) + self.user_penalty
        small = self.tol * max(float(residual.std()), 1e-300)

        def estimate() -> Biases:
            return Biases(mean, of_item, of_user)

        yield standing(estimate)
        while True:
            before = of_item
            of_item = np.bincount(items, weights * (residual - of_user[owner]), n_items) / per_item
            if self.centred:
                of_user = np.bincount(owner, weights * (residual - of_item[items]), n_users) / per_user
                # A constant moved from users to items changes no prediction, and alternation finds it slowly.
                shift = self.user_penalty * of_user.sum() - self.item_penalty * of_item.sum()
                shift /= self.user_penalty * n_users + self.item_penalty * n_items
                of_user, of_item = of_user - shift, of_item + shift
            error = residual - of_item[items] - of_user[owner]
            penalty = self.item_penalty * of_item @ of_item + self.user_penalty * of_user @ of_user
            done = not self.centred or bool(np.abs(of_item - before).max() <= small)
            yield Step(-float(weights @ error**2 + penalty), estimate, converged=done)

    def _scores(self, fitted: Fitted[Biases], person: Person, items: Int64Array) -> Float64Array:
        learnt = fitted.estimate
        level = learnt.user_biases[person.index] if person.index is not None else person.state.get("bias", 0.0)
        return np.asarray(learnt.mean + level + learnt.item_biases[items])

    def _meet(self, fitted: Fitted[Biases], rankings: Rankings, **about: object) -> Named:
        """Only the level depends on the list; ratings say nothing about a level that was learnt from positions."""
        if not self.centred or (rankings.ratings is None) != (fitted.rankings.ratings is None):
            return {"bias": 0.0}
        values, weights, _ = _rated(rankings)
        residual = values - fitted.estimate.mean - fitted.estimate.item_biases[fitted.aligned(rankings)]
        return {"bias": float(weights @ residual / (weights.sum() + self.user_penalty))}


def _rated(rankings: Rankings) -> tuple[Float64Array, Float64Array, Int64Array]:
    """Value and weight of each entry, and its user."""
    owner = rankings.entry_users()
    weights = rankings.entry_weights()
    if rankings.ratings is not None:
        return rankings.ratings.astype(np.float64), weights, owner
    beaten, others = shares_below(rankings)
    # An item that is listed alone is neither good nor bad.
    return np.where(others > 0, beaten / np.maximum(others, 1.0), 0.5), weights, owner
