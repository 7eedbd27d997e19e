"""Sums over linked users, and noise that links share: the same bits for any number of threads.

Links of user u are those from indptr[u] to indptr[u + 1]. Numbers are float32: rows are found all over the memory, and
more digits would tell nothing about draws.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import bits, mixed

# Odd, near 2**64 / golden ratio: numbers of links are far apart before they are mixed.
_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_LOW, _HIGH, _TOP = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(63)


@njit(error_model="numpy")
def _add_rows(rows, places, weights, first, last, out):
    """out += Σ_p weights_p rows[places_p]: eight at a time, since a short loop costs more than what is in it."""
    whole = last - (last - first) % 8
    for p in range(first, whole, 8):
        a, b, c, d = rows[places[p]], rows[places[p + 1]], rows[places[p + 2]], rows[places[p + 3]]
        e, f, g, h = rows[places[p + 4]], rows[places[p + 5]], rows[places[p + 6]], rows[places[p + 7]]
        i, j, m, n = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
        q, r, s, t = weights[p + 4], weights[p + 5], weights[p + 6], weights[p + 7]
        for k in range(out.size):
            half = (i * a[k] + j * b[k]) + (m * c[k] + n * d[k])
            out[k] += half + ((q * e[k] + r * f[k]) + (s * g[k] + t * h[k]))
    for p in range(whole, last):
        row = rows[places[p]]
        for k in range(out.size):
            out[k] += weights[p] * row[k]


@njit(error_model="numpy")
def _choose_rows(links, roots, n_rows, key, places, signed):
    """For each link a row of noise and a sign, which are the same at both of its ends."""
    start = bits(key, np.uint64(0))
    for p in range(links.size):
        word = mixed(start + _STRIDE * np.uint64(links[p]))
        places[p] = np.int64((word & _LOW) * np.uint64(n_rows) >> _HIGH)
        signed[p] = roots[p] if word >> _TOP else -roots[p]


@njit(error_model="numpy", parallel=True)
def link_sums(indptr, friends, weights, rows):
    """out[u] = Σ_v a_uv rows[v]."""
    out = np.zeros((indptr.size - 1, rows.shape[1]), np.float32)
    for u in prange(out.shape[0]):
        _add_rows(rows, friends, weights, indptr[u], indptr[u + 1], out[u])
    return out


@njit(error_model="numpy", parallel=True)
def link_noise(indptr, links, roots, normals, key):
    """out[u] = Σ_v sqrt(a_uv) ± e_uv, where e_uv is a row of ``normals``, chosen with its sign by key and link.

    roots: sqrt(a_uv). Covariance of ``out`` over keys and normals: that of one normal variable of variance a_uv for
    each link, at both of its ends.
    """
    out = np.zeros((indptr.size - 1, normals.shape[1]), np.float32)
    for u in prange(out.shape[0]):
        first, last = indptr[u], indptr[u + 1]
        places, signed = np.empty(last - first, np.int64), np.empty(last - first, np.float32)
        _choose_rows(links[first:last], roots[first:last], normals.shape[0], key, places, signed)
        _add_rows(normals, places, signed, 0, last - first, out[u])
    return out
