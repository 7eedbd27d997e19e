"""Users who are linked are alike: R ~ N(0, (s (I + τ L))^-1) for each factor, R being users less their prior means.

L = D - A is the Laplacian of the links, weighted by a_uv = w_uv / sqrt(d_u d_v), d being the sums of the weights w of a
user's links: so that a user with many friends is not held by each of them as one with few is. τ is learnt; where
friends have nothing in common it goes to 0. s = s(τ) is the mean of the diagonal of (I + τ L)^-1, so that links make
users alike and leave their variance: without it links that mean nothing would have a large τ wherever data prefer less
personal users. Users without links have the precision 1.

Given everything else users are not independent, but they become so with one more variable for each link,
z_uv ~ N(R_u + R_v, 1 / s τ a_uv): since D - A + (D + A) = 2 D,

    p(R, z) ∝ exp(-½ s Σ_u (1 + 2 τ D_u) |R_u|² + s τ Σ_u R_u · Σ_v a_uv z_uv + ...),

all users can be drawn side by side given z, and z given all users: a Gibbs sampler that is parallel, needs no colouring
and gives the same bits for any number of threads. Only the sums Σ_v a_uv z_uv are needed, whose covariance given R is
(D + A) / s τ. Beyond `_ROWS` links their noise is made of so many normal rows, drawn anew in each sweep: a link takes
one of them at random, with a random sign. The covariance of the sums is the same, and so are means and covariances of
what normal data and these sums lead to; a sweep costs two passes over the links.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from permrank.errors import InputError
from permrank.posterior.kernels.links import link_noise, link_sums
from permrank.ragged import frozen
from permrank.rankings.links import Edges
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Friends, Int64Array, Key

# Values of τ that are tried: 0 is as good as the first. With the last, two who have no other friends are correlated by
# τ / (1 + τ) = .97. More would tell little, and friends move together in steps of 1 / τ: it takes about τ sweeps.
_GRID = np.logspace(-4.0, 1.5, 221)
# Lanczos steps for log det(I + τ L), and random vectors: so many, or fewer of so many users that the error is the same.
_STEPS, _PROBES, _FEWEST_PROBES, _PROBED = 20, 16, 4, 16_384
# Normal rows that the noise of links is made of, if there are more links.
_ROWS = 1_024


class UserGraph:
    """The links of users, and what follows from them.

    Parameters
    ----------
    edges : Edges
    n_users : int
    """

    def __init__(self, edges: Edges, n_users: int) -> None:
        degrees = np.bincount(edges.first, edges.weights, n_users) + np.bincount(edges.second, edges.weights, n_users)
        scaled = edges.weights / np.sqrt(degrees[edges.first] * degrees[edges.second])
        # Numbers of the links, from 1 on, in a matrix that is made symmetric.
        numbers = np.arange(1, edges.first.size + 1)
        half = sp.csr_array((numbers, (edges.first, edges.second)), (n_users, n_users))
        both = sp.csr_array(half + half.T)
        link = both.data - 1
        self.n_users, self.n_links, self.raw_degrees = n_users, edges.first.size, degrees
        self._indptr, self._friends = frozen(both.indptr.astype(np.int64), both.indices.astype(np.int32))
        (self._link,) = frozen(link)
        own = scaled[link]
        self._weights, self._roots = frozen(own.astype(np.float32), np.sqrt(own).astype(np.float32))
        self.degrees = np.bincount(edges.first, scaled, n_users) + np.bincount(edges.second, scaled, n_users)
        self.linked = self.degrees > 0.0
        self._features: tuple[Float64Array, Float64Array] | None = None

    def friends_of(self, user: int) -> tuple[np.ndarray, Float64Array]:
        """Indices of a user's friends, and the weights of the links."""
        part = slice(int(self._indptr[user]), int(self._indptr[user + 1]))
        return self._friends[part], self._weights[part].astype(np.float64)

    def matrix(self) -> sp.csr_matrix:
        """The weights a_uv of all links, in both directions: (n_users, n_users)."""
        weights = self._weights.astype(np.float64)
        return sp.csr_matrix((weights, self._friends, self._indptr), (self.n_users, self.n_users))

    def sums(self, rows: Float64Array) -> Float64Array:
        """A times rows: Σ_v a_uv rows_v of every user."""
        short = np.ascontiguousarray(rows, np.float32)
        return np.asarray(link_sums(self._indptr, self._friends, self._weights, short), np.float64)

    def noise(self, n_columns: int, key: Key) -> Float64Array:
        """What has mean 0 and, over users, the covariance D + A: (n_users, n_columns)."""
        rng, n_rows = np.random.default_rng(int(key)), min(self.n_links, _ROWS)
        normals = rng.standard_normal((n_rows, n_columns), np.float32)
        if n_rows == self.n_links:  # each link has a row of its own
            return np.asarray(link_sums(self._indptr, self._link, self._roots, normals), np.float64)
        return np.asarray(link_noise(self._indptr, self._link, self._roots, normals, key), np.float64)

    def laplacian(self, rows: Float64Array) -> Float64Array:
        """L times rows: (n_users, k)."""
        return np.asarray(self.degrees[:, None] * rows - self.sums(rows))

    def laplacian_of_features(self, features: Float64Array) -> Float64Array:
        """`laplacian` of features of the users, which are the same in every part of a fit: found once."""
        if self._features is None or self._features[0] is not features:
            self._features = features, self.laplacian(features)
        return self._features[1]

    def scale(self, tau: Float64Array | float) -> Float64Array:
        """s(τ): mean over linked users of the diagonal of (I + τ L)⁻¹, for each τ; 1 for 0."""
        nodes, weights = self._spectrum
        if not nodes.size:
            return np.ones(np.shape(tau))
        return np.asarray(np.sum(weights / (1.0 + np.multiply.outer(tau, nodes)), axis=-1) / weights.sum())

    def pull(self, away: Float64Array, sums: Float64Array, tau: float, key: Key | None) -> Float64Array:
        """What links say about each user given z, drawn given ``away`` (n_users, k): their mean, then s (1 + 2 τ D).

        sums: `sums` of ``away``. Without a key z are at their means.
        """
        scale = float(self.scale(tau))
        both = self.degrees[:, None] * away + sums
        if key is not None:
            both += self.noise(away.shape[1], key) / np.sqrt(scale * tau)
        strength = np.where(self.linked, scale, 1.0) + 2.0 * scale * tau * self.degrees
        return np.column_stack((scale * tau * both / strength[:, None], strength))

    def friends_pull(self, sums: Float64Array, tau: float) -> Float64Array:
        """The same given the friends: mean τ Σ_v a_uv R_v / (1 + τ D_u), and s (1 + τ D_u); sums: `sums` of them."""
        scale = float(self.scale(tau))
        strength = np.where(self.linked, scale, 1.0) + scale * tau * self.degrees
        return np.column_stack((scale * tau * sums / strength[:, None], strength))

    @cached_property
    def _spectrum(self) -> tuple[Float64Array, Float64Array]:
        """Nodes and weights with log det(I + τ L) ≈ Σ weight log(1 + τ node): stochastic Lanczos quadrature.

        Some random vectors side by side. They are not made orthogonal again: copies of values that have converged share
        the weight of one.
        """
        rng, linked = np.random.default_rng(0), np.flatnonzero(self.degrees)
        if not linked.size:
            return np.zeros(0), np.zeros(0)
        n_probes = min(_PROBES, max(_FEWEST_PROBES, -(-_PROBED // linked.size)))
        now, before = np.zeros((self.n_users, n_probes)), np.zeros((self.n_users, n_probes))
        now[linked] = rng.choice((-1.0, 1.0), (linked.size, n_probes)) / np.sqrt(linked.size)
        diagonal, beside, length = [], [], np.zeros(n_probes)
        for _ in range(min(_STEPS, linked.size)):
            image = self.laplacian(now) - length * before
            diagonal.append(np.einsum("up,up->p", image, now))
            image -= diagonal[-1] * now
            length = np.sqrt(np.einsum("up,up->p", image, image))
            beside.append(length)
            if (length < 1e-10).any():
                break
            before, now = now, image / length
        nodes, weights = [], []
        for probe in range(n_probes):
            own, next_to = (np.array([each[probe] for each in part]) for part in (diagonal, beside[:-1]))
            values, vectors = eigh_tridiagonal(own, next_to)
            nodes.append(np.maximum(values, 0.0))
            weights.append(linked.size / n_probes * vectors[0] ** 2)
        return np.concatenate(nodes), np.concatenate(weights)

    def log_determinant(self, tau: Float64Array | float) -> Float64Array:
        """Log det(I + τ L), for each τ."""
        nodes, weights = self._spectrum
        return np.asarray(np.sum(weights * np.log1p(np.multiply.outer(tau, nodes)), axis=-1))

    @cached_property
    def _on_grid(self) -> tuple[Float64Array, Float64Array]:
        """s(τ), and log det of the precision of linked users, s (I + τ L), for each τ of the grid."""
        scale = self.scale(_GRID)
        return scale, self.log_determinant(_GRID) + np.count_nonzero(self.linked) * np.log(scale)

    def log_density(self, away: Float64Array, sums: Float64Array) -> Float64Array:
        """Log-probability of each τ of the grid given users less their means (n_users, k); a priori dτ / τ (1 + τ).

        Linked users are taken around their common mean, and as variable as the prior has them: only how much more alike
        linked users are than any two counts. For links drawn at random the mean of this over all graphs is largest at
        τ = 0, whatever mean and variance users have. sums: `sums` of ``away``.
        """
        energy = np.sum(away * (self.degrees[:, None] * away - sums), axis=0)
        variance = np.maximum(away[self.linked].var(axis=0), 1e-300)
        (scale, determinants), n_columns = self._on_grid, away.shape[1]
        own = float(np.count_nonzero(self.linked) * n_columns)
        prior = -np.log1p(_GRID)  # the grid is even in log τ
        found = prior + 0.5 * n_columns * determinants - 0.5 * scale * (own + _GRID * float(np.sum(energy / variance)))
        return np.asarray(found - np.logaddexp.reduce(found))

    def drawn(self, away: Float64Array, sums: Float64Array, rng: np.random.Generator) -> float:
        """τ given users less their means."""
        density = np.exp(self.log_density(away, sums))
        return float(_GRID[np.searchsorted(np.cumsum(density), rng.random() * (1 - 1e-12))])


def weights_of_new(graph: UserGraph, friends: np.ndarray, weights: Float64Array) -> Float64Array:
    """a of the links of somebody new with these users, as if there had been these links from the beginning."""
    return np.asarray(weights / np.sqrt(weights.sum() * (graph.raw_degrees[friends] + weights)))


def linked_with(friends: Friends, users: Vocabulary) -> tuple[Int64Array, Float64Array]:
    """Indices of the friends that somebody new has, given as ids or as a dict of id to weight, and the weights."""
    given = dict(friends) if isinstance(friends, Mapping) else dict.fromkeys(friends, 1.0)
    weights = np.array([float(weight) for weight in given.values()])
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(f"friends={friends!r}: the weight of a link is a number above 0")
    return users.indices(list(given)), weights
