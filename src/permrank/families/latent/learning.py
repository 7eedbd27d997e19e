"""Learning of `LatentPlackettLuce`: the EM update, where it starts, and how strong the priors are (§3.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, latent_statistics, worth_table
from permrank.kernels.lists import Lists
from permrank.learning.learner import Learner, mapped, run
from permrank.learning.optimisers import Update, expectation_maximisation
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.ragged import frozen, indptr_of, owners, ranges
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array

MStep = Literal["mm", "gradient", "published"]
# Random orders of every tie under ties="shuffle", each counting an equal part.
_N_SHUFFLES = 5
# Scale of the noise that tells the first communities apart, in units of the log-worths' own unit noise.
_NOISE = 1.0
# Sweeps with one community a list before each stage may choose its own: long enough for communities to form.
_WARM_UP = 20
# Cells of all accumulators together: 2^24 float64 twice are 256 MB. Never below two blocks: two threads then work.
_MOST_CELLS, _FEWEST_BLOCKS = 2**24, 2


class CommunityData(NamedTuple):
    """What EM learns from.

    Attributes
    ----------
    lists : Lists
        Rankings of the users; the weights say how often its user gave each.
    outer : float64 (n_users,)
        How many such users there are: above 1 for ballots that several people cast.
    pooled : float64 (n_items,)
        Scores of everybody together, the centre of the prior.
    ties : int
        A code of `families.latent.kernels.stages`.
    m_step : str
        How scores are raised.
    """

    lists: Lists
    outer: Float64Array
    pooled: Float64Array
    ties: int
    m_step: MStep

    @classmethod
    def of(
        cls, rankings: Rankings, pooled: Float64Array, ties: int, m_step: MStep, shuffle_seed: int | None
    ) -> CommunityData:
        """Rankings; with a seed, every ranking with ties becomes several in random orders."""
        outer = rankings.weights if rankings.anonymous else np.ones(rankings.n_users)
        weights = np.ones(rankings.n_rankings) if rankings.anonymous else rankings.weights
        lists = Lists(rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, weights)
        if shuffle_seed is not None and rankings.has_ties:
            lists = _shuffled(rankings, weights, shuffle_seed)
        outer, pooled = frozen(outer, pooled)
        return cls(Lists(*frozen(*lists)), outer, pooled, ties, m_step)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.outer.size)

    def of_users(self, users: Int64Array) -> CommunityData:
        """The same of some of the users, all items."""
        user_indptr, indptr, items, levels, weights = self.lists
        rankings = ranges(user_indptr[:-1][users], user_indptr[1:][users])
        entries = ranges(indptr[:-1][rankings], indptr[1:][rankings])
        *lists, outer = frozen(
            indptr_of(np.diff(user_indptr)[users]), indptr_of(np.diff(indptr)[rankings]), items[entries],
            levels[entries], weights[rankings], self.outer[users],
        )  # fmt: skip
        return self._replace(lists=Lists(*lists), outer=outer)


EStep: TypeAlias = Callable[[Float64Array, Float64Array, int], tuple[Float64Array, ...]]
"""Scores (n_items, K), memberships (n_users, K) and a kind of mixing to what `latent_statistics` gives, sums over
blocks taken: value (n_users,), counts (n_users, K), chosen and available (n_items, K)."""


def e_step_of(data: CommunityData, n_communities: int) -> EStep:
    """The E-step over shards of users."""
    (user_indptr, indptr, items, levels, weights), n_items = data.lists, data.pooled.size
    # Clearing and adding up a block must cost little beside its entries: a sixteenth as many items as entries.
    allowed = min(_MOST_CELLS // max(1, n_items * n_communities), items.size // max(1, 16 * n_items))
    bounds = blocks_by_entries(indptr[user_indptr], n_blocks_of(data.n_users, allowed, fewest=_FEWEST_BLOCKS))
    shards = shards_of(bounds, (user_indptr, indptr), ((data.outer,), (weights,), (items, levels)))

    def e_step(scores: Float64Array, mixture: Float64Array, mixing: int) -> tuple[Float64Array, ...]:
        job = partial(_statistics, worth_table(scores), Rules(data.ties, mixing))
        value, counts, chosen, available = gathered(job, shards, mixture)
        return value, counts, chosen.sum(axis=0), available.sum(axis=0)

    return e_step


def _statistics(worths: Float64Array, rules: Rules, shard: Shard, mixture: Float64Array) -> tuple[Float64Array, ...]:
    (user_indptr, indptr), (outer, weights, items, levels) = shard.indptrs, shard.data
    lists = Lists(user_indptr, indptr, items, levels, weights)
    return tuple(latent_statistics(shard.bounds, lists, outer, worths, mixture, rules))


class Priors(NamedTuple):
    """Prior of scores and of memberships.

    Attributes
    ----------
    strength : float
        Shape a of the Gamma(a, a / w_pooled) prior on worths: imaginary choices of each item in each community.
    concentration : float64 (n_starts, K)
        α of the Dirichlet prior of P(z | u); with one community a list, of the shares of the communities.
    """

    strength: float
    concentration: Float64Array


class Fit(NamedTuple):
    """Points that were reached: scores (n_starts, n_items, K), mixtures (n_starts, n_users or 1, K), objectives."""

    scores: Float64Array
    mixtures: Float64Array
    objectives: Float64Array


def _shuffled(rankings: Rankings, weights: Float64Array, seed: int) -> Lists:
    """Every ranking several times, ties in random orders, the copies of a user side by side."""
    copies = [rankings.shuffled_ties(int(stream_key(seed, copy))) for copy in range(_N_SHUFFLES)]
    order = np.argsort(np.tile(rankings.ranking_users, _N_SHUFFLES), kind="stable")
    lengths = np.tile(rankings.lengths, _N_SHUFFLES)[order]
    # Entry e of the copies lies at its own start; ranking by ranking in the new order.
    starts = np.concatenate([rankings.indptr[:-1] + copy * rankings.n_entries for copy in range(_N_SHUFFLES)])[order]
    entries = ranges(starts, starts + lengths)
    items = np.concatenate([copy.items for copy in copies])[entries]
    levels = np.concatenate([copy.levels for copy in copies])[entries]
    user_indptr = np.ascontiguousarray(rankings.user_indptr * _N_SHUFFLES)
    weights = np.tile(weights, _N_SHUFFLES)[order] / _N_SHUFFLES
    return Lists(user_indptr, indptr_of(lengths), items, levels, weights)


def em_update(data: CommunityData, priors: Priors, mixing: int, n_communities: int) -> Update:
    """EM step and objective, for points that hold scores and then the logarithms of memberships or shares.

    Objective: Σ_u log P(π_u) + Σ a (d - e^d) + Σ α log θ, with d the scores less the pooled ones. Both priors are
    taken in coordinates without bounds (scores, log-odds of memberships), where modes are the closed forms below.
    """
    n_items, e_step = data.pooled.size, e_step_of(data, n_communities)

    def one(point: Float64Array, concentration: Float64Array) -> tuple[Float64Array, float]:
        scores = _bounded(point[: n_items * n_communities].reshape(n_items, n_communities), data.pooled)
        mixture = _softmax(point[scores.size :].reshape(-1, n_communities))
        everybody = mixture if mixing == BY_STAGE else np.repeat(mixture, data.n_users, axis=0)
        value, counts, chosen, available = e_step(scores, everybody, mixing)
        people = data.outer[:, None] if mixing == BY_STAGE else np.ones((1, 1))
        objective = float(np.sum(data.outer * value))
        objective += float(np.sum(people * concentration * np.log(mixture)))
        objective += priors.strength * float(np.sum(_log_prior(scores, data.pooled)))
        if mixing == BY_LIST:
            counts = np.sum(data.outer[:, None] * counts, axis=0, keepdims=True)
        rate = available * np.exp(-scores.max(axis=0))  # worths in the kernel have their largest at 1
        better = _raised(scores, chosen, rate, priors.strength, data)
        if data.m_step == "published" and mixing == BY_STAGE:
            counts = counts + _certain_stages(data)[:, None] * mixture
        new = counts + concentration
        logs = np.log(new / new.sum(axis=1, keepdims=True))
        return np.concatenate([better.ravel(), logs.ravel()]), objective

    def update(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        new, values = zip(*(one(*each) for each in zip(points, priors.concentration, strict=True)), strict=True)
        return np.stack(new), np.array(values)

    return update


def _certain_stages(data: CommunityData) -> Float64Array:
    """Last stages of each user's lists, where one item is left and Q is the membership itself: (n_users,)."""
    lists = data.lists
    lengths, last = np.diff(lists.indptr), lists.indptr[1:] - 1
    alone = lengths == 1
    longer = lengths > 1
    alone[longer] = lists.levels[last[longer]] != lists.levels[last[longer] - 1]
    owner = owners(lists.user_indptr)
    return np.asarray(np.bincount(owner, alone * lists.weights, data.n_users), np.float64)


