"""BLAS without threads, singular values of a matrix known by its products, and a mean of matrices at a low rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

import numpy as np
import scipy.linalg  # noqa: F401 - SciPy has a BLAS of its own, and a library that is not loaded is not found
from threadpoolctl import ThreadpoolController

from permrank.kernels.cooccurrence import cross
from permrank.kernels.low_rank import joint_gram, recombined
from permrank.learning.learner import Learner, State, Step
from permrank.types import Array, Float64Array

E = TypeVar("E")

_LIBRARIES = ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """BLAS in the calling thread, until the context is left.

    Its threads wait for work in a loop: after every product of two small matrices, which they do not speed up, they
    take a processor from the kernels for milliseconds.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     values = np.linalg.eigvalsh(np.diag([2.0, 1.0]))
    >>> values.tolist()
    [1.0, 2.0]
    """
    context: AbstractContextManager[object] = _LIBRARIES.limit(limits=1, user_api="blas")
    return context


def unthreaded(learner: Learner[E]) -> Learner[E]:
    """The same steps, each made with `one_blas_thread`."""

    def steps(kept: State | None) -> Iterator[Step[E]]:
        stream = learner(kept)
        while True:
            with one_blas_thread():
                step = next(stream, None)
            if step is None:
                return
            yield step

    return steps


Product: TypeAlias = Callable[[Float64Array], Float64Array]
"""Dense matrix of a few columns to the product of the matrix, or of its transpose, with it."""


def singular_values(
    product: Product, transposed: Product, start: Float64Array, n_rounds: int
) -> tuple[Float64Array, Float64Array]:
    """Largest singular values and right singular vectors (Halko, Martinsson and Tropp 2011, algorithm 4.4).

    The error of value k falls by (σ_{m+1} / σ_k)² in each round, where m is the number of columns of ``start``: ask for
    a few more than are needed. Sums are taken in one fixed order, so that no bit depends on the number of threads.

    Parameters
    ----------
    product : callable
        X (n_columns, m) to A X (n_rows, m).
    transposed : callable
        Y (n_rows, m) to Aᵀ Y (n_columns, m).
    start : float64 (n_columns, m)
        Random.
    n_rounds : int
        Products with A.

    Returns
    -------
    values : float64 (m,)
        In decreasing order; 0 beyond the rank.
    vectors : float64 (n_columns, m)
        Orthonormal columns, those beyond the rank 0.

    Examples
    --------
    >>> matrix = np.diag([3.0, 2.0, 1.0])
    >>> start = np.random.default_rng(0).normal(size=(3, 2))
    >>> values, vectors = singular_values(lambda x: matrix @ x, lambda y: matrix.T @ y, start, 60)
    >>> values.round(6).tolist()
    [3.0, 2.0]
    """
    with one_blas_thread():
        vectors = _orthonormal(start)
        images = product(vectors)
        for _ in range(n_rounds - 1):
            vectors = _orthonormal(transposed(images))
            images = product(vectors)
        squares, rotation = np.linalg.eigh(cross(images, images))
    return np.sqrt(np.maximum(squares[::-1], 0.0)), np.einsum("yk,kj->yj", vectors, rotation[:, ::-1])


def _orthonormal(vectors: Float64Array) -> Float64Array:
    """The same span with orthonormal columns (twice, for rounding); what has no length becomes 0."""
    for _ in range(2):
        squares, rotation = np.linalg.eigh(cross(vectors, vectors))
        kept = squares > 1e-14 * max(float(squares[-1]), 1e-300)
        factor = np.where(kept, 1.0 / np.sqrt(np.where(kept, squares, 1.0)), 0.0)
        vectors = np.einsum("yk,kj->yj", vectors, rotation * factor)
    return vectors


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
