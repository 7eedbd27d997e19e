"""Users of the position-wise model, §4.5.1: s_y^u = b_y + Σ_k W_uk H_ky and P(π | u) ∝ exp Σ_i s_{π_i} g(i).

The likelihood of a list is the pseudo-likelihood of its swaps, Σ_{i<j} log σ((s_i - s_j)(g_i - g_j)), times 4 / n.
Unscaled it counts a list many times over, and a posterior would be far too sure. At equal scores the factor 2 / n gives
exactly the information of the full likelihood; where scores differ, distant swaps are nearly certain and say less than
the list does, and twice that factor predicts better, on strict lists of 7 as on 50 ratings (splits that no benchmark
uses). Tied items share the mean of g over their positions, so that their own swaps say nothing. The objective is
concave in s.

Rows of ``theta``, users and the two passes are as in `kernels.factored`. Lists have the position function g of each
entry, float64, in the place of its level; of the work, ``chosen`` is the residual and ``expected`` the degree.
"""

from __future__ import annotations

import math

import numpy as np

from permrank.kernels.cholesky import backward, cholesky, forward
from permrank.kernels.factored.arguments import Gaussian, Newton, Work
from permrank.kernels.factored.users import log_prior
from permrank.kernels.jit import njit, prange
from permrank.kernels.streams import derive, normal

_LONGEST_STEP = 2.0  # as in kernels.factored; so is the type of the next
_NEWTON_STEPS = np.int64(30)
SHARPNESS = 4.0
# Every item of a long list is swapped with twice as many others as this: a sweep is then linear in the entries.
MOST_DISTANCES = 64


@njit(error_model="numpy")
def _distances(n):
    """Circular distances of the swaps that count, and what each counts: all of them, or evenly spread ones.

    The swaps of positions i and i + d (modulo n), for d up to n / 2, are all swaps, each once (of d = n / 2 twice).
    """
    all_of_them = n // 2
    kept = min(all_of_them, MOST_DISTANCES)
    out = np.empty(kept, np.int64)
    for t in range(kept):
        out[t] = 1 + (t * all_of_them) // kept
    return out, SHARPNESS / n * all_of_them / kept if kept > 0 else 0.0


@njit(error_model="numpy")
def _swap(gap, margin_of):
    """log σ(margin), σ(-margin) and the curvature gap² σ (1 - σ) of one swap."""
    small = math.exp(-abs(margin_of))
    share = 1.0 / (1.0 + small)
    wrong = small * share if margin_of > 0.0 else share
    return min(margin_of, 0.0) - math.log1p(small), wrong, gap * gap * small * share * share


@njit(error_model="numpy")
def swap_statistics(g, scores, weight, residual, degree):
    """Value of a list's swaps; writes the gradient in the scores, and the diagonal of minus the Hessian."""
    n = g.size
    value = 0.0
    residual[:], degree[:] = 0.0, 0.0
    distances, factor = _distances(n)
    for d in distances:
        part = weight * factor * (0.5 if 2 * d == n else 1.0)
        for i in range(n):
            j = i + d if i + d < n else i + d - n
            gap = g[i] - g[j]
            if gap != 0.0:
                log_share, wrong, bend = _swap(gap, (scores[i] - scores[j]) * gap)
                value += part * log_share
                residual[i] += part * wrong * gap
                residual[j] -= part * wrong * gap
                degree[i] += part * bend
                degree[j] += part * bend
    return value


@njit(error_model="numpy")
def _neighbours(g, scores, weight, items, theta, n_factors, beside):
    """Σ_j ω_ij H_j for every entry i of a list, ω being minus the Hessian's other elements; (n, K), written."""
    n = g.size
    beside[:] = 0.0
    distances, factor = _distances(n)
    for d in distances:
        part = weight * factor * (0.5 if 2 * d == n else 1.0)
        for i in range(n):
            j = i + d if i + d < n else i + d - n
            gap = g[i] - g[j]
            if gap != 0.0:
                _, _, bend = _swap(gap, (scores[i] - scores[j]) * gap)
                first, second = theta[items[i]], theta[items[j]]
                for k in range(n_factors):
                    beside[i, k] += part * bend * second[k]
                    beside[j, k] += part * bend * first[k]


@njit(error_model="numpy")
def _user_value(lists, u, theta, user, work):
    """Weighted log-likelihood of the lists of user u at one vector; fills the entries' statistics."""
    n_factors = user.size
    value = 0.0
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        for e in range(start, stop):
            row = theta[lists.items[e]]
            total = row[n_factors]
            for k in range(n_factors):
                total += user[k] * row[k]
            work.scores[e] = total
        g, scores = lists.levels[start:stop], work.scores[start:stop]
        value += swap_statistics(g, scores, lists.weights[r], work.chosen[start:stop], work.expected[start:stop])
    return value


