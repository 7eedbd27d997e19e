"""ListNet and ListMLE (Cao et al. 2007; Xia et al. 2008), with given features and with factors learnt from data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import LuceChoiceRanker
from permrank.core.settings import MOST_FACTORS, checked, choice, flag, integer
from permrank.errors import InputError
from permrank.families.matrix.base import FactorEstimate, OnePenaltyRanker
from permrank.families.matrix.features import Features, looked_up
from permrank.families.matrix.kernels.listwise_losses import top_one_divergence
from permrank.families.matrix.learning import Arrays, Data, Design, Fit, Loss
from permrank.families.matrix.relevance import relevance
from permrank.kernels.luce.likelihood import BRESLOW, stage_statistics
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

# The chance to be first says little of the rest of a list and gives calmer gradients; set as `NOISE_SHARE`.
_NOISE_SHARES = {"listnet": 0.5, "listmle": 0.7}


@dataclass(frozen=True, eq=False)
class WeightedEstimate(FactorEstimate):
    """A `FactorEstimate` with the weights of features."""

    feature_weights: Float64Array


class ListNet(OnePenaltyRanker, LuceChoiceRanker):
    """Listwise learning of scores from given features, from factors, or from both.

    s_y^u = x_uy w + b_y + Σ_k W_uk H_ky. ListNet compares the softmax of the scores of a list with the softmax of its
    ratings; ListMLE is the Plackett-Luce likelihood of the list (§5 of the paper sets both against factors that are
    learnt from the data). Without features this is ListRank-MF (Shi, Larson, Hanjalic 2010).

    Attributes
    ----------
    feature_weights_ : float64 (n_features,)
        w, for features in units of their standard deviations; see `feature_weights`.
    user_factors_ : float64 (n_users, n_factors)
    item_factors_ : float64 (n_items, n_factors)
    item_intercepts_ : float64 (n_items,)
        With what features of items add.
    user_penalty_, item_penalty_ : float
        Penalties that were used.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["toro", "ebi", "uni"], "bob": ["ebi", "toro", "ika"]})
    >>> fat = {"item": ["ebi", "ika", "toro", "uni"], "fat": [0.3, 0.2, 0.9, 0.1]}
    >>> model = pr.ListNet(n_factors=0, intercepts=False, features=fat).fit(rankings)
    >>> model.rank("bob", ["uni", "toro"])["item"].to_list()
    ['toro', 'uni']
    """

    assumes = "scores come from given features, or from a few factors"
    takes = "ratings or rankings, ties, weights; features of items or of users and items"
    reference = "Cao et al. (2007); Xia et al. (2008); Shi, Larson and Hanjalic (2010)"
    estimate_type = WeightedEstimate
    feature_weights_ = Learnt[Float64Array]()

    n_factors: int = integer(
        default=16, minimum=0, maximum=MOST_FACTORS, tune=(2, 32), kw_only=False, help="K; 0 leaves the factors out."
    )
    intercepts: bool = flag(
        default=True, help="Whether items have intercepts; False, with ``n_factors=0``, leaves the features alone."
    )
    loss: Literal["listnet", "listmle"] = choice(
        default="listnet",
        values=("listnet", "listmle"),
        tune=("listnet", "listmle"),
        help=(
            "Cross-entropy of the probabilities to be first, times the length of the list; or -log P(list), "
            "Breslow's way with ties. Ratings are put on a scale from 1 to 5; where there are none, the positions "
            "are spread over it."
        ),
    )
    features: Any = checked(
        default=None,
        function=lambda frame: frame is None or Features(frame),
        words="frame, None",
        help=(
            "One row an item, with a column ``item`` and columns of numbers; or one row a user and item, with a "
            "column ``user`` too. Every item of the rankings needs a row; of users and items those in the "
            "rankings do, and others count as average."
        ),
    )

    def _validate(self) -> None:
        super()._validate()
        if self.features is None and self.n_factors == 0 and not self.intercepts:
            raise InputError("nothing to learn: no features, no factors, no intercepts; give at least one of them")

    def _noise_share(self) -> float:
        return _NOISE_SHARES[self.loss]

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        if self.loss == "listmle":
            return Loss(_listmle, rankings.indptr, (rankings.weights,), (rankings.levels,))
        weights, stars = rankings.weights * rankings.lengths, relevance(rankings, training)
        return Loss(_listnet, rankings.indptr, (weights,), (stars,))

    # Features

    def _design(self, data: Data) -> Design:
        design = super()._design(data)
        if self.features is None:
            return design
        known, rankings = Features(self.features), data.rankings
        if not known.of_pairs:
            return design._replace(items=np.column_stack([known.of_items(rankings.item_ids), design.items]))
        keys, rows = known.pairs(rankings.user_ids, rankings.item_ids)
        wanted = data.user_of_entry.astype(np.int64) * rankings.n_items + data.items
        missing = ~np.isin(wanted, keys)
        if missing.any():
            entry = int(missing.argmax())
            user, item = rankings.user_ids[int(data.user_of_entry[entry])], rankings.item_ids[int(data.items[entry])]
            raise InputError(f"features have no row for user {user!r} and item {item!r}, who ranked it; add one")
        return design._replace(entries=looked_up(keys, rows, wanted))

    def _learned(self, fit: Fit) -> WeightedEstimate:
        of_pairs = self.features is not None and Features(self.features).of_pairs
        n_own = 2 if self.intercepts else 0  # covariates of the intercepts come last
        of_items = fit.point.item_weights[: fit.point.item_weights.size - n_own]
        found, weights = super()._learned(fit), fit.point.entry_weights if of_pairs else of_items
        return WeightedEstimate(found.user_factors, found.item_factors, found.item_intercepts, *fit.penalties, weights)

    def _scores(self, fitted: Fitted[Any], person: Person, items: Int64Array) -> Float64Array:
        scores = super()._scores(fitted, person, items)
        if person.index is None:  # of a new user nothing but the list is known: features of user and item are average
            return scores
        return scores + self._pair_part(fitted, np.full(items.size, person.index), items)

    def _score_pairs(self, fitted: Fitted[Any], who: Int64Array, what: Int64Array) -> Float64Array:
        return super()._score_pairs(fitted, who, what) + self._pair_part(fitted, who, what)

    def _pair_part(self, fitted: Fitted[WeightedEstimate], users: Int64Array, items: Int64Array) -> Float64Array:
        """What features of users and items add to the scores of pairs."""

        def made() -> tuple[Int64Array, Float64Array] | None:
            known = None if self.features is None else Features(self.features)
            return known.pairs(fitted.user_ids, fitted.item_ids) if known is not None and known.of_pairs else None

        pairs = fitted.derived("pairs", made)
        if pairs is None:
            return np.zeros(items.size)
        return np.asarray(looked_up(*pairs, users * len(fitted.item_ids) + items) @ fitted.estimate.feature_weights)

    def feature_weights(self) -> pl.DataFrame:
        """Weight of every feature, in units of its standard deviation: columns ``feature`` and ``weight``."""
        fitted: Fitted[WeightedEstimate] = self.fitted_
        features = cast(ListNet, fitted.settings).features
        names = [] if features is None else Features(features).names
        return pl.DataFrame({"feature": pl.Series(names, dtype=pl.String), "weight": fitted.estimate.feature_weights})

    def _check(self, fitted: Fitted[Any]) -> None:
        super()._check(fitted)
        n_features = 0 if self.features is None else len(Features(self.features).names)
        fitted.estimate.check_shapes(feature_weights=(n_features,))

    def call(self) -> str:
        """The call that makes the model, with the names of the features instead of their frame."""
        if self.features is None:
            return super().call()
        bare = self.clone().set_params(features=None)
        inside = bare.call()[len("ListNet(") : -1]
        return f"ListNet({inside}{', ' if inside else ''}features={', '.join(Features(self.features).names)})"


def _listnet(
    indptr: Int64Array, of_lists: Arrays, of_entries: Arrays, before: int, scores: Float64Array
) -> tuple[Float64Array, Float64Array]:
    gradient = np.empty_like(scores)
    return top_one_divergence(indptr, *of_entries, *of_lists, scores, gradient), gradient


def _listmle(
    indptr: Int64Array, of_lists: Arrays, of_entries: Arrays, before: int, scores: Float64Array
) -> tuple[Float64Array, Float64Array]:
    (weights,), (levels,) = of_lists, of_entries
    chosen, expected = np.empty_like(scores), np.empty_like(scores)
    values = stage_statistics(indptr, levels, scores, BRESLOW, chosen, expected)
    return -weights * values, np.repeat(weights, np.diff(indptr)) * (expected - chosen)