def _bounded(scores: Float64Array, pooled: Float64Array) -> Float64Array:
    """Within e^100 of the pooled worths: EM never gets there, but an extrapolation may, and is then turned down."""
    centre = pooled[:, None]
    return np.asarray(centre + np.clip(scores - centre, -100.0, 100.0))


def _log_prior(scores: Float64Array, pooled: Float64Array) -> Float64Array:
    """log of the Gamma density of worths in score coordinates, over its shape: d - e^d."""
    d = scores - pooled[:, None]
    return np.asarray(d - np.exp(d))


def _raised(
    scores: Float64Array, chosen: Float64Array, rate: Float64Array, strength: float, data: CommunityData
) -> Float64Array:
    """M-step for scores: Hunter's MM with the prior, or one step along the paper's gradient; then the best level."""
    numerator = chosen + strength
    denominator = rate + strength * np.exp(-data.pooled)[:, None]
    if data.m_step == "mm":
        # Without a prior an item may never be chosen, or never be there to choose: as low as can be, and as it was.
        lowest = np.exp(data.pooled - 100.0)[:, None]
        present = denominator > 0.0
        worths = np.divide(numerator, denominator, out=np.ones_like(scores), where=present)
        new = np.where(present, np.log(np.maximum(worths, lowest)), scores)
    else:
        new = _gradient_step(scores, numerator, denominator)
    # A community's scores are defined up to a constant: the prior chooses it, where Σ (e^d - 1) = 0.
    level = np.log(np.mean(np.exp(new - data.pooled[:, None]), axis=0))
    return np.asarray(new - level)


