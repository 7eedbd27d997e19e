"""Passes over long vectors and the memory of limited-memory BFGS: the same bits for any number of threads."""

from __future__ import annotations

import numpy as np

from permrank.kernels.jit import njit, prange

# Numbers of a chunk: those of 6 pairs and of two more vectors, 130 kB, fit a core's second cache.
_CHUNK = 2048
_FAST = {"reassoc", "contract"}


@njit(error_model="numpy", fastmath=_FAST)
def _product(a, b):
    total = 0.0
    for i in range(a.size):
        total += float(a[i]) * float(b[i])
    return total


@njit(error_model="numpy", parallel=True)
def memory_products(steps, falls, gradient, diagonal):
    """[S Yᵀ, Y P Yᵀ, S g, Y P g], (n_chunks, m, 2 m + 2), still to be added up over the chunks.

    steps S, falls Y: float32 (m, n); gradient g, diagonal of P: float64 (n,).
    """
    m, n = steps.shape
    n_chunks = (n + _CHUNK - 1) // _CHUNK
    parts = np.empty((n_chunks, m, 2 * m + 2))
    for c in prange(n_chunks):
        a, b = c * _CHUNK, min(n, (c + 1) * _CHUNK)
        step, scaled, slope, out = np.empty(b - a), np.empty(b - a), gradient[a:b], parts[c]
        for i in range(m):
            for e in range(b - a):
                step[e], scaled[e] = steps[i, a + e], diagonal[a + e] * falls[i, a + e]
            out[i, 2 * m], out[i, 2 * m + 1] = _product(step, slope), _product(scaled, slope)
            for j in range(m):
                out[i, j] = _product(step, falls[j, a:b])
            for j in range(i + 1):
                out[i, m + j] = _product(scaled, falls[j, a:b])
                out[j, m + i] = out[i, m + j]
    return parts


@njit(error_model="numpy", parallel=True)
def memory_sum(steps, falls, gradient, diagonal, scale, of_steps, of_falls):
    """scale P (g - Yᵀ of_falls) + Sᵀ of_steps, float64 (n,); names as above, the last two (m,)."""
    m, n = steps.shape
    out = np.empty(n)
    for c in prange((n + _CHUNK - 1) // _CHUNK):
        a, b = c * _CHUNK, min(n, (c + 1) * _CHUNK)
        for e in range(a, b):
            out[e] = gradient[e]
        for i in range(m):
            for e in range(a, b):
                out[e] -= of_falls[i] * falls[i, e]
        for e in range(a, b):
            out[e] *= scale * diagonal[e]
        for i in range(m):
            for e in range(a, b):
                out[e] += of_steps[i] * steps[i, e]
    return out


@njit(error_model="numpy", parallel=True)
def chunk_inner(a, b):
    """Σ a b of every chunk, float64, still to be added up."""
    n = a.size
    parts = np.empty((n + _CHUNK - 1) // _CHUNK)
    for c in prange(parts.size):
        part = slice(c * _CHUNK, min(n, (c + 1) * _CHUNK))
        parts[c] = _product(a[part], b[part])
    return parts


@njit(error_model="numpy", parallel=True)
def differences(new, old):
    """new - old, in the precision of the two."""
    out = np.empty_like(new)
    for e in prange(new.size):
        out[e] = new[e] - old[e]
    return out


@njit(error_model="numpy", parallel=True)
def moved(start, direction, length):
    """start + length * direction, rounded to float32."""
    out = np.empty(start.size, np.float32)
    for e in prange(start.size):
        out[e] = start[e] + length * direction[e]
    return out
