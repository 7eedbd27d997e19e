"""Largest singular values of a matrix that is known by its products only: subspace iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from permrank.kernels.cooccurrence import cross
from permrank.learning.blas import one_blas_thread
from permrank.types import Float64Array

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
