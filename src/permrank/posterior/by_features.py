"""Scores of items that nobody has taken up, from those of known items with like features.

Where a score is linear in an item's vector (factors, or weights of other items), a regression of these vectors on
features predicts that of a new item, and its scores are the same regression of everybody's scores: so rows of scores
are all that is needed, whatever model made them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Array, Float64Array, Int64Array

# Penalties that are tried, in parts of the largest eigenvalue of the features' moments.
_PENALTIES = np.logspace(-6.0, 1.0, 29)


class ByFeatures(NamedTuple):
    """A ridge regression of scores on features.

    Attributes
    ----------
    known, new : int64
        Items that were taken up, and those of which features alone are known.
    left : float32 (n_known, rank)
    right : float32 (rank, n_new)
        Scores of new items are those of known ones, times ``left``, times ``right``.
    """

    known: Int64Array
    new: Int64Array
    left: Array
    right: Array

    @classmethod
    def of(cls, features: Float64Array, known: Int64Array, new: Int64Array, rows: Array) -> ByFeatures:
        """Its penalty by generalised cross-validation on some rows of scores, (n_users, n_items)."""
        x, wanted = features[known], np.asarray(rows[:, known], np.float64).T
        middle = x.mean(axis=0)
        u, values, vt = np.linalg.svd(x - middle, full_matrices=False)
        kept = values > 1e-9 * values.max(initial=0.0)
        u, values, vt = u[:, kept], values[kept], vt[kept]
        n, centred = len(x), wanted - wanted.mean(axis=0)
        along = u.T @ centred
        total, inside = np.sum(centred**2), np.sum(along**2, axis=1)
        best, penalty = np.inf, 0.0
        for each in _PENALTIES * float(np.max(values**2, initial=0.0)):
            shrunk = values**2 / (values**2 + each)
            error = total - np.sum(inside * shrunk * (2.0 - shrunk))
            score = error / (n - 1.0 - shrunk.sum()) ** 2
            if score < best:
                best, penalty = score, each
        weights = values / (values**2 + penalty)
        left = np.hstack((np.full((n, 1), 1.0 / n), u))
        right = np.vstack((np.ones((1, new.size)), weights[:, None] * (vt @ (features[new] - middle).T)))
        return cls(known, new, left.astype(np.float32), right.astype(np.float32))

    def fill(self, rows: Array) -> Array:
        """The rows with scores of the new items."""
        rows[:, self.new] = np.asarray(rows[:, self.known], np.float32) @ self.left @ self.right
        return rows
