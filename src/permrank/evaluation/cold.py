"""Protocols of cold start: items that nobody has ranked, and users who have ranked nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from permrank.errors import InputError
from permrank.evaluation.catalogue import positive_entries
from permrank.evaluation.protocols import Protocol, one_list_each, random_positions
from permrank.evaluation.split import Question, Split
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import BoolArray


@dataclass(frozen=True)
class ColdItems(Protocol):
    """Some items are new: all their entries are hidden, and with them a share of everybody's other entries.

    `evaluate` measures cold items, known ones and all of them apart (``result.means("cold")``). With
    ``question="find"`` people are asked about cold items alone: those that they like are to be found among all cold
    items. Models know a cold item by its features (`Rankings.with_features`), or not at all.

    Parameters
    ----------
    share : float
        Share of the ranked items that are cold.
    known_share : float
        Share of a user's entries of other items that is hidden too, rounded down.
    min_test : int
        People with fewer hidden entries of cold items are not asked about those.
    question : {"order", "find"}

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=40, list_length=20)
    >>> split = pr.ColdItems(share=0.25).split(rankings, seed=0)
    >>> split.train.n_items, split.cold
    (30, 'items')
    """

    share: float = 0.2
    known_share: float = 0.2
    min_test: int = 2
    question: Question = "order"

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        ranked = np.flatnonzero(np.bincount(rankings.items, minlength=rankings.n_items))
        cold = _drawn(rankings.n_items, ranked, self.share, seed, 31)[rankings.items]
        asked = cold & positive_entries(rankings, "auto") if self.question == "find" else cold
        many = np.bincount(owner[asked], minlength=rankings.n_users) >= self.min_test
        hidden = asked & many[owner]
        known = np.zeros(owner.size, bool)
        if self.question == "order":
            known[~cold] = _some(owner[~cold], rankings.n_users, self.known_share, 9, seed)
        return self._made(rankings, seed, ~cold & ~known, hidden | known, None, self.question, "items")


@dataclass(frozen=True)
class ColdUsers(Protocol):
    """Some users are new and have ranked nothing: all that they say is hidden, and of the others a share.

    `evaluate` measures cold users, known ones and all of them apart (``result.means("cold")``). Models know a cold user
    by features or links; one that does not is asked about somebody of whom nothing is known.

    Parameters
    ----------
    share : float
        Share of the users with at least ``min_test`` entries who are cold.
    known_share : float
        Share of a known user's entries that is hidden, rounded down.
    min_test : int

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=40, list_length=20)
    >>> split = pr.ColdUsers(share=0.2).split(rankings, seed=0)
    >>> split.train.n_users, split.test.n_users, split.cold
    (40, 50, 'users')
    """

    share: float = 0.2
    known_share: float = 0.2
    min_test: int = 2

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        long = np.flatnonzero(np.bincount(owner, minlength=rankings.n_users) >= self.min_test)
        cold = _drawn(rankings.n_users, long, self.share, seed, 32)[owner]
        known = np.zeros(owner.size, bool)
        known[~cold] = _some(owner[~cold], rankings.n_users, self.known_share, 10, seed)
        return self._made(rankings, seed, ~cold & ~known, cold | known, cold="users")


def _drawn(n: int, among: np.ndarray, share: float, seed: int, stream: int) -> BoolArray:
    if among.size < 2:
        raise InputError(f"{among.size} can be cold, expected at least 2")
    marked = np.zeros(n, bool)
    drawn = generator(stream_key(seed, stream)).permutation(among)
    marked[drawn[: min(max(1, round(share * among.size)), among.size - 1)]] = True
    return marked


def _some(owner: np.ndarray, n_users: int, share: float, stream: int, seed: int) -> BoolArray:
    """Mark a share of everybody's entries, rounded down."""
    wanted = np.floor(share * np.bincount(owner, minlength=n_users)).astype(np.int64)
    return np.asarray(random_positions(owner, stream, seed) < wanted[owner])


Part = Literal["cold", "known"]


def cold_entries(split: Split) -> BoolArray:
    """Mark the hidden entries of cold items, or of cold users."""
    test, train = split.test, split.train
    if split.cold == "items":
        return np.asarray((~test.item_ids.ids.is_in(train.item_ids.ids.implode())).to_numpy()[test.items])
    return np.asarray((~test.user_ids.ids.is_in(train.user_ids.ids.implode())).to_numpy()[test.entry_users()])
