"""One pass over the users of the factored model's point estimate, O(entries x K) (paper, §3.1).

Given the items, every user's problem is concave: max_w log P(rankings | s = b + H w) - α |w|². A pass moves each user
by Newton steps whose equations are solved by a few conjugate gradients, so that no K x K matrix is ever formed: a
product with the curvature is one product with the user's rows of H and one with their transpose, and those rows lie in
the nearest cache. What the items need is summed on the way: by the envelope theorem the gradient in the items of the
objective with the users maximised out is Σ_e residual_e (w_u, 1).

The curvature of a list in its scores is bounded by C - C 1 1ᵀ C / (1ᵀ C 1), C = diag(expected choices): the variance
over all stages together, which is the mean variance within the stages, the true one, and that between them. So a
step never overshoots; along it the true curvature is used where it is known (strict lists and Breslow's ties).

Users are dealt to blocks by their entries alone, every block adds up in its own order, and the blocks are added in
theirs: the same bits for any number of threads. Sums may be reordered by the compiler (`reassoc`) only in small
functions over K numbers, in which no infinity can occur; the order it chooses is the same in every thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.kernels.jit import njit, prange
from permrank.posterior.kernels.choices import Room, directional_curvature, ranking_terms

_FAST = {"reassoc", "contract"}
# Conjugate gradients end when the residual has fallen to this part, in norm; a Newton step needs no more.
_FORCING = np.float32(0.1)
# No score may change by more than this in one step: a factor of e^3 in a worth.
_LONGEST = 3.0
_HALVINGS = 8


class Steps(NamedTuple):
    """Newton steps of a user, and conjugate gradients in each."""

    most: Any
    inner: Any


class Sums(NamedTuple):
    """What the items need, by block of users, written.

    Attributes
    ----------
    gradients : float32 (n_blocks, n_items, K + 2)
        Σ residual (w, 1), then Σ expected choices.
    moments : float64 (n_blocks, K + 1)
        Σ expected choices (w², 1).
    damping : float64 (n_blocks, as the damping)
        The derivatives in ρ.
    """

    gradients: Any
    moments: Any
    damping: Any


@njit(error_model="numpy", fastmath=_FAST)
def _dot(a, b):
    total = np.float32(0.0)
    for k in range(b.size):
        total += a[k] * b[k]
    return total


@njit(error_model="numpy", fastmath=_FAST)
def _add_to(target, factor, a):
    for k in range(target.size):
        target[k] += factor * a[k]


@njit(error_model="numpy", fastmath=_FAST)
def _times(rows, n, vector, out):
    """out = rows vector; four rows at a time, which the compiler keeps in registers."""
    whole = n - n % 4
    for e in range(0, whole, 4):
        a, b, c, d = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for k in range(vector.size):
            a += rows[e, k] * vector[k]
            b += rows[e + 1, k] * vector[k]
            c += rows[e + 2, k] * vector[k]
            d += rows[e + 3, k] * vector[k]
        out[e], out[e + 1], out[e + 2], out[e + 3] = a, b, c, d
    for e in range(whole, n):
        out[e] = _dot(rows[e], vector)


@njit(error_model="numpy", fastmath=_FAST)
def _transposed_times(rows, n, factors, out):
    """out = rowsᵀ factors."""
    whole = n - n % 4
    out[:] = 0.0
    for e in range(0, whole, 4):
        a, b, c, d = factors[e], factors[e + 1], factors[e + 2], factors[e + 3]
        for k in range(out.size):
            out[k] += a * rows[e, k] + b * rows[e + 1, k] + c * rows[e + 2, k] + d * rows[e + 3, k]
    for e in range(whole, n):
        _add_to(out, factors[e], rows[e])


@njit(error_model="numpy")
def _statistics(lists, first, last, law, user, room):
    """Log-likelihood of the rankings first to last at a user vector, and whether curvatures are exact.

    room.flat[4] and room.flat[5] receive residual and curvature.
    """
    indptr, work, flat = lists.indptr, room.work, room.flat
    start, n = indptr[first], indptr[last] - indptr[first]
    _times(room.rows, n, user, flat[2])
    for e in range(n):
        work[0, e] = float(flat[0, e]) + float(flat[2, e])
    value, known = 0.0, True
    for r in range(first, last):
        if indptr[r + 1] > indptr[r]:
            part, exact = ranking_terms(lists, r, start, law, room)
            value += part
            known = known and exact
    return value, known


@njit(error_model="numpy", fastmath=_FAST)
def _curved(curvature, change, out):
    """out = (C - C 1 1ᵀ C / 1ᵀ C 1) change, for one ranking."""
    total, mean = np.float32(1e-30), np.float32(0.0)
    for e in range(out.size):
        total += curvature[e]
        mean += curvature[e] * change[e]
    mean /= total
    for e in range(out.size):
        out[e] = curvature[e] * (change[e] - mean)


@njit(error_model="numpy", fastmath=_FAST)
def _inverse_diagonal(rows, n, penalty, curvature, mean, scale):
    """1 / diagonal of the matrix of `_newton_direction`, as if all entries were one ranking."""
    total = np.float32(1e-30)
    _transposed_times(rows, n, curvature, mean)
    scale[:] = 0.0
    for e in range(n):
        c = curvature[e]
        total += c
        for k in range(scale.size):
            scale[k] += c * rows[e, k] * rows[e, k]
    for k in range(scale.size):
        spread = scale[k] - mean[k] * mean[k] / total
        scale[k] = np.float32(1.0) / (penalty + max(spread, np.float32(0.0)))


@njit(error_model="numpy", fastmath=_FAST)
def _newton_direction(indptr, first, last, penalty, user, room, most):
    """Solve (penalty + rowsᵀ Curved rows) d = gradient by conjugate gradients; returns gradient · d.

    room.vectors[1] receives d, and room.flat[1] rows d.
    """
    rows, flat, vectors = room.rows, room.flat, room.vectors
    gradient, found, rest = vectors[0], vectors[1], vectors[2]
    conjugate, product, scale = vectors[3], vectors[4], vectors[5]
    change, step, curved, curvature = flat[1], flat[2], flat[3], flat[5]
    start, n = indptr[first], indptr[last] - indptr[first]
    _transposed_times(rows, n, flat[4], gradient)
    _inverse_diagonal(rows, n, penalty, curvature, vectors[6], scale)
    for k in range(user.size):
        gradient[k] -= penalty * user[k]
        rest[k] = gradient[k]
        conjugate[k] = scale[k] * rest[k]
        found[k] = 0.0
    for e in range(n):
        change[e] = 0.0
    rho = _dot(rest, conjugate)
    target = _FORCING * _FORCING * rho
    for _ in range(most):
        if not rho > target:
            break
        _times(rows, n, conjugate, step)
        for r in range(first, last):
            a, b = indptr[r] - start, indptr[r + 1] - start
            _curved(curvature[a:b], step[a:b], curved[a:b])
        _transposed_times(rows, n, curved, product)
        _add_to(product, penalty, conjugate)
        length = rho / _dot(conjugate, product)
        _add_to(found, length, conjugate)
        _add_to(rest, -length, product)
        for e in range(n):
            change[e] += length * step[e]
        for k in range(user.size):
            product[k] = scale[k] * rest[k]
        new = _dot(rest, product)
        ratio = new / rho
        for k in range(user.size):
            conjugate[k] = product[k] + ratio * conjugate[k]
        rho = new
    return _dot(gradient, found)


@njit(error_model="numpy")
def _step_length(lists, first, last, known, slope, penalty, room):
    """Newton's length along the direction by the true curvature, or 1; short enough for the scores."""
    indptr, weights, work, flat, found = lists.indptr, lists.weights, room.work, room.flat, room.vectors[1]
    length, longest, start = 1.0, 1e-30, indptr[first]
    if known:
        curvature = float(penalty) * float(_dot(found, found))
        for r in range(first, last):
            a, b = indptr[r] - start, indptr[r + 1] - start
            curvature += weights[r] * directional_curvature(work[1, a:b], work[2, a:b], flat[1, a:b], b - a)
        length = slope / curvature
    for e in range(indptr[last] - start):
        longest = max(longest, float(abs(flat[1, e])))
    return min(length, _LONGEST / longest)


