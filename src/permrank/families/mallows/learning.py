"""EM for mixtures of Mallows models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from permrank.core.comparisons import comparisons
from permrank.families.mallows.kemeny import kemeny_order
from permrank.families.mallows.kernels.mallows import (
    Centres,
    Draws,
    Listed,
    completions,
    expected_distance,
    expected_pairs,
    insert_around,
    list_log_probabilities,
    log_normalisers,
    precedence,
    spearman_precedence,
)
from permrank.families.mallows.kernels.mallows_lists import list_log_likelihoods
from permrank.families.mallows.law import MOST_WORK
from permrank.learning.learner import Learner, Step, run, standing
from permrank.learning.shards import MOST_BLOCKS, Shard, blocks_by_rows, gathered, shards_of
from permrank.ragged import frozen
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array, Key, Named

# At θ = 20 a pair is the wrong way round once in 500 million times: agreement is complete.
LARGEST_DISPERSION = 20.0
# Sweeps that every start is given before the best quarter of them goes on.
_FIRST_SWEEPS = 4


class Mixture(NamedTuple):
    """Shares of the communities (K,), centres (K, n), best first, dispersions (K,), and gaps of the centres (K,)."""

    weights: Float64Array
    centres: Int64Array
    dispersions: Float64Array
    gaps: Float64Array

    @property
    def communities(self) -> Centres:
        """As kernels take them."""
        return Centres(self.centres, np.argsort(self.centres, axis=1), self.dispersions)


class WeightedLists(NamedTuple):
    """Lists and shards of them, whose they are, and how much they count: inside a user's likelihood, and as users."""

    listed: Listed
    shards: list[Shard]
    owner: Int64Array
    inner: Float64Array
    outer: Float64Array


def lists_to_learn(rankings: Rankings, items: Int32Array | None = None) -> WeightedLists:
    """Equal ballots without a voter are as many voters; a weight of a known user is a number of repetitions."""
    ones = np.ones(rankings.n_rankings)
    inner, outer = (ones, rankings.weights) if rankings.anonymous else (rankings.weights, np.ones(rankings.n_users))
    listed = Listed(*frozen(rankings.indptr, rankings.items if items is None else items, rankings.levels))
    bounds = blocks_by_rows(rankings.n_rankings, MOST_BLOCKS)
    shards = shards_of(bounds, (listed.indptr,), ((), (listed.items, listed.levels)))
    return WeightedLists(listed, shards, rankings.ranking_users, inner, outer)


class Kendall(NamedTuple):
    """Number of pairs in another order than the centre's; lists of any kind."""

    n_items: int
    key: Key
    n_draws: int

    def log_probabilities(self, lists: WeightedLists, mixture: Mixture) -> Float64Array:
        """log P(list | community) (n_lists, K)."""
        logs = np.stack([log_normalisers(theta, self.n_items) for theta in mixture.dispersions])
        job = partial(_kendall_logs, mixture.communities, logs, self.key, self.n_draws)
        return np.asarray(gathered(job, lists.shards)[0])

    def log_likelihoods(
        self, lists: WeightedLists, mixture: Mixture, n_draws: int
    ) -> tuple[Float64Array, Float64Array]:
        """`log_probabilities`, exact where that is possible, and standard errors."""
        logs = np.stack([log_normalisers(theta, self.n_items) for theta in mixture.dispersions])
        values, errors = list_log_likelihoods(
            lists.listed, mixture.communities, logs, Draws(self.key, n_draws), MOST_WORK
        )
        return values, errors

    def maximise(self, lists: WeightedLists, mixture: Mixture, shares: Float64Array) -> Mixture:
        """Kemeny order of the expected pairs, and the dispersion whose mean distance is the observed one."""
        chances = np.stack([precedence(theta, self.n_items) for theta in mixture.dispersions])
        job = partial(_kendall_pairs, mixture.communities, chances, self.key, self.n_draws)
        above = gathered(job, lists.shards, shares)[0].sum(axis=0)
        centres, dispersions, gaps = mixture.centres.copy(), mixture.dispersions.copy(), mixture.gaps.copy()
        for z, weight in enumerate(shares.sum(axis=0)):
            if weight > 1e-9:
                central = kemeny_order(above[z], self.key, mixture.centres[z])
                centres[z], gaps[z] = central.order, central.gap
                dispersions[z] = solved_dispersion(self.expected, central.cost / weight)
        return Mixture(mixture.weights, centres, dispersions, gaps)

    def expected(self, theta: float) -> float:
        """Mean distance."""
        return expected_distance(theta, self.n_items)

    def precedence(self, theta: float) -> Float64Array:
        """P(the i-th item of the centre comes before the j-th): (n, n)."""
        gap = np.arange(self.n_items)[None, :] - np.arange(self.n_items)[:, None]
        chances = precedence(theta, self.n_items)[np.abs(gap)]
        return np.asarray(np.where(gap > 0, chances, 1.0 - chances))


