"""Ratings on one scale, whatever the data gave: losses over grades need numbers where an order is all there is."""

from __future__ import annotations

import numpy as np

from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

LOWEST, HIGHEST = 1.0, 5.0  # the usual stars; the gain of DCG, 2^r - 1, is then between 1 and 31


def relevance(rankings: Rankings, training: Rankings) -> Float64Array:
    """Relevance of every entry between 1 and 5, (n_entries,).

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


def standardised(table: Float64Array) -> Float64Array:
    """Columns with mean 0 and standard deviation 1; one that does not vary becomes 0."""
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
