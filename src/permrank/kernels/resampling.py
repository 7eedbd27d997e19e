"""Sums of randomly signed and of randomly drawn values: randomisation tests and the bootstrap."""

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import bits, derive, uniform

_ONE, _WORD = np.uint64(1), np.uint64(64)


@njit(error_model="numpy", parallel=True)
def signed_sums(values, key, n_draws):
    """sum_i ±values_i with fair independent signs, n_draws times; 64 signs a random word."""
    out = np.empty(n_draws)
    for draw in prange(n_draws):
        branch, word, total = derive(key, draw), np.uint64(0), 0.0
        for i in range(values.size):
            bit = np.uint64(i) % _WORD
            if bit == 0:
                word = bits(branch, np.uint64(i) // _WORD)
            total += values[i] if (word >> bit) & _ONE else -values[i]
        out[draw] = total
    return out


@njit(error_model="numpy", parallel=True)
def resampled_means(values, weights, key, n_draws):
    """Weighted mean of as many values drawn with replacement, n_draws times."""
    out = np.empty(n_draws)
    for draw in prange(n_draws):
        branch, total, weight = derive(key, draw), 0.0, 0.0
        for i in range(values.size):
            chosen = int(uniform(branch, i) * values.size)
            total += weights[chosen] * values[chosen]
            weight += weights[chosen]
        out[draw] = total / weight
    return out
