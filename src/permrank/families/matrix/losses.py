"""The losses of this family: sums over lists of a function of their scores, with the kernel of each in one table.

A kernel takes the bounds of the lists, arrays with a line for each list, arrays with one for each entry, constants, the
scores, and the gradient that it writes; it returns the loss of every list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from permrank.families.matrix.kernels.listwise_losses import ndcg_bound, squared_errors, top_one_divergence
from permrank.families.matrix.kernels.pairwise_losses import hinge_pairs, logistic_pairs, squared_pairs
from permrank.kernels.luce.likelihood import BRESLOW, stage_statistics
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

LOWEST, HIGHEST = 1.0, 5.0  # the usual stars; the gain of DCG, 2^r - 1, is then between 1 and 31


def _plackett_luce(
    indptr: Int64Array, weights: Float64Array, levels: Array, scores: Float64Array, gradient: Float64Array
) -> Float64Array:
    """-log P(list) of the Plackett-Luce model, ties by Breslow."""
    chosen, expected = np.empty_like(scores), np.empty_like(scores)
    values: Float64Array = stage_statistics(indptr, levels, scores, BRESLOW, chosen, expected)
    gradient[:] = np.repeat(weights, np.diff(indptr)) * (expected - chosen)
    return -weights * values


class Kernel(NamedTuple):
    """What computes a loss, and its penalty if that sets itself, as a share of what keeps noise out altogether."""

    function: Callable[..., Float64Array]
    noise_share: float


# Shares were set as the constants of `learning`. The bound on NDCG leans on the few best items of a list and needs more
# of a penalty; the chance to be first says little of the rest of a list and gives calmer gradients.
KERNELS = {
    "squared pairs": Kernel(squared_pairs, 0.65),
    "hinge": Kernel(hinge_pairs, 0.65),
    "logistic": Kernel(logistic_pairs, 0.65),
    "ndcg": Kernel(ndcg_bound, 0.75),
    "squared": Kernel(squared_errors, 0.65),
    "listnet": Kernel(top_one_divergence, 0.5),
    "listmle": Kernel(_plackett_luce, 0.7),
}


class Loss(NamedTuple):
    """A sum over lists of a function of their scores.

    Attributes
    ----------
    kernel : str
        In `KERNELS`: a name, which other processes find too.
    constants : tuple of numbers
    indptr : int64 (n_lists + 1,)
    of_lists, of_entries : tuples of arrays
        What the kernel needs beside scores, with a line for every list, and for every entry.
    """

    kernel: str
    constants: tuple[object, ...]
    indptr: Int64Array
    of_lists: tuple[Array, ...]
    of_entries: tuple[Array, ...]

    def __call__(self, scores: Float64Array) -> tuple[float, Float64Array]:
        """Scores of all entries to (loss, its gradient in the scores)."""
        values, gradient = self.of_each(scores)
        return float(values.sum()), gradient

    def of_each(self, scores: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Losses of the lists, and the gradient in the scores of all entries."""
        gradient = np.empty_like(scores)
        arrays = *self.of_lists, *self.of_entries
        return KERNELS[self.kernel].function(self.indptr, *arrays, *self.constants, scores, gradient), gradient


def pair_weights(indptr: Int64Array) -> Float64Array:
    """2 / (n - 1) for every list of n: the sum over its pairs becomes n times their mean, tied pairs counting as 0.

    Divided by the pairs that are not tied, a list of 49 equal items and one other would hang all on that one.
    """
    return np.asarray(2.0 / np.maximum(np.diff(indptr) - 1, 1))


def relevance(rankings: Rankings, training: Rankings) -> Float64Array:
    """Relevance of every entry between 1 and 5, (n_entries,), whatever the data gave.

    If the training data have ratings, their range is stretched to that; otherwise (or if these rankings have none)
    the levels of a ranking are spread evenly, the best at 5, the last at 1. A ranking with one level has 3.
    """
    if training.ratings is not None and rankings.ratings is not None:
        low, high = float(training.ratings.min()), float(training.ratings.max())
        if high == low:
            return np.full(rankings.n_entries, 0.5 * (LOWEST + HIGHEST))
        share = (rankings.ratings.astype(np.float64) - low) / (high - low)
        return np.asarray(np.clip(LOWEST + (HIGHEST - LOWEST) * share, LOWEST, HIGHEST))
    last = np.repeat(rankings.last_levels, rankings.lengths).astype(np.float64)
    spread = HIGHEST - (HIGHEST - LOWEST) * rankings.levels / np.maximum(last, 1.0)
    return np.where(last > 0, spread, 0.5 * (LOWEST + HIGHEST))
