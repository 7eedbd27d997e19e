"""Finding and ordering together: what would this person choose next, and in which order do they rank what they see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from permrank.data.rankings import Rankings
from permrank.data.with_attributes import KINDS
from permrank.distributions.base import RankingDistribution
from permrank.errors import InputError, NotSupportedError
from permrank.learning.learner import Learner, State, Step, standing
from permrank.models.catalogue.entries import Entries
from permrank.models.catalogue.friends import Friends, Had, stacked
from permrank.models.catalogue.grading import choose_scale
from permrank.models.catalogue.implicit_factors import check_factors
from permrank.models.catalogue.item_to_item import check_weights
from permrank.models.catalogue.item_weights import ItemWeights, Penalties
from permrank.models.catalogue.least_squares import Factors, Weighting
from permrank.models.catalogue.new_items import fold_in_item
from permrank.models.catalogue.ranker import CatalogueEstimate, CatalogueRanker
from permrank.models.catalogue.take_up import Data, TakeUp, TakeUpScores, learn_take_up
from permrank.models.declared import MOST_FACTORS, Checked, Declared, Integer, Seed
from permrank.models.estimates import RULE
from permrank.models.explanation import Reasons
from permrank.models.factored.model import FactoredPlackettLuce
from permrank.models.priors.co_listing import were_chosen
from permrank.models.priors.known import Known
from permrank.models.priors.links import linked_with, weights_of_new
from permrank.models.ranker import Ranker
from permrank.models.users import NewUser, UserReference
from permrank.types import Array, Float64Array, Int64Array, Named

_POPULARITY = "its popularity"


@dataclass(frozen=True, eq=False)
class RecommenderEstimate(CatalogueEstimate):
    """What is taken up, and the model of order, which is a model of its own; see the attributes of the model."""

    item_weights: Array
    neighbour_indptr: Array
    neighbours: Array
    neighbour_weights: Array
    penalties: Float64Array
    item_factors: Array
    weighting: Float64Array
    factor_share: float
    chosen: bool
    friend_weight: float
    order: Ranker | None = field(metadata=RULE, kw_only=True)

    @classmethod
    def from_take_up(cls, known: CatalogueEstimate, learnt: TakeUp, chosen: bool, order: Ranker | None) -> Any:
        """All parts together."""
        return cls(
            known.scale, known.popularity, *learnt.items, np.array(learnt.penalties), learnt.factors.items,
            np.array(learnt.factors.weighting), learnt.share, chosen, learnt.friends, order=order,
        )  # fmt: skip

    @cached_property
    def _scores(self) -> TakeUpScores:
        weights = ItemWeights(self.item_weights, self.neighbour_indptr, self.neighbours, self.neighbour_weights)
        factors = Factors(self.item_factors, Weighting(*map(float, self.weighting)))
        return TakeUpScores(TakeUp(weights, Penalties(*map(float, self.penalties)), factors, float(self.factor_share)))

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        return self._scores.rows(entries)

    def contributions(self, entries: Entries, item: int) -> tuple[Float64Array, float]:
        """What each entry of one user adds to the score of an item, (n_entries,), and what any entries would add."""
        return self._scores.contributions(entries, item, self.popularity)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit the items."""
        super().check(n_users, n_items)
        check_weights(self.item_weights, self.neighbour_indptr, self.neighbours, self.neighbour_weights, n_items)
        check_factors(self.item_factors, self.weighting, n_items)
        if not 0.0 <= float(self.factor_share) <= 1.0:
            raise InputError(f"factor_share_ is {self.factor_share}, expected a number from 0 to 1")
        if np.shape(self.friend_weight) != () or float(self.friend_weight) < 0.0:
            raise InputError(f"friend_weight_ is {self.friend_weight}, expected a number from 0 on")


