"""What `LatentPlackettLuce` answers, from its scores and memberships."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.core.assignments import assignments_frame
from permrank.core.declared import MOST_DRAWS
from permrank.core.estimates import RULE, Estimate
from permrank.core.ranker import Ranker
from permrank.core.users import NewUser, UserReference, lists_of
from permrank.errors import InputError
from permrank.families.latent.kernels.insertion import EXPECTED, MODE, insertion_scores
from permrank.families.latent.kernels.membership import given_log_likelihoods, integrated_log_likelihoods, memberships
from permrank.families.latent.kernels.stages import BRESLOW, BY_LIST, BY_STAGE, EFRON, Rules, worth_table
from permrank.families.latent.law import Communities
from permrank.kernels.lists import Lists
from permrank.ragged import frozen, indptr_of
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Float64Array, Int32Array, Int64Array

MIXING = {"stage": BY_STAGE, "list": BY_LIST}
TIES = {"efron": EFRON, "breslow": BRESLOW, "shuffle": EFRON}
POSITION = {"expected": EXPECTED, "mode": MODE}
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
    mixing: int = field(metadata=RULE, kw_only=True)
    ties: int = field(metadata=RULE, kw_only=True)
    position: int = field(metadata=RULE, kw_only=True)


class CommunityRanker(Ranker):
    """Answers of a model with fits F of communities z: P(. | u) is the mean over fits of what each says."""

    needs_order = True
    knows_nobody = True
    estimate_: CommunityEstimate
    scores_: Float64Array
    memberships_: Float64Array
    concentration_: Float64Array

    # Who is asked about

    def _membership(self, user: UserReference) -> Float64Array:
        """P(z | user) in every fit, (n_starts, K)."""
        if isinstance(user, NewUser):
            known = user.state.get("memberships")
            return self._memberships_of(user.rankings)[:, 0] if known is None else known
        if user is None:
            return np.asarray(self.concentration_ / self.concentration_.sum(axis=1, keepdims=True))
        return np.ascontiguousarray(self.memberships_[:, user])

    def _memberships_of(self, rankings: Rankings) -> Float64Array:
        """P(z | u) of the users of other rankings, (n_starts, n_users, K), items fixed."""
        items = self._aligned_items(rankings)
        rules = self.estimate_
        return memberships_of(rankings, items, rules.scores, rules.concentration, rules.ties, rules.mixing)

    def fold_in(self, said: object) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating: EM for the membership, items fixed.

        A user of the training data who says the same list gets the same membership.
        """
        new = super().fold_in(said)
        return NewUser(new.rankings, {"memberships": self._memberships_of(new.rankings)[:, 0]})

    def membership(self, user: object) -> pl.DataFrame:
        """P(community | user) in the best fit: ``community`` (numbered as in `communities`) and ``probability``."""
        theta = self._membership(self._reference(user))[0]
        return pl.DataFrame({"community": np.arange(1, theta.size + 1), "probability": theta})

    def assignments(self) -> pl.DataFrame:
        """Likeliest community of every user in the best fit, numbered as in `communities`.

        Columns ``user``, ``community``, ``probability``, and ``entropy`` of the membership: 0 where there is no doubt,
        1 where all communities are equally likely.
        """
        self._require_fitted()
        return assignments_frame(self.user_ids, self.memberships_[0])

    # Scores

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Share of the user's listed items that an item is expected to come before; see the class."""
        lists = [each for each in lists_of(user, self.rankings_, self.item_ids) if each[0].size]
        theta = self._membership(user)
        if not lists:
            return self._against_the_average(theta, items)
        indptr = indptr_of([listed.size for listed, _ in lists])
        listed = np.concatenate([codes for codes, _ in lists]).astype(np.int32)
        levels = np.concatenate([level for _, level in lists]).astype(np.int32)
        own_lists = Lists(*frozen(np.array([0, len(lists)]), indptr, listed, levels, np.ones(len(lists))))
        total, rules = np.zeros(items.size), Rules(self.estimate_.ties, self.estimate_.mixing)
        for scores, own in zip(self.scores_, theta, strict=True):
            table, bounds = worth_table(scores), np.array([0, items.size])
            total += insertion_scores(own_lists, table, own[None, :], bounds, items, rules, self.estimate_.position)
        return total / len(self.scores_)

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(len(self.user_ids) + 1))
        data, total, rules = self.rankings_, np.zeros(who.size), Rules(self.estimate_.ties, self.estimate_.mixing)
        lists = Lists(data.user_indptr, data.indptr, data.items, data.levels, data.weights)
        for scores, own in zip(self.scores_, self.memberships_, strict=True):
            table = worth_table(scores)
            total[order] += insertion_scores(lists, table, own, bounds, what[order], rules, self.estimate_.position)
        total /= len(self.scores_)
        silent = np.diff(data.user_bounds) == 0
        for user in np.unique(who[silent[who]]):
            asked = who == user
            total[asked] = self._against_the_average(self.memberships_[:, user], what[asked])
        return total

    def _against_the_average(self, theta: Float64Array, items: Int64Array) -> Float64Array:
        """Without a list: the chance to be chosen before an item of average score, Σ_z θ_z w^z / (w^z + mean^z)."""
        d = self.scores_[:, items, :] - self.scores_.mean(axis=1, keepdims=True)
        return np.asarray(np.einsum("fik,fk->i", 1.0 / (1.0 + np.exp(-d)), theta) / len(theta))

    # Probabilities

    def _distribution(self, user: UserReference, items: Int64Array) -> Communities:
        worths = np.stack([np.ascontiguousarray(worth_table(scores[items]).T) for scores in self.scores_])
        return Communities(worths, self._membership(user), self.estimate_.mixing, self.estimate_.ties)

    def log_likelihood(
        self,
        rankings: Rankings,
        *,
        new: Literal["integrated", "maximised"] = "integrated",
        n_draws: int = 1000,
        with_error: bool = False,
    ) -> Any:
        """Return the log-probability of each ranking, weights left out.

        Users whom the model knows have their own membership, P(z | u). Of others, and of ballots without a voter, the
        membership is integrated over its learnt prior, ranking by ranking: exactly with ``mixing="list"``, else by
        sequential importance sampling, unbiased for the probability.

        Parameters
        ----------
        rankings : Rankings
        new : {"integrated", "maximised"}
            For people who are not known; "maximised" takes for each ranking the membership that suits it best, which
            is no probability (it does not add up to one) but an upper bound.
        n_draws : int
            Of the importance sampling.
        with_error : bool
            Return also the standard errors of the logarithms, 0 where the answer is exact.

        Returns
        -------
        float64 (n_rankings,), or two of them
        """
        self._require_fitted()
        rankings = require_rankings(rankings)
        if new not in ("integrated", "maximised"):
            raise InputError(f"new={new!r}, expected 'integrated' or 'maximised'")
        require_int("n_draws", n_draws, 1, MOST_DRAWS)
        owners = self._owners(rankings)
        values, errors = zip(
            *(self._fit_log_likelihood(fit, rankings, owners, new, n_draws) for fit in range(len(self.scores_))),
            strict=True,
        )
        logs = np.logaddexp.reduce(values, axis=0) - np.log(len(values))
        shares = np.exp(np.stack(values) - logs) / len(values)
        error = np.sqrt(np.sum((shares * np.stack(errors)) ** 2, axis=0))
        return (logs, error) if with_error else logs

    def _owners(self, rankings: Rankings) -> Int64Array:
        """Index of the known user of each ranking, -1 for others."""
        known = {user: index for index, user in enumerate(self.user_ids)} if not rankings.anonymous else {}
        if self.rankings_.anonymous:
            known = {}
        users = np.array([known.get(user, -1) for user in rankings.user_ids], np.int64)
        return np.asarray(users[rankings.ranking_users])

    def _fit_log_likelihood(
        self, fit: int, rankings: Rankings, owners: Int64Array, new: str, n_draws: int
    ) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities under one fit, and their standard errors."""
        items = frozen(self._aligned_items(rankings))[0]
        arrays = rankings.indptr, items, rankings.levels, worth_table(self.scores_[fit])
        ties, mixing, prior = self.estimate_.ties, self.estimate_.mixing, self.concentration_[fit]
        theta = np.repeat((prior / prior.sum())[None, :], rankings.n_rankings, axis=0)
        theta[owners >= 0] = self.memberships_[fit, owners[owners >= 0]]
        strangers = owners < 0
        if new == "maximised" and strangers.any():
            each, ones = frozen(np.arange(rankings.n_rankings + 1), np.ones(rankings.n_rankings))
            lists, none = Lists(each, *arrays[:3], ones), np.full(prior.size, NO_PRIOR)
            rules = Rules(ties, BY_STAGE)
            best = memberships(lists, arrays[3], none, rules, _MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL)
            if mixing == BY_LIST:
                # Σ_z θ_z Π_i p_i^z is largest at one community.
                corner = [
                    given_log_likelihoods(*arrays, np.tile(row, (rankings.n_rankings, 1)), ties, mixing)
                    for row in np.eye(prior.size)
                ]
                best = np.eye(prior.size)[np.argmax(corner, axis=0)]
            theta[strangers] = best[strangers]
        values = given_log_likelihoods(*arrays, theta, ties, mixing)
        errors = np.zeros_like(values)
        if new == "integrated" and strangers.any():
            found = integrated_log_likelihoods(*arrays, prior, ties, mixing, int(n_draws), stream_key(0, fit))
            values[strangers], errors[strangers] = found[strangers, 0], found[strangers, 1]
        return values, errors

    # Neighbours

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users with the nearest memberships: ``user``, ``similarity`` (Bhattacharyya, 1 for the same), best first."""
        reference = self._reference(user)
        own = np.sqrt(self._membership(reference))
        affinity = np.mean(np.einsum("fuk,fk->fu", np.sqrt(self.memberships_), own), axis=0)
        if isinstance(reference, int):
            affinity[reference] = -np.inf
        return self._nearest(affinity, k, "user", reference if isinstance(reference, int) else None)

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that the same communities like: ``item``, ``similarity`` (cosine of their lifts), best first."""
        self._require_fitted()
        index = self.item_ids.find(item)
        lift = self.scores_ - self.scores_.mean(axis=2, keepdims=True)
        flat = np.concatenate(list(lift), axis=1)
        norm = np.maximum(np.sqrt(np.sum(flat**2, axis=1)), 1e-12)
        similarity = np.sum(flat * flat[index], axis=1) / (norm * norm[index])
        return self._nearest(similarity, k, "item", index)

    def _nearest(self, values: Float64Array, k: int, kind: str, without: int | None) -> pl.DataFrame:
        require_int("k", k, 1)
        order = np.lexsort((np.arange(values.size), -values))
        order = order[order != (-1 if without is None else without)][: int(k)]
        ids = self.user_ids if kind == "user" else self.item_ids
        return pl.DataFrame({kind: ids.take(order), "similarity": values[order]})


def memberships_of(
    rankings: Rankings,
    items: Int32Array,
    scores: Float64Array,
    concentration: Float64Array,
    ties: int,
    mixing: int,
) -> Float64Array:
    """P(z | u) of all users with items fixed, (n_starts, n_users, K); items are in the numbering of the scores."""
    items, weights = frozen(items, np.ones(rankings.n_rankings) if rankings.anonymous else rankings.weights)
    lists = Lists(rankings.user_indptr, rankings.indptr, items, rankings.levels, weights)
    found = [
        memberships(lists, worth_table(table), prior, Rules(ties, mixing), _MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL)
        for table, prior in zip(scores, concentration, strict=True)
    ]
    return np.stack(found)
