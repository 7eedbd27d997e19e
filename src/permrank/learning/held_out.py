"""Choosing among candidates by observations that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from permrank.types import Float64Array

T = TypeVar("T")


class HeldOutChoice(NamedTuple, Generic[T]):
    """Candidates, the simplest first, and the score of every held-out observation under each; higher is better.

    Attributes
    ----------
    candidates : tuple
    scores : float64 (n_candidates, n_observations)
        Of the same observations for all candidates.
    """

    candidates: tuple[T, ...]
    scores: Float64Array

    @property
    def means(self) -> Float64Array:
        """Mean score of each candidate."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def best(self) -> T:
        """The candidate with the best mean."""
        return self.candidates[int(np.argmax(self.means))]

    def below_best(self) -> tuple[Float64Array, Float64Array]:
        """By how much each mean is below the best, and the standard error of that paired difference."""
        gaps = self.scores[int(np.argmax(self.means))] - self.scores
        return gaps.mean(axis=1), gaps.std(axis=1) / np.sqrt(max(gaps.shape[1], 1))

    @property
    def simplest(self) -> T:
        """The first candidate that is within one standard error of the best."""
        gaps, errors = self.below_best()
        return self.candidates[int(np.flatnonzero(gaps <= errors)[0])]


def choose_by_held_out(candidates: Iterable[T], score: Callable[[T], Float64Array]) -> HeldOutChoice[T]:
    """Score every candidate: ``score`` learns with it and returns the scores of what was held out."""
    tried = tuple(candidates)
    return HeldOutChoice(tried, np.stack([score(each) for each in tried]))
