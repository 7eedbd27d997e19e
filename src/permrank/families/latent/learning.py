"""Learning of `LatentPlackettLuce`: the EM update, where it starts, and how strong the priors are (§3.2.1)."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, latent_statistics, worth_table
from permrank.kernels.lists import Lists
from permrank.learning.learner import Learner, mapped, run
from permrank.learning.optimisers import Update, expectation_maximisation
from permrank.learning.shards import Shard, blocks_by_entries, gathered, n_blocks_of, shards_of
from permrank.ragged import frozen, indptr_of, owners, ranges
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array

MStep = Literal["mm", "gradient", "published"]
# Random orders of every tie under ties="shuffle", each counting an equal part.
_N_SHUFFLES = 5
# Scale of the noise that tells the first communities apart, in units of the log-worths' own unit noise.
_NOISE = 1.0
# Sweeps with one community a list before each stage may choose its own: long enough for communities to form.
_WARM_UP = 20
# Cells of all accumulators together: 2^24 float64 twice are 256 MB. Never below two blocks: two threads then work.
_MOST_CELLS, _FEWEST_BLOCKS = 2**24, 2


class Problem(NamedTuple):
    """Rankings as the kernels take them.

    Attributes
    ----------
    user_indptr, indptr, items, levels
        As in `Rankings`.
    weights : float64 (n_rankings,)
        How often its user gave each ranking.
    outer : float64 (n_users,)
        How many such users there are: above 1 for ballots that several people cast.
    pooled : float64 (n_items,)
        Scores of everybody together, the centre of the prior.
    ties, m_step
        A code of `kernels.latent`; how scores are raised.
    """

    user_indptr: Int64Array
    indptr: Int64Array
    items: Int32Array
    levels: Int32Array
    weights: Float64Array
    outer: Float64Array
    pooled: Float64Array
    ties: int
    m_step: MStep

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.user_indptr.size - 1


class EStep:
    """The E-step over shards of users: `kernels.latent.latent_statistics`, sums over blocks taken.

    Parameters
    ----------
    problem : Problem
    n_communities : int
    """

    def __init__(self, problem: Problem, n_communities: int) -> None:
        n_items, n_entries = problem.pooled.size, problem.items.size
        # Clearing and adding up a block must cost little beside its entries: a sixteenth as many items as entries.
        allowed = min(_MOST_CELLS // max(1, n_items * n_communities), n_entries // max(1, 16 * n_items))
        n_blocks = n_blocks_of(problem.n_users, allowed, fewest=_FEWEST_BLOCKS)
        bounds = blocks_by_entries(problem.indptr[problem.user_indptr], n_blocks)
        levels = (problem.outer,), (problem.weights,), (problem.items, problem.levels)
        self._ties, self._shards = problem.ties, shards_of(bounds, (problem.user_indptr, problem.indptr), levels)

    def __call__(
        self, scores: Float64Array, mixture: Float64Array, mixing: int
    ) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
        """Value (n_users,), counts (n_users, K), chosen and available (n_items, K) for scores and all mixtures."""
        job = partial(_statistics, worth_table(scores), self._ties, mixing)
        value, counts, chosen, available = gathered(job, self._shards, mixture)
        return value, counts, chosen.sum(axis=0), available.sum(axis=0)


def _statistics(
    worths: Float64Array, ties: int, mixing: int, shard: Shard, mixture: Float64Array
) -> tuple[Float64Array, ...]:
    (user_indptr, indptr), (outer, weights, items, levels) = shard.indptrs, shard.data
    lists = Lists(user_indptr, indptr, items, levels, weights)
    return latent_statistics(shard.bounds, lists, outer, worths, mixture, Rules(ties, mixing))


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


def problem_of(rankings: Rankings, pooled: Float64Array, ties: int, m_step: MStep, shuffle_seed: int | None) -> Problem:
    """Rankings as a `Problem`; with a seed, every ranking with ties becomes several in random orders."""
    outer = rankings.weights if rankings.anonymous else np.ones(rankings.n_users)
    weights = np.ones(rankings.n_rankings) if rankings.anonymous else rankings.weights
    parts = rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels
    if shuffle_seed is not None and rankings.has_ties:
        parts, weights = _shuffled(rankings, weights, shuffle_seed)
    return Problem._make((*frozen(*parts, weights, outer, pooled), ties, m_step))


def _shuffled(
    rankings: Rankings, weights: Float64Array, seed: int
) -> tuple[tuple[Int64Array, Int64Array, Int32Array, Int32Array], Float64Array]:
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
    return (user_indptr, indptr_of(lengths), items, levels), np.tile(weights, _N_SHUFFLES)[order] / _N_SHUFFLES


def em_update(problem: Problem, priors: Priors, mixing: int, n_communities: int) -> Update:
    """EM step and objective, for points that hold scores and then the logarithms of memberships or shares.

    Objective: Σ_u log P(π_u) + Σ a (d - e^d) + Σ α log θ, with d the scores less the pooled ones. Both priors are
    taken in coordinates without bounds (scores, log-odds of memberships), where modes are the closed forms below.
    """
    n_items, e_step = problem.pooled.size, EStep(problem, n_communities)

    def one(point: Float64Array, concentration: Float64Array) -> tuple[Float64Array, float]:
        scores = _bounded(point[: n_items * n_communities].reshape(n_items, n_communities), problem.pooled)
        mixture = _softmax(point[scores.size :].reshape(-1, n_communities))
        everybody = mixture if mixing == BY_STAGE else np.repeat(mixture, problem.n_users, axis=0)
        value, counts, chosen, available = e_step(scores, everybody, mixing)
        people = problem.outer[:, None] if mixing == BY_STAGE else np.ones((1, 1))
        objective = float(np.sum(problem.outer * value))
        objective += float(np.sum(people * concentration * np.log(mixture)))
        objective += priors.strength * float(np.sum(_log_prior(scores, problem.pooled)))
        if mixing == BY_LIST:
            counts = np.sum(problem.outer[:, None] * counts, axis=0, keepdims=True)
        rate = available * np.exp(-scores.max(axis=0))  # worths in the kernel have their largest at 1
        better = _raised(scores, chosen, rate, priors.strength, problem)
        if problem.m_step == "published" and mixing == BY_STAGE:
            counts = counts + _certain_stages(problem)[:, None] * mixture
        new = counts + concentration
        logs = np.log(new / new.sum(axis=1, keepdims=True))
        return np.concatenate([better.ravel(), logs.ravel()]), objective

    def update(points: Float64Array) -> tuple[Float64Array, Float64Array]:
        found = [one(*each) for each in zip(points, priors.concentration, strict=True)]
        return np.stack([point for point, _ in found]), np.array([value for _, value in found])

    return update


def _certain_stages(problem: Problem) -> Float64Array:
    """Last stages of each user's lists, where one item is left and Q is the membership itself: (n_users,)."""
    lengths, last = np.diff(problem.indptr), problem.indptr[1:] - 1
    alone = lengths == 1
    longer = lengths > 1
    alone[longer] = problem.levels[last[longer]] != problem.levels[last[longer] - 1]
    owner = owners(problem.user_indptr)
    return np.asarray(np.bincount(owner, alone * problem.weights, problem.n_users), np.float64)