@njit(error_model="numpy")
def _newton_system(lists, u, theta, user, prior, work, hessian, step):
    """Cholesky factor of minus the Hessian, Σ_i d_i x xᵀ - Σ_ij ω_ij x_i x_jᵀ + precision, and the Newton step."""
    n_factors = user.size
    for k in range(n_factors):
        step[k] = -prior.precision[k] * user[k]
        for m in range(k):
            hessian[k, m] = 0.0
        hessian[k, k] = prior.precision[k]
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        start, stop = lists.indptr[r], lists.indptr[r + 1]
        g, scores, items = lists.levels[start:stop], work.scores[start:stop], lists.items[start:stop]
        beside = np.empty((stop - start, n_factors))
        _neighbours(g, scores, lists.weights[r], items, theta, n_factors, beside)
        for e in range(start, stop):
            row = theta[lists.items[e]]
            for k in range(n_factors):
                step[k] += work.chosen[e] * row[k]
                part = work.expected[e] * row[k] - beside[e - start, k]
                for m in range(k + 1):
                    hessian[k, m] += part * row[m]
    cholesky(hessian, n_factors)
    forward(hessian, step, n_factors)
    backward(hessian, step, n_factors)


@njit(error_model="numpy")
def _climb(lists, u, theta, user, precision, work, newton):
    """Newton ascent of one user's log-posterior, steps halved until it does not fall; returns it and the factor L."""
    n_factors = user.size
    hessian, step, trial = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_factors)
    prior = Gaussian(np.zeros(n_factors), precision)
    value = log_prior(user, prior) + _user_value(lists, u, theta, user, work)
    for _ in range(newton.most):
        _newton_system(lists, u, theta, user, prior, work, hessian, step)
        longest = 0.0
        for k in range(n_factors):
            longest = max(longest, abs(step[k]))
        length = 1.0 if longest < _LONGEST_STEP else _LONGEST_STEP / longest
        moved = False
        for _ in range(30):
            for k in range(n_factors):
                trial[k] = user[k] + length * step[k]
            there = log_prior(trial, prior) + _user_value(lists, u, theta, trial, work)
            if there >= value - 1e-12 * abs(value):
                moved = True
                break
            length *= 0.5
        if not moved:
            _user_value(lists, u, theta, user, work)
            break
        user[:] = trial
        value = there
        if length * longest < newton.tol:
            break
    return value, hessian


@njit(error_model="numpy")
def _move_user(lists, u, theta, precision, users, newton, noise, work):
    """`move_swap_users` for user u; its log-posterior at the mode."""
    user, n_factors = users.modes[u], theta.shape[1] - 1
    value, lower = _climb(lists, u, theta, user, precision, work, newton)
    drawn = user.copy()
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
        drawn += away
        _user_value(lists, u, theta, drawn, work)
    users.draws[u] = drawn
    for r in range(lists.user_indptr[u], lists.user_indptr[u + 1]):
        n = lists.indptr[r + 1] - lists.indptr[r]
        for e in range(lists.indptr[r], lists.indptr[r + 1]):
            work.expected[e] *= n / max(n - 1.0, 1.0)
    return value


@njit(error_model="numpy", parallel=True)
def move_swap_users(lists, theta, precision, users, newton, noise, entries):
    """As `kernels.factored.users.move_users`, with the swaps' likelihood and prior means of 0.

    entries.curvature is n / (n - 1) times the Hessian's diagonal: a bound for all items at once if their swaps weigh
    alike.
    """
    values = np.empty(lists.user_indptr.size - 1)
    work = Work(np.empty(lists.items.size), entries.residual, entries.curvature)
    for u in prange(values.size):
        values[u] = _move_user(lists, np.int64(u), theta, precision, users, newton, noise, work)
    return values


@njit(error_model="numpy")
def _several_draws(lists, u, theta, precision, user, key, work, draws, log_density):
    n_factors, size = user.size, log_density.size
    _, lower = _climb(lists, u, theta, user, precision, work, Newton(_NEWTON_STEPS, 1e-6))
    log_root = -0.5 * n_factors * math.log(2.0 * math.pi)
    for k in range(n_factors):
        log_root += math.log(lower[k, k])
    noise = np.empty(n_factors)
    for d in range(size):
        log_density[d] = log_root
        for k in range(n_factors):
            noise[k] = normal(key, d * n_factors + k)
            log_density[d] -= 0.5 * noise[k] * noise[k]
        backward(lower, noise, n_factors)
        for k in range(n_factors):
            draws[d, k] = user[k] + noise[k]


@njit(error_model="numpy", parallel=True)
def swap_posterior_draws(lists, theta, precision, modes, key, size, log_density):
    """Draws of each user's vector from the Gaussian at its mode: (n_users, size, K); modes and log_density written."""
    (n_users, n_factors), n_entries = modes.shape, lists.items.size
    draws = np.empty((n_users, size, n_factors))
    work = Work(np.empty(n_entries), np.empty(n_entries), np.empty(n_entries))
    for i in prange(n_users):
        u = np.int64(i)
        stream = derive(key, u)
        _several_draws(lists, u, theta, precision, modes[u], stream, work, draws[u], log_density[u])
    return draws
