"""EM for the pairwise latent-class model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from permrank.families.pairwise.kernels.latent_preference import latent_preference_sums
from permrank.kernels.lists import Lists
from permrank.learning.learner import Learner, mapped
from permrank.learning.optimisers import Update, expectation_maximisation
from permrank.learning.shards import Shard, blocks_by_rows, gathered, n_blocks_of, shards_of
from permrank.ragged import frozen
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Key

# Starts differ by noise of this standard deviation in the scores: enough to fall apart, small beside the differences
# between items.
_NOISE = 0.5
# Opponents that stand for all items when a score is made: the mean over so many quantiles is good to three digits.
_OPPONENTS = 512
# Two tables of items by communities for every block of users: 300 MB at the most.
_MOST_CELLS = 20_000_000


class PairedLists(NamedTuple):
    """Lists that are broken into pairs, and priors of worths and memberships.

    Attributes
    ----------
    lists : Lists
    outer : float64 (n_users,)
        Weights of users; those of lists are repetitions inside a user's likelihood.
    pooled : float64 (n_items,)
        Scores around which those of communities are.
    strength, concentration : float
        Of the Gamma and Dirichlet priors.
    max_pairs : int
    key : Key
    """

    lists: Lists
    outer: Float64Array
    pooled: Float64Array
    strength: float
    concentration: float
    max_pairs: int
    key: Key

    @classmethod
    def of(cls, rankings: Rankings, items: Array, pooled: Float64Array, seed: int, **priors: Any) -> PairedLists:
        """Ballots without a voter count by their weight as users; a weight of a known user as repetitions."""
        inner, outer = rankings.weights, np.ones(rankings.n_users)
        if rankings.anonymous:
            inner, outer = np.ones(rankings.n_rankings), rankings.weights
        arrays = frozen(rankings.user_indptr, rankings.indptr, items, rankings.levels, inner, outer)
        return cls(Lists(*arrays[:5]), arrays[5], pooled, key=stream_key(seed, 1), **priors)

    def e_step(self, n_communities: int) -> Callable[[Float64Array, Float64Array], tuple[Float64Array, ...]]:
        """The E-step over shards of users, for so many communities.

        It turns scores and memberships into value (n_users,), counts (n_users, K), chosen and rate (n_items, K).
        """
        user_indptr, indptr, items, levels, weights = self.lists
        n_blocks = n_blocks_of(self.outer.size, _MOST_CELLS // max(self.pooled.size * n_communities, 1))
        bounds = blocks_by_rows(self.outer.size, n_blocks)
        shards = shards_of(bounds, (user_indptr, indptr), ((self.outer,), (weights,), (items, levels)))

        def e_step(scores: Float64Array, mixture: Float64Array) -> tuple[Float64Array, ...]:
            job = partial(_sums, np.exp(scores - scores.max(axis=0)), self.max_pairs, self.key)
            value, counts, chosen, expected = gathered(job, shards, mixture)
            return value, counts, chosen.sum(axis=0), expected.sum(axis=0) * np.exp(-scores)

        return e_step


def _sums(
    worths: Float64Array, max_pairs: int, key: Key, shard: Shard, mixture: Float64Array
) -> tuple[Float64Array, ...]:
    outer, weights, items, levels = shard.data
    (user_indptr, indptr), before = shard.indptrs, shard.spans[1].start
    lists = Lists(user_indptr, indptr, items, levels, weights)
    sums: tuple[Float64Array, ...] = latent_preference_sums(
        shard.bounds, lists, outer, worths, mixture, max_pairs, key, before
    )
    return sums


def em_update(data: PairedLists, n_communities: int) -> Update:
    """EM step and objective, for points that hold scores and then logarithms of memberships.

    Objective: Σ_u log P(pairs of u) + Σ a (d - e^d) + Σ (α / K) log θ, with d the scores less the pooled ones: worths
    are Gamma distributed around the pooled ones and memberships Dirichlet distributed, with modes in closed form.
    """
    pooled, outer = data.pooled[:, None], data.outer
    cut = data.pooled.size * n_communities
    prior = data.concentration / n_communities
    e_step = data.e_step(n_communities)

    def one(point: Float64Array) -> tuple[Float64Array, float]:
        scores = pooled + np.clip(point[:cut].reshape(-1, n_communities) - pooled, -100.0, 100.0)
        mixture = softmax(point[cut:].reshape(-1, n_communities))
        value, counts, chosen, rate = e_step(scores, mixture)
        d = scores - pooled
        objective = float(outer @ (value + prior * np.log(mixture).sum(axis=1)))
        objective += data.strength * float(np.sum(d - np.exp(d)))
        better = np.log((chosen + data.strength) / (rate + data.strength * np.exp(-pooled)))
        # A community's scores are defined up to a constant: the prior chooses it, where Σ (e^d - 1) = 0.
        better = better - np.log(np.mean(np.exp(better - pooled), axis=0))
        new = counts + prior
        return np.concatenate([better.ravel(), np.log(new / new.sum(axis=1, keepdims=True)).ravel()]), objective

    def update(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        found = [one(point) for point in points]
        return np.stack([point for point, _ in found]), np.array([value for _, value in found])

    return update


def learner_of(
    data: PairedLists, n_communities: int, n_starts: int, seed: int, tol: float
) -> Learner[tuple[Float64Array, Float64Array]]:
    """Scores (n_starts, n_items, K) and memberships (n_starts, n_users, K) by EM from several starts side by side."""
    n_items, n_users = data.pooled.size, data.outer.size
    noise = generator(int(stream_key(seed, 0))).normal(size=(n_starts, n_items, n_communities))
    begin = data.pooled[None, :, None] + (_NOISE * noise if n_communities > 1 else 0.0 * noise)
    shares = np.full((n_starts, n_users * n_communities), -np.log(n_communities))
    points = np.concatenate([begin.reshape(n_starts, -1), shares], axis=1)
    cut = n_items * n_communities

    def reached(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        scores = points[:, :cut].reshape(n_starts, n_items, n_communities)
        return scores, softmax(points[:, cut:].reshape(n_starts, n_users, n_communities))

    return mapped(expectation_maximisation(em_update(data, n_communities), points, tol=tol), reached)


def memberships_of(data: PairedLists, scores: Float64Array, max_iter: int = 200) -> Float64Array:
    """θ (n_starts, n_users, K) by EM with the scores as they are."""
    n_starts, _, n_communities = scores.shape
    prior, e_step = data.concentration / n_communities, data.e_step(n_communities)
    memberships = np.full((n_starts, data.outer.size, n_communities), 1.0 / n_communities)
    for start in range(n_starts):
        for _ in range(max_iter):
            counts = e_step(scores[start], memberships[start])[1] + prior
            new = counts / counts.sum(axis=1, keepdims=True)
            change = float(np.abs(new - memberships[start]).max(initial=0.0))
            memberships[start] = new
            if change < 1e-6:
                break
    return memberships


def appeal(scores: Float64Array, frequency: Float64Array) -> Float64Array:
    """P(y before a random item | z), items coming as often as they are listed (n_items, K).

    Many items are stood for by quantiles of their scores, community by community.
    """
    chances = np.empty_like(scores)
    for z in range(scores.shape[1]):
        own = scores[:, z]
        if own.size <= _OPPONENTS:
            opponents, weights = own, frequency / frequency.sum()
        else:
            order = np.argsort(own, kind="stable")
            reached = np.cumsum(frequency[order]) / frequency.sum()
            middle = (np.arange(_OPPONENTS) + 0.5) / _OPPONENTS
            opponents, weights = own[order[np.searchsorted(reached, middle)]], np.full(_OPPONENTS, 1.0 / _OPPONENTS)
        chances[:, z] = (1.0 / (1.0 + np.exp(np.clip(opponents[None, :] - own[:, None], -700.0, 700.0)))) @ weights
    return chances


def softmax(logs: Float64Array) -> Float64Array:
    """Shares from their logarithms; an extrapolation may go far, so nothing is ever quite impossible."""
    worths = np.maximum(np.exp(logs - logs.max(axis=-1, keepdims=True)), 1e-100)
    return np.asarray(worths / worths.sum(axis=-1, keepdims=True))
