"""Factored Plackett-Luce, §3.1: s_y^u = b_y + Σ_k W_uk H_ky. The pass over the users.

A row of ``theta`` (n_items, K + 1) is an item: its K factors H_y, then its intercept b_y. Given the items a user's
problem is concave in K variables and is solved by Newton's method with the user's own Hessian; given the users,
items are updated side by side from per-entry residuals and curvatures (items.py): no learning rate, no races,
no sums that depend on threads. With ``draw`` the update ends in a draw from the Gaussian at the mode.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.jit import njit, prange
from permrank.kernels.plackett_luce.likelihood import EXACT, PARTITION, ranking_statistics
from permrank.kernels.streams import derive, normal

# A Newton step of a user is never longer than this in any coordinate: scores then change by a factor e^few.
_LONGEST_STEP = 2.0
# Newton steps of a user. Typed: Numba compiles a kernel again for a literal number.
_NEWTON_STEPS = np.int64(50)


@njit(error_model="numpy")
def _user_scores(items, start, stop, theta, user, n_factors, scores):
    """Scores of the entries start to stop: b_y + W_u H_y."""
    for e in range(start, stop):
        row = theta[items[e]]
        total = row[n_factors]
        for k in range(n_factors):
            total += user[k] * row[k]
        scores[e] = total


@njit(error_model="numpy")
def _stage_shares(levels, scores, expected, start, stop, ties, own, exposure):
    """Split the expected choices of the entries by stage, for the Hessian.

    ``expected`` of an entry is Σ over stages up to its block of its share there. At the stage of block T an item
    below T has the share w_e * exposure, with the same exposure for all of them, and the shares of a stage add up to
    the choices made in it (|T|; 1 under PARTITION; 0 for a last block that says nothing). Fills, relative to start,
    own[e]: the share of an entry at its own block's stage; exposure[first entry of a block], in units of
    1 / exp(largest score). Returns the largest score.
    """
    n = stop - start
    largest = -np.inf
    for e in range(start, stop):
        largest = max(largest, scores[e])
    below = np.empty(n + 1)
    below[n] = 0.0
    for i in range(n - 1, -1, -1):
        below[i] = below[i + 1] + math.exp(scores[start + i] - largest)
    so_far = 0.0
    first = 0
    while first < n:
        end = first + 1
        while end < n and levels[start + end] == levels[start + first]:
            end += 1
        choices = 1.0 if ties == PARTITION else float(end - first)
        if end == n and (ties == EXACT or end - first == 1):
            choices = 0.0
        mine = 0.0
        for i in range(first, end):
            own[i] = max(0.0, expected[start + i] - math.exp(scores[start + i] - largest) * so_far)
            mine += own[i]
        rest = below[end]
        exposure[first] = max(0.0, choices - mine) / rest if rest > 0.0 else 0.0
        so_far += exposure[first]
        first = end
    return largest


@njit(error_model="numpy")
def _add_hessian(items, levels, scores, expected, start, stop, ties, weight, theta, n_factors, hessian):
    """Add minus the Hessian of one ranking's log-likelihood in the user's factors to the lower triangle.

    Σ_e expected_e x xᵀ - Σ_stages v vᵀ / (choices), v = Σ of share * x over the stage: exact for strict rankings and
    for Breslow's ties; for the others the blocks are taken as as many independent choices, which is never
    indefinite.
    """
    n = stop - start
    own, exposure = np.empty(n), np.zeros(n)
    largest = _stage_shares(levels, scores, expected, start, stop, ties, own, exposure)
    tail, centre = np.zeros(n_factors), np.empty(n_factors)
    worth_below = 0.0
    end = n
    while end > 0:
        first = end - 1
        while first > 0 and levels[start + first - 1] == levels[start + end - 1]:
            first -= 1
        choices = exposure[first] * worth_below
        for k in range(n_factors):
            centre[k] = exposure[first] * tail[k]
        for i in range(first, end):
            row = theta[items[start + i]]
            worth = math.exp(scores[start + i] - largest)
            worth_below += worth
            choices += own[i]
            share = weight * expected[start + i]
            for k in range(n_factors):
                centre[k] += own[i] * row[k]
                tail[k] += worth * row[k]
                part = share * row[k]
                for m in range(k + 1):
                    hessian[k, m] += part * row[m]
        if choices > 0.0:
            for k in range(n_factors):
                part = weight * centre[k] / choices
                for m in range(k + 1):
                    hessian[k, m] -= part * centre[m]
        end = first


@njit(error_model="numpy")
def _user_statistics(first, last, indptr, items, levels, weights, ties, theta, user, scores, chosen, expected):
    """Weighted log-likelihood of the rankings first to last at one user vector; fills the entries' statistics."""
    value = 0.0
    for r in range(first, last):
        start, stop = indptr[r], indptr[r + 1]
        _user_scores(items, start, stop, theta, user, user.size, scores)
        value += weights[r] * ranking_statistics(levels, scores, start, stop, ties, chosen, expected)
    return value


