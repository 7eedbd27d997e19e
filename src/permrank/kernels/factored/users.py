"""Factored Plackett-Luce, §3.1: s_y^u = b_y + Σ_k W_uk H_ky. The pass over the users.

A row of ``theta`` (n_items, K + 1) is an item: its K factors H_y, then its intercept b_y. Given the items a user's
problem is concave in K variables and is solved by Newton's method with the user's own Hessian; given the users,
items are updated side by side from per-entry residuals and curvatures (items.py): no learning rate, no races,
no sums that depend on threads. With ``draw`` the update ends in a draw from the Gaussian at the mode.

``ties`` is a treatment of ties, or minus the number of thresholds between ratings: then entries have proportional odds
(odds.py), and the place of their levels is taken by how many thresholds lie below.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.factored.arguments import Gaussian, Newton, Work
from permrank.kernels.factored.odds import odds_statistics
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
def _add_hessian(lists, r, ties, theta, work, hessian):
    """Add minus the Hessian of one ranking's log-likelihood in the user's factors to the lower triangle.

    Σ_e expected_e x xᵀ - Σ_stages v vᵀ / (choices), v = Σ of share * x over the stage: exact for strict rankings and
    for Breslow's ties; for the others the blocks are taken as as many independent choices, which is never
    indefinite.
    """
    items, levels, scores, expected = lists.items, lists.levels, work.scores, work.expected
    start, stop, weight, n_factors = lists.indptr[r], lists.indptr[r + 1], lists.weights[r], hessian.shape[0]
    if ties < 0:
        for e in range(start, stop):
            row = theta[items[e]]
            for k in range(n_factors):
                part = weight * expected[e] * row[k]
                for m in range(k + 1):
                    hessian[k, m] += part * row[m]
        return
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
def _add_stage_noise(lists, r, ties, work, stream, number):
    """Add noise to the choices of one ranking with the covariance by which its curvature exceeds the Hessian.

    Items move side by side with curvatures Λ (items.py), not the Hessian H of all of them together. Noise of covariance
    Λ then leaves draws that are too close together; with 2 Λ - H it is that of the posterior, H^-1, if that is Gaussian
    (matrix splitting). Λ - H = Σ_stages v vᵀ / choices, v the shares of the entries: one normal number a stage, those
    of the stream from ``number`` on.
    """
    levels, scores, expected = lists.levels, work.scores, work.expected
    start, stop, root = lists.indptr[r], lists.indptr[r + 1], math.sqrt(lists.weights[r])
    n = stop - start
    own, exposure, below = np.empty(n), np.zeros(n), np.zeros(n + 1)
    largest = _stage_shares(levels, scores, expected, start, stop, ties, own, exposure)
    for i in range(n - 1, -1, -1):
        below[i] = below[i + 1] + math.exp(scores[start + i] - largest)
    so_far, first = 0.0, 0
    while first < n:
        end, mine = first, 0.0
        while end < n and levels[start + end] == levels[start + first]:
            mine += own[end]
            end += 1
        choices = mine + exposure[first] * below[end]
        z = normal(stream, number + first) / math.sqrt(choices) if choices > 0.0 else 0.0
        for i in range(first, end):
            worth = math.exp(scores[start + i] - largest)
            work.chosen[start + i] += (own[i] * z + worth * so_far) / root
        so_far += exposure[first] * z
        first = end


@njit(error_model="numpy")
def _user_statistics(lists, u, ties, theta, user, work):
    """Weighted log-likelihood of the rankings of user u at one vector; fills the entries' statistics."""
    value = 0.0
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        _user_scores(lists.items, start, stop, theta, user, user.size, work.scores)
        if ties < 0:
            part = odds_statistics(lists.levels, work.scores, start, stop, theta, -ties, work.chosen, work.expected)
        else:
            part = ranking_statistics(lists.levels, work.scores, start, stop, ties, work.chosen, work.expected)
        value += lists.weights[r] * part
    return value


