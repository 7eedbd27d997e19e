"""Choosing among candidates by observations that were held out, and a search over a lattice of settings."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from permrank.types import Float64Array

T = TypeVar("T")
Step: TypeAlias = tuple[int, ...]

# Directions of a search: along two settings, one less of the second first; or along one.
PLANE: tuple[Step, ...] = ((0, -1), (1, 0), (-1, 0), (0, 1))
LINE: tuple[Step, ...] = ((-1,), (1,))


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
    def errors(self) -> Float64Array:
        """Standard error of each mean."""
        return np.asarray(self.scores.std(axis=1) / np.sqrt(max(self.scores.shape[1], 1)))

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

    def unless_usual(self, usual: T) -> T:
        """The best candidate, or the usual one if the best is not clearly better."""
        scores = self.scores[self.candidates.index(self.best)], self.scores[self.candidates.index(usual)]
        return self.best if clearly_better(*scores) else usual

    def gaining(self, n_errors: float) -> T:
        """The candidate with the largest gain over the first of more than so many standard errors, or the first."""
        gained = self.scores - self.scores[0]
        mean, error = gained.mean(axis=1), gained.std(axis=1) / np.sqrt(max(gained.shape[1], 1))
        return self.candidates[int(np.where(mean > n_errors * error, mean, 0.0).argmax())]


def clearly_better(scores: Float64Array, others: Float64Array) -> bool:
    """Whether the mean is larger by more than a standard error of the difference: scores of the same observations."""
    difference = scores - others
    return bool(difference.mean() > difference.std() / np.sqrt(max(difference.size, 1)))


def choose_by_held_out(candidates: Iterable[T], score: Callable[[T], Float64Array]) -> HeldOutChoice[T]:
    """Score every candidate: ``score`` learns with it and returns the scores of what was held out."""
    tried = tuple(candidates)
    return HeldOutChoice(tried, np.stack([score(each) for each in tried]))


def descend(
    error: Callable[[Step], T],
    most: int,
    less: Callable[[T, T], bool] = operator.lt,  # type: ignore[assignment]
    directions: Sequence[Step] = PLANE,
) -> tuple[Step, Mapping[Step, T]]:
    """Search a lattice of settings for the least error, where errors are dear to measure and flat near their least.

    It goes from 0 to a neighbour with a smaller error as long as there is one, and measures at most so many. A
    direction that has helped is tried again first. ``less``: whether an error is smaller than another. Returns the
    best step, and all errors that were measured.

    Examples
    --------
    >>> descend(lambda step: (step[0] - 2) ** 2 + (step[1] + 1) ** 2, most=20)[0]
    (2, -1)
    """
    best: Step = (0,) * len(directions[0])
    errors, left = {best: error(best)}, list(directions)
    while left and len(errors) < most:
        ahead = tuple(map(operator.add, best, left[0]))
        if ahead not in errors:
            errors[ahead] = error(ahead)
        if less(errors[ahead], errors[best]):
            best, left = ahead, [left[0], *(other for other in directions if other != left[0])]
        else:
            left = left[1:]
    return best, errors
