"""Users of the factored model: their posterior given the items of each draw, and the likelihood of their lists.

The same three functions as in damped.py, for models without damping.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from permrank.families.factored.estimate import FactoredEstimate
from permrank.kernels.lists import Lists
from permrank.posterior.co_listing import coordinate_parts
from permrank.posterior.estimate import Evidence
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Prior, Users
from permrank.posterior.kernels.users import move_users, posterior_draws, user_log_likelihoods
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int64Array


class Narrow(NamedTuple):
    """Lists of users, with the draws of those items alone that are listed.

    Attributes
    ----------
    lists : Lists
        Items are numbered as in ``thetas``.
    ties : int
    thetas : float64 (n_kept, n_listed + n_thresholds, K + 1)
    slopes : float64 (n_kept, n_dimensions, K)
    """

    lists: Lists
    ties: int
    thetas: Float64Array
    slopes: Float64Array

    @classmethod
    def of(cls, estimate: FactoredEstimate, lists: Lists, ties: int) -> Narrow:
        """A catalogue may be large, and a list is short."""
        thresholds = np.arange(estimate.n_items, estimate.item_draws.shape[1])
        listed, number = np.unique(np.concatenate((lists.items, thresholds)), return_inverse=True)
        (items,) = frozen(number[: lists.items.size].astype(np.int32))
        thetas = np.ascontiguousarray(estimate.item_draws[:, listed], np.float64)
        return cls(lists._replace(items=items), ties, thetas, np.asarray(estimate.user_slopes, np.float64))

    def draws(
        self,
        coordinates: Float64Array,
        precision: Float64Array,
        modes: Float64Array,
        keys: Array,
        density: Float64Array,
    ) -> Float64Array:
        """See `posterior.kernels.users.posterior_draws`."""
        given = self.lists, self.ties, self.thetas, coordinates, self.slopes, precision
        return posterior_draws(*given, modes, keys, density)


def _prior(estimate: FactoredEstimate, evidence: Evidence, narrow: Narrow) -> tuple[Narrow, Float64Array, Float64Array]:
    """Slopes, coordinates and precisions of the users' prior; friends of one user are one more coordinate."""
    coordinates, precision = estimate.coordinates(evidence), estimate.precisions()
    if evidence.pull is None:
        return narrow, coordinates, precision
    slopes = np.ascontiguousarray(np.concatenate((narrow.slopes, evidence.pull[..., :-1]), axis=1))
    strength = float(np.mean(evidence.pull[:, 0, -1]))
    return narrow._replace(slopes=slopes), np.hstack((coordinates, [[1.0]])), precision * strength


@cache
def _keys(stream: int, n_kept: int) -> Array:
    return np.array([stream_key(stream, d) for d in range(n_kept)], np.uint64)


def fold_in(estimate: FactoredEstimate, evidence: Evidence) -> Float64Array:
    """Posterior modes of new users, parallel over users: (n_users, n_kept, K)."""
    n_users, n_kept = evidence.rankings.n_users, len(estimate.item_draws)
    modes, none = np.zeros((n_users, n_kept, estimate.n_columns)), np.empty((n_users, n_kept, 0))
    narrow, coordinates, precision = _prior(estimate, evidence, Narrow.of(estimate, *estimate.lists(evidence)))
    narrow.draws(coordinates, precision, modes, _keys(0, n_kept), none)
    return modes


def user_draws(estimate: FactoredEstimate, evidence: Evidence, modes: Float64Array, size: int) -> Float64Array:
    """Draws of one user's vector from the Laplace approximation at the modes (n_kept, K): (n_kept, size, K)."""
    narrow, coordinates, precision = _prior(estimate, evidence, Narrow.of(estimate, *estimate.lists(evidence)))
    start, density = np.array(modes, np.float64)[None], np.empty((1, len(modes), size))
    keys = _keys(0, len(modes))
    return np.asarray(narrow.draws(coordinates, precision, start, keys, density)[0])


