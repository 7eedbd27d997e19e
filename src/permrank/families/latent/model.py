"""Latent semantic Plackett-Luce: people belong to communities, and communities choose (§3.2)."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.checks import require_int, require_memory
from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.settings import MOST_SWEEPS, choice, flag, integer, number, random_seed
from permrank.errors import ConvergenceWarning, InputError
from permrank.families.latent.communities import communities_frame
from permrank.families.latent.distribution import (
    MIXING,
    NO_PRIOR,
    TIES,
    CommunityEstimate,
    CommunityRanker,
    memberships_of,
)
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE
from permrank.families.latent.learning import (
    Fit,
    MStep,
    Priors,
    Problem,
    learner_of,
    members,
    problem_of,
    starts,
    warmed,
)
from permrank.families.latent.selection import Selection, choose_number
from permrank.families.plackett_luce.model import PlackettLuce
from permrank.learning.learner import Learner, mapped
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

# Scores and memberships of all starts: now, before, their sums, and two of the extrapolation.
_COPIES = 6


class LatentPlackettLuce(CommunityRanker):
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
    resumable = True
    estimate_type = CommunityEstimate
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

    def _learn(self, rankings: Rankings) -> Learner[CommunityEstimate]:
        pooled = pooled_scores(rankings, self.ties)
        shuffle = self.seed if self.ties == "shuffle" else None
        problem = problem_of(rankings, pooled, TIES[self.ties], self.method, shuffle)
        curve, number = np.zeros((0, 3)), self.n_communities
        if number == "auto":
            curve, number = choose_number(problem, MIXING[self.mixing], self._given(), self.seed)
        strength, total = self._settings(problem, int(number))
        n_numbers = int(self.n_starts) * int(number) * (rankings.n_items + rankings.n_users)
        require_memory(
            8 * _COPIES * n_numbers, f"n_starts={self.n_starts} of {number} communities", "take fewer of either"
        )
        begin = starts(problem, int(number), int(self.n_starts), self.seed)

        def learned(reached: tuple[Fit, Float64Array]) -> CommunityEstimate:
            return CommunityEstimate(*self._ordered(rankings, problem, *reached), float(strength), pooled, curve)

        return mapped(self._climbing(problem, begin, strength, total), learned)

    def _given(self) -> tuple[Any, Any]:
        """Strengths of the priors of scores and memberships as they were given, or "auto"."""
        strength, total = self.prior_strength, self.concentration
        return 0.0 if strength is None else strength, NO_PRIOR if total is None else total

    def _settings(self, problem: Problem, n_communities: int) -> tuple[float, float]:
        """Imaginary choices, and the sum of the Dirichlet's parameters (not used with one community a list)."""
        strength, total = self._given()
        if strength == "auto" or (total == "auto" and self.mixing == "stage"):
            selection = Selection(problem, n_communities, self.seed)
            return selection.settings(MIXING[self.mixing], strength, total)
        return float(strength), 1.0 if total == "auto" else float(total)

    def _climbing(
        self, problem: Problem, begin: Fit, strength: float, total: float
    ) -> Learner[tuple[Fit, Float64Array]]:
        """EM from all starts; its estimates are what was reached and the parameters of the memberships' prior."""
        if self.mixing == "list":
            priors = Priors(strength, np.ones(begin.scores[:, 0].shape))
            learner = learner_of(problem, priors, BY_LIST, begin, self.tol, self.accelerate)
            return mapped(learner, lambda fit: (fit, fit.mixtures[:, 0]))
        begin = warmed(problem, strength, begin)
        # Communities have other names in every start: they share the total, and its parts follow their sizes.
        concentration = total * begin.mixtures[:, 0]
        begin = members(problem, begin, concentration)
        learner = learner_of(problem, Priors(strength, concentration), BY_STAGE, begin, self.tol, self.accelerate)
        return mapped(learner, lambda fit: (fit, concentration))

    def _ordered(
        self, rankings: Rankings, problem: Problem, fit: Fit, concentration: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Scores, memberships that suit them and concentrations: best start first, largest communities first."""
        order = np.argsort(-fit.objectives, kind="stable")
        scores, concentration = fit.scores[order], concentration[order]
        if self.method == "published" and self.mixing == "stage":
            found = fit.mixtures[order]
        else:
            found = memberships_of(rankings, rankings.items, scores, concentration, self._kernel_rules)
        sizes = np.sum(problem.outer[None, :, None] * found, axis=1)
        by_size = np.argsort(-sizes, axis=1, kind="stable")
        return (
            np.take_along_axis(scores, by_size[:, None, :], axis=2),
            np.take_along_axis(found, by_size[:, None, :], axis=2),
            np.take_along_axis(concentration, by_size, axis=1),
        )

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
        data, learnt = fitted.rankings, fitted.estimate
        seen = np.bincount(data.items, minlength=data.n_items).astype(np.float64)
        people = np.array(data.weights) if data.anonymous else np.ones(data.n_users)
        return communities_frame(
            learnt.scores[0], learnt.memberships[0], learnt.pooled_scores, seen, people,
            data.item_ids, data.user_ids, int(n_items), int(n_users),
        )  # fmt: skip

    def _check(self, fitted: Fitted[CommunityEstimate]) -> None:
        super()._check(fitted)
        learnt = fitted.estimate
        n_starts, n_items, n_communities = np.shape(learnt.scores)
        for name, found in {"n_starts": n_starts, "n_communities": n_communities}.items():
            if getattr(self, name) not in (found, "auto"):
                raise InputError(f"scores_ has {name}={found}, and the parameter is {getattr(self, name)!r}")
        wanted = {
            "scores": (n_starts, fitted.rankings.n_items, n_communities),
            "memberships": (n_starts, fitted.rankings.n_users, n_communities),
            "concentration": (n_starts, n_communities),
            "pooled_scores": (n_items,),
        }
        for name, shape in wanted.items():
            if np.shape(getattr(learnt, name)) != shape or n_starts * n_communities < 1:
                raise InputError(f"{name}_ has shape {np.shape(getattr(learnt, name))}, expected {shape}")
        if learnt.memberships.min(initial=0.0) < 0 or learnt.concentration.min() <= 0:
            raise InputError("memberships_ and concentration_ must be positive")


def pooled_scores(rankings: Rankings, ties: str) -> Float64Array:
    """Scores of everybody together around what the covariates of the items tell, with the nearest treatment of ties."""
    with warnings.catch_warnings():
        # A centre for a prior need not be found to the last digit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PlackettLuce(prior="gaussian", ties="breslow" if ties == "breslow" else "efron")
        return model._informed_scores(model.fit(rankings, verbose=False).fitted_)