@njit(error_model="numpy")
def _newton_system(lists, u, ties, theta, user, prior, work, hessian, step):
    """Cholesky factor of minus the Hessian of the log-posterior into ``hessian``, the Newton step into ``step``."""
    n_factors = user.size
    for k in range(n_factors):
        step[k] = prior.precision[k] * (prior.mean[k] - user[k])
        for m in range(k):
            hessian[k, m] = 0.0
        hessian[k, k] = prior.precision[k]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        _add_hessian(lists, r, ties, theta, work, hessian)
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            residual = lists.weights[r] * (work.chosen[e] - work.expected[e])
            row = theta[lists.items[e]]
            for k in range(n_factors):
                step[k] += residual * row[k]
    cholesky(hessian, n_factors)
    forward(hessian, step, n_factors)
    backward(hessian, step, n_factors)


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
def _climb_user(lists, u, ties, theta, user, prior, work, newton):
    """Newton ascent of one user's log-posterior, steps halved until it does not fall; returns it and L of the Hessian.

    ``user`` is moved in place, and the entries' statistics are those of the final point.
    """
    n_factors = user.size
    hessian, step, trial = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_factors)
    value = log_prior(user, prior) + _user_statistics(lists, u, ties, theta, user, work)
    for _ in range(newton.most):
        _newton_system(lists, u, ties, theta, user, prior, work, hessian, step)
        longest = 0.0
        for k in range(n_factors):
            longest = max(longest, abs(step[k]))
        length = 1.0 if longest < _LONGEST_STEP else _LONGEST_STEP / longest
        moved = False
        for _ in range(30):
            for k in range(n_factors):
                trial[k] = user[k] + length * step[k]
            there = log_prior(trial, prior) + _user_statistics(lists, u, ties, theta, trial, work)
            if there >= value - 1e-12 * abs(value):
                moved = True
                break
            length *= 0.5
        if not moved:
            _user_statistics(lists, u, ties, theta, user, work)
            break
        user[:] = trial
        value = there
        if length * longest < newton.tol:
            break
    return value, hessian


@njit(error_model="numpy")
def _move_user(lists, u, ties, theta, prior, users, newton, noise, work):
    """`move_users` for user u; its log-posterior at the mode."""
    first, last, n_factors = lists.user_indptr[u], lists.user_indptr[u + 1], theta.shape[1] - 1
    user, own = users.modes[u].copy(), Gaussian(prior_mean(prior.coordinates[u], prior.slopes), prior.precision)
    value, lower = _climb_user(lists, u, ties, theta, user, own, work, newton)
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
                away[k] /= math.sqrt(prior.precision[k])
        for k in range(n_factors):
            user[k] += away[k]
        _user_statistics(lists, u, ties, theta, user, work)
        if ties >= 0:
            for r in range(first, last):
                if lists.weights[r] > 0.0:
                    number = n_factors + lists.indptr[r] - lists.indptr[first]
                    _add_stage_noise(lists, r, ties, work, stream, number)
    users.draws[u] = user
    for r in range(first, last):
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            work.chosen[e] = lists.weights[r] * (work.chosen[e] - work.expected[e])
            work.expected[e] *= lists.weights[r]
    return value


@njit(error_model="numpy", parallel=True)
def move_users(lists, ties, theta, prior, users, newton, noise, entries):
    """Move every user to the mode of its posterior given the items, and draw around it if asked.

    users.modes: start and result; users.draws: written, a draw from N(mode, H^-1), or the mode.
    entries: written, weight * (chosen - expected) and weight * expected at the draws; with noise of the stages.
    Returns the users' log-posteriors at the modes, constants left out, (n_users,).
    """
    values = np.empty(lists.user_indptr.size - 1)
    work = Work(np.empty(lists.items.size), entries.residual, entries.curvature)
    for u in prange(values.size):
        values[u] = _move_user(lists, np.int64(u), ties, theta, prior, users, newton, noise, work)
    return values


@njit(error_model="numpy", parallel=True)
def user_log_likelihoods(lists, ties, theta, users):
    """Weighted log-likelihood of each user's rankings at given user vectors, (n_users,)."""
    n_users, n_entries = lists.user_indptr.size - 1, lists.items.size
    values = np.empty(n_users)
    work = Work(np.empty(n_entries), np.empty(n_entries), np.empty(n_entries))
    for u in prange(n_users):
        values[u] = _user_statistics(lists, np.int64(u), ties, theta, users[u], work)
    return values


@njit(error_model="numpy", parallel=True)
def posterior_draws(lists, ties, theta, prior, modes, key, size, log_density):
    """Draws of each user's vector from its Laplace posterior given the items: (n_users, size, K).

    modes: (n_users, K), start of the ascent and, when done, the modes. log_density: (n_users, size), written: log of
    the Gaussian density of each draw, which importance sampling divides by.
    """
    (n_users, n_factors), n_entries = modes.shape, lists.items.size
    draws = np.empty((n_users, size, n_factors))
    work = Work(np.empty(n_entries), np.empty(n_entries), np.empty(n_entries))
    for i in prange(n_users):
        u = np.int64(i)
        user, own = modes[u].copy(), Gaussian(prior_mean(prior.coordinates[u], prior.slopes), prior.precision)
        _, lower = _climb_user(lists, u, ties, theta, user, own, work, Newton(_NEWTON_STEPS, 1e-9))
        modes[u] = user
        _newton_system(lists, u, ties, theta, user, own, work, lower, np.empty(n_factors))
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