@njit(error_model="numpy")
def _climb(lists, first, last, law, penalty, user, room, steps):
    """Newton steps of one user, in place, that never lower the log-posterior, which is returned.

    room.flat[4] and room.flat[5] are left as at the end.
    """
    found, trial = room.vectors[1], room.vectors[7]
    trial[:] = user
    before, length, attempts, most = -np.inf, 0.0, 0, steps.most
    while True:
        likelihood, known = _statistics(lists, first, last, law, trial, room)
        value = likelihood - 0.5 * penalty * _dot(trial, trial)
        if value >= before or attempts == _HALVINGS:
            user[:] = trial
            if most == 0 or attempts == _HALVINGS:
                return value
            slope = _newton_direction(lists.indptr, first, last, penalty, user, room, steps.inner)
            if not slope > 0.0:
                return value
            length = _step_length(lists, first, last, known, slope, penalty, room)
            before, attempts, most = value, 0, most - 1
        else:
            attempts += 1
            length = 0.0 if attempts == _HALVINGS else 0.25 * length  # in the end back to where it was
        for k in range(user.size):
            trial[k] = user[k] + np.float32(length) * found[k]


@njit(error_model="numpy")
def _most_entries(lists, begin, end):
    """The most entries of a user from begin to end, and at least 1."""
    most = 1
    for u in range(begin, end):
        most = max(most, lists.indptr[lists.user_indptr[u + 1]] - lists.indptr[lists.user_indptr[u]])
    return most


