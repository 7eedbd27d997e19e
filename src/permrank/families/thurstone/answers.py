"""Answers of Thurstone's model from chains of users: probabilities, which question next, how sure an order is."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.core.answers import named_columns
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.families.thurstone.estimate import Asked, Chains, ThurstoneEstimate
from permrank.families.thurstone.kernels.answers import pair_probabilities
from permrank.families.thurstone.kernels.users import Rounds
from permrank.posterior.estimate import Evidence
from permrank.ragged import indptr_of
from permrank.randomness import stream_key
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, Float64Array, Int64Array, Named

# Rounds of a user's chain for each kept draw when probabilities are asked for: with 64 of those, 256 in all.
N_ROUNDS = 4
# Where many users are asked about, rounds are that few that so many chains are moved, but never less than one.
_VISITS = 100_000
_ONE_ROUND = Rounds(0, 1, 1)


def pair_draws(
    estimate: ThurstoneEstimate, asked: Asked, chains: Chains, bounds: Int64Array, n_rounds: int
) -> Float64Array:
    """P(first before second) of the pairs asked about, of user u from bounds[u] to bounds[u + 1]: (n_kept, n_pairs)."""
    fresh, numbers, total = not estimate.one_draw, asked.items.reshape(-1, 2), 0.0
    for turn in range(n_rounds):
        if turn > 0:
            chains.advance(asked, _ONE_ROUND, stream_key(estimate.seed, 2, turn))
        total += pair_probabilities(*asked[:3], fresh, chains.x, chains.components, bounds, numbers)
    return np.asarray(total / n_rounds)


def pairs_of_users(
    estimate: ThurstoneEstimate, evidence: Evidence, chains: Chains, pairs: Array, counts: Int64Array
) -> Float64Array:
    """P(first before second) of pairs of items (n_pairs, 2), so many for each user in turn: (n_pairs,)."""
    n_rounds = int(np.clip(_VISITS // max(chains.components.size, 1), 1, N_ROUNDS))
    asked = estimate.asked(evidence, pairs.ravel())
    return np.asarray(pair_draws(estimate, asked, chains, indptr_of(counts), n_rounds).mean(axis=0))


def utilities(
    estimate: ThurstoneEstimate, evidence: Evidence, chains: Chains, items: Int64Array
) -> tuple[Float64Array, Float64Array]:
    """Means and deviations of one user's utilities given the factors: (n_kept * rounds, n_items) both.

    A deviation is 0 where the user has listed the item: its utility is drawn itself.
    """
    asked = estimate.asked(evidence, items)
    slot_of = np.full(asked.used.size, -1)
    if estimate.one_draw:
        slot_of[asked.statements.slot_items] = np.arange(asked.statements.slot_items.size)
    slots, rows = slot_of[asked.items], np.arange(len(chains.x))[:, None]
    listed, drawn, z = slots >= 0, [], np.full(0, -1)
    for turn in range(N_ROUNDS):
        chains.advance(asked, _ONE_ROUND, stream_key(estimate.seed, 3, turn))
        if not np.array_equal(z, chains.components):  # else what was gathered is still right
            z = chains.components.copy()
            theta = asked.population.theta[rows, z, asked.items]
            deviations = np.where(listed, 0.0, np.sqrt(asked.population.variances[rows, z, asked.items]))
        means = np.matmul(theta[..., :-1], chains.draws[:, 0, :, None])[..., 0] + theta[..., -1]
        means[:, listed] = chains.x[:, slots[listed]]
        drawn.append((means, deviations))
    means, deviations = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return means, deviations


def uncertainty(estimate: ThurstoneEstimate, evidence: Evidence, chains: Chains, items: Int64Array) -> Float64Array:
    """Variance of one user's utilities of items, over the draws, from one round of each chain."""
    asked = estimate.asked(evidence, np.zeros(0, np.int64))
    chains.advance(asked, _ONE_ROUND, stream_key(estimate.seed, 7))
    rows = np.arange(len(chains.x))
    several, z = estimate.shares.shape[1] > 1, chains.components[:, 0]
    theta = (estimate.item_draws[rows, z] if several else estimate.item_draws[:, 0]).astype(np.float32)
    drawn = chains.draws[:, 0, :, None].astype(np.float32)
    variances = np.var(np.matmul(theta[..., :-1], drawn)[..., 0] + theta[..., -1], axis=0, dtype=np.float64)
    variances += np.mean(estimate.noise_variances[rows, z], axis=0, dtype=np.float64)
    if estimate.one_draw:
        variances[asked.used[asked.statements.slot_items]] = chains.x.var(axis=0)
    return np.asarray(variances[items])


