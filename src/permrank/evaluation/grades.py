"""The truth that metrics compare with: grades of entries, scores made whole, stages, and the likelihood of a guess."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from permrank.ragged import new_blocks, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

# Grades of a list without ratings lie evenly between these: the scale of stars, on which gains of 2^g - 1 are usual.
_BEST_GRADE, _LAST_GRADE = 5.0, 1.0


def filled(indptr: Int64Array, scores: Array) -> Float64Array:
    """Scores with those that a model could not give (not finite) replaced by the mean of the list's others, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> import permrank as pr
    >>> pr.metrics.filled(np.array([0, 3, 4]), [1.0, np.nan, 2.0, np.nan]).tolist()
    [1.0, 1.5, 2.0, 0.0]
    """
    values: Float64Array = np.array(scores, np.float64)
    missing = ~np.isfinite(values)
    if missing.any():
        owner = owners(indptr)
        count = np.bincount(owner[~missing], minlength=indptr.size - 1)
        total = np.bincount(owner[~missing], values[~missing], minlength=indptr.size - 1)
        values[missing] = (total / np.maximum(count, 1))[owner[missing]]
    return values


def grades_of(rankings: Rankings) -> Float64Array:
    """Grade of every entry: its rating, or evenly from 5 (the best of a list) to 1 (its last) without ratings.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.grades_of(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}, "d"], "bob": ["a"]})).tolist()
    [5.0, 3.0, 3.0, 1.0, 5.0]
    """
    if rankings.ratings is not None:
        return np.asarray(rankings.ratings, np.float64)
    steps = np.repeat(np.maximum(rankings.last_levels, 1), rankings.lengths)
    fall = (_BEST_GRADE - _LAST_GRADE) * rankings.levels / steps
    return np.asarray(_BEST_GRADE - fall)


def stages(rankings: Rankings) -> Int64Array:
    """Choices that each ranking tells of: all its entries but the last, which is certain."""
    return np.asarray(rankings.lengths - 1)


def blind_log_likelihood(rankings: Rankings) -> Float64Array:
    """log P of each ranking if all orders are equally likely: log (Π_b m_b!) - log n!, m_b being the sizes of its ties.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.metrics.blind_log_likelihood(pr.Rankings.from_lists({"ann": ["a", {"b", "c"}]})).round(4).tolist()
    [-1.0986]
    """
    new_block = new_blocks(rankings.levels, rankings.indptr)
    sizes = np.diff(np.flatnonzero(new_block), append=rankings.n_entries)
    inside = np.bincount(rankings.entry_rankings()[new_block], gammaln(sizes + 1.0), minlength=rankings.n_rankings)
    return np.asarray(inside - gammaln(rankings.lengths + 1.0))
