"""EM for the pairwise latent-class model."""

from __future__ import annotations

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


class Problem(NamedTuple):
    """Data and priors: ``arrays`` are those of the rankings, then weights inside a user's likelihood and of users."""

    arrays: tuple[Any, ...]
    pooled: Float64Array
    strength: float
    concentration: float
    max_pairs: int
    key: Key


class EStep:
    """The E-step over shards of users, for so many communities."""

    def __init__(self, problem: Problem, n_communities: int) -> None:
        user_indptr, indptr, items, levels, weights, outer = problem.arrays
        allowed = _MOST_CELLS // max(problem.pooled.size * n_communities, 1)
        bounds = blocks_by_rows(outer.size, n_blocks_of(outer.size, allowed))
        self._shards = shards_of(bounds, (user_indptr, indptr), ((outer,), (weights,), (items, levels)))
        self._max_pairs, self._key = problem.max_pairs, problem.key

    def __call__(self, scores: Float64Array, mixture: Float64Array) -> tuple[Float64Array, ...]:
        """Value (n_users,), counts (n_users, K), chosen and rate (n_items, K) for scores and memberships."""
        job = partial(_sums, np.exp(scores - scores.max(axis=0)), self._max_pairs, self._key)
        value, counts, chosen, expected = gathered(job, self._shards, mixture)
        return value, counts, chosen.sum(axis=0), expected.sum(axis=0) * np.exp(-scores)


def _sums(
    worths: Float64Array, max_pairs: int, key: Key, shard: Shard, mixture: Float64Array
) -> tuple[Float64Array, ...]:
    outer, weights, items, levels = shard.data
    (user_indptr, indptr), before = shard.indptrs, shard.spans[1].start
    lists = Lists(user_indptr, indptr, items, levels, weights)
    found: tuple[Float64Array, ...] = latent_preference_sums(
        shard.bounds, lists, outer, worths, mixture, max_pairs, key, before
    )
    return found


def problem_of(
    rankings: Rankings,
    items: Array,
    pooled: Float64Array,
    strength: float,
    concentration: float,
    max_pairs: int,
    seed: int,
) -> Problem:
    """Ballots without a voter count by their weight as users; a weight of a known user as repetitions."""
    n_users = rankings.n_users
    inner, outer = rankings.weights, np.ones(n_users)
    if rankings.anonymous:
        inner, outer = np.ones(rankings.n_rankings), rankings.weights
    arrays = frozen(rankings.user_indptr, rankings.indptr, items, rankings.levels, inner, outer)
    return Problem(arrays, pooled, strength, concentration, max_pairs, stream_key(seed, 1))


def em_update(problem: Problem, n_communities: int) -> Update:
    """EM step and objective, for points that hold scores and then logarithms of memberships.

    Objective: Σ_u log P(pairs of u) + Σ a (d - e^d) + Σ (α / K) log θ, with d the scores less the pooled ones: worths
    are Gamma distributed around the pooled ones and memberships Dirichlet distributed, with modes in closed form.
    """
    pooled, outer = problem.pooled[:, None], problem.arrays[5]
    cut = problem.pooled.size * n_communities
    prior = problem.concentration / n_communities
    e_step = EStep(problem, n_communities)

    def one(point: Float64Array) -> tuple[Float64Array, float]:
        scores = pooled + np.clip(point[:cut].reshape(-1, n_communities) - pooled, -100.0, 100.0)
        mixture = softmax(point[cut:].reshape(-1, n_communities))
        value, counts, chosen, rate = e_step(scores, mixture)
        d = scores - pooled
        objective = float(outer @ (value + prior * np.log(mixture).sum(axis=1)))
        objective += problem.strength * float(np.sum(d - np.exp(d)))
        better = np.log((chosen + problem.strength) / (rate + problem.strength * np.exp(-pooled)))
        # A community's scores are defined up to a constant: the prior chooses it, where Σ (e^d - 1) = 0.
        better = better - np.log(np.mean(np.exp(better - pooled), axis=0))
        new = counts + prior
        return np.concatenate([better.ravel(), np.log(new / new.sum(axis=1, keepdims=True)).ravel()]), objective

    def update(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        found = [one(point) for point in points]
        return np.stack([point for point, _ in found]), np.array([value for _, value in found])

    return update


def learner_of(
    problem: Problem, n_communities: int, n_starts: int, seed: int, tol: float
) -> Learner[tuple[Float64Array, Float64Array]]:
    """Scores (n_starts, n_items, K) and memberships (n_starts, n_users, K) by EM from several starts side by side."""
    n_items, n_users = problem.pooled.size, problem.arrays[5].size
    noise = generator(int(stream_key(seed, 0))).normal(size=(n_starts, n_items, n_communities))
    begin = problem.pooled[None, :, None] + (_NOISE * noise if n_communities > 1 else 0.0 * noise)
    shares = np.full((n_starts, n_users * n_communities), -np.log(n_communities))
    points = np.concatenate([begin.reshape(n_starts, -1), shares], axis=1)
    cut = n_items * n_communities

    def reached(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        scores = points[:, :cut].reshape(n_starts, n_items, n_communities)
        return scores, softmax(points[:, cut:].reshape(n_starts, n_users, n_communities))

    return mapped(expectation_maximisation(em_update(problem, n_communities), points, tol=tol), reached)


def memberships_of(problem: Problem, scores: Float64Array, max_iter: int = 200) -> Float64Array:
    """θ (n_starts, n_users, K) by EM with the scores as they are."""
    n_starts, _, n_communities = scores.shape
    prior = problem.concentration / n_communities
    e_step = EStep(problem, n_communities)
    found = np.full((n_starts, problem.arrays[5].size, n_communities), 1.0 / n_communities)
    for start in range(n_starts):
        for _ in range(max_iter):
            counts = e_step(scores[start], found[start])[1] + prior
            new = counts / counts.sum(axis=1, keepdims=True)
            moved = float(np.abs(new - found[start]).max(initial=0.0))
            found[start] = new
            if moved < 1e-6:
                break
    return found


def appeal(scores: Float64Array, frequency: Float64Array) -> Float64Array:
    """P(y before a random item | z), items coming as often as they are listed (n_items, K).

    Many items are stood for by quantiles of their scores, community by community.
    """
    found = np.empty_like(scores)
    for z in range(scores.shape[1]):
        own = scores[:, z]
        if own.size <= _OPPONENTS:
            opponents, weights = own, frequency / frequency.sum()
        else:
            order = np.argsort(own, kind="stable")
            reached = np.cumsum(frequency[order]) / frequency.sum()
            middle = (np.arange(_OPPONENTS) + 0.5) / _OPPONENTS
            opponents, weights = own[order[np.searchsorted(reached, middle)]], np.full(_OPPONENTS, 1.0 / _OPPONENTS)
        found[:, z] = (1.0 / (1.0 + np.exp(np.clip(opponents[None, :] - own[:, None], -700.0, 700.0)))) @ weights
    return found


def softmax(logs: Float64Array) -> Float64Array:
    """Shares from their logarithms; an extrapolation may go far, so nothing is ever quite impossible."""
    worths = np.maximum(np.exp(logs - logs.max(axis=-1, keepdims=True)), 1e-100)
    return np.asarray(worths / worths.sum(axis=-1, keepdims=True))
