"""Latent semantic Plackett-Luce: people belong to communities, and communities choose (§3.2)."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory
from permrank.core.answers import assignments_frame
from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import MOST_DRAWS, MOST_SWEEPS, choice, flag, integer, number, random_seed
from permrank.errors import ConvergenceWarning, InputError
from permrank.families.latent.estimate import NO_PRIOR, CommunityEstimate, log_likelihoods, memberships_of
from permrank.families.latent.kernels.insertion import EXPECTED, MODE, insertion_scores
from permrank.families.latent.kernels.stages import BRESLOW, BY_LIST, BY_STAGE, EFRON, Rules, worth_table
from permrank.families.latent.law import Communities
from permrank.families.latent.learning import (
    CommunityData,
    Fit,
    MStep,
    Priors,
    learner_of,
    members,
    starts,
    warmed,
)
from permrank.families.latent.selection import choose_number, choose_priors
from permrank.families.plackett_luce.model import PlackettLuce
from permrank.kernels.lists import Lists
from permrank.learning.learner import Learner, mapped
from permrank.ragged import frozen, indptr_of
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.types import Array, Float64Array, Int64Array, Named

MIXING = {"stage": BY_STAGE, "list": BY_LIST}
TIES = {"efron": EFRON, "breslow": BRESLOW, "shuffle": EFRON}
POSITION = {"expected": EXPECTED, "mode": MODE}
# Scores and memberships of all starts: now, before, their sums, and two of the extrapolation.
_COPIES = 6


class LatentPlackettLuce(Ranker):
    """Latent semantic Plackett-Luce: people belong to communities, and each choice is made by one (§3.2).

    P(ranking | u) = Π_i Σ_z P(z | u) e^{s_i^z} / Σ_{j >= i} e^{s_j^z}: for every position of the list one of the user's
    communities chooses among what is left. With ``mixing="list"`` the community is drawn once for all lists of a
    user: the classical mixture of Plackett-Luce models.

    The score of an item is the share of the user's listed items that it is expected to come before, when it is
    inserted into the list (§3.2.2); an item that is on the list is scored like an equal twin of itself.

    Attributes
    ----------
    scores_ : float64 (n_starts, n_items, n_communities)
        s_y^z, best start first, its largest communities first.
    memberships_ : float64 (n_starts, n_users, n_communities)
        P(z | u).
    concentration_ : float64 (n_starts, n_communities)
        α of the Dirichlet prior; with ``mixing="list"`` the shares of the communities.
    prior_strength_ : float
        Imaginary choices; 0 without a prior.
    pooled_scores_ : float64 (n_items,)
        The pooled model that the prior is centred on.
    curve_ : float64 (n_tried, 3)
        With ``n_communities="auto"``: number, log-likelihood of a held-out list, its standard error.

    Examples
    --------
    >>> import permrank as pr
    >>> lists = {f"u{i}": ["a", "b", "c", "d"] for i in range(9)} | {f"v{i}": ["d", "c", "b", "a"] for i in range(9)}
    >>> model = pr.LatentPlackettLuce(2, seed=1).fit(pr.Rankings.from_lists(lists | {"w": ["a", "b"]}))
    >>> model.rank("w", ["d", "c"])["item"].to_list()
    ['c', 'd']
    >>> model.prefers("u0", "b", "c") > 0.7 > 0.3 > model.prefers("v0", "b", "c")
    True
    """

    assumes = "each choice is made by one of a few communities"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 3.2"
    needs_order = True
    knows_nobody = True
    resumable = True
    estimate_type = CommunityEstimate
    scores_ = Learnt[Float64Array]()
    memberships_ = Learnt[Float64Array]()
    concentration_ = Learnt[Float64Array]()
    prior_strength_ = Learnt[float]()
    pooled_scores_ = Learnt[Float64Array]()
    curve_ = Learnt[Float64Array]()

    n_communities: int | Literal["auto"] = integer(
        default=8,
        minimum=1,
        maximum=1000,
        also=("auto",),
        tune=(2, 32),
        kw_only=False,
        help=('"auto" takes the number with the best likelihood of held-out users, and keeps the curve in ``curve_``.'),
    )
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
    n_starts: int = integer(
        default=4,
        minimum=1,
        maximum=1000,
        help=(
            "EM finds local optima. All starts are learnt, and answers are the mean over them, which ranks better "
            "than the best start alone; `communities` and `membership` describe the best."
        ),
    )
    concentration: float | Literal["auto"] | None = number(
        default="auto",
        above=0.0,
        also=("auto", None),
        tune=(0.1, 30.0),
        tune_also=("auto",),
        when=("mixing", "stage"),
        help=(
            "Sum of the parameters of the Dirichlet prior of P(z | u): small if people belong to few communities. "
            '"auto" takes the one under which the other stages of a user best predict each stage. None is maximum '
            "likelihood, the paper's; somebody new then belongs to one community a list, until the list tells "
            "more."
        ),
    )
    prior_strength: float | Literal["auto"] | None = number(
        default="auto",
        above=0.0,
        also=("auto", None),
        tune=(0.3, 100.0),
        tune_also=("auto",),
        help=(
            "Worths have a Gamma prior around those of the pooled model, worth this many imaginary choices of "
            'each item in each community: a rare item in a rare community stays near its pooled worth. "auto" is '
            "empirical Bayes. None is maximum likelihood, the paper's: scores of items that a community always or "
            "never chooses grow without end."
        ),
    )
    method: MStep = choice(
        default="mm",
        values=("mm", "gradient", "published"),
        help=(
            "Hunter's closed update of the scores, or a step along the paper's gradient in each sweep. "
            "``published`` is the second, and every P(z | u) is the mean of Q over all stages, the last included, "
            "which is certain and only makes steps shorter; memberships are those of the last sweep, while the "
            "others work them out to the end."
        ),
    )
    accelerate: bool = flag(default=True, help="Extrapolate every third sweep (SQUAREM); the objective never falls.")
    max_iter: int = integer(default=500, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=1e-05,
        above=0.0,
        help="Learning ends when the objective of no start grows by more than this part of itself.",
    )
    seed: int = random_seed(default=0, help="Of the starts.")

    # Learning

    def _learn(self, rankings: Rankings) -> Learner[CommunityEstimate]:
        pooled = pooled_scores(rankings, self.ties)
        shuffle = self.seed if self.ties == "shuffle" else None
        data = CommunityData.of(rankings, pooled, TIES[self.ties], self.method, shuffle)
        curve, number = np.zeros((0, 3)), self.n_communities
        if number == "auto":
            curve, number = choose_number(data, MIXING[self.mixing], *self._given(), self.seed)
        number = int(number)
        strength, total = choose_priors(data, number, MIXING[self.mixing], *self._given(), self.seed)
        n_numbers = int(self.n_starts) * number * (rankings.n_items + rankings.n_users)
        require_memory(
            8 * _COPIES * n_numbers, f"n_starts={self.n_starts} of {number} communities", "take fewer of either"
        )
        begin = starts(data, number, int(self.n_starts), self.seed)

        def learned(reached: tuple[Fit, Float64Array]) -> CommunityEstimate:
            return CommunityEstimate(*self._ordered(rankings, data, *reached), strength, pooled, curve)

        return mapped(self._climbing(data, begin, strength, total), learned)

    def _given(self) -> tuple[Any, Any]:
        """Strengths of the priors of scores and memberships as they were given, or "auto"."""
        strength, total = self.prior_strength, self.concentration
        return 0.0 if strength is None else strength, NO_PRIOR if total is None else total

    def _climbing(
        self, data: CommunityData, begin: Fit, strength: float, total: float
    ) -> Learner[tuple[Fit, Float64Array]]:
        """EM from all starts; its estimates are what was reached and the parameters of the memberships' prior."""
        if self.mixing == "list":
            priors = Priors(strength, np.ones(begin.scores[:, 0].shape))
            learner = learner_of(data, priors, BY_LIST, begin, self.tol, self.accelerate)
            return mapped(learner, lambda fit: (fit, fit.mixtures[:, 0]))
        begin = warmed(data, strength, begin)
        # Communities have other names in every start: they share the total, and its parts follow their sizes.
        concentration = total * begin.mixtures[:, 0]
        begin = members(data, begin, concentration)
        learner = learner_of(data, Priors(strength, concentration), BY_STAGE, begin, self.tol, self.accelerate)
        return mapped(learner, lambda fit: (fit, concentration))

    def _ordered(
        self, rankings: Rankings, data: CommunityData, fit: Fit, concentration: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Scores, memberships that suit them and concentrations: best start first, largest communities first."""
        order = np.argsort(-fit.objectives, kind="stable")
        scores, concentration = fit.scores[order], concentration[order]
        if self.method == "published" and self.mixing == "stage":
            theta = fit.mixtures[order]
        else:
            theta = memberships_of(rankings, rankings.items, scores, concentration, self._kernel_rules)
        sizes = np.sum(data.outer[None, :, None] * theta, axis=1)
        by_size = np.argsort(-sizes, axis=1, kind="stable")
        return (
            np.take_along_axis(scores, by_size[:, None, :], axis=2),
            np.take_along_axis(theta, by_size[:, None, :], axis=2),
            np.take_along_axis(concentration, by_size, axis=1),
        )

    @property
    def _kernel_rules(self) -> Rules:
        """How lists are taken."""
        return Rules(TIES[self.ties], MIXING[self.mixing])

    def _check(self, fitted: Fitted[CommunityEstimate]) -> None:
        super()._check(fitted)
        n_starts, _, n_communities = fitted.estimate.scores.shape
        for name, size in {"n_starts": n_starts, "n_communities": n_communities}.items():
            if getattr(self, name) not in (size, "auto"):
                raise InputError(f"scores_ has {name}={size}, and the parameter is {getattr(self, name)!r}")

    # People and communities

    def _meet(self, fitted: Fitted[CommunityEstimate], rankings: Rankings, **about: Any) -> Named:
        """EM for the membership, items fixed: a user of the training data who says the same list gets the same."""
        learnt, items = fitted.estimate, fitted.aligned(rankings)
        theta = memberships_of(rankings, items, learnt.scores, learnt.concentration, self._kernel_rules)
        return {"memberships": theta[:, 0]}

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

    def communities(self, n_items: int = 5, n_users: int = 3) -> pl.DataFrame:
        """Describe the communities of the best start, largest first.

        Parameters
        ----------
        n_items, n_users : int
            How many items and users to name.

        Returns
        -------
        polars.DataFrame
            ``community`` (from 1), ``size`` (its part of all memberships), ``items`` that set it apart with their
            ``lifts`` (worth in the community over worth to everybody, both relative to the average item: 2 is twice
            as sought after here; popular items that everybody likes are not among them), and typical ``users`` with
            their ``memberships``.
        """
        fitted: Fitted[CommunityEstimate] = self.fitted_
        for name, value in {"n_items": n_items, "n_users": n_users}.items():
            require_int(name, value, 0)
        return fitted.estimate.communities(fitted.rankings, int(n_items), int(n_users))

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

    # Scores: the share of the person's listed items that an item is expected to come before

    def _scores(self, fitted: Fitted[CommunityEstimate], person: Person, items: Int64Array) -> Float64Array:
        lists = [each for each in person.lists() if each[0].size]
        theta = _membership(fitted, person)
        if not lists:
            return fitted.estimate.against_the_average(theta, items)
        indptr = indptr_of([listed.size for listed, _ in lists])
        listed = np.concatenate([codes for codes, _ in lists]).astype(np.int32)
        levels = np.concatenate([level for _, level in lists]).astype(np.int32)
        own = Lists(*frozen(np.array([0, len(lists)]), indptr, listed, levels, np.ones(len(lists))))
        return self._inserted(fitted, own, theta[:, None], np.array([0, items.size]), items)

    def _score_pairs(self, fitted: Fitted[CommunityEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        data, learnt, scores = fitted.rankings, fitted.estimate, np.empty(who.size)
        order = np.argsort(who, kind="stable")
        bounds = np.searchsorted(who[order], np.arange(data.n_users + 1))
        lists = Lists(data.user_indptr, data.indptr, data.items, data.levels, data.weights)
        scores[order] = self._inserted(fitted, lists, learnt.memberships, bounds, what[order])
        silent = np.diff(data.user_bounds) == 0
        for user in np.unique(who[silent[who]]):
            asked = who == user
            scores[asked] = learnt.against_the_average(learnt.memberships[:, user], what[asked])
        return scores

    def _inserted(
        self, fitted: Fitted[CommunityEstimate], lists: Lists, theta: Array, bounds: Array, items: Int64Array
    ) -> Float64Array:
        """Scores of items inserted into the lists of their users, averaged over the starts."""
        total, position = np.zeros(items.size), POSITION[self.insertion]
        for scores, own in zip(fitted.estimate.scores, theta, strict=True):
            total += insertion_scores(lists, worth_table(scores), own, bounds, items, self._kernel_rules, position)
        return total / len(theta)

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
        given = rankings, fitted.aligned(rankings), _owners(fitted, rankings), settings._kernel_rules
        size = int(n_draws) if new == "integrated" else None
        n_starts = len(fitted.estimate.scores)
        every = [log_likelihoods(fitted.estimate, start, *given, size) for start in range(n_starts)]
        values, errors = (np.stack(each) for each in zip(*every, strict=True))
        logs = np.logaddexp.reduce(values, axis=0) - np.log(len(values))
        shares = np.exp(values - logs) / len(values)
        error = np.sqrt(np.sum((shares * errors) ** 2, axis=0))
        return (logs, error) if with_error else logs


def _membership(fitted: Fitted[CommunityEstimate], person: Person) -> Float64Array:
    """P(z | person) in every fit, (n_starts, K)."""
    if person.is_new:
        own: Float64Array = person.state["memberships"]
        return own
    if person.index is None:
        prior = fitted.estimate.concentration
        return np.asarray(prior / prior.sum(axis=1, keepdims=True))
    return np.ascontiguousarray(fitted.estimate.memberships[:, person.index])


def _owners(fitted: Fitted[CommunityEstimate], rankings: Rankings) -> Int64Array:
    """Index of the known user of each ranking, -1 for others."""
    anonymous = rankings.anonymous or fitted.rankings.anonymous
    indices = {} if anonymous else {user: index for index, user in enumerate(fitted.user_ids)}
    users = np.array([indices.get(user, -1) for user in rankings.user_ids], np.int64)
    return np.asarray(users[rankings.ranking_users])


def pooled_scores(rankings: Rankings, ties: str) -> Float64Array:
    """Scores of everybody together around what the covariates of the items tell, with the nearest treatment of ties."""
    with warnings.catch_warnings():
        # A centre for a prior need not be found to the last digit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PlackettLuce(prior="gaussian", ties="breslow" if ties == "breslow" else "efron")
        return model._informed_scores(model.fit(rankings, verbose=False).fitted_)