class Recommender(CatalogueRanker):
    """Finds what people would choose, and orders what they see: a model of what is taken up, and a model of order.

    A list says two things, what was listed and how it was ordered: P(list | u) = P(listed | u) P(order | listed, u).
    `recommend` answers by the first: it ranks the whole catalogue by what the person is expected to take up, and like,
    next. `rank`, `score`, `prefers` and all other questions are about order, and are put to the second. Where lists
    were handed out and not chosen, what is listed says nothing, and `recommend` ranks by order too; where there is no
    order, such as in clicks and purchases, `rank` goes by what is taken up.

    What is taken up is a blend of `ItemToItem` and `ImplicitFactors`, each row of scores standardised. Penalties come
    from leaving out one user at a time, and weights from held-out entries of the training data: nothing is to be set.

    Parameters
    ----------
    order : Ranker, optional
        The model of order, not fitted; `FactoredPlackettLuce` unless it is given.
    n_factors : int or "auto"
        Factors of the model of what is taken up. "auto": 128 up to 8,192 items; beyond 64, 256 or 480, more as long as
        held-out entries are found better, and as they fit in 256 MiB.
    seed : int
        Of what is held out, and of the factors' start.

    Attributes
    ----------
    order_ : Ranker or None
        The fitted model of order; None where there is no order to learn.
    chosen_ : bool
        Whether people chose what they list: whether what is listed together exceeds a permutation null, or lists of
        different lengths have some items far more often than others.
    factor_share_ : float
        Share of the factors in the blend.
    friend_weight_ : float
        How much it counts what friends have taken up, where there are links (`Rankings.with_links`); 0 unless held-out
        entries are found better by it.
    item_weights_, neighbour_indptr_, neighbours_, neighbour_weights_, penalties_, scale_, popularity_
        As of `ItemToItem`; ``scale_`` leaves counts out if held-out entries are found better without them.
    item_factors_, weighting_
        As of `ImplicitFactors`.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=100, n_items=30)
    >>> model = pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=4).fit(rankings)
    >>> model.recommend("user-0001", k=3).columns
    ['rank', 'item', 'score']
    >>> 0 < model.prefers("user-0001", "goulash", "fish tacos") < 1
    True
    """

    assumes = "people choose what they list, and order it by taste"
    takes = "ratings, rankings, sets and counts; ties, weights"
    reference = "Tran and Venkatesh (2010) for order; Steck (2019), Hu and others (2008)"
    estimate_type = RecommenderEstimate
    parts: ClassVar[tuple[str, ...]] = ("order",)
    parameters = Declared(
        order=Checked(
            lambda value: _require_order(value),
            "a model, None",
            help="Model of order; FactoredPlackettLuce unless it is given.",
        ),
        n_factors=Integer(1, MOST_FACTORS, also=("auto",), help="Factors of what is taken up."),
        seed=Seed(help="Of what is held out, and of the factors' start."),
    )
    estimate_: RecommenderEstimate
    chosen_: bool
    factor_share_: float
    friend_weight_: float

    def __init__(
        self, order: Ranker | None = None, *, n_factors: int | Literal["auto"] = "auto", seed: int = 0
    ) -> None:
        self.order = order
        self.n_factors = n_factors
        self.seed = seed

    def _learner(self, rankings: Rankings) -> Learner[RecommenderEstimate]:
        ordered = rankings.has_order
        order = None
        if ordered:
            order = (FactoredPlackettLuce(seed=self.seed) if self.order is None else self.order.clone()).fit(rankings)
        scale = choose_scale(rankings, self.seed)
        data = Data.of(rankings, scale)
        chosen = not ordered or were_chosen(rankings, self.seed)
        known = CatalogueEstimate(scale.as_array(), data.popularity())

        def steps(kept: State | None) -> Iterator[Step[RecommenderEstimate]]:
            n_factors, graph = None if self.n_factors == "auto" else self.n_factors, Known.of(rankings).graph
            stages = learn_take_up(data, n_factors, self.seed, graph)
            found = next(stages)

            def estimate() -> RecommenderEstimate:
                made: RecommenderEstimate = RecommenderEstimate.from_take_up(known, found[1], chosen, order)
                return made

            yield standing(estimate)
            last = next(stages, None)
            yield Step(found[0], estimate, converged=last is None)
            if last is not None:
                found = last
                yield Step(found[0], estimate, converged=True)

        return steps

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        order = FactoredPlackettLuce() if self.order is None else self.order
        return frozenset((KINDS[0], KINDS[2])) | (order._learns_from(rankings) if rankings.has_order else frozenset())

    def _sweeps(self, rankings: Rankings) -> int:
        return 2

    # Order, and what is taken up

    @property
    def order_(self) -> Ranker | None:
        """The fitted model of order; None where there is no order."""
        self._require_fitted()
        return self.estimate_.order

    @property
    def _finds_by_order(self) -> bool:
        return self.estimate_.order is not None and not self.estimate_.chosen

    def _ordering(self, question: str) -> Ranker:
        order = self.order_
        if order is None:
            raise NotSupportedError(f"these data have no order, so nothing can answer {question}(); see recommend()")
        return order

    def _score_rows(self, users: Sequence[UserReference]) -> Array:
        order = self.estimate_.order
        if self.estimate_.chosen or order is None:
            rows = super()._score_rows(users)
            weight = float(self.estimate_.friend_weight)
            friends = self._friends() if weight > 0.0 else None
            return rows if friends is None else friends.add(rows, self._had_by_friends(friends, users), weight)
        return np.asarray(order._score_rows([self._of(order, user) for user in users]))

    def _friends(self) -> Friends | None:
        """Links between the users, and what each has; worked out once for each estimate."""
        found: dict[str, Any] = self.estimate_.__dict__
        if "_friends" not in found:
            graph, known = Known.of(self.rankings_).graph, self.estimate_.known(self.rankings_)
            found["_friends"] = None if graph is None else Friends.of(graph, known, self.rankings_.n_items)
        made: Friends | None = found["_friends"]
        return made

    def _had_by_friends(self, friends: Friends, users: Sequence[UserReference]) -> Had:
        """What the friends of each have taken up."""
        if all(isinstance(user, int) for user in users):
            return friends.of_users(np.array(users, np.int64))
        rows = []
        for user in users:
            if isinstance(user, int):
                rows.append(friends.of_users(np.array([user])))
            else:  # somebody new, or nobody in particular, who has no friends
                rows.append(friends.of_new((user.state if user else {}).get("friends", np.zeros((2, 0)))))
        return stacked(rows)

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        order = self.estimate_.order
        return super()._scores(user, items) if order is None else order._scores(self._of(order, user), items)

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        order = self.estimate_.order
        return super()._score_pairs(who, what) if order is None else order._score_pairs(who, what)

    @staticmethod
    def _of(order: Ranker, user: UserReference) -> UserReference:
        """A user as the model of order knows them."""
        return user.state["order"] if isinstance(user, NewUser) else user  # type: ignore[return-value]

    def fold_in(
        self,
        said: object,
        *,
        features: Mapping[str, Any] | None = None,
        friends: Iterable[object] | Mapping[Any, float] | None = None,
    ) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating, without retraining.

        Parameters
        ----------
        said : list or dict
            Empty for somebody who has said nothing.
        features : dict, optional
            Attributes of the user, where the model of order has learnt from such features.
        friends : ids of users, or dict of id to weight, optional
            Users of the training data with whom the user is linked, where the model has learnt from links.
        """
        new, order = super().fold_in(said), self.estimate_.order
        state: dict[str, Any] = {}
        graph = Known.of(self.rankings_).graph if friends is not None else None
        if friends is not None:
            if graph is None:
                raise InputError("the model has learnt from no links; fit it to rankings.with_links(frame)")
            who, weights = linked_with(friends, self.user_ids)
            state["friends"] = np.stack((who, weights_of_new(graph, who, weights)))
        if isinstance(order, FactoredPlackettLuce):
            state["order"] = order.fold_in(said, features=features, friends=friends)
        elif features is not None:
            raise InputError("features of users are for a model of order that learns from them: FactoredPlackettLuce")
        elif order is not None:
            state["order"] = order.fold_in(said)
        return NewUser(new.rankings, state) if state else new

    fold_in_item = fold_in_item

    @property
    def _has_distribution(self) -> bool:
        order = self.estimate_.order if "estimate_" in self.__dict__ else None
        return order is not None and order._has_distribution

    @property
    def _knows_ranks(self) -> bool:
        order = self.estimate_.order
        return order is not None and order._knows_ranks

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        order = self._ordering("distribution")
        return order._distribution(self._of(order, user), items)

    def _prefers(self, user: UserReference, first: Int64Array, second: Int64Array) -> Float64Array:
        order = self._ordering("prefers")
        return order._prefers(self._of(order, user), first, second)

    def _score_samples(self, user: UserReference, items: Int64Array) -> Float64Array:
        order = self._ordering("tie_groups")
        return order._score_samples(self._of(order, user), items)

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each order given what is listed, by the model of order."""
        return self._ordering("log_likelihood").log_likelihood(rankings)

    def _reasons(self, user: UserReference, item: int) -> Reasons:
        """What is taken up is a sum over what was listed before; where `recommend` is by order, so are the reasons."""
        if self._finds_by_order:
            order = self._ordering("explain")
            return order._reasons(self._of(order, user), item)
        entries = self._entries([user])
        if not entries.items.size:
            nothing = np.zeros(0, np.int64)
            usual = float(np.log1p(self.popularity_[item]))
            return Reasons(nothing, np.zeros(0), usual + self._by_friends(user, item), _POPULARITY)
        parts, baseline = self.estimate_.contributions(entries, item)
        baseline += self._by_friends(user, item)
        return Reasons(entries.items.astype(np.int64), parts, baseline, _POPULARITY, by_order=False)

    def _by_friends(self, user: UserReference, item: int) -> float:
        """What friends add to the score of an item."""
        if not float(self.estimate_.friend_weight) > 0.0:
            return 0.0
        return float(self._score_rows([user])[0, item] - super()._score_rows([user])[0, item])

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users who rank as this one does, by the model of order."""
        order = self._ordering("similar_users")
        reference = self._reference(user)
        return order.similar_users(self._of(order, reference) if isinstance(reference, NewUser) else user, k)

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.n_factors == "auto":
            return
        if self.item_factors_.shape[1] != min(self.n_factors, self.rankings_.n_items):
            raise InputError(f"item_factors_ has {self.item_factors_.shape[1]} factors, n_factors is {self.n_factors}")

    def _rules(self) -> Named:
        return {"order": None}


def _require_order(value: object) -> None:
    if value is None:
        return
    if isinstance(value, type) and issubclass(value, Ranker):
        raise InputError(f"order={value.__name__}, expected a model; write {value.__name__}()")
    if not isinstance(value, Ranker) or isinstance(value, CatalogueRanker):
        raise InputError(f"order={value!r}, expected a model of order such as FactoredPlackettLuce(), or None")
