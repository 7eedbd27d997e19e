"""Finding and ordering together: what would this person choose next, and in which order do they rank what they see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.core.estimates import RULE, Learnt
from permrank.core.explanation import Reasons
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_FACTORS, checked, integer, random_seed
from permrank.errors import InputError, NotSupportedError
from permrank.families.catalogue.friends import Friends, Had, stacked
from permrank.families.catalogue.grading import choose_scale
from permrank.families.catalogue.implicit import BlendedScores, Data, ImplicitModel, learn_implicit
from permrank.families.catalogue.implicit_factors import ImplicitEstimate
from permrank.families.catalogue.item_to_item import ItemEstimate
from permrank.families.catalogue.item_weights import Penalties
from permrank.families.catalogue.new_items import with_item
from permrank.families.catalogue.ranker import CatalogueRanker, entries_of, known_entries
from permrank.families.factored.model import FactoredPlackettLuce
from permrank.learning.learner import Learner, State, Step, standing
from permrank.posterior.co_listing import were_chosen
from permrank.posterior.known import Known
from permrank.posterior.links import linked_with, weights_of_new
from permrank.rankings.rankings import Rankings
from permrank.rankings.with_attributes import KINDS
from permrank.types import Array, Float64Array, Int64Array, Named

_POPULARITY = "its popularity"


@dataclass(frozen=True, eq=False)
class RecommenderEstimate(ItemEstimate, ImplicitEstimate):
    """What is taken up, and the model of order, which is a model of its own; see the attributes of the model."""

    factor_share: float
    chosen: bool
    friend_weight: float
    order: Ranker | None = field(default=None, metadata=RULE, kw_only=True)

    @cached_property
    def scorer(self) -> Any:
        """Rows of scores by the blend of both."""
        penalties = Penalties(*map(float, self.penalties))
        return BlendedScores(ImplicitModel(self.weights, penalties, self.factors, float(self.factor_share)))

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit the items."""
        super().check(n_users, n_items)
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
    takes_side_information = True
    parts: ClassVar[tuple[str, ...]] = ("order",)
    chosen_ = Learnt[bool]()
    factor_share_ = Learnt[float]()
    friend_weight_ = Learnt[float]()
    item_weights_ = Learnt[Array]()
    neighbour_indptr_ = Learnt[Array]()
    neighbours_ = Learnt[Array]()
    neighbour_weights_ = Learnt[Array]()
    penalties_ = Learnt[Float64Array]()
    item_factors_ = Learnt[Array]()
    weighting_ = Learnt[Float64Array]()

    order: Ranker | None = checked(
        default=None,
        function=lambda value: _require_order(value),
        words="a model, None",
        kw_only=False,
        help="The model of order, not fitted; `FactoredPlackettLuce` unless it is given.",
    )
    n_factors: int | Literal["auto"] = integer(
        default="auto",
        minimum=1,
        maximum=MOST_FACTORS,
        also=("auto",),
        help=(
            'Factors of the model of what is taken up. "auto": 128 up to 8,192 items; beyond 64, 256 or 480, more '
            "as long as held-out entries are found better, and as they fit in 256 MiB."
        ),
    )
    seed: int = random_seed(default=0, help="Of what is held out, and of the factors' start.")

    def _learn(self, rankings: Rankings) -> Learner[RecommenderEstimate]:
        ordered = rankings.has_order
        order = None
        if ordered:
            order = (FactoredPlackettLuce(seed=self.seed) if self.order is None else self.order.clone()).fit(rankings)
        scale = choose_scale(rankings, self.seed)
        data = Data.of(rankings, scale)
        chosen = not ordered or were_chosen(rankings, self.seed)
        popularity = data.popularity()

        def steps(kept: State | None) -> Iterator[Step[RecommenderEstimate]]:
            n_factors, graph = None if self.n_factors == "auto" else self.n_factors, Known.of(rankings).graph
            stages = learn_implicit(data, n_factors, self.seed, graph)
            found = next(stages)

            def estimate() -> RecommenderEstimate:
                learnt = found[1]
                return RecommenderEstimate(
                    scale.as_array(),
                    popularity,
                    learnt.factors.items,
                    np.array(learnt.factors.weighting),
                    *learnt.items,
                    np.array(learnt.penalties),
                    learnt.share,
                    chosen,
                    learnt.friends,
                    order=order,
                )

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

    def _meet(self, fitted: Fitted, rankings: Rankings, **about: Any) -> Named:
        """What the model of order works out, and weights of links with friends."""
        state: Named = {}
        if "friends" in about:
            graph = Known.of(fitted.rankings).graph
            if graph is None:
                raise InputError("the model has learnt from no links; fit it to rankings.with_links(frame)")
            who, weights = linked_with(about["friends"], fitted.user_ids)
            state["friends"] = np.stack((who, weights_of_new(graph, who, weights)))
        order: Ranker | None = fitted.estimate.order
        learns = isinstance(order, FactoredPlackettLuce)
        if "features" in about and not learns:
            raise InputError("features of users are for a model of order that learns from them: FactoredPlackettLuce")
        if order is not None:
            state["order"] = order.fitted_.meet(rankings, **(about if learns else {}))
        return state

    # What is taken up

    def _finds_by_order(self, fitted: Fitted) -> bool:
        return fitted.estimate.order is not None and not fitted.estimate.chosen

    def _rows(self, fitted: Fitted, people: Sequence[Person]) -> Array:
        if self._finds_by_order(fitted):
            order: Fitted = fitted.estimate.order.fitted_
            return np.asarray(order.rows([_in_order(order, person) for person in people]))
        rows, weight = super()._rows(fitted, people), float(fitted.estimate.friend_weight)
        friends = fitted.derived("friends", lambda: _friends(fitted)) if weight > 0.0 else None
        return rows if friends is None else friends.add(rows, _had_by_friends(friends, people), weight)

    def _reasons(self, fitted: Fitted, person: Person, item: int) -> Reasons:
        """What is taken up is a sum over what was listed before; where `recommend` is by order, so are the reasons."""
        if self._finds_by_order(fitted):
            own = _ordering(fitted, person, "explain")
            return own.fitted.settings._reasons(own.fitted, own, item)
        entries = entries_of(fitted, [person])
        if not entries.items.size:
            nothing = np.zeros(0, np.int64)
            usual = float(np.log1p(fitted.estimate.popularity[item]))
            return Reasons(nothing, np.zeros(0), usual + self._by_friends(fitted, person, item), _POPULARITY)
        parts, baseline = fitted.estimate.scorer.contributions(entries, item, fitted.estimate.popularity)
        baseline += self._by_friends(fitted, person, item)
        return Reasons(entries.items.astype(np.int64), parts, baseline, _POPULARITY, by_order=False)

    def _by_friends(self, fitted: Fitted, person: Person, item: int) -> float:
        """What friends add to the score of an item."""
        if not float(fitted.estimate.friend_weight) > 0.0:
            return 0.0
        return float(self._rows(fitted, [person])[0, item] - super()._rows(fitted, [person])[0, item])

    def fold_in_item(
        self, item: str | int, *, features: Mapping[str, object] | None = None, rankings: Rankings | None = None
    ) -> Recommender:
        """A model that knows one item more, without retraining; users and other items stay as they are.

        Parameters
        ----------
        item : id
            Not among the items of the model.
        features : dict, optional
            Attributes of the item, from which the model has learnt: they say who would take it up.
        rankings : Rankings, optional
            Lists, or ratings, of users of the model that mention the item, beside other items of the model: they say
            how it is ranked.

        Returns
        -------
        Recommender
            A copy. ``recommend`` includes the item if asked (``include_new=True``).

        Examples
        --------
        >>> import permrank as pr
        >>> data = pr.datasets.load("simulated", n_users=60, n_items=20)
        >>> kinds = {"item": data.item_ids.ids, "sweet": [float(i % 2) for i in range(20)]}
        >>> model = pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=20)).fit(data.with_features(items=kinds))
        >>> more = model.fold_in_item("waffle", features={"sweet": 1.0})
        >>> "waffle" in more.recommend(None, k=21, include_new=True)["item"]
        True
        """
        made = self.clone()
        made.fitted_ = with_item(self.fitted_, item, features, rankings)
        return made

    # Order

    @property
    def order_(self) -> Ranker | None:
        """The fitted model of order; None where there is no order."""
        fitted: Fitted[RecommenderEstimate] = self.fitted_
        return fitted.estimate.order

    def _scores(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        if fitted.estimate.order is None:
            return super()._scores(fitted, person, items)
        own = _ordering(fitted, person, "score")
        return own.fitted.scores(own, items)

    def _score_pairs(self, fitted: Fitted, who: Int64Array, what: Int64Array) -> Float64Array:
        if fitted.estimate.order is None:
            return super()._score_pairs(fitted, who, what)
        order: Fitted = fitted.estimate.order.fitted_
        return order.score_pairs(who, what)

    def _has_law(self, fitted: Fitted) -> bool:
        return fitted.estimate.order is not None and fitted.estimate.order.fitted_.has_law

    def _has_pairs(self, fitted: Fitted) -> bool:
        return fitted.estimate.order is not None and fitted.estimate.order.fitted_.has_pairs

    def _knows_ranks(self, fitted: Fitted) -> bool:
        return fitted.estimate.order is not None and fitted.estimate.order.fitted_.knows_ranks

    def _law(self, fitted: Fitted, person: Person, items: Int64Array) -> RankingDistribution:
        own = _ordering(fitted, person, "distribution")
        return own.fitted.law(own, items)

    def _prefers(self, fitted: Fitted, person: Person, first: Int64Array, second: Int64Array) -> Float64Array:
        own = _ordering(fitted, person, "prefers")
        return own.fitted.prefers(own, first, second)

    def _score_draws(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        own = _ordering(fitted, person, "tie_groups")
        return own.fitted.score_draws(own, items)

    def _user_likeness(self, fitted: Fitted, person: Person) -> Float64Array:
        own = _ordering(fitted, person, "similar_users")
        return own.fitted.settings._user_likeness(own.fitted, own)

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each order given what is listed, by the model of order."""
        fitted: Fitted[RecommenderEstimate] = self.fitted_
        return _order_of(fitted, "log_likelihood").log_likelihood(rankings)

    def _check(self, fitted: Fitted) -> None:
        super()._check(fitted)
        found = fitted.estimate.item_factors.shape[1]
        if self.n_factors != "auto" and found != min(self.n_factors, fitted.rankings.n_items):
            raise InputError(f"item_factors_ has {found} factors, n_factors is {self.n_factors}")


def _order_of(fitted: Fitted[RecommenderEstimate], question: str) -> Ranker:
    """The model of order, which alone can answer the question."""
    if fitted.estimate.order is None:
        raise NotSupportedError(f"these data have no order, so nothing can answer {question}(); see recommend()")
    return fitted.estimate.order


def _ordering(fitted: Fitted[RecommenderEstimate], person: Person, question: str) -> Person:
    """The person to whom the question is put: as the model of order knows them."""
    return _in_order(_order_of(fitted, question).fitted_, person)


def _in_order(order: Fitted, person: Person) -> Person:
    known: Person = person.state["order"] if person.is_new else Person(order, person.index)
    return known


def _friends(fitted: Fitted[RecommenderEstimate]) -> Friends | None:
    """Links between the users, and what each has."""
    graph = Known.of(fitted.rankings).graph
    return None if graph is None else Friends.of(graph, known_entries(fitted), fitted.rankings.n_items)


def _had_by_friends(friends: Friends, people: Sequence[Person]) -> Had:
    """What the friends of each have taken up; nobody in particular has no friends."""
    indices = [person.index for person in people]
    if None not in indices:
        return friends.of_users(np.array(indices, np.int64))
    return stacked(
        [
            friends.of_new(person.state.get("friends", np.zeros((2, 0))))
            if person.index is None
            else friends.of_users(np.array([person.index]))
            for person in people
        ]
    )


def _require_order(value: object) -> None:
    if value is None:
        return
    if isinstance(value, type) and issubclass(value, Ranker):
        raise InputError(f"order={value.__name__}, expected a model; write {value.__name__}()")
    if not isinstance(value, Ranker) or isinstance(value, CatalogueRanker):
        raise InputError(f"order={value!r}, expected a model of order such as FactoredPlackettLuce(), or None")