def _listed(shard: Shard) -> Listed:
    return Listed(shard.indptrs[0], *shard.data)


def _kendall_logs(
    communities: Centres, log_z: Float64Array, key: Key, n_draws: int, shard: Shard
) -> tuple[Float64Array]:
    draws = Draws(key, n_draws, shard.spans[0].start)
    return (list_log_probabilities(_listed(shard), communities, log_z, draws),)


def _kendall_pairs(
    communities: Centres, chances: Float64Array, key: Key, n_draws: int, shard: Shard, shares: Float64Array
) -> tuple[Float64Array]:
    """Sums by block; see `expected_pairs`."""
    draws = Draws(key, n_draws, shard.spans[0].start)
    return (expected_pairs(shard.bounds, _listed(shard), communities, chances, shares, draws),)


class Spearman(NamedTuple):
    """Sum of squared differences of positions; complete lists without ties only."""

    n_items: int
    key: Key

    def log_probabilities(self, lists: WeightedLists, mixture: Mixture) -> Float64Array:
        """log P(list | community) (n_lists, K)."""
        logs = [np.log(completions(float(theta), self.n_items, -1, -1)[0][0]) for theta in mixture.dispersions]
        return np.asarray(-mixture.dispersions * self._distances(lists, mixture.centres) - np.array(logs))

    def log_likelihoods(
        self, lists: WeightedLists, mixture: Mixture, n_draws: int
    ) -> tuple[Float64Array, Float64Array]:
        """`log_probabilities`, and no errors."""
        exact = self.log_probabilities(lists, mixture)
        return exact, np.zeros_like(exact)

    def maximise(self, lists: WeightedLists, mixture: Mixture, shares: Float64Array) -> Mixture:
        """Order by mean position, which has the least mean squared distance, and the dispersion likewise."""
        mean = gathered(partial(_spearman_positions, self.n_items), lists.shards, shares)[0].sum(axis=0)
        counts, centres, dispersions = shares.sum(axis=0), mixture.centres.copy(), mixture.dispersions.copy()
        met = counts > 1e-9
        centres[met] = np.argsort(mean[met], axis=1, kind="stable")
        distances = np.sum(shares * self._distances(lists, centres), axis=0)
        for z in np.flatnonzero(met):
            dispersions[z] = solved_dispersion(self.expected, float(distances[z] / counts[z]))
        return Mixture(mixture.weights, centres, dispersions, mixture.gaps)

    def expected(self, theta: float) -> float:
        """Mean distance."""
        value, slope = completions(theta, self.n_items, -1, -1)
        return float(slope[0] / value[0])

    def precedence(self, theta: float) -> Float64Array:
        """P(the i-th item of the centre comes before the j-th): (n, n)."""
        return np.asarray(spearman_precedence(theta, self.n_items))

    def _distances(self, lists: WeightedLists, centres: Int64Array) -> Float64Array:
        """Of every list from every centre, (n_lists, K)."""
        return np.asarray(gathered(partial(_spearman_distances, centres), lists.shards)[0])


Distance: TypeAlias = Kendall | Spearman


def _spearman_distances(centres: Int64Array, shard: Shard) -> tuple[Float64Array]:
    n = centres.shape[1]
    positions = np.argsort(centres, axis=1)[:, shard.data[0].reshape(-1, n)]
    return (np.asarray(np.sum((positions - np.arange(n)) ** 2, axis=2).T, np.float64),)


def _spearman_positions(n_items: int, shard: Shard, shares: Float64Array) -> tuple[Float64Array]:
    """Σ shares times the position of each item, by block: (n_blocks, K, n)."""
    positions = np.argsort(shard.data[0].reshape(-1, n_items), axis=1)
    parts = [np.einsum("rz,ry->zy", shares[a:b], positions[a:b]) for a, b in pairwise(shard.bounds.tolist())]
    return (np.stack(parts),)