@njit(error_model="numpy")
def _copy(row, target):
    for k in range(target.size):
        target[k] = row[k]


@njit(error_model="numpy", fastmath=_FAST)
def _add_gradient(items, user, residual, curvature, gradient):
    """gradient[item] += (residual w, residual, curvature) for the entries of a user; returns Σ curvature."""
    n_factors, total = user.size, 0.0
    for e in range(items.size):
        row, r, c = gradient[items[e]], residual[e], curvature[e]
        for k in range(n_factors):
            row[k] += r * user[k]
        row[n_factors] += r
        row[n_factors + 1] += c
        total += c
    return total


@njit(error_model="numpy")
def _add_damping_gradient(indptr, first, last, weights, scores, means, gradient):
    """gradient[i] += weight * (s_i - Σ_j p_i(j) s_j), the slope in ρ_i (paper, §3.1)."""
    start = indptr[first]
    for r in range(first, last):
        for e in range(indptr[r], indptr[r + 1] - 1):
            gradient[e - indptr[r]] += weights[r] * (scores[e - start] - means[e - start])


@njit(error_model="numpy")
def _room(n, n_factors):
    """For users of at most n entries."""
    rows, flat, powers = np.empty((n, n_factors), np.float32), np.empty((6, n), np.float32), np.empty(n)
    vectors = np.empty((8, n_factors), np.float32)
    return Room(rows, flat, np.empty((10, n)), powers, powers.view(np.int64), np.empty((2, 31)), vectors)


@njit(error_model="numpy")
def _climb_block(bounds, b, lists, law, theta, penalty, users, steps, sums, values):
    """`climb_users` for the users of block b."""
    n_factors, indptr = users.shape[1], lists.indptr
    gradient, moment, in_damping = sums.gradients[b], sums.moments[b], sums.damping[b]
    gradient[:], moment[:], in_damping[:] = 0.0, 0.0, 0.0
    room = _room(_most_entries(lists, bounds[b], bounds[b + 1]), n_factors)
    rows, flat = room.rows, room.flat
    for u in range(bounds[b], bounds[b + 1]):
        first, last, user = lists.user_indptr[u], lists.user_indptr[u + 1], users[u]
        start, n = indptr[first], indptr[last] - indptr[first]
        for e in range(n):
            row = theta[lists.items[start + e]]
            _copy(row, rows[e])
            flat[0, e] = row[n_factors]
        values[u] = _climb(lists, first, last, law, penalty, user, room, steps)
        total = _add_gradient(lists.items[start : start + n], user, flat[4], flat[5], gradient)
        for k in range(n_factors):
            moment[k] += total * user[k] * user[k]
        moment[n_factors] += total
        if law.damping.size > 0:
            _add_damping_gradient(indptr, first, last, lists.weights, room.work[0], room.work[2], in_damping)


@njit(error_model="numpy", parallel=True)
def climb_users(bounds, lists, law, theta, penalty, users, steps, sums):
    """Move all users uphill given the items, and sum up what the items need (see the head of this file).

    bounds: (n_blocks + 1,), users of each block; theta: float32 (n_items, K + 1), factors and intercept; penalty: 2 α,
    float32; users: float32 (n_users, K), moved in place. Returns the log-posteriors of the users, (n_users,).
    """
    values = np.empty(users.shape[0])
    for b in prange(bounds.size - 1):
        _climb_block(bounds, np.int64(b), lists, law, theta, penalty, users, steps, sums, values)
    return values


@njit(error_model="numpy", parallel=True)
def add_blocks(gradients, theta, penalty, spread, intercepts, gradient, diagonal):
    """Gradient of the objective in the items, Σ_b gradients[b] in that order - penalty θ, and a diagonal for its steps.

    penalty: 2 β; spread: (K + 1,); gradient, diagonal: float64 (n_items, K + 1), written; diagonal_yk = 1 / (2 β +
    spread_k Σ_e expected). Without intercepts their gradient is 0.
    """
    n_items, size = theta.shape
    for y in prange(n_items):
        expected = 0.0
        for b in range(gradients.shape[0]):
            expected += gradients[b, y, size]
        for k in range(size):
            gradient[y, k] = -penalty * theta[y, k]
            diagonal[y, k] = 1.0 / (penalty + spread[k] * expected)
        for b in range(gradients.shape[0]):
            for k in range(size):
                gradient[y, k] += gradients[b, y, k]
        if not intercepts:
            gradient[y, size - 1] = 0.0
