"""The models of this family: what each minimises, and its settings; the rest is in `base` and `learning`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import LuceChoiceRanker
from permrank.core.settings import MOST_FACTORS, MOST_SWEEPS, checked, choice, flag, integer, number
from permrank.errors import InputError
from permrank.families.matrix.base import FactorEstimate, MatrixRanker, OnePenaltyRanker, Penalty
from permrank.families.matrix.learning import Data, Design, Fit, Shrinkage
from permrank.families.matrix.losses import Loss, pair_weights, relevance
from permrank.posterior.known import Known
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.rankings.attributes import attributes_of
from permrank.rankings.features import Features
from permrank.rankings.frames import Table, as_frame, ids_like
from permrank.rankings.rankings import Rankings
from permrank.rankings.with_attributes import KINDS, attached, with_featured
from permrank.types import Float64Array, Int64Array

# Ratings of a user that pull its offset half-way from the overall mean (a usual choice).
_HALF_MEAN = 5.0
_LONGEST = 2**31 - 1


class PairwiseFactorisation(MatrixRanker):
    """Matrix factorisation with a loss over all ordered pairs of a list (§2).

    Minimise Σ_u Σ_{i before j} L(d_ij) + Ω(W, H), d_ij = s_i - s_j, s_y^u = b_y + Σ_k W_uk H_ky; ties say nothing.

    Attributes
    ----------
    user_factors_ : float64 (n_users, n_factors)
    item_factors_ : float64 (n_items, n_factors)
    item_intercepts_ : float64 (n_items,)
    user_penalty_, item_penalty_ : float
        Penalties that were used.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.PairwiseFactorisation(n_factors=4, loss="squared").fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "scores from a few factors put the pairs of a list right"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 2"

    loss: Literal["logistic", "hinge", "squared"] = choice(
        default="logistic",
        values=("logistic", "hinge", "squared"),
        tune=("logistic", "hinge", "squared"),
        help="log(1 + e^-d), max(0, 1 - d), (1 - d)².",
    )
    smoothing: float = number(
        default=1.0,
        tune=(0.1, 10.0),
        help=(
            "The hinge is rounded over this width, below which it is quadratic; learning needs a slope that is "
            "continuous. 0 is the hinge as published, whose descent along subgradients may end before the least "
            "value."
        ),
    )
    weighting: Literal["entries", "published"] = choice(
        default="entries",
        values=("entries", "published"),
        help=(
            "``entries``: a list of n counts n times the mean over its pairs, and penalties are multiplied by the "
            "number of entries of a user or item, so that one penalty suits short and long lists. ``published``: "
            "every pair counts 1 / N with N users, and Ω = user_penalty Σ W² + item_penalty Σ H² (the objective "
            "that is traced, and the penalties ``user_penalty_`` and ``item_penalty_``, are N times that)."
        ),
    )
    user_penalty: Penalty = number(
        default="auto",
        above=0.0,
        also=("auto",),
        help=(
            'Of the factors of users. "auto": what keeps most of the noise out, from the residuals of a fit without '
            "factors. Only the product of both penalties matters to the scores."
        ),
    )
    item_penalty: Penalty = number(default="auto", above=0.0, also=("auto",), help="The same for items.")
    n_partners: int = integer(
        default=32,
        minimum=1,
        maximum=MOST_SWEEPS,
        help=(
            "The logistic loss sums over all pairs of lists of up to twice this length; in a longer one every "
            "entry is compared with this many others, drawn once for the whole fit."
        ),
    )

    def _shrinkage(self, rankings: Rankings) -> Shrinkage:
        by_entries = self.weighting == "entries"
        times = 1.0 if by_entries else float(rankings.n_users)
        given = self.user_penalty, self.item_penalty
        users, items = (None if value == "auto" else times * float(value) for value in given)
        return Shrinkage(users, items, by_entries)

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        weights = rankings.weights * (pair_weights(rankings.indptr) if self.weighting == "entries" else 1.0)
        indptr, of_entries = rankings.indptr, (rankings.levels,)
        if self.loss == "squared":
            return Loss("squared pairs", (), indptr, frozen(weights), of_entries)
        if self.loss == "hinge":
            return Loss("hinge", (float(self.smoothing),), indptr, frozen(weights), of_entries)
        constants = int(self.n_partners), stream_key(self.seed)
        return Loss("logistic", constants, indptr, frozen(weights, np.arange(rankings.n_rankings)), of_entries)

    def _has_pairs(self, fitted: Fitted) -> bool:
        return self.loss == "logistic"

    def _prefers(self, fitted: Fitted, person: Person, first: Int64Array, second: Int64Array) -> Float64Array:
        """1 / (1 + e^-d), which the logistic loss alone says."""
        behind = self._scores(fitted, person, second) - self._scores(fitted, person, first)
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(behind, -700.0, 700.0))))


