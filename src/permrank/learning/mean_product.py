"""The mean of products of two tall matrices, such as scores under draws of users and items, held at a low rank."""

from __future__ import annotations

import numpy as np

from permrank.kernels.low_rank import joint_gram, recombined
from permrank.types import Array, Float64Array

# A direction with less than this part of the largest is rounding.
_ROUNDING = 1e-7


class MeanProduct:
    """Mean over draws of left rightᵀ, as a product of two matrices of few columns.

    After every draw the sum is brought back to the rank by the best approximation in squares. All that takes is the
    Gram matrices of both sides: neither the draws nor a matrix of left times right rows is ever held.

    Examples
    --------
    >>> import numpy as np
    >>> mean = MeanProduct(3, 4, rank=2)
    >>> left, right = np.ones((3, 1)), np.arange(4.0)[:, None]
    >>> for factor in (1.0, 3.0):
    ...     mean.add(factor * left, right, 1)
    >>> a, b = mean.factors()
    >>> (a @ b.T)[0].round(4).tolist()
    [0.0, 2.0, 4.0, 6.0]
    """

    def __init__(self, n_left: int, n_right: int, rank: int) -> None:
        self._rank = rank
        self.n_draws = 0
        self._left, self._right = np.zeros((n_left, 0), np.float32), np.zeros((n_right, 0), np.float32)

    def add(self, left: Float64Array, right: Float64Array, size: int, weight: int = 1) -> None:
        """Add a draw: the product of the first ``size`` columns of both; the rows of right may be more than asked.

        weight: how many equal draws it counts for.
        """
        right = right[: len(self._right)]
        if weight != 1:
            left = weight * left
        of_left, of_right = (
            _root(joint_gram(held, new, np.int64(size))) for held, new in ((self._left, left), (self._right, right))
        )
        p, values, q = np.linalg.svd(of_left @ of_right.T)
        kept = min(self._rank, int(np.sum(values > _ROUNDING * values[0])))
        # left rightᵀ = Q_l C Q_rᵀ with C = P values Qᵀ, and Q_l C = left of_rightᵀ: nothing has to be inverted.
        scale = 1.0 / np.sqrt(values[:kept])
        for_left, for_right = of_right.T @ (q[:kept].T * scale), of_left.T @ (p[:, :kept] * scale)
        self._left = recombined(self._left, left, np.int64(size), np.ascontiguousarray(for_left))
        self._right = recombined(self._right, right, np.int64(size), np.ascontiguousarray(for_right))
        self.n_draws += weight

    def factors(self) -> tuple[Array, Array]:
        """Left and right factors of the mean, float32; their columns are orthogonal, and as long on either side."""
        scale = np.float32(1.0 / np.sqrt(max(self.n_draws, 1)))
        return self._left * scale, self._right * scale

    def state(self) -> dict[str, Array]:
        """What a checkpoint has to hold."""
        return {"mean_left": self._left, "mean_right": self._right, "n_averaged": np.array(self.n_draws)}

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from what `state` gave."""
        self._left, self._right, self.n_draws = state["mean_left"], state["mean_right"], int(state["n_averaged"])


def onto(factors: Array, draw: Float64Array, size: int) -> Float64Array:
    """By what the first columns of a draw of the right side are told by its factors: (size, rank), least squares.

    A row w of the left side that belongs to the draw is then w @ onto in the basis of the factors.
    """
    rank = factors.shape[1]
    gram = joint_gram(np.ascontiguousarray(factors, np.float32), draw[: len(factors)], np.int64(size))
    return np.asarray((np.linalg.pinv(gram[:rank, :rank], hermitian=True) @ gram[:rank, rank:]).T)


def _root(gram: Float64Array) -> Float64Array:
    """R with RᵀR = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