@njit(error_model="numpy")
def _newton_system(
    first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, chosen, expected, hessian,
    step,
):  # fmt: skip
    """Cholesky factor of minus the Hessian of the log-posterior into ``hessian``, the Newton step into ``step``."""
    n_factors = user.size
    for k in range(n_factors):
        step[k] = precision[k] * (mean[k] - user[k])
        for m in range(k):
            hessian[k, m] = 0.0
        hessian[k, k] = precision[k]
    for r in range(first, last):
        start, stop = indptr[r], indptr[r + 1]
        _add_hessian(items, levels, scores, expected, start, stop, ties, weights[r], theta, n_factors, hessian)
        for e in range(start, stop):
            residual = weights[r] * (chosen[e] - expected[e])
            row = theta[items[e]]
            for k in range(n_factors):
                step[k] += residual * row[k]
    cholesky(hessian, n_factors)
    forward(hessian, step, n_factors)
    backward(hessian, step, n_factors)


@njit(error_model="numpy")
def _log_prior(user, mean, precision):
    total = 0.0
    for k in range(user.size):
        total -= 0.5 * precision[k] * (user[k] - mean[k]) ** 2
    return total


@njit(error_model="numpy")
def prior_mean(coordinates, slopes):
    """Prior mean of a user's factors, Σ_j coordinate_j slopes_j."""
    mean = np.zeros(slopes.shape[1])
    for j in range(coordinates.size):
        for k in range(mean.size):
            mean[k] += coordinates[j] * slopes[j, k]
    return mean


@njit(error_model="numpy")
def _climb_user(
    first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, chosen, expected, most, tol
):
    """Newton ascent of one user's log-posterior, steps halved until it does not fall; returns it and L of the Hessian.

    ``user`` is moved in place, and the entries' statistics are those of the final point.
    """
    n_factors = user.size
    hessian, step, trial = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_factors)
    value = _log_prior(user, mean, precision) + _user_statistics(
        first, last, indptr, items, levels, weights, ties, theta, user, scores, chosen, expected
    )
    for _ in range(most):
        _newton_system(
            first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, chosen, expected,
            hessian, step,
        )  # fmt: skip
        longest = 0.0
        for k in range(n_factors):
            longest = max(longest, abs(step[k]))
        length = 1.0 if longest < _LONGEST_STEP else _LONGEST_STEP / longest
        moved = False
        for _ in range(30):
            for k in range(n_factors):
                trial[k] = user[k] + length * step[k]
            there = _log_prior(trial, mean, precision) + _user_statistics(
                first, last, indptr, items, levels, weights, ties, theta, trial, scores, chosen, expected
            )
            if there >= value - 1e-12 * abs(value):
                moved = True
                break
            length *= 0.5
        if not moved:
            _user_statistics(first, last, indptr, items, levels, weights, ties, theta, user, scores, chosen, expected)
            break
        user[:] = trial
        value = there
        if length * longest < tol:
            break
    return value, hessian


