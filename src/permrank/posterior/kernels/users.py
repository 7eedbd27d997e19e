"""Factored Plackett-Luce, §3.1: s_y^u = b_y + Σ_k W_uk H_ky. The pass over the users.

A row of ``theta`` (n_items, K + 1) is an item: its K factors H_y, then its intercept b_y. Given the items a user's
problem is concave in K variables and is solved by Newton's method with the user's own Hessian; given the users,
items are updated side by side from per-entry residuals and curvatures (items.py): no learning rate, no races,
no sums that depend on threads. With ``draw`` the update ends in a draw from the Gaussian at the mode.

``ties`` is a treatment of ties, or minus the number of thresholds between ratings: then entries have proportional odds
(odds.py), and the place of their levels is taken by how many thresholds lie below. Inside, ``ties`` is None for
proportional odds and ``edges``, the scores of the thresholds (`edges_of`), is None for lists: what is asked of an
argument that is None is known when a kernel is compiled, so that each kind has its own, without the other's code.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.columns import add_products, combined
from permrank.kernels.jit import njit, prange
from permrank.kernels.lists import Lists
from permrank.kernels.streams import derive, normal, uniform
from permrank.posterior.kernels.arguments import Entries, Gaussian, Newton, Noise, Prior, Users
from permrank.posterior.kernels.odds import Array, edges_of
from permrank.posterior.kernels.user_lists import (
    add_lists_hessian,
    add_stage_noise,
    gathered_lists,
    lists_statistics,
    lists_value,
    set_scores,
)

# A Newton step of a user is never longer than this in any coordinate: scores then change by a factor e^few.
_LONGEST_STEP = 2.0
# Proportional odds: along a step that changes no score by more than c the curvature grows by e^c at the most, since
# |d³/ds³ log σ| <= |d²/ds² log σ|. So a Newton step gains 1 - (e^c - 1 - c) / c² times gradient * step or more, which
# is positive up to c = 1.79.
_SURE = 1.5
# Newton steps of a user. Typed: Numba compiles a kernel again for a literal number.
_NEWTON_STEPS = np.int64(50)


@njit(error_model="numpy")
def _newton_system(lists, u, ties, of_user, user, prior, hessian, step):
    """Cholesky factor of minus the Hessian of the log-posterior into ``hessian``, the Newton step into ``step``.

    Returns half of gradient * step, by which the log-posterior would rise if it were quadratic.
    """
    n_factors, n, origin = user.size, of_user.scores.size, lists.indptr[lists.user_indptr[u]]
    for k in range(n_factors):
        step[k] = prior.precision[k] * (prior.mean[k] - user[k])
        for m in range(n_factors):
            hessian[k, m] = 0.0
        hessian[k, k] = prior.precision[k]
    add_lists_hessian(lists, u, ties, of_user, hessian)
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        for e in range(lists.indptr[r] - origin, lists.indptr[r + 1] - origin):
            of_user.weights[e] = lists.weights[r] * (of_user.made[e] - of_user.expected[e])
    add_products(of_user.columns, n, of_user.weights, step)
    cholesky(hessian, n_factors)
    forward(hessian, step, n_factors)
    gain = 0.0
    for k in range(n_factors):
        gain += 0.5 * step[k] * step[k]
    backward(hessian, step, n_factors)
    return gain


@njit(error_model="numpy")
def _largest(values):
    """max |values|."""
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    return largest


@njit(error_model="numpy")
def log_prior(user, prior):
    """-Σ_k precision_k (user_k - mean_k)² / 2."""
    total = 0.0
    for k in range(user.size):
        total -= 0.5 * prior.precision[k] * (user[k] - prior.mean[k]) ** 2
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
def user_prior(prior, u):
    """Prior of user u: `prior_mean`, and what links say."""
    mean, precision, pull = prior_mean(prior.coordinates[u], prior.slopes), prior.precision.copy(), prior.pull
    if pull.shape[1] > 0:
        for k in range(mean.size):
            mean[k] += pull[u, k]
            precision[k] *= pull[u, mean.size]
    return Gaussian(mean, precision)


@njit(error_model="numpy")
def _climb_user(lists, u, ties, edges, of_user, user, prior, newton):
    """Newton ascent of one user's log-posterior, steps halved until it does not fall; returns it and L of the Hessian.

    ``user`` is moved in place, and the scores are those of the final point. The entries' statistics are too, if the
    third value is true: the last step allowed is not looked at after it if it cannot fall (`_SURE`).
    """
    n_factors, n, scores, change = user.size, of_user.scores.size, of_user.scores, of_user.change
    hessian, step, trial = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_factors)
    set_scores(of_user, user)
    value = log_prior(user, prior) + lists_statistics(lists, u, ties, edges, of_user)
    for number in range(newton.most):
        gain = _newton_system(lists, u, ties, of_user, user, prior, hessian, step)
        longest = _largest(step)
        combined(of_user.columns, n, step, change)
        last = number + 1 == newton.most and longest < _LONGEST_STEP
        if edges is not None and last and _largest(change) < _SURE:
            for k in range(n_factors):
                user[k] += step[k]
            for e in range(n):
                scores[e] += change[e]
            return value + gain, hessian, False
        length, before, moved = 1.0 if longest < _LONGEST_STEP else _LONGEST_STEP / longest, 0.0, False
        for _ in range(30):
            for k in range(n_factors):
                trial[k] = user[k] + length * step[k]
            for e in range(n):
                scores[e] += (length - before) * change[e]
            before = length
            there = log_prior(trial, prior) + lists_statistics(lists, u, ties, edges, of_user)
            if there >= value - 1e-12 * abs(value):
                moved = True
                break
            length *= 0.5
        if not moved:
            set_scores(of_user, user)
            lists_statistics(lists, u, ties, edges, of_user)
            break
        user[:] = trial
        value = there
        if length * longest < newton.tol:
            break
    return value, hessian, True


@njit(error_model="numpy")
def _surprise(lower, away):
    """Minus the logarithm of the density of N(0, (L Lᵀ)^-1), constants left out: |Lᵀ away|² / 2."""
    total = 0.0
    for k in range(away.size):
        part = 0.0
        for m in range(k, away.size):
            part += lower[m, k] * away[m]
        total += 0.5 * part * part
    return total


@njit(error_model="numpy")
def _draw_around(lists, u, ties, edges, of_user, user, before, lower, prior, away, exact, stream):
    """Move a user from the mode by ``away``, a draw from N(0, (L Lᵀ)^-1), with scores and statistics there.

    exact: take that for the proposal of an independence Metropolis step from the draw ``before``. The Gaussian at the
    mode alone is too close to the prior mean: the likelihood falls more slowly away from it than towards it.
    """
    stays, apart = 0.0, np.empty(user.size)
    if exact:
        set_scores(of_user, before)
        for k in range(user.size):
            apart[k] = before[k] - user[k]
        of_user.change[:] = of_user.scores
        stays = log_prior(before, prior) + lists_value(lists, u, ties, edges, of_user) + _surprise(lower, apart)
    for k in range(user.size):
        user[k] += away[k]
    set_scores(of_user, user)
    moves = lists_statistics(lists, u, ties, edges, of_user)
    if exact:
        moves += log_prior(user, prior) + _surprise(lower, away)
        if not math.log(uniform(derive(stream, 0), 0)) < moves - stays:
            user[:] = before
            of_user.scores[:] = of_user.change
            lists_statistics(lists, u, ties, edges, of_user)


@njit(error_model="numpy")
def _move_user(lists, u, ties, edges, theta, prior, users, newton, noise, entries):
    """`move_users` for user u; its log-posterior at the mode."""
    first, last, n_factors = lists.user_indptr[u], lists.user_indptr[u + 1], theta.shape[1] - 1
    user, own = users.modes[u].copy(), user_prior(prior, u)
    of_user = gathered_lists(lists, u, theta)
    value, lower, current = _climb_user(lists, u, ties, edges, of_user, user, own, newton)
    users.modes[u] = user
    if noise.draw:
        stream = derive(noise.key, noise.before + u)
        away = np.empty(n_factors)
        for k in range(n_factors):
            away[k] = normal(stream, k)
        if last > first and newton.most > 0:
            backward(lower, away, n_factors)
        else:
            for k in range(n_factors):
                away[k] /= math.sqrt(own.precision[k])
        exact = noise.exact and newton.most > 0
        _draw_around(lists, u, ties, edges, of_user, user, users.draws[u], lower, own, away, exact, stream)
        if ties is not None:
            add_stage_noise(lists, u, of_user, stream, n_factors)
    users.draws[u] = user
    if entries.residual.size == 0:
        return value
    if not (current or noise.draw):
        lists_statistics(lists, u, ties, edges, of_user)
    origin = lists.indptr[first]
    for r in range(first, last):
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            made, expected = of_user.made[e - origin], of_user.expected[e - origin]
            entries.residual[e] = lists.weights[r] * (made - expected)
            entries.curvature[e] = lists.weights[r] * expected
    return value


@njit(error_model="numpy", parallel=True)
def _move_users(lists, ties, edges, theta, prior, users, newton, noise, entries):
    values = np.empty(lists.user_indptr.size - 1)
    for u in prange(values.size):
        values[u] = _move_user(lists, np.int64(u), ties, edges, theta, prior, users, newton, noise, entries)
    return values


def move_users(
    lists: Lists, ties: int, theta: Array, prior: Prior, users: Users, newton: Newton, noise: Noise, entries: Entries
) -> Array:
    """Move every user to the mode of its posterior given the items, and draw around it if asked.

    users.modes: start and result; users.draws: written, a draw from N(mode, H^-1), or the mode; with ``noise.exact`` a
    Metropolis step from what they hold.
    entries: written, weight * (chosen - expected) and weight * expected at the draws, with noise of the stages; unless
    its arrays are empty.
    Returns the users' log-posteriors at the modes, constants left out, (n_users,).
    """
    return np.asarray(_move_users(lists, *_law(ties, theta), theta, prior, users, newton, noise, entries))


def _law(ties: int, thetas: Array) -> tuple[int | None, Array | None]:
    """Treatment of ties and None, or None and the scores of the thresholds."""
    return (ties, None) if ties >= 0 else (None, edges_of(thetas, -ties))


@njit(error_model="numpy", parallel=True)
def _log_likelihoods(lists, ties, edges, theta, users):
    values = np.empty(lists.user_indptr.size - 1)
    for i in prange(values.size):
        u = np.int64(i)
        of_user = gathered_lists(lists, u, theta)
        set_scores(of_user, users[u])
        values[u] = lists_value(lists, u, ties, edges, of_user)
    return values


def user_log_likelihoods(lists: Lists, ties: int, theta: Array, users: Array) -> Array:
    """Weighted log-likelihood of each user's rankings at given user vectors, (n_users,)."""
    return np.asarray(_log_likelihoods(lists, *_law(ties, theta), theta, users))