def _gradient_step(scores: Float64Array, numerator: Float64Array, denominator: Float64Array) -> Float64Array:
    """Along chosen - expected (§3.2.1), each score over its own curvature, halved until the bound does not fall.

    The bound of one score is numerator t - denominator e^t, so rising along it is rising the objective.
    """
    expected = denominator * np.exp(scores)
    change = np.divide(numerator - expected, expected, out=np.zeros_like(scores), where=expected > 0.0)
    step = np.clip(change, -1.0, 1.0)
    for _ in range(30):
        gain = numerator * step - expected * np.expm1(step)
        step = np.where(gain < 0.0, 0.5 * step, step)
        if (gain >= 0.0).all():
            break
    return np.asarray(scores + step)


def learner_of(
    data: CommunityData, priors: Priors, mixing: int, start: Fit, tol: float, accelerate: bool
) -> Learner[Fit]:
    """EM from several starts side by side."""
    n_starts, n_items, n_communities = start.scores.shape
    points = np.concatenate([start.scores.reshape(n_starts, -1), np.log(start.mixtures).reshape(n_starts, -1)], axis=1)
    update = em_update(data, priors, mixing, n_communities)
    cut = n_items * n_communities

    def reached(points: Float64Array) -> Fit:
        mixtures = _softmax(points[:, cut:].reshape(n_starts, -1, n_communities))
        return Fit(points[:, :cut].reshape(n_starts, n_items, n_communities), mixtures, update(points)[1])

    return mapped(expectation_maximisation(update, points, tol=tol, accelerate=accelerate), reached)


def starts(data: CommunityData, n_communities: int, n_starts: int, seed: int) -> Fit:
    """Pooled scores with noise of its own for every community and start; equal shares."""
    rng = generator(seed)
    noise = _NOISE * rng.normal(size=(n_starts, data.pooled.size, n_communities))
    shares = np.full((n_starts, 1, n_communities), 1.0 / n_communities)
    return Fit(data.pooled[None, :, None] + noise, shares, np.zeros(n_starts))


def warmed(data: CommunityData, strength: float, start: Fit, sweeps: int = _WARM_UP) -> Fit:
    """Some sweeps with one community a list."""
    priors = Priors(strength, np.ones(start.scores[:, 0].shape))
    return run(learner_of(data, priors, BY_LIST, start, 0.0, True), max_iter=sweeps).estimate


def members(data: CommunityData, fit: Fit, concentration: Float64Array) -> Fit:
    """Memberships to start the stage-wise model from: the posterior of the community of each user's lists."""
    mixtures, e_step = [], e_step_of(data, concentration.shape[1])
    for scores, shares, prior in zip(fit.scores, fit.mixtures, concentration, strict=True):
        everybody = np.repeat(shares, data.n_users, axis=0)
        _, counts, _, _ = e_step(scores, everybody, BY_LIST)
        stages = np.diff(data.lists.indptr[data.lists.user_indptr])[:, None]
        soft = counts * stages + prior
        mixtures.append(soft / soft.sum(axis=1, keepdims=True))
    return fit._replace(mixtures=np.stack(mixtures))


def _softmax(logs: Float64Array) -> Float64Array:
    worths = np.exp(logs - logs.max(axis=-1, keepdims=True))
    # An extrapolation may go far: nothing is ever quite impossible, so that its logarithm stays finite.
    worths = np.maximum(worths, 1e-100)
    return np.asarray(worths / worths.sum(axis=-1, keepdims=True))
