"""Position-wise log-linear model (§4.5.1): every item draws towards its own part of the list."""

from __future__ import annotations

from typing import Literal

import numpy as np

from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.settings import choice, flag, number
from permrank.errors import InputError
from permrank.families.log_linear.base import METHODS, LogLinearRanker, coefficients_of
from permrank.families.log_linear.estimate import LogLinearEstimate
from permrank.families.log_linear.factors import point_factors, usual_scale
from permrank.families.log_linear.kernels.arguments import Moves
from permrank.families.log_linear.learning import Parameters, Task, learner_of, precision_of
from permrank.families.log_linear.lists import no_pairs, position_table
from permrank.families.log_linear.normaliser import MOVES
from permrank.learning.learner import Learner, mapped
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array


class PositionwiseLogLinear(LogLinearRanker):
    """Position-wise log-linear model of rankings with factors of users (§4.5.1).

    P(ranking | u) ∝ exp Σ_i s_{π_i}^u g(i), with s_y^u = b_y + Σ_k W_uk H_ky and g decreasing: a Spearman model around
    every user's own order. Prediction is sorting by s.

    Attributes
    ----------
    item_draws_ : (n_kept, n_items, n_factors + 1)
        Factors and intercept of every item, one slice a draw.
    user_modes_ : (n_kept, n_users, n_factors)
    personal_weight_ : float
        Weight of the factors' part of a score: what suits pairs of items best that were held out of the lists while the
        draws began. 1 for point estimates.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.PositionwiseLogLinear(n_factors=2, max_iter=30).fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "an item's position depends on a score from a few factors"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 4.5.1"

    factor_scale: float | Literal["auto"] | None = number(
        default="auto",
        above=0.0,
        also=("auto", None),
        tune=(0.3, 3.0),
        tune_also=("auto",),
        help=(
            'Standard deviation of the score that the factors make, a priori. "auto": 2 for strict rankings; '
            "where there are ties sqrt(mean entries of a user / 25), at most 2. None, for point estimates: no "
            "prior of users and items."
        ),
    )
    method: str = choice(
        default="posterior",
        values=("posterior", *METHODS),
        help=(
            "``posterior``: users and items are drawn in turn, with the pseudo-likelihood of swaps, and answers "
            "are averages. The others give point estimates, which overfit short lists: a pseudo-likelihood "
            "(§4.3), exact maximum likelihood for lists of up to 16 items, or contrastive divergence (§4.2)."
        ),
    )
    intercepts: bool = flag(default=True, help="Whether items have an intercept b_y; False is the paper's form.")

    def _validate(self) -> None:
        super()._validate()
        if not self.intercepts and not self.n_factors:
            raise InputError("intercepts=False with n_factors=0 leaves nothing to learn; give factors or intercepts")
        if self.factor_scale is None and self.method == "posterior":
            raise InputError("factor_scale=None is for point estimates; method='posterior' needs a prior")

    def _sweeps(self, rankings: Rankings) -> int:
        if self.max_iter is None and self.method != "posterior":
            return {"contrastive": 200, "persistent": 200}.get(self.method, 500)
        return self._draw_sweeps(rankings)

    def _learn(self, rankings: Rankings) -> Learner[LogLinearEstimate]:
        nothing, n_sweeps = no_pairs(rankings.n_items), self._sweeps(rankings)
        self._check_lengths(rankings, self.method)
        if self.method == "posterior":

            def drawn(found: tuple[Array, Array, float]) -> LogLinearEstimate:
                items, users, personal = found
                if not self.n_factors:  # the posterior of the items alone is narrow: its mean will do
                    items, users = items.mean(axis=0, keepdims=True), users[:1]
                return LogLinearEstimate(items, users, *nothing, np.zeros(0), float(personal))

            return mapped(self._draws(rankings, n_sweeps, bool(self.intercepts)), drawn)
        table = position_table(rankings.lengths, self.position, 1)
        if self.n_factors:
            scale = usual_scale(rankings) if self.factor_scale == "auto" else self.factor_scale
            width = self._most_relocated if self.method == "relocation" else self.window
            factors = point_factors(
                rankings, self.method, Moves(MOVES[self.move], width, self.n_steps), table, self.n_factors, scale,
                self.item_scale, bool(self.intercepts), self.seed, n_sweeps, self.tol,
            )  # fmt: skip
            return mapped(factors, lambda found: LogLinearEstimate(*found[:2], *nothing, np.zeros(0), 1.0))
        task = Task(
            rankings, table, nothing, precision_of(self.item_scale), 1.0, self.window, self._most_relocated,
            self.n_steps, self.tol, self.seed, move=MOVES[self.move],
        )  # fmt: skip

        def learned(point: Parameters) -> LogLinearEstimate:
            nobody = np.zeros((1, rankings.n_users, 0))
            return LogLinearEstimate(point.items[None].copy(), nobody, *nothing, np.zeros(0), 1.0)

        return mapped(learner_of(self.method, task, n_sweeps), learned)

    def _scores(self, fitted: Fitted[LogLinearEstimate], person: Person, items: Int64Array) -> Float64Array:
        return np.asarray(coefficients_of(fitted.estimate, person, items)[:, :, 0].mean(axis=0))

    def _score_pairs(self, fitted: Fitted[LogLinearEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        return fitted.estimate.mean_pairs(who, what)[:, 0]
