"""Users of the factored model: their posterior given the items of each draw, and the likelihood of their lists.

The same three functions as in damped.py, for models without damping.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.factored.arguments import NO_NOISE, Entries, Newton, Prior, Users
from permrank.kernels.factored.users import move_users, posterior_draws, user_log_likelihoods
from permrank.kernels.lists import Lists
from permrank.models.factored.estimate import FactoredEstimate, Said
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Float64Array


def fold_in(estimate: FactoredEstimate, said: Said) -> Float64Array:
    """Posterior modes of new users, parallel over users: (n_users, n_kept, K)."""
    (lists, ties), coordinates, n_users = estimate.lists(said), estimate.coordinates(said), said.rankings.n_users
    n_columns = estimate.user_modes.shape[2]
    modes = np.zeros((n_users, len(estimate.item_draws), n_columns))
    entries = Entries(np.empty(lists.items.size), np.empty(lists.items.size))
    for d, stored in enumerate(estimate.item_draws):
        theta, prior = stored.astype(np.float64), Prior(coordinates, estimate.slopes(d), estimate.precisions())
        users = Users(np.zeros((n_users, n_columns)), np.empty((n_users, n_columns)))
        move_users(lists, ties, theta, prior, users, Newton(50, 1e-9), NO_NOISE, entries)
        modes[:, d] = users.modes
    return modes


def user_draws(estimate: FactoredEstimate, said: Said, modes: Float64Array, size: int) -> Float64Array:
    """Draws of one user's vector from the Laplace approximation at the modes (n_kept, K): (n_kept, size, K)."""
    (lists, ties), coordinates = estimate.lists(said), estimate.coordinates(said)
    out = np.empty((len(modes), size, modes.shape[1]))
    for d, stored in enumerate(estimate.item_draws):
        theta, prior = stored.astype(np.float64), Prior(coordinates, estimate.slopes(d), estimate.precisions())
        mode, key, density = modes[d][None].copy(), stream_key(0, d), np.empty((1, size))
        out[d] = posterior_draws(lists, ties, theta, prior, mode, key, size, density)[0]
    return out


def log_likelihoods(estimate: FactoredEstimate, said: Said, size: int) -> tuple[Float64Array, Float64Array]:
    """Log-probability of each ranking, its user integrated over the prior by importance sampling, and its error."""
    rankings, n, precision = said.rankings, said.rankings.n_rankings, estimate.precisions()
    items, each, ones = frozen(said.items, np.arange(n + 1), np.ones(n))
    lists = Lists(each, rankings.indptr, items, rankings.levels, ones)
    coordinates = estimate.coordinates(said, alone=True)
    parts = np.empty((n, len(estimate.item_draws), size))
    constant = 0.5 * float(np.sum(np.log(precision / (2.0 * np.pi))))
    for d, stored in enumerate(estimate.item_draws):
        theta, density = stored.astype(np.float64), np.empty((n, size))
        prior, modes, key = (
            Prior(coordinates, estimate.slopes(d), precision),
            np.zeros((n, precision.size)),
            stream_key(1, d),
        )
        users = posterior_draws(lists, estimate.ties, theta, prior, modes, key, size, density)
        means = np.einsum("uj,jk->uk", coordinates, estimate.slopes(d))
        for j in range(size):
            point = np.ascontiguousarray(users[:, j])
            likelihood = user_log_likelihoods(lists, estimate.ties, theta, point)
            parts[:, d, j] = likelihood + constant - 0.5 * ((point - means) ** 2 @ precision) - density[:, j]
    flat = parts.reshape(n, -1)
    top = flat.max(axis=1, keepdims=True)
    weights = np.exp(flat - top)
    mean = weights.mean(axis=1)
    errors = weights.std(axis=1) / (mean * np.sqrt(flat.shape[1]))
    return np.asarray(top[:, 0] + np.log(mean)), np.asarray(errors)
