"""Sums over linked users: the same bits for any number of threads."""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal


@njit(error_model="numpy")
def _add_link(row, other, weight, spread, stream, out):
    """out += weight (row + other + spread noise), the noise being that of the link, whichever end asks."""
    for k in range(row.size):
        noise = spread * normal(stream, k) if spread > 0.0 else 0.0
        out[k] += weight * (row[k] + other[k] + noise)


@njit(error_model="numpy", parallel=True)
def link_sums(indptr, friends, link, weights, rows, tau, key):
    """out[u] = Σ_v a_uv z_uv with z_uv = R_u + R_v + noise / sqrt(τ a_uv); without noise if τ is 0.

    Links of user u are those from indptr[u] to indptr[u + 1]: the other user, the number of the link, and a_uv.
    """
    out = np.zeros(rows.shape)
    for u in prange(rows.shape[0]):
        for p in range(indptr[u], indptr[u + 1]):
            spread = 1.0 / math.sqrt(tau * weights[p]) if tau > 0.0 else 0.0
            _add_link(rows[u], rows[friends[p]], weights[p], spread, derive(key, link[p]), out[u])
    return out