def state_of(estimate: ThurstoneEstimate, evidence: Evidence) -> Named:
    """Where the chains of somebody new stand, and what follows for scores."""
    chains, items = estimate.chains(evidence)
    own = {"means": chains.means[:, 0], "components": chains.components[:, 0]}
    slots = {"utilities": chains.x, "residuals": chains.residuals.mean(axis=0), "slot_items": items}
    return {name: np.asarray(array, np.float64) for name, array in (own | slots).items()}


def chains_of(fitted: Fitted[ThurstoneEstimate], person: Person, evidence: Evidence) -> Chains:
    """Where the chains of one person stand."""
    estimate, index = fitted.estimate, person.index
    if index is None:
        state = person.state
    elif len(estimate.utilities):
        slots = slice(*estimate.slot_indptr[index : index + 2].tolist())
        state = {"utilities": estimate.utilities[:, slots], "components": estimate.user_components[:, index]}
    else:
        state = state_of(estimate, evidence)
    return Chains.at(state["utilities"], state["components"][:, None], estimate.n_columns)


# Candidates whose pairs are all looked at when the next question is chosen: 276 pairs, in some 20 ms.
_MOST_ASKED = 24
# Draws of utilities for every draw of means and deviations, where some are not known.
_SIMULATED = 2048


def simulated(means: Float64Array, deviations: Float64Array, seed: int) -> Float64Array:
    """Utilities, (n, n_items), n at least 2,048 where they are not all known: every draw as often as every other."""
    times = 1 if not deviations.any() else -(-_SIMULATED // len(means))
    rng = np.random.default_rng(seed)
    return np.concatenate([means + deviations * rng.normal(size=means.shape) for _ in range(times)])


def information(x: Float64Array, pairs: Int64Array | None = None) -> Float64Array:
    """Expected gain of answers about pairs of items, all by default (as `numpy.triu_indices` has them): (n_pairs,).

    x: draws of utilities (n, n_items). Two draws agree about a pair with probability 1 - 2 p (1 - p). An answer leaves
    the draws on one side of x_a = x_b; over both answers p (1 - p) falls by what the answer explains of its variance,
    cov² / (p_ab (1 - p_ab)). The gain is by how many more of all pairs two draws agree.
    """
    first, second = np.triu_indices(x.shape[1], 1)
    above = (x[:, first] > x[:, second]).astype(np.float32)
    answer = above if pairs is None else (x[:, pairs[:, 0]] > x[:, pairs[:, 1]]).astype(np.float32)
    share = answer.mean(axis=0)
    covariance = answer.T @ above / np.float32(len(x)) - np.outer(share, above.mean(axis=0))
    variance = share * (1.0 - share)
    return np.asarray(2.0 * np.sum(covariance**2, axis=1) / np.where(variance > 0.0, variance, 1.0), np.float64)


def sure(x: Float64Array, order: Int64Array, k: int) -> float:
    """Share of draws of utilities whose first k items are those of the order, in this order."""
    found = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return float(np.mean((found == order[None, :k]).all(axis=1)))


def next_pairs(
    estimate: ThurstoneEstimate, evidence: Evidence, chains: Chains, items: Int64Array, n: int, ids: Vocabulary
) -> pl.DataFrame:
    """The pairs of items whose answers tell most about one user; see `FactoredThurstone.ask`."""
    if items.size > _MOST_ASKED:
        spread = uncertainty(estimate, evidence, chains, items)
        items = items[np.sort(np.argsort(-spread, kind="stable")[:_MOST_ASKED])]
    pairs = np.column_stack(np.triu_indices(items.size, 1))
    x = simulated(*utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 5)))
    gains = information(x)
    best = np.argsort(-gains, kind="stable")[:n]
    first, second = items[pairs[best]].T
    told = np.mean(x[:, pairs[best, 0]] > x[:, pairs[best, 1]], axis=0)
    one, other = named_columns(ids, first), named_columns(ids, second, "other")
    other = {name if name == "other" else f"other_{name}": part for name, part in other.items()}
    rank = np.arange(1, best.size + 1)
    return pl.DataFrame({"rank": rank, **one, **other, "probability": told, "gain": gains[best]})


def certainty(
    estimate: ThurstoneEstimate, evidence: Evidence, chains: Chains, items: Int64Array, order: Int64Array
) -> float:
    """Probability that the first of the items are these, in this order, for one user."""
    x = simulated(*utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 6)))
    return sure(x, order, order.size)