class CofiRank(OnePenaltyRanker):
    """Maximum-margin matrix factorisation with the NDCG, ordinal and squared losses (Weimer et al. 2007).

    The NDCG loss of a list is max over orders π of 1 - NDCG(π) + <c, s_π - s>: convex, and a bound on what the order
    by s loses. The assignment in it is solved by sorting, because c are the discounts of NDCG themselves. The published
    learner is a bundle method for users and items in turn; here the maximum is rounded by ``smoothing``, which
    makes it one projection in O(n log n), and all variables descend together.

    Attributes
    ----------
    user_factors_ : float64 (n_users, n_factors)
    item_factors_ : float64 (n_items, n_factors)
    item_intercepts_ : float64 (n_items,)
    user_penalty_, item_penalty_ : float
        Penalties that were used.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.CofiRank(n_factors=4, loss="squared").fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "scores from a few factors order each list with a margin"
    takes = "ratings, or rankings taken for evenly spread ratings; ties, weights"
    reference = "Weimer, Karatzoglou, Le and Smola (2007)"

    intercepts: bool = flag(
        default=True, help="Whether items have intercepts and users offsets; False is the published form."
    )
    loss: Literal["ndcg", "ordinal", "squared"] = choice(
        default="ndcg",
        values=("ndcg", "ordinal", "squared"),
        tune=("ndcg", "ordinal", "squared"),
        help=(
            "The bound above; the hinge over all ordered pairs; squared error of the ratings, with an offset a "
            "list. Ratings are put on a scale from 1 to 5; where there are none, the positions in a list are "
            "spread over it."
        ),
    )
    smoothing: float = number(
        default=1.0, above=0.0, tune=(0.1, 10.0), help="How far the maximum (for ``ordinal``, the hinge) is rounded."
    )
    truncation: int | None = integer(
        default=None, minimum=1, maximum=1000000000, also=(None,), help="Places that NDCG counts; all if None."
    )

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        indptr, levels, weights = rankings.indptr, rankings.levels, rankings.weights
        if self.loss == "ordinal":
            weights = weights * pair_weights(indptr)
            return Loss("hinge", (float(self.smoothing),), indptr, frozen(weights), (levels,))
        stars = relevance(rankings, training)
        if self.loss == "ndcg":
            constants = _LONGEST if self.truncation is None else int(self.truncation), float(self.smoothing)
            return Loss("ndcg", constants, indptr, (weights,), (levels, *frozen(np.exp2(stars) - 1.0)))
        if not self.intercepts:  # no offsets of users either
            return Loss("squared", (np.inf,), indptr, (weights,), frozen(stars))
        mean = float(np.average(relevance(training, training), weights=training.entry_weights()))
        return Loss("squared", (_HALF_MEAN,), indptr, (weights,), frozen(stars - mean))


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
        function=lambda frame: _require_features(frame),
        words="frame, None",
        help=(
            "One row an item, with a column ``item``, as for `Rankings.with_features`; or one row a user and item, "
            "with a column ``user`` too. What has no row counts as average."
        ),
    )

    def _loss(self, rankings: Rankings, training: Rankings) -> Loss:
        indptr, weights = rankings.indptr, rankings.weights
        if self.loss == "listmle":
            return Loss("listmle", (), indptr, (weights,), (rankings.levels,))
        stars = relevance(rankings, training)
        return Loss("listnet", (), indptr, frozen(weights * rankings.lengths), frozen(stars))

    # Features

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS[:1])

    def _prepared(self, rankings: Rankings) -> Rankings:
        if self.features is not None and not self._of_pairs:
            rankings = rankings.with_items(self.features, item="item")
            attributes, given = rankings.item_ids.attributes, as_frame(self.features).columns
            assert attributes is not None
            chosen = tuple(name for name in attributes.frame.columns[1:] if name in given)
            rankings = attached(rankings, items=replace(attributes, features=(*(attributes.features or ()), *chosen)))
        return with_featured(rankings)

    def _started_from(self, rankings: Rankings) -> str:
        return "nothing" if rankings.features("item") is None else Known.of(rankings).digest()

    @property
    def _of_pairs(self) -> bool:
        return self.features is not None and "user" in as_frame(self.features).columns

    def _pair_features(self, rankings: Rankings) -> Features | None:
        """Features of users and items together, by keys: the index of the user times n_items, plus that of the item."""
        if not self._of_pairs:
            return None
        table = Table.of(self.features)
        users, items = (
            ids_like(table.ids(ids.kind, ids.kind), ids.ids) for ids in (rankings.user_ids, rankings.item_ids)
        )
        both = users.is_in(rankings.user_ids.ids.implode()) & items.is_in(rankings.item_ids.ids.implode())
        if not both.any():
            raise InputError("features have no row of a user and an item of the rankings")
        keys = rankings.user_ids.indices(users.filter(both)) * rankings.n_items
        keys += rankings.item_ids.indices(items.filter(both))
        frame = table.frame.drop("user", "item").filter(both).insert_column(0, pl.Series("item", keys))
        known = attributes_of(frame, "item", column="item", where="features of users and items, by number")
        features = Features.learnt_from(replace(known, features=tuple(known.frame.columns[1:])))
        assert features is not None
        return replace(features, encodings=tuple(replace(each, curves=None) for each in features.encodings))

    def _design(self, data: Data) -> Design:
        design, rankings = super()._design(data), data.rankings
        items, pairs = rankings.features("item"), self._pair_features(rankings)
        if items is not None:
            design = design._replace(items=np.column_stack([items.of(rankings.item_ids.ids), design.items]))
        if pairs is not None:
            keys = data.user_of_entry.astype(np.int64) * rankings.n_items + data.items
            design = design._replace(entries=pairs.of(keys))
        if not (self.n_factors or self.intercepts or design.items.size or design.entries.size):
            raise InputError("nothing to learn: no features, no factors, no intercepts; give at least one of them")
        return design

    def _learned(self, fit: Fit) -> WeightedEstimate:
        n_own = 2 if self.intercepts else 0  # covariates of the intercepts come last
        of_items, learnt = fit.point.item_weights[: fit.point.item_weights.size - n_own], super()._learned(fit)
        weights = np.append(of_items, fit.point.entry_weights)
        return WeightedEstimate(
            learnt.user_factors, learnt.item_factors, learnt.item_intercepts, *fit.penalties, weights
        )

    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        scores = super()._scores(fitted, person, items)
        if person.index is None:  # of a new user nothing but the list is known: features of user and item are average
            return scores
        return scores + self._by_pairs(fitted, np.full(items.size, person.index), items)

    def _score_pairs(self, fitted: Fitted, who: Int64Array, what: Int64Array) -> Float64Array:
        return super()._score_pairs(fitted, who, what) + self._by_pairs(fitted, who, what)

    def _by_pairs(self, fitted: Fitted[WeightedEstimate], users: Int64Array, items: Int64Array) -> Float64Array:
        """What features of users and items together add to scores."""
        features: Features | None = fitted.derived("pairs", lambda: self._pair_features(fitted.rankings))
        if features is None:
            return np.zeros(items.size)
        table = features.of(users * len(fitted.item_ids) + items)
        return np.asarray(table @ fitted.estimate.feature_weights[-table.shape[1] :])

    def feature_weights(self) -> pl.DataFrame:
        """Weight of every column of the features, in units of its deviation: columns ``feature`` and ``weight``."""
        fitted: Fitted[WeightedEstimate] = self.fitted_
        names = pl.Series(cast(ListNet, fitted.settings)._names(fitted.rankings), dtype=pl.String)
        return pl.DataFrame({"feature": names, "weight": fitted.estimate.feature_weights})

    def _names(self, rankings: Rankings) -> list[str]:
        both = rankings.features("item"), self._pair_features(rankings)
        return [name for features in both if features is not None for name in features.names]

    def _check(self, fitted: Fitted) -> None:
        super()._check(fitted)
        fitted.estimate.check_shapes(feature_weights=(len(self._names(fitted.rankings)),))

    def call(self) -> str:
        """The call that makes the model, with the names of the features instead of their frame."""
        if self.features is None:
            return super().call()
        bare = self.clone().set_params(features=None)
        inside = bare.call()[len("ListNet(") : -1]
        names = [name for name in as_frame(self.features).columns if name not in ("user", "item")]
        return f"ListNet({inside}{', ' if inside else ''}features={', '.join(names)})"


def _require_features(frame: object) -> None:
    if frame is None:
        return
    table = Table.of(frame)
    table.ids("item", "item")
    if not set(table.frame.columns) - {"user", "item"}:
        raise InputError("features has no column beside the ids; add columns")
