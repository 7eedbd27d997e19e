"""The protocol of the other question: finding, in the whole catalogue, what people would choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from permrank.checks import require_int
from permrank.errors import InputError
from permrank.evaluation.protocols import Protocol, one_list_each, random_positions, require_share
from permrank.evaluation.split import Split, make_split
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import BoolArray

# What counts as chosen by default: 4 and 5 of 5 stars.
_POSITIVE_SHARE = 0.8
# Rounding of ratings such as 0.1 + 0.2.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Catalogue(Protocol):
    """Of everybody's positive entries a share is hidden, to be found among all items that are not given.

    People with fewer than ``min_positive`` positive entries are not asked about; all that they say is learnt from.

    Parameters
    ----------
    share : float
        Share of a person's positive entries that is hidden, rounded; at least one and never all.
    positive : "auto" or float
        The least rating that is positive. By default those at or above four fifths of the scale, which runs from one
        step below the lowest rating to the highest: 4 and 5 of five stars. Without ratings every entry is positive.
    min_positive : int
        At least 2.
    new_people : float
        Share of the people asked about who are new: a model learns from the others, and folds these in from all their
        entries that are not hidden (strong generalisation). With 0 everybody is known and asked about.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=40, list_length=20, ties=5)
    >>> split = pr.Catalogue().split(rankings, seed=0)
    >>> split.question, float(split.test.ratings.min())
    ('find', 4.0)
    >>> pr.evaluate(pr.Popularity(), split).metrics[:4]
    ['ndcg', 'recall', 'map', 'hit_rate']
    """

    share: float = 0.2
    positive: float | Literal["auto"] = "auto"
    min_positive: int = 5
    new_people: float = 0.0

    def split(self, rankings: Rankings, seed: int = 0) -> Split:
        """Split rankings; the same seed gives the same split."""
        require_share("share", self.share)
        require_int("min_positive", self.min_positive, 2)
        if self.new_people != 0:
            require_share("new_people", self.new_people)
        owner = one_list_each(rankings, self)
        positive = positive_entries(rankings, self.positive)
        counts = np.bincount(owner[positive], minlength=rankings.n_users)
        wanted = np.clip(np.round(self.share * counts), 1, np.maximum(counts - 1, 1)).astype(np.int64)
        asked = counts >= self.min_positive
        new = self._new(asked, seed)
        if new is not None:
            asked = new
        hidden = np.zeros(owner.size, bool)
        hidden[positive] = random_positions(owner[positive], 8, seed) < wanted[owner[positive]]
        hidden &= asked[owner]
        given = None if new is None else new[owner] & ~hidden
        train = ~hidden if new is None else ~new[owner]
        return make_split(rankings, train, hidden, given, repr(self), seed, "find")

    def _new(self, asked: BoolArray, seed: int) -> BoolArray | None:
        """Mark the people who are new, of those who can be asked about; None if all are known."""
        if self.new_people == 0:
            return None
        drawn = generator(stream_key(seed, 28)).permutation(np.flatnonzero(asked))
        new = np.zeros(asked.size, bool)
        new[drawn[: max(1, round(self.new_people * drawn.size))]] = True
        return new


def positive_entries(rankings: Rankings, least: float | Literal["auto"]) -> BoolArray:
    """Mark the entries that were chosen: those with at least this rating; "auto" as `Catalogue` has it."""
    if least != "auto" and (isinstance(least, bool) or not isinstance(least, int | float)):
        raise InputError(f"positive={least!r}, expected 'auto' or the least rating that is positive")
    if rankings.ratings is None:
        if least != "auto":
            raise InputError(f"positive={least!r}, but there are no ratings; leave it out")
        return np.ones(rankings.n_entries, bool)
    return np.asarray(rankings.ratings >= (_least_positive(rankings) if least == "auto" else least))


def _least_positive(rankings: Rankings) -> float:
    """The least r with (r - lowest + step) / (highest - lowest + step) of at least four fifths."""
    values = np.unique(np.asarray(rankings.ratings, np.float64))
    if values.size < 2:
        return float(values.min(initial=0.0))
    step = float(np.diff(values).min())
    scale = (values - values[0] + step) / (values[-1] - values[0] + step)
    return float(values[scale >= _POSITIVE_SHARE - _ROUNDING][0])