def user_roots(
    estimate: FactoredEstimate, evidence: Evidence, modes: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """The Laplace approximation itself: modes of one user, (n_kept, K), and roots R of the covariances, (n_kept, K, K).

    A covariance is RᵀR. modes: where they are looked for.
    """
    narrow, coordinates, precision = _prior(estimate, evidence, Narrow.of(estimate, *estimate.lists(evidence)))
    start, density = np.array(modes, np.float64)[None], np.empty((1, *modes.shape))
    around = narrow.draws(coordinates, precision, start, np.zeros(len(modes), np.uint64), density)[0]
    return start[0], np.asarray(around - start[0, :, None])


def log_likelihoods(estimate: FactoredEstimate, evidence: Evidence, size: int) -> tuple[Float64Array, Float64Array]:
    """Log-probability of each ranking, its user integrated over the prior by importance sampling, and its error."""
    rankings, n, precision = evidence.rankings, evidence.rankings.n_rankings, estimate.precisions()
    items, each, ones = frozen(evidence.items, np.arange(n + 1), np.ones(n))
    lists = Lists(each, rankings.indptr, items, rankings.levels, ones)
    coordinates = estimate.coordinates(evidence, alone=True)
    parts, density = np.empty((n, len(estimate.item_draws), size)), np.empty((n, 1, size))
    constant = 0.5 * float(np.sum(np.log(precision / (2.0 * np.pi))))
    narrow = Narrow.of(estimate, lists, estimate.ties)
    for d, key in enumerate(_keys(1, len(narrow.thetas))):
        theta, slopes = narrow.thetas[d : d + 1], narrow.slopes[d : d + 1]
        one, modes = narrow._replace(thetas=theta, slopes=slopes), np.zeros((n, 1, precision.size))
        users = one.draws(coordinates, precision, modes, np.array([key]), density)
        means = np.einsum("uj,jk->uk", coordinates, slopes[0])
        for j in range(size):
            point = np.ascontiguousarray(users[:, 0, j])
            likelihood = user_log_likelihoods(narrow.lists, estimate.ties, theta[0], point)
            parts[:, d, j] = likelihood + constant - 0.5 * ((point - means) ** 2 @ precision) - density[:, 0, j]
    flat = parts.reshape(n, -1)
    top = flat.max(axis=1, keepdims=True)
    weights = np.exp(flat - top)
    mean = weights.mean(axis=1)
    errors = weights.std(axis=1) / (mean * np.sqrt(flat.shape[1]))
    return np.asarray(top[:, 0] + np.log(mean)), np.asarray(errors)


def contributions(
    estimate: FactoredEstimate, evidence: Evidence, modes: Float64Array, item: int, shares: Float64Array
) -> tuple[Int64Array, Float64Array]:
    """Listed items, and what each adds to the score of an item for the user beyond what it adds to items on average.

    At the mode of a user's posterior, precision * (W_u - mean) = Σ_e g_e H_e over the listed entries, g_e being how
    much more often an item was chosen than expected; the mean is itself a sum over what was listed, whatever its order
    (see ``co_listing``). So the personal part of a score is a sum over the list: W_u H_y = Σ_e (c_e H_y + g_e
    <H_e, H_y> / precision), averaged over the draws, with H_y as the mean scores have it in the basis of each. Of that
    an entry is credited with what it adds beyond the mean over items, each as often as it is listed: scores are about
    differences, and what raises all items alike is no reason for one of them. The rest is what the item has for
    everybody, and that mean.

    modes: of the user under every draw or near them, (n_kept, K). shares: (n_items,), of the items in the average.
    """
    (lists, ties), coordinates = estimate.lists(evidence), estimate.coordinates(evidence)
    precision = estimate.precisions()
    items = lists.items
    real = items < estimate.n_items
    parts = coordinate_parts(np.asarray(estimate.co_listing), items[real])
    n_dimensions, total, beyond = estimate.co_listing.shape[1], np.zeros(items.size), np.zeros(estimate.n_columns)
    pull = np.zeros((len(modes), 1, 0)) if evidence.pull is None else evidence.pull
    strength = 1.0 if evidence.pull is None else float(evidence.pull[0, 0, -1])
    away = estimate.item_factors[item].astype(np.float64) - shares @ estimate.item_factors.astype(np.float64)
    for d, stored in enumerate(estimate.item_draws):
        theta = stored.astype(np.float64)
        prior, mode = (
            Prior(coordinates, estimate.slopes(d), precision, pull[d]),
            modes[d][None].copy(),
        )
        users, entries = Users(mode, np.empty_like(mode)), Entries(np.empty(items.size), np.empty(items.size))
        move_users(lists, ties, theta, prior, users, Newton(50, 1e-10), NO_NOISE, entries)
        beyond[: estimate.n_factors] = estimate.bases[d] @ away
        total += entries.residual * (theta[items, :-1] @ (beyond / (strength * precision)))
        total[real] += parts @ (estimate.slopes(d)[:n_dimensions] @ beyond)
    weight = estimate.temperature * estimate.personal_weight
    return items[real].astype(np.int64), weight * total[real] / len(estimate.item_draws)