@njit(error_model="numpy")
def _draw_user(lists, u, ties, edges, theta, prior, mode, key, draws, log_density):
    """`posterior_draws` of user u given one draw of the items; draws: (size, K)."""
    n_factors = mode.size
    of_user = gathered_lists(lists, u, theta)
    _, lower, _ = _climb_user(lists, u, ties, edges, of_user, mode, prior, Newton(_NEWTON_STEPS, 1e-9))
    if log_density.size == 0:
        return
    _newton_system(lists, u, ties, of_user, mode, prior, lower, np.empty(n_factors))
    stream, noise = derive(key, u), np.empty(n_factors)
    for d in range(log_density.size):
        density = -0.5 * n_factors * math.log(2.0 * math.pi)
        for k in range(n_factors):
            noise[k] = normal(stream, d * n_factors + k) if key != 0 else (1.0 if k == d else 0.0)
            density += math.log(lower[k, k]) - 0.5 * noise[k] * noise[k]
        backward(lower, noise, n_factors)
        for k in range(n_factors):
            draws[d, k] = mode[k] + noise[k]
        log_density[d] = density


@njit(error_model="numpy", parallel=True)
def _posterior_draws(lists, ties, edges, thetas, coordinates, slopes, precision, modes, keys, log_density):
    (n_users, n_kept, n_factors), size = modes.shape, log_density.shape[2]
    draws = np.empty((n_users, n_kept, size, n_factors))
    for i in prange(n_users * n_kept):
        u, d = np.int64(i // n_kept), i % n_kept
        prior = Gaussian(prior_mean(coordinates[u], slopes[d]), precision)
        own = modes[u, d], keys[d], draws[u, d], log_density[u, d]
        if ties is not None:
            _draw_user(lists, u, ties, None, thetas[d], prior, *own)
        if edges is not None:
            _draw_user(lists, u, None, edges[d], thetas[d], prior, *own)
    return draws


def posterior_draws(
    lists: Lists, ties: int, thetas: Array, coordinates: Array, slopes: Array, precision: Array, modes: Array,
    keys: Array, log_density: Array,
) -> Array:  # fmt: skip
    """Draws of each user's vector from its Laplace posterior given each draw of the items: (n_users, n_kept, size, K).

    thetas: (n_kept, n_items, K + 1); a priori W_u ~ N(coordinates_u slopes_d, 1 / precision), slopes: (n_kept,
    n_dimensions, K). modes: (n_users, n_kept, K), start of the ascent and, when done, the modes. keys: (n_kept,), or 0
    for the modes plus the rows of a root R of the covariance RᵀR instead of draws, K of them.
    log_density: (n_users, n_kept, size), written: log of the Gaussian density of each draw, which importance sampling
    divides by; its size may be 0.
    """
    given = thetas, coordinates, slopes, precision, modes, keys, log_density
    return np.asarray(_posterior_draws(lists, *_law(ties, thetas), *given))
