"""The logistic function and its integral, without overflow."""

from __future__ import annotations

import math

from permrank.kernels.jit import njit


@njit(error_model="numpy", inline="always")
def softplus(x):
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(error_model="numpy", inline="always")
def logistic(x):
    """1 / (1 + e^-x)."""
    small = math.exp(-abs(x))
    return 1.0 / (1.0 + small) if x >= 0 else small / (1.0 + small)
