"""Array aliases and the small values that travel between layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64Array: TypeAlias = NDArray[np.float64]
Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
Float32Array: TypeAlias = NDArray[np.float32]
Array: TypeAlias = NDArray[Any]
"""Of any numbers: what kernels take and return."""
Named: TypeAlias = dict[str, Any]
"""Values of any kind by name: parameters, tensors, JSON objects."""
Key: TypeAlias = np.uint64
"""Of a stream of random numbers; see `permrank.randomness.stream_key`."""

UserId: TypeAlias = str | int
Friends: TypeAlias = Iterable[object] | Mapping[Any, float]
"""Ids of users, all alike or each with the weight of its link."""


class Progress(NamedTuple):
    """What a ``fit(..., callback=)`` gets after every sweep.

    Attributes
    ----------
    iteration : int
        Sweeps done, from 1.
    max_iter : int
        The most sweeps that will be made.
    objective : float
        The objective after this sweep; higher is better.
    score : float or None
        On the validation part, if the estimate was measured after this sweep.
    part : int
        Which part of learning the sweep belongs to; objectives of different parts are not comparable.
    """

    iteration: int
    max_iter: int
    objective: float
    score: float | None = None
    part: int = 0


Callback: TypeAlias = Callable[[Progress], bool | None]
"""Called after every sweep; returning True stops learning and keeps the estimate."""