@njit(error_model="numpy", parallel=True)
def move_users(
    before, user_indptr, indptr, items, levels, weights, ties, theta, precision, modes, draws, key, draw, most, tol,
    residual, curvature, coordinates, slopes,
):  # fmt: skip
    """Move every user to the mode of its posterior given the items, and draw around it if asked.

    A priori W_u ~ N(coordinates_u slopes, 1 / precision); coordinates: (n_users, n_dimensions).
    slopes: (n_dimensions, K); modes: (n_users, K), start and result; draws: (n_users, K), written: a draw from
    N(mode, H^-1), or the mode.
    residual, curvature: (n_entries,), written: weight * (chosen - expected) and weight * expected at ``draws``.
    before: users of others before the first, whose streams of random numbers are not these.
    Returns the users' log-posteriors at the modes, constants left out, (n_users,).
    """
    n_users, n_factors = modes.shape
    values = np.empty(n_users)
    scores = np.empty(items.size)
    for u in prange(n_users):
        first, last = user_indptr[u], user_indptr[u + 1]
        user, mean = modes[u].copy(), prior_mean(coordinates[u], slopes)
        values[u], lower = _climb_user(
            first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, residual,
            curvature, most, tol,
        )  # fmt: skip
        modes[u] = user
        if draw:
            stream = derive(key, before + np.int64(u))
            noise = np.empty(n_factors)
            for k in range(n_factors):
                noise[k] = normal(stream, k)
            if last > first and most > 0:
                backward(lower, noise, n_factors)
            else:
                for k in range(n_factors):
                    noise[k] /= math.sqrt(precision[k])
            for k in range(n_factors):
                user[k] += noise[k]
            _user_statistics(
                first, last, indptr, items, levels, weights, ties, theta, user, scores, residual, curvature
            )
        draws[u] = user
        for r in range(first, last):
            for e in range(indptr[r], indptr[r + 1]):
                residual[e] = weights[r] * (residual[e] - curvature[e])
                curvature[e] *= weights[r]
    return values


def update_users(*arguments: Any) -> NDArray[np.float64]:
    """`move_users` of all users: the arguments that follow ``before``."""
    values: NDArray[np.float64] = move_users(0, *arguments)
    return values


@njit(error_model="numpy", parallel=True)
def user_log_likelihoods(user_indptr, indptr, items, levels, weights, ties, theta, users):
    """Weighted log-likelihood of each user's rankings at given user vectors, (n_users,)."""
    n_users = user_indptr.size - 1
    values = np.empty(n_users)
    scores, chosen, expected = np.empty(items.size), np.empty(items.size), np.empty(items.size)
    for u in prange(n_users):
        values[u] = _user_statistics(
            user_indptr[u], user_indptr[u + 1], indptr, items, levels, weights, ties, theta, users[u], scores, chosen,
            expected,
        )  # fmt: skip
    return values


@njit(error_model="numpy", parallel=True)
def posterior_draws(
    user_indptr, indptr, items, levels, weights, ties, theta, precision, modes, key, size, log_density, coordinates,
    slopes,
):  # fmt: skip
    """Draws of each user's vector from its Laplace posterior given the items: (n_users, size, K).

    modes: (n_users, K), start of the ascent and, when done, the modes. log_density: (n_users, size), written: log of
    the Gaussian density of each draw, which importance sampling divides by.
    """
    n_users, n_factors = modes.shape
    draws = np.empty((n_users, size, n_factors))
    scores, chosen, expected = np.empty(items.size), np.empty(items.size), np.empty(items.size)
    for u in prange(n_users):
        first, last = user_indptr[u], user_indptr[u + 1]
        user, mean = modes[u].copy(), prior_mean(coordinates[u], slopes)
        _, lower = _climb_user(
            first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, chosen, expected,
            _NEWTON_STEPS, 1e-9,
        )  # fmt: skip
        modes[u] = user
        _newton_system(
            first, last, indptr, items, levels, weights, ties, theta, user, mean, precision, scores, chosen, expected,
            lower, np.empty(n_factors),
        )  # fmt: skip
        stream = derive(key, u)
        noise = np.empty(n_factors)
        for d in range(size):
            density = -0.5 * n_factors * math.log(2.0 * math.pi)
            for k in range(n_factors):
                noise[k] = normal(stream, d * n_factors + k)
                density += math.log(lower[k, k]) - 0.5 * noise[k] * noise[k]
            backward(lower, noise, n_factors)
            for k in range(n_factors):
                draws[u, d, k] = user[k] + noise[k]
            log_density[u, d] = density
    return draws
