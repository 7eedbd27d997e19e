"""Sums over linked users: the same bits for any number of threads."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, uniform


@njit(error_model="numpy")
def _add_link(row, other, weight, out):
    """out += weight (row + other)."""
    for k in range(row.size):
        out[k] += weight * (row[k] + other[k])


@njit(error_model="numpy")
def _add_noise(size, stream, out):
    """out += size noise, the noise being that of the link, whichever end asks: normal, two at a time (Box, Muller)."""
    for k in range(0, out.size, 2):
        radius = size * math.sqrt(-2.0 * math.log(uniform(stream, k)))
        angle = 2.0 * math.pi * uniform(stream, k + 1)
        out[k] += radius * math.cos(angle)
        if k + 1 < out.size:
            out[k + 1] += radius * math.sin(angle)


@njit(error_model="numpy", parallel=True)
def link_sums(indptr, friends, link, weights, rows, tau, key):
    """out[u] = Σ_v a_uv z_uv with z_uv = R_u + R_v + noise / sqrt(τ a_uv); without noise if τ is 0.

    Links of user u are those from indptr[u] to indptr[u + 1]: the other user, the number of the link, and a_uv.
    """
    out = np.zeros(rows.shape)
    for u in prange(rows.shape[0]):
        for p in range(indptr[u], indptr[u + 1]):
            _add_link(rows[u], rows[friends[p]], weights[p], out[u])
            if tau > 0.0:
                _add_noise(math.sqrt(weights[p] / tau), derive(key, link[p]), out[u])
    return out