def solved_dispersion(expected: Callable[[float], float], distance: float) -> float:
    """θ >= 0 with the given mean distance; 0 if it is that of random orders or more."""
    if distance >= expected(0.0):
        return 0.0
    if distance <= expected(LARGEST_DISPERSION):
        return LARGEST_DISPERSION
    return float(brentq(lambda theta: expected(theta) - distance, 0.0, LARGEST_DISPERSION, xtol=1e-12))


def responsibilities(lists: WeightedLists, mixture: Mixture, distance: Distance) -> tuple[Float64Array, Float64Array]:
    """P(community | user) (n_users, K), and log P of each user's lists (n_users,)."""
    logs = distance.log_probabilities(lists, mixture) * lists.inner[:, None]
    n_users = lists.outer.size
    with np.errstate(divide="ignore"):
        joint = np.log(mixture.weights)[None, :] + np.stack(
            [np.bincount(lists.owner, logs[:, z], n_users) for z in range(mixture.weights.size)], axis=1
        )
    total = logsumexp(joint, axis=1)
    return np.asarray(np.exp(joint - total[:, None])), np.asarray(total)


def em_step(lists: WeightedLists, mixture: Mixture, distance: Distance) -> tuple[Mixture, float]:
    """The next mixture, and the log-likelihood of the given one."""
    own, total = responsibilities(lists, mixture, distance)
    shares = own[lists.owner] * (lists.outer[lists.owner] * lists.inner)[:, None]
    new = distance.maximise(lists, mixture, shares)
    weights = lists.outer @ own
    return new._replace(weights=weights / weights.sum()), float(lists.outer @ total)


def first_mixtures(rankings: Rankings, distance: Distance, n_communities: int, key: Key, n: int) -> list[Mixture]:
    """The central order of all pairs; for several communities, lists drawn at random, completed around it."""
    n_items = rankings.n_items
    met = comparisons(rankings)
    pooled = kemeny_order(met.matrix(met.wins + met.ties / 2), key)
    middle = distance.expected(0.0) / 2.0
    theta = solved_dispersion(distance.expected, middle) if n_items > 1 else 0.0
    drawn = generator(int(key)).integers(rankings.n_rankings, size=(n, n_communities))
    mixtures, ones = [], np.ones(n_communities)
    for start in range(n):
        centres = np.tile(pooled.order, (n_communities, 1))
        for z, ranking in enumerate(drawn[start] if n_communities > 1 else ()):
            part = slice(int(rankings.indptr[ranking]), int(rankings.indptr[ranking + 1]))
            level_of = np.full(n_items, -1, np.int64)
            level_of[rankings.items[part]] = rankings.levels[part]
            insert_around(pooled.order, 0.5, level_of, n_items, stream_key(int(key), start, z), centres[z])
        mixtures.append(Mixture(ones / n_communities, centres, theta * ones, pooled.gap * ones))
    return mixtures


def learner_of(
    rankings: Rankings, distance: Distance, n_communities: int, n_starts: int, tol: float
) -> Learner[Mixture]:
    """EM from many starts; after some sweeps the best quarter goes on for twice as many, until one is left."""
    lists = lists_to_learn(rankings)
    mixtures = first_mixtures(rankings, distance, n_communities, distance.key, n_starts if n_communities > 1 else 1)
    n_sweeps = _FIRST_SWEEPS
    while len(mixtures) > 1:
        ends = [run(_climbing(lists, mixture, distance, tol), max_iter=n_sweeps) for mixture in mixtures]
        ends.sort(key=lambda end: -end.history[-1])
        mixtures = [end.estimate for end in ends[: max(1, len(ends) // 4)]]
        n_sweeps *= 2
    return _climbing(lists, mixtures[0], distance, tol)


def _climbing(lists: WeightedLists, start: Mixture, distance: Distance, tol: float) -> Learner[Mixture]:
    def steps(kept: Named | None) -> Iterator[Step[Mixture]]:
        mixture = Mixture(**kept) if kept else start

        def estimate() -> Mixture:
            return mixture

        def now() -> Named:
            return mixture._asdict()

        yield standing(estimate, now)
        while True:
            new, value = em_step(lists, mixture, distance)
            moved = max(
                np.abs(new.dispersions - mixture.dispersions).max(), np.abs(new.weights - mixture.weights).max()
            )
            settled = bool(moved <= tol) and np.array_equal(new.centres, mixture.centres)
            mixture = new
            yield Step(value, estimate, now, settled)

    return steps
