"""What `LatentPlackettLuce` answers, from its scores and memberships."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.core.answers import assignments_frame
from permrank.core.estimates import Estimate, Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_DRAWS, choice
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
from permrank.types import Float64Array, Int32Array, Int64Array, Named

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


class CommunityRanker(Ranker):
    """Answers of a model with fits F of communities z: P(. | u) is the mean over fits of what each says."""

    needs_order = True
    knows_nobody = True
    scores_ = Learnt[Float64Array]()
    memberships_ = Learnt[Float64Array]()
    concentration_ = Learnt[Float64Array]()

    mixing: Literal["stage", "list"] = choice(
        default="stage", values=("stage", "list"), help="Whether each stage or each user has one community."
    )
    insertion: Literal["expected", "mode"] = choice(
        default="expected",
        values=("expected", "mode"),
        help=(
            "Score by the expected position of an item in the list, or by the paper's rule: the likeliest "
            "position, and among items at the same position their likelihood there."
        ),
    )
    ties: Literal["efron", "breslow", "shuffle"] = choice(
        default="efron",
        values=("efron", "breslow", "shuffle"),
        help=(
            "Every item of a tie is chosen from the rest and a part of the tie: on average half of it (Efron's "
            "denominators, averaged) or all of it (Breslow). ``shuffle`` learns from five random orders of each "
            "tie, a fifth each."
        ),
    )

    @property
    def _kernel_rules(self) -> Rules:
        """How lists are taken."""
        return Rules(TIES[self.ties], MIXING[self.mixing])

    # Who is asked about

    def _meet(self, fitted: Fitted[CommunityEstimate], rankings: Rankings, **about: Any) -> Named:
        """EM for the membership, items fixed: a user of the training data who says the same list gets the same."""
        learnt, items = fitted.estimate, fitted.aligned(rankings)
        found = memberships_of(rankings, items, learnt.scores, learnt.concentration, self._kernel_rules)
        return {"memberships": found[:, 0]}

    def membership(self, user: object) -> pl.DataFrame:
        """P(community | user) in the best fit: ``community`` (numbered as in `communities`) and ``probability``."""
        fitted: Fitted[CommunityEstimate] = self.fitted_
        theta = _membership(fitted, fitted.person(user))[0]
        return pl.DataFrame({"community": np.arange(1, theta.size + 1), "probability": theta})

    def assignments(self) -> pl.DataFrame:
        """Likeliest community of every user in the best fit, numbered as in `communities`.

        Columns ``user``, ``community``, ``probability``, and ``entropy`` of the membership: 0 where there is no doubt,
        1 where all communities are equally likely.
        """
        fitted: Fitted[CommunityEstimate] = self.fitted_
        return assignments_frame(fitted.user_ids, fitted.estimate.memberships[0])

    # Scores

    def _scores(self, fitted: Fitted[CommunityEstimate], person: Person, items: Int64Array) -> Float64Array:
        """Share of the person's listed items that an item is expected to come before; see the class."""
        lists = [each for each in person.lists() if each[0].size]
        theta, every = _membership(fitted, person), fitted.estimate.scores
        if not lists:
            return _against_the_average(every, theta, items)
        indptr = indptr_of([listed.size for listed, _ in lists])
        listed = np.concatenate([codes for codes, _ in lists]).astype(np.int32)
        levels = np.concatenate([level for _, level in lists]).astype(np.int32)
        own_lists = Lists(*frozen(np.array([0, len(lists)]), indptr, listed, levels, np.ones(len(lists))))
        total, rules, position = np.zeros(items.size), self._kernel_rules, POSITION[self.insertion]
        for scores, own in zip(every, theta, strict=True):
            table, bounds = worth_table(scores), np.array([0, items.size])
            total += insertion_scores(own_lists, table, own[None, :], bounds, items, rules, position)
        return total / len(every)

    def _score_pairs(self, fitted: Fitted[CommunityEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        data, learnt = fitted.rankings, fitted.estimate
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(data.n_users + 1))
        total, rules, position = np.zeros(who.size), self._kernel_rules, POSITION[self.insertion]
        lists = Lists(data.user_indptr, data.indptr, data.items, data.levels, data.weights)
        for scores, own in zip(learnt.scores, learnt.memberships, strict=True):
            table = worth_table(scores)
            total[order] += insertion_scores(lists, table, own, bounds, what[order], rules, position)
        total /= len(learnt.scores)
        silent = np.diff(data.user_bounds) == 0
        for user in np.unique(who[silent[who]]):
            asked = who == user
            total[asked] = _against_the_average(learnt.scores, learnt.memberships[:, user], what[asked])
        return total

    # Neighbours

    def _user_likeness(self, fitted: Fitted[CommunityEstimate], person: Person) -> Float64Array:
        """Bhattacharyya's affinity of memberships, 1 for the same."""
        own = np.sqrt(_membership(fitted, person))
        return np.asarray(np.mean(np.einsum("fuk,fk->fu", np.sqrt(fitted.estimate.memberships), own), axis=0))

    def _item_likeness(self, fitted: Fitted[CommunityEstimate], item: int) -> Float64Array:
        """Cosine of lifts: whether the same communities like both."""
        scores = fitted.estimate.scores
        lift = scores - scores.mean(axis=2, keepdims=True)
        flat = np.concatenate(list(lift), axis=1)
        norm = np.maximum(np.sqrt(np.sum(flat**2, axis=1)), 1e-12)
        return np.asarray(np.sum(flat * flat[item], axis=1) / (norm * norm[item]))

    # Probabilities

    def _law(self, fitted: Fitted[CommunityEstimate], person: Person, items: Int64Array) -> Communities:
        worths = np.stack([np.ascontiguousarray(worth_table(scores[items]).T) for scores in fitted.estimate.scores])
        return Communities(worths, _membership(fitted, person), MIXING[self.mixing], TIES[self.ties])

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
        fitted: Fitted[CommunityEstimate] = self.fitted_
        settings = self._learnt_with
        rankings = require_rankings(rankings)
        if new not in ("integrated", "maximised"):
            raise InputError(f"new={new!r}, expected 'integrated' or 'maximised'")
        require_int("n_draws", n_draws, 1, MOST_DRAWS)
        owners, fits = _owners(fitted, rankings), range(len(fitted.estimate.scores))
        found = [settings._fit_log_likelihood(fitted, fit, rankings, owners, new, n_draws) for fit in fits]
        values, errors = zip(*found, strict=True)
        logs = np.logaddexp.reduce(values, axis=0) - np.log(len(values))
        shares = np.exp(np.stack(values) - logs) / len(values)
        error = np.sqrt(np.sum((shares * np.stack(errors)) ** 2, axis=0))
        return (logs, error) if with_error else logs

    def _fit_log_likelihood(
        self,
        fitted: Fitted[CommunityEstimate],
        fit: int,
        rankings: Rankings,
        owners: Int64Array,
        new: str,
        n_draws: int,
    ) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities under one fit, and their standard errors."""
        learnt, (items,) = fitted.estimate, frozen(fitted.aligned(rankings))
        arrays = rankings.indptr, items, rankings.levels, worth_table(learnt.scores[fit])
        (ties, mixing), prior = self._kernel_rules, learnt.concentration[fit]
        theta = np.repeat((prior / prior.sum())[None, :], rankings.n_rankings, axis=0)
        theta[owners >= 0] = learnt.memberships[fit, owners[owners >= 0]]
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


def _membership(fitted: Fitted[CommunityEstimate], person: Person) -> Float64Array:
    """P(z | person) in every fit, (n_starts, K)."""
    if person.is_new:
        known: Float64Array = person.state["memberships"]
        return known
    if person.index is None:
        prior = fitted.estimate.concentration
        return np.asarray(prior / prior.sum(axis=1, keepdims=True))
    return np.ascontiguousarray(fitted.estimate.memberships[:, person.index])


def _against_the_average(scores: Float64Array, theta: Float64Array, items: Int64Array) -> Float64Array:
    """Without a list: the chance to be chosen before an item of average score, Σ_z θ_z w^z / (w^z + mean^z)."""
    d = scores[:, items, :] - scores.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("fik,fk->i", 1.0 / (1.0 + np.exp(-d)), theta) / len(theta))


def _owners(fitted: Fitted[CommunityEstimate], rankings: Rankings) -> Int64Array:
    """Index of the known user of each ranking, -1 for others."""
    anonymous = rankings.anonymous or fitted.rankings.anonymous
    known = {} if anonymous else {user: index for index, user in enumerate(fitted.user_ids)}
    users = np.array([known.get(user, -1) for user in rankings.user_ids], np.int64)
    return np.asarray(users[rankings.ranking_users])


def memberships_of(
    rankings: Rankings, items: Int32Array, scores: Float64Array, concentration: Float64Array, rules: Rules
) -> Float64Array:
    """P(z | u) of all users with items fixed, (n_starts, n_users, K); items are in the numbering of the scores."""
    items, weights = frozen(items, np.ones(rankings.n_rankings) if rankings.anonymous else rankings.weights)
    lists = Lists(rankings.user_indptr, rankings.indptr, items, rankings.levels, weights)
    found = [
        memberships(lists, worth_table(table), prior, rules, _MEMBERSHIP_SWEEPS, _MEMBERSHIP_TOL)
        for table, prior in zip(scores, concentration, strict=True)
    ]
    return np.stack(found)
