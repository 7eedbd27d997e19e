"""Who is asked: a user of the training data, somebody new, or nobody in particular."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory, require_seed
from permrank.core import answers, explanation, tie_groups
from permrank.core.distribution import RankingDistribution
from permrank.errors import InputError
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.core.fitted import Fitted


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody who can be asked, made by ``model.person(user)`` or ``model.fold_in(list)``; valid wherever a user is.

    Attributes
    ----------
    fitted : Fitted
        The model that has learnt, which answers.
    index : int or None
        The person's index in the training data; None for somebody new, and for nobody in particular.
    rankings : Rankings or None
        What somebody new has listed: one user, over items of the model.
    state : dict
        What the model worked out about somebody new.
    about : dict
        What else was told of somebody new: features, friends.

    Examples
    --------
    >>> import permrank as pr
    >>> lists = {"ann": ["a", "b"], "bob": ["b", "c", "d"], "cat": ["c", "a", "b"]}
    >>> ann = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists)).person("ann")
    >>> ann.recommend(1)["item"].to_list(), ann.rank(["d", "c"])["item"].to_list()
    (['c'], ['c', 'd'])
    """

    fitted: Fitted
    index: int | None = None
    rankings: Rankings | None = None
    state: Named = field(default_factory=dict)
    about: Named = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether this is somebody who was not in the training data."""
        return self.rankings is not None

    @property
    def is_nobody(self) -> bool:
        """Whether this is nobody in particular."""
        return self.rankings is None and self.index is None

    # What the person has listed

    def lists(self) -> list[tuple[Int64Array, Int32Array]]:
        """Rankings of the person as (item indices of the model, levels), best first."""
        if self.is_nobody:
            return []
        source, index = (self.fitted.rankings, self.index or 0) if self.rankings is None else (self.rankings, 0)
        codes, lists = self.fitted.aligned(source), []
        for ranking in range(int(source.user_indptr[index]), int(source.user_indptr[index + 1])):
            part = slice(int(source.indptr[ranking]), int(source.indptr[ranking + 1]))
            lists.append((codes[part].astype(np.int64), source.levels[part]))
        return lists

    def listed(self) -> Int32Array:
        """Items that the person has listed, by their index."""
        if self.rankings is not None:
            return self.fitted.aligned(self.rankings)
        return np.zeros(0, np.int32) if self.index is None else self.fitted.rankings.items_of(self.index)

    # Answers: each is described where the model has it, in `Ranker`

    def score(self, items: Iterable[object] | None = None) -> Float64Array:
        """Scores of items, higher is better; see `Ranker.score`."""
        return self.fitted.scores(self, self.fitted.items(items))

    def rank(self, items: Iterable[object], *, k: int | None = None, interval: bool = False) -> pl.DataFrame:
        """The given items, best first; see `Ranker.rank`."""
        return answers.rank(self, items, k=k, interval=interval)

    def recommend(self, k: int = 10, **options: Any) -> pl.DataFrame:
        """The best ``k`` items that the person has not listed; see `Ranker.recommend`."""
        return answers.recommend(self.fitted, self, k, **options)

    def explain(self, item: object, *, k: int = explanation.ROWS, full: bool = False) -> pl.DataFrame:
        """What the person has listed that speaks for an item, and against it; see `Ranker.explain`."""
        return explanation.explain(self, item, k=k, full=full)

    def because(self, item: object) -> str:
        """Why an item is recommended, in a sentence; see `Ranker.because`."""
        return explanation.because(self, item)

    def tie_groups(self, items: Iterable[object] | None = None, *, level: float = 0.9) -> pl.DataFrame:
        """Which items can be told apart; see `Ranker.tie_groups`."""
        return tie_groups.tie_groups(self, items, level=level)

    def law(self, items: Iterable[object] | None = None) -> RankingDistribution:
        """P(ranking of the items | the person) as an object; see `Ranker.distribution`."""
        self.fitted.require_law("distribution")
        return self.fitted.law(self, self.fitted.items(items))

    def prefers(self, item: object, other: object) -> float:
        """Return the probability that ``item`` is ranked before ``other``."""
        self.fitted.require_pairs("prefers")
        items = self.fitted.item_ids.find_all([item, other])
        if items[0] == items[1]:
            return 0.5
        return float(self.fitted.prefers(self, items[:1], items[1:])[0])

    def top_probability(self, items: Iterable[object], k: int = 1) -> Float64Array:
        """Return the probability of each item to be among the first ``k`` of the given items."""
        self.fitted.require_law("top_probability")
        require_int("k", k, 1)
        return self.fitted.law(self, self.fitted.items(items)).top(int(k))

    def position_probabilities(self, item: object) -> Float64Array:
        """Probabilities of the positions where an item would enter the list; see `Ranker.position_probabilities`."""
        self.fitted.require_law("position_probabilities")
        index, lists = self.fitted.item_ids.find(item), self.lists()
        if len(lists) != 1:
            raise InputError(f"the user has {len(lists)} rankings; a position is defined for a user with one")
        items, levels = lists[0]
        if index in items:
            raise InputError(f"item {item!r} is in the user's list already; ask for one that is not")
        return self.fitted.law(self, np.append(items, index)).enter(levels)

    def sample(self, items: Iterable[object] | None = None, size: int = 1, seed: int = 0) -> np.ndarray:
        """Draw rankings of the items: ids, best first, (size, n); see `Ranker.sample`."""
        self.fitted.require_law("sample")
        chosen = self.fitted.items(items)
        require_drawable(size, seed, chosen.size)
        ids = np.asarray(self.fitted.item_ids.take(chosen).to_list())
        return np.asarray(ids[self.fitted.law(self, chosen).sample(int(size), int(seed))])


def require_drawable(size: object, seed: object, n_items: int) -> None:
    """Raise unless so many rankings of so many items can be drawn at once."""
    require_int("size", size, 0)
    require_seed(seed)
    # Orders and ids, 8 bytes each or about so.
    n_bytes = 16 * int(size) * n_items  # type: ignore[call-overload]
    require_memory(n_bytes, f"size={size} rankings of {n_items} items", "draw them in parts")
