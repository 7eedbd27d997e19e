"""What `fit` gives: the settings, the data and what was learnt, as one value that never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np

from permrank.core.distribution import RankingDistribution
from permrank.core.estimates import Estimate
from permrank.core.observed import SOMEBODY, observed
from permrank.core.person import Person
from permrank.errors import InputError, NotSupportedError
from permrank.kernels.top_k import best_items
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, BoolArray, Float64Array, Int32Array, Int64Array, Named

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # `typing` has it from Python 3.13 on

    from permrank.core.ranker import Ranker

    E = TypeVarWithDefault("E", bound=Estimate, default=Any)
else:
    E = TypeVar("E", bound=Estimate)

T = TypeVar("T")

_PERSONAL = ("Recommender", "FactoredPlackettLuce")
_LIKENESS = (*_PERSONAL, "LatentPlackettLuce", "PairwiseFactorisation")
# Some of the models that answer a question, the usual ones first; other questions are about probabilities.
ABLE: dict[str, tuple[str, ...]] = {
    "explain": _PERSONAL,
    "similar_items": _LIKENESS,
    "similar_users": _LIKENESS,
    "tie_groups": ("PlackettLuce", "BradleyTerry", *_PERSONAL),
}
PROBABLE = ("PlackettLuce", *_PERSONAL, "LatentPlackettLuce")


@dataclass(frozen=True)
class Trace:
    """How learning went; see the attributes of `Ranker`."""

    history: list[float]
    converged: bool
    seconds: float
    validation: Float64Array
    best_iter: int


@dataclass(frozen=True, eq=False)
class Fitted(Generic[E]):
    """A model that has learnt: who is known, what is known of them, and who may ask.

    Attributes
    ----------
    settings : Ranker
        What the model was learnt with; it is nobody else's, and so never changes.
    rankings : Rankings
        The training data.
    estimate : Estimate
        What was learnt.
    trace : Trace
    """

    settings: Ranker
    rankings: Rankings
    estimate: E
    trace: Trace
    _derived: Named = field(default_factory=dict, repr=False, init=False)

    @cached_property
    def user_ids(self) -> Vocabulary:
        """Users that are known."""
        return self.rankings.user_ids

    @cached_property
    def item_ids(self) -> Vocabulary:
        """Items that are known."""
        return self.rankings.item_ids

    @cached_property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def name(self) -> str:
        """The class of the model."""
        return type(self.settings).__name__

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """What follows from the value, worked out when it is first asked for. Two threads may both work it out."""
        value: T
        if name in self._derived:
            value = self._derived[name]
        else:
            value = self._derived[name] = make()
        return value

    # Who is asked

    def person(self, user: object) -> Person:
        """A user of the training data by id, somebody new, or nobody in particular where the model allows it."""
        if isinstance(user, Person):
            return user if user.fitted is self else self._adopted(user)
        if user is None and self.settings.knows_nobody:
            return Person(self)
        return Person(self, self.user_ids.find(user))

    def known(self, indices: Iterable[int]) -> list[Person]:
        """Users of the training data by their index."""
        return [Person(self, int(index)) for index in indices]

    def meet(self, said: object, **about: object) -> Person:
        """Somebody new, from a list, best first, or ratings; ``about`` is what else is known of the person."""
        return self._met(observed(said, self.rankings), {k: value for k, value in about.items() if value is not None})

    def newcomer(self, items: Array, levels: Array) -> Person:
        """Somebody new by items (indices, each once, best first) and their levels, with nothing worked out.

        The quick way where `recommend` goes by what is listed alone: unless the model `finds_by_order`.
        """
        ends = np.array([0, 1]), np.array([0, items.size])
        return Person(self, None, Rankings._trusted(*ends, items, levels, np.ones(1), SOMEBODY, self.item_ids))

    def _met(self, rankings: Rankings, about: Named) -> Person:
        if about and not self.settings.takes_side_information:
            raise InputError(f"{self.name} does not learn from {' and '.join(about)} of users; fold in without")
        return Person(self, None, rankings, self.settings._meet(self, rankings, **about), about)

    def _adopted(self, stranger: Person) -> Person:
        """Somebody who was introduced to another model, or to this one before it learnt again."""
        if stranger.rankings is None:
            raise InputError("a person of the training data of another model was given; ask by the id")
        self.item_ids.indices(stranger.rankings.item_ids)  # an unknown item raises here and is named
        return self._met(stranger.rankings, dict(stranger.about))

    # What they are asked about

    def items(self, items: Iterable[object] | None) -> Int64Array:
        """Indices of items by id or title, of all if None; an unknown one raises, and so does one given twice."""
        if items is None:
            return np.arange(self.n_items)
        indices = self.item_ids.find_all(items)
        if indices.size and np.bincount(indices).max() > 1:
            twice = self.item_ids[int(np.bincount(indices).argmax())]
            raise InputError(f"item {twice!r} is given twice; give every item once")
        return indices

    def aligned(self, rankings: Rankings) -> Int32Array:
        """Item indices of other rankings in the numbering of the model; an unknown item raises."""
        if require_rankings(rankings).item_ids == self.item_ids:
            return rankings.items
        ranked = np.unique(rankings.items)
        table = np.full(rankings.n_items, -1, np.int32)
        table[ranked] = self.item_ids.codes(rankings.item_ids.take(ranked.astype(np.int64)))
        return table[rankings.items]

    # What the model answers, on indices

    def scores(self, person: Person, items: Int64Array) -> Float64Array:
        """Scores of items for a person; higher is better."""
        return self.settings._scores(self, person, items)

    def rows(self, people: Sequence[Person]) -> Array:
        """Scores of all items for each of some people, by which `recommend` goes: (n_people, n_items)."""
        return self.settings._rows(self, people)

    def best(
        self, people: Sequence[Person], k: int, allowed: BoolArray | None = None, *, exclude_listed: bool = True
    ) -> tuple[Int64Array, Int64Array, Float64Array]:
        """How many items each of some people gets, the items of all one after the other, best first, and scores."""
        rows = np.array(self.rows(people), np.float64)  # a copy: what may not be recommended is struck out
        if allowed is not None and not allowed.all():
            rows[:, ~allowed] = -np.inf
        for person, row in zip(people if exclude_listed else (), rows, strict=False):
            row[person.listed()] = -np.inf
        items = best_items(rows, min(k, rows.shape[1]))
        there = items >= 0
        who = np.repeat(np.arange(len(people)), there.sum(axis=1))
        return there.sum(axis=1), items[there], rows[who, items[there]]

    def score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """Scores of known users and items, equally many."""
        return self.settings._score_pairs(self, who, what)

    def score_draws(self, person: Person, items: Int64Array) -> Float64Array:
        """Scores of items as they might be: draws (n_draws, n) from the distribution of the estimates."""
        return self.settings._score_draws(self, person, items)

    def prefers(self, person: Person, first: Int64Array, second: Int64Array) -> Float64Array:
        """Probabilities that a person ranks the one item before the other, for several pairs of different items."""
        return self.settings._prefers(self, person, first, second)

    def prefers_pairs(self, who: Int64Array, first: Int64Array, second: Int64Array) -> Float64Array:
        """The same for known users, one for each pair."""
        return self.settings._prefers_pairs(self, who, first, second)

    @property
    def knows_ranks(self) -> bool:
        """Whether quantiles of ranks are quick enough to go with every answer."""
        return self.settings._knows_ranks(self)

    def law(self, person: Person, items: Int64Array) -> RankingDistribution:
        """P(ranking of the items | person)."""
        return self.settings._law(self, person, items)

    @property
    def has_law(self) -> bool:
        """Whether the model says how likely every ranking is."""
        return self.settings._has_law(self)

    @property
    def has_pairs(self) -> bool:
        """Whether the model says how likely it is that one item is ranked before another."""
        return self.settings._has_pairs(self)

    @property
    def finds_by_order(self) -> bool:
        """Whether `recommend` goes by the order of which there is a distribution."""
        return self.settings._finds_by_order(self)

    def with_estimate(self, **changes: object) -> Fitted[E]:
        """The same with other values of some fields of the estimate."""
        return replace(self, estimate=replace(self.estimate, **changes))

    def as_model(self) -> Ranker:
        """A model with the settings that were used, which has learnt this."""
        model = self.settings.clone()
        model.fitted_ = self
        return model

    def require_law(self, question: str) -> None:
        """Refuse a question about probabilities if the model has none."""
        if not self.has_law:
            self.refuse(question)

    def require_pairs(self, question: str) -> None:
        """Refuse a question about probabilities of pairs if the model has none."""
        if not self.has_pairs:
            self.refuse(question)

    def refuse(self, question: str) -> NoReturn:
        """Raise an error that names models which can answer."""
        able = [name for name in ABLE.get(question, PROBABLE) if name != self.name]
        raise NotSupportedError(f"{self.name} cannot answer {question}(); {', '.join(able[:-1])} and {able[-1]} can")

    @property
    def featured_items(self) -> Int64Array:
        """Items that nobody has ranked, and that the model knows by their features alone (cold-start items)."""
        return self.settings._featured_items(self)