def _bounded(scores: Float64Array, pooled: Float64Array) -> Float64Array:
    """Within e^100 of the pooled worths: EM never gets there, but an extrapolation may, and is then turned down."""
    centre = pooled[:, None]
    return np.asarray(centre + np.clip(scores - centre, -100.0, 100.0))


def _log_prior(scores: Float64Array, pooled: Float64Array) -> Float64Array:
    """log of the Gamma density of worths in score coordinates, over its shape: d - e^d."""
    d = scores - pooled[:, None]
    return np.asarray(d - np.exp(d))


def _raised(
    scores: Float64Array, chosen: Float64Array, rate: Float64Array, strength: float, problem: Problem
) -> Float64Array:
    """M-step for scores: Hunter's MM with the prior, or one step along the paper's gradient; then the best level."""
    numerator = chosen + strength
    denominator = rate + strength * np.exp(-problem.pooled)[:, None]
    if problem.m_step == "mm":
        # Without a prior an item may never be chosen, or never be there to choose: as low as can be, and as it was.
        lowest = np.exp(problem.pooled - 100.0)[:, None]
        known = denominator > 0.0
        worths = np.divide(numerator, denominator, out=np.ones_like(scores), where=known)
        new = np.where(known, np.log(np.maximum(worths, lowest)), scores)
    else:
        new = _gradient_step(scores, numerator, denominator)
    # A community's scores are defined up to a constant: the prior chooses it, where Σ (e^d - 1) = 0.
    level = np.log(np.mean(np.exp(new - problem.pooled[:, None]), axis=0))
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


def learner_of(problem: Problem, priors: Priors, mixing: int, start: Fit, tol: float, accelerate: bool) -> Learner[Fit]:
    """EM from several starts side by side."""
    n_starts, n_items, n_communities = start.scores.shape
    points = np.concatenate([start.scores.reshape(n_starts, -1), np.log(start.mixtures).reshape(n_starts, -1)], axis=1)
    update = em_update(problem, priors, mixing, n_communities)
    cut = n_items * n_communities

    def reached(points: Float64Array) -> Fit:
        mixtures = _softmax(points[:, cut:].reshape(n_starts, -1, n_communities))
        return Fit(points[:, :cut].reshape(n_starts, n_items, n_communities), mixtures, update(points)[1])

    return mapped(expectation_maximisation(update, points, tol=tol, accelerate=accelerate), reached)


def starts(problem: Problem, n_communities: int, n_starts: int, seed: int) -> Fit:
    """Pooled scores with noise of its own for every community and start; equal shares."""
    rng = generator(seed)
    noise = _NOISE * rng.normal(size=(n_starts, problem.pooled.size, n_communities))
    shares = np.full((n_starts, 1, n_communities), 1.0 / n_communities)
    return Fit(problem.pooled[None, :, None] + noise, shares, np.zeros(n_starts))


def warmed(problem: Problem, strength: float, start: Fit, sweeps: int = _WARM_UP) -> Fit:
    """Some sweeps with one community a list."""
    priors = Priors(strength, np.ones(start.scores[:, 0].shape))
    return run(learner_of(problem, priors, BY_LIST, start, 0.0, True), max_iter=sweeps).estimate


def members(problem: Problem, fit: Fit, concentration: Float64Array) -> Fit:
    """Memberships to start the stage-wise model from: the posterior of the community of each user's lists."""
    found, e_step = [], EStep(problem, concentration.shape[1])
    for scores, shares, prior in zip(fit.scores, fit.mixtures, concentration, strict=True):
        everybody = np.repeat(shares, problem.n_users, axis=0)
        _, counts, _, _ = e_step(scores, everybody, BY_LIST)
        stages = np.diff(problem.indptr[problem.user_indptr])[:, None]
        soft = counts * stages + prior
        found.append(soft / soft.sum(axis=1, keepdims=True))
    return fit._replace(mixtures=np.stack(found))


def _softmax(logs: Float64Array) -> Float64Array:
    worths = np.exp(logs - logs.max(axis=-1, keepdims=True))
    # An extrapolation may go far: nothing is ever quite impossible, so that its logarithm stays finite.
    worths = np.maximum(worths, 1e-100)
    return np.asarray(worths / worths.sum(axis=-1, keepdims=True))
