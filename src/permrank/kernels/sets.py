"""Sets as bits of a number, and sums of exponentials over them."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit


@njit(error_model="numpy")
def n_members(members):
    """How many bits are set."""
    count = 0
    while members:
        members &= members - 1
        count += 1
    return count


@njit(error_model="numpy")
def log_add(x, y):
    """log(e^x + e^y)."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log1p(math.exp(y - x))
