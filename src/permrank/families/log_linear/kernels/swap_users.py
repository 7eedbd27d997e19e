"""Users of the position-wise model, §4.5.1: s_y^u = b_y + Σ_k W_uk H_ky and P(π | u) ∝ exp Σ_i s_{π_i} g(i).

The likelihood of a list is the pseudo-likelihood of its swaps, Σ_{i<j} log σ((s_i - s_j)(g_i - g_j)), times 4 / n.
Unscaled it counts a list many times over, and a posterior would be far too sure. At equal scores the factor 2 / n gives
exactly the information of the full likelihood; where scores differ, distant swaps are nearly certain and say less than
the list does, and twice that factor predicts better, on strict lists of 7 as on 50 ratings (splits that no benchmark
uses). Tied items share the mean of g over their positions, so that their own swaps say nothing. The objective is
concave in s.

Rows of ``theta``, users and the two passes are as in posterior/kernels/users.py. Lists have the position function g of
each entry, float64, in the place of its level. What swaps say is in swaps.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from permrank.families.log_linear.kernels.swaps import add_swap_hessian, swap_statistics, swaps_of
from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.columns import add_products, combined, gather_columns
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal
from permrank.posterior.kernels.arguments import Gaussian, Newton
from permrank.posterior.kernels.users import log_prior

_LONGEST_STEP = 2.0  # as in posterior.kernels; so is the type of the next
_NEWTON_STEPS = np.int64(30)
# A Newton step that changes no margin (s_i - s_j)(g_i - g_j) by more than this cannot fall: see posterior.kernels.
_SURE = 1.5


class SwapUser(NamedTuple):
    """One user with n entries and K factors.

    Attributes
    ----------
    swaps : Swaps
        Room for any of the lists.
    columns : (K, n)
        Factors of the entries' items.
    intercepts, scores, change, residual, degree : (n,)
        Intercepts of the items, present scores, how much a step changes them; gradient in the scores, and the diagonal
        of minus the Hessian.
    """

    swaps: Any
    columns: Any
    intercepts: Any
    scores: Any
    change: Any
    residual: Any
    degree: Any


@njit(error_model="numpy")
def _gathered(lists, u, theta):
    """Room for user u, with the factors of the items listed."""
    first, last = lists.user_indptr[u], lists.user_indptr[u + 1]
    start, n, n_factors, longest = lists.indptr[first], lists.indptr[last] - lists.indptr[first], theta.shape[1] - 1, 0
    for r in range(first, last):
        longest = max(longest, lists.indptr[r + 1] - lists.indptr[r])
    columns, flat = np.empty((n_factors, n)), np.empty((5, n))
    gather_columns(theta, lists.items, start, n, columns)
    for e in range(n):
        flat[0, e] = theta[lists.items[start + e], n_factors]
    return SwapUser(swaps_of(longest, n_factors), columns, flat[0], flat[1], flat[2], flat[3], flat[4])


@njit(error_model="numpy")
def _set_scores(of_user, user):
    """Scores of the entries: b_y + W_u H_y."""
    n = of_user.scores.size
    combined(of_user.columns, n, user, of_user.scores)
    for e in range(n):
        of_user.scores[e] += of_user.intercepts[e]


@njit(error_model="numpy")
def _statistics(lists, u, of_user, hessian):
    """Weighted log-likelihood of the lists of user u at the present scores; fills the entries' statistics.

    Minus its Hessian in the user's factors is written into the lower half of ``hessian``, unless that is empty.
    """
    origin, value = lists.indptr[lists.user_indptr[u]], 0.0
    hessian[:] = 0.0
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        a, b, weight = lists.indptr[r] - origin, lists.indptr[r + 1] - origin, lists.weights[r]
        g, degree = lists.levels[lists.indptr[r] : lists.indptr[r + 1]], of_user.degree[a:b]
        value += swap_statistics(of_user.swaps, g, of_user.scores[a:b], weight, of_user.residual[a:b], degree)
        if hessian.size > 0:
            add_swap_hessian(of_user.swaps, of_user.columns, a, weight, degree, hessian)
    return value


@njit(error_model="numpy")
def _newton_step(of_user, user, prior, hessian, step):
    """Cholesky factor of minus the Hessian of the log-posterior in the place of the likelihood's, and the Newton step.

    Returns half of gradient * step, by which the log-posterior would rise if it were quadratic.
    """
    n_factors, gain = user.size, 0.0
    for k in range(n_factors):
        step[k] = prior.precision[k] * (prior.mean[k] - user[k])
        hessian[k, k] += prior.precision[k]
    add_products(of_user.columns, of_user.residual.size, of_user.residual, step)
    cholesky(hessian, n_factors)
    forward(hessian, step, n_factors)
    for k in range(n_factors):
        gain += 0.5 * step[k] * step[k]
    backward(hessian, step, n_factors)
    return gain


@njit(error_model="numpy")
def _most_changed(lists, u, change):
    """The most that a change of scores may change the margin of a swap."""
    origin, most = lists.indptr[lists.user_indptr[u]], 0.0
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        if stop > start:
            lowest, highest = change[start - origin], change[start - origin]
            for e in range(start - origin, stop - origin):
                lowest, highest = min(lowest, change[e]), max(highest, change[e])
            most = max(most, (highest - lowest) * (lists.levels[start] - lists.levels[stop - 1]))
    return most


@njit(error_model="numpy")
def _climb(lists, u, of_user, user, prior, newton):
    """Newton ascent of one user's log-posterior, steps halved until it does not fall; returns it and the factor L.

    The scores are those of the final point. The entries' statistics are too, if the third value is true: the last step
    allowed is not looked at after it if it cannot fall.
    """
    n_factors, n, scores, change = user.size, of_user.scores.size, of_user.scores, of_user.change
    step, trial, none = np.empty(n_factors), np.empty(n_factors), np.empty((0, 0))
    hessian, lower = np.empty((n_factors, n_factors)), np.empty((n_factors, n_factors))
    _set_scores(of_user, user)
    value = log_prior(user, prior) + _statistics(lists, u, of_user, hessian if newton.most > 0 else none)
    for number in range(newton.most):
        lower[:] = hessian
        gain = _newton_step(of_user, user, prior, lower, step)
        longest = 0.0
        for k in range(n_factors):
            longest = max(longest, abs(step[k]))
        combined(of_user.columns, n, step, change)
        last = number + 1 == newton.most
        if last and longest < _LONGEST_STEP and _most_changed(lists, u, change) < _SURE:
            for k in range(n_factors):
                user[k] += step[k]
            for e in range(n):
                scores[e] += change[e]
            return value + gain, lower, False
        length, before, moved = 1.0 if longest < _LONGEST_STEP else _LONGEST_STEP / longest, 0.0, False
        for _ in range(30):
            for k in range(n_factors):
                trial[k] = user[k] + length * step[k]
            for e in range(n):
                scores[e] += (length - before) * change[e]
            before = length
            there = log_prior(trial, prior) + _statistics(lists, u, of_user, none if last else hessian)
            if there >= value - 1e-12 * abs(value):
                moved = True
                break
            length *= 0.5
        if not moved:
            _set_scores(of_user, user)
            _statistics(lists, u, of_user, none)
            break
        user[:] = trial
        value = there
        if length * longest < newton.tol:
            break
    return value, lower, True


@njit(error_model="numpy")
def _move_user(lists, u, theta, precision, users, newton, noise, entries):
    """`move_swap_users` for user u; its log-posterior at the mode."""
    user, n_factors, nothing = users.modes[u].copy(), theta.shape[1] - 1, np.empty((0, 0))
    of_user = _gathered(lists, u, theta)
    value, lower, current = _climb(lists, u, of_user, user, Gaussian(np.zeros(n_factors), precision), newton)
    users.modes[u] = user
    if noise.draw:
        stream = derive(noise.key, noise.before + u)
        away = np.empty(n_factors)
        for k in range(n_factors):
            away[k] = normal(stream, k)
        if lists.user_indptr[u + 1] > lists.user_indptr[u] and newton.most > 0:
            backward(lower, away, n_factors)
        else:
            for k in range(n_factors):
                away[k] /= math.sqrt(precision[k])
        for k in range(n_factors):
            user[k] += away[k]
        _set_scores(of_user, user)
    users.draws[u] = user
    if entries.residual.size == 0:
        return value
    if noise.draw or not current:
        _statistics(lists, u, of_user, nothing)
    origin = lists.indptr[lists.user_indptr[u]]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        n = lists.indptr[r + 1] - lists.indptr[r]
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            entries.residual[e] = of_user.residual[e - origin]
            entries.curvature[e] = of_user.degree[e - origin] * n / max(n - 1.0, 1.0)
    return value


@njit(error_model="numpy", parallel=True)
def move_swap_users(lists, theta, precision, users, newton, noise, entries):
    """As `posterior.kernels.users.move_users`, with the swaps' likelihood and prior means of 0.

    entries.curvature is n / (n - 1) times the Hessian's diagonal: a bound for all items at once if their swaps weigh
    alike.
    """
    values = np.empty(lists.user_indptr.size - 1)
    for u in prange(values.size):
        values[u] = _move_user(lists, np.int64(u), theta, precision, users, newton, noise, entries)
    return values


@njit(error_model="numpy", parallel=True)
def swap_posterior_draws(lists, theta, precision, modes, key, size, log_density):
    """Draws of each user's vector from the Gaussian at its mode: (n_users, size, K); modes and log_density written."""
    n_users, n_factors = modes.shape
    draws = np.empty((n_users, size, n_factors))
    for i in prange(n_users):
        u = np.int64(i)
        stream, of_user, noise = derive(key, u), _gathered(lists, u, theta), np.empty(n_factors)
        prior = Gaussian(np.zeros(n_factors), precision)
        _, lower, _ = _climb(lists, u, of_user, modes[u], prior, Newton(_NEWTON_STEPS, 1e-6))
        log_root = -0.5 * n_factors * math.log(2.0 * math.pi)
        for k in range(n_factors):
            log_root += math.log(lower[k, k])
        for d in range(size):
            log_density[u, d] = log_root
            for k in range(n_factors):
                noise[k] = normal(stream, d * n_factors + k)
                log_density[u, d] -= 0.5 * noise[k] * noise[k]
            backward(lower, noise, n_factors)
            for k in range(n_factors):
                draws[u, d, k] = modes[u, k] + noise[k]
    return draws
