"""Which question tells most about a person, and how sure an order is, from the draws of Thurstone's model."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.core.answers import named_columns
from permrank.families.thurstone import answers
from permrank.families.thurstone.estimate import Chains, ThurstoneEstimate
from permrank.posterior.estimate import Evidence
from permrank.randomness import stream_key
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int64Array

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
        spread = answers.uncertainty(estimate, evidence, chains, items)
        items = items[np.sort(np.argsort(-spread, kind="stable")[:_MOST_ASKED])]
    pairs = np.column_stack(np.triu_indices(items.size, 1))
    x = simulated(*answers.utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 5)))
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
    x = simulated(*answers.utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 6)))
    return sure(x, order, order.size)
