"""What `LatentPlackettLuce` has learnt, and what follows from it for lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from permrank.core.estimates import Estimate
from permrank.errors import InputError
from permrank.families.latent.kernels.membership import given_log_likelihoods, integrated_log_likelihoods, memberships
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, Rules, worth_table
from permrank.kernels.lists import Lists
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int32Array, Int64Array

# EM for one membership is concave and has K unknowns; this is never reached but for lists of thousands.
_MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL = 2_000, 1e-10
# A sum of the Dirichlet's parameters that changes no membership in twelve digits, and keeps logarithms finite.
NO_PRIOR = 1e-12


@dataclass(frozen=True, eq=False)
class CommunityEstimate(Estimate):
    """Scores (n_starts, n_items, K), memberships (n_starts, n_users, K), and the priors of both."""

    scores: Float64Array
    memberships: Float64Array
    concentration: Float64Array
    prior_strength: float
    pooled_scores: Float64Array
    curve: Float64Array

    def against_the_average(self, theta: Float64Array, items: Int64Array) -> Float64Array:
        """Without a list: the chance to be chosen before an item of average score, Σ_z θ_z w^z / (w^z + mean^z)."""
        d = self.scores[:, items, :] - self.scores.mean(axis=1, keepdims=True)
        return np.asarray(np.einsum("fik,fk->i", 1.0 / (1.0 + np.exp(-d)), theta) / len(theta))

    def communities(self, rankings: Rankings, n_items: int, n_users: int) -> pl.DataFrame:
        """One row a community of the best start: what sets it apart, and who is typical; titles where there are any."""
        people = np.array(rankings.weights) if rankings.anonymous else np.ones(rankings.n_users)
        items, memberships = rankings.item_ids, self.memberships[0]
        listed = np.bincount(rankings.items, minlength=rankings.n_items) > 0
        lift = self.scores[0] - self.pooled_scores[:, None]
        lift = np.where(listed[:, None], lift - np.mean(lift, axis=0), -np.inf)
        sizes = np.sum(people[:, None] * memberships, axis=0) / people.sum()
        rows = []
        for z, size in enumerate(sizes):
            best = np.lexsort((np.arange(len(lift)), -lift[:, z]))[:n_items]
            best = best[np.isfinite(lift[best, z])]
            typical = np.lexsort((np.arange(len(memberships)), -memberships[:, z]))[:n_users]
            rows.append(
                {
                    "community": z + 1,
                    "size": float(size),
                    "items": items.take(best).to_list(),
                    **({} if items.titles is None else {"titles": [items.called(int(index)) for index in best]}),
                    "lifts": np.exp(lift[best, z]).tolist(),
                    "users": rankings.user_ids.take(typical).to_list(),
                    "memberships": memberships[typical, z].tolist(),
                }
            )
        return pl.DataFrame(rows)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        shape = np.shape(self.scores)
        if len(shape) != 3 or not shape[0] * shape[2]:
            raise InputError(f"scores_ has shape {shape}, expected (n_starts, {n_items}, n_communities)")
        n_starts, _, k = shape
        self.check_shapes(
            scores=(n_starts, n_items, k), memberships=(n_starts, n_users, k), concentration=(n_starts, k),
            pooled_scores=(n_items,),
        )  # fmt: skip
        if self.memberships.min(initial=0.0) < 0 or self.concentration.min() <= 0:
            raise InputError("memberships_ and concentration_ must be positive")


def memberships_of(
    rankings: Rankings, items: Int32Array, scores: Float64Array, concentration: Float64Array, rules: Rules
) -> Float64Array:
    """P(z | u) of all users with items fixed, (n_starts, n_users, K); items are in the numbering of the scores."""
    items, weights = frozen(items, np.ones(rankings.n_rankings) if rankings.anonymous else rankings.weights)
    lists = Lists(rankings.user_indptr, rankings.indptr, items, rankings.levels, weights)
    every = [
        memberships(lists, worth_table(table), prior, rules, _MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL)
        for table, prior in zip(scores, concentration, strict=True)
    ]
    return np.stack(every)


def log_likelihoods(
    estimate: CommunityEstimate, start: int, rankings: Rankings, items: Int32Array, owners: Int64Array, rules: Rules,
    n_draws: int | None,
) -> tuple[Float64Array, Float64Array]:  # fmt: skip
    """Log-probabilities of rankings under one start, and their standard errors.

    owners: the index of the known user of each ranking, or -1: then the membership is integrated over its prior, or
    without ``n_draws`` takes its maximum.
    """
    (items,) = frozen(items)
    arrays = rankings.indptr, items, rankings.levels, worth_table(estimate.scores[start])
    prior, strangers = estimate.concentration[start], owners < 0
    theta = np.repeat((prior / prior.sum())[None, :], rankings.n_rankings, axis=0)
    theta[~strangers] = estimate.memberships[start, owners[~strangers]]
    if n_draws is None and strangers.any():
        if rules.mixing == BY_LIST:
            # Σ_z θ_z Π_i p_i^z is largest at one community.
            corners = [np.tile(row, (rankings.n_rankings, 1)) for row in np.eye(prior.size)]
            every = [given_log_likelihoods(*arrays, corner, rules.ties, rules.mixing) for corner in corners]
            best = np.eye(prior.size)[np.argmax(every, axis=0)]
        else:
            each, ones = frozen(np.arange(rankings.n_rankings + 1), np.ones(rankings.n_rankings))
            lists, none = Lists(each, *arrays[:3], ones), np.full(prior.size, NO_PRIOR)
            best = memberships(lists, arrays[3], none, Rules(rules.ties, BY_STAGE), _MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL)
        theta[strangers] = best[strangers]
    values = given_log_likelihoods(*arrays, theta, rules.ties, rules.mixing)
    errors = np.zeros_like(values)
    if n_draws is not None and strangers.any():
        drawn = integrated_log_likelihoods(*arrays, prior, rules.ties, rules.mixing, n_draws, stream_key(0, start))
        values[strangers], errors[strangers] = drawn[strangers].T
    return values, errors
