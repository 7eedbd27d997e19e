"""BLAS without threads, for learning in which matrices are small and kernels are parallel already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import scipy.linalg  # noqa: F401 - SciPy has a BLAS of its own, and a library that is not loaded is not found
from threadpoolctl import ThreadpoolController

from permrank.learning.learner import Learner, State, Step

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
