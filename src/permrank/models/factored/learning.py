"""How `FactoredPlackettLuce` learns: from its settings and data to a stream of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from permrank.data.rankings import Rankings
from permrank.learning.learner import Learner, mapped
from permrank.models.factored import race
from permrank.models.factored.chain import choose_factors, draw_posterior
from permrank.models.factored.estimate import TIES, FactoredEstimate, Said
from permrank.models.factored.kept import Draws, Posterior
from permrank.models.factored.point import point_estimate
from permrank.models.factored.posterior import Start
from permrank.models.factored.problem import Problem, thresholds_of
from permrank.models.priors.co_listing import co_listing_coordinates
from permrank.models.priors.effects import EFFECTS
from permrank.models.priors.known import Known
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Named

# Draws end when means over them are steady, after so many sweeps at the most.
_MOST_SWEEPS = 600
# The point estimate goes on until it has converged, which takes hundreds of sweeps where penalties are weak.
_MOST_ASCENTS = 5_000


class Settings(NamedTuple):
    """Parameters of the model that learning depends on, by their names there."""

    n_factors: Any
    method: str
    ties: str
    intercepts: bool
    factor_scale: Any
    rating_thresholds: bool
    co_listing: bool
    user_penalty: float
    item_penalty: float
    damping: str | Sequence[float]
    n_draws: int
    n_starts: int
    tol: float
    seed: int

    @classmethod
    def of(cls, parameters: Named) -> Settings:
        """From all parameters of a model."""
        return cls(**{name: parameters[name] for name in cls._fields})

    def problem(self, rankings: Rankings, thresholds: Float64Array, co_listing: Float64Array | None) -> Problem:
        """The data in the form of the sweeps."""
        return Problem.of(
            rankings, TIES[self.ties], shuffle=self.ties == "shuffle", intercepts=self.intercepts,
            thresholds=thresholds, co_listing=co_listing, known=Known.of(rankings),
        )  # fmt: skip

    def _coordinates(self, rankings: Rankings) -> Float64Array | None:
        return co_listing_coordinates(rankings, self.seed) if self.co_listing else None

    def _scale(self, problem: Problem) -> float:
        return problem.usual_scale() if self.factor_scale == "auto" else float(self.factor_scale)

    def _started(self, rankings: Rankings) -> Problem:
        """The data, with proportional odds of ratings."""
        thresholds = thresholds_of(rankings) if self.rating_thresholds else np.zeros(0)
        return self.problem(rankings, thresholds, self._coordinates(rankings))

    def learner(self, rankings: Rankings, n_sweeps: int, rules: Named) -> Learner[FactoredEstimate]:
        """From nothing."""
        if self.method == "point":
            return self._point(rankings, n_sweeps, rules, None)
        problem = self._started(rankings)
        scale = self._scale(problem)
        if self.n_factors == "auto":
            curve = choose_factors(problem, scale, stream_key(self.seed), n_sweeps)
            n_factors = int(curve[curve[:, 1].argmin(), 0])
        else:
            curve, n_factors = np.zeros((0, 3)), int(self.n_factors)

        def learned(found: Posterior) -> FactoredEstimate:
            return FactoredEstimate(
                found.items, *found.mean, float(scale), found.weights.temperature, problem.thresholds,
                problem.co_listing, found.slopes, found.variances, curve, np.ones(1), found.weights.personal,
                found.error, *found.effects, **rules,
            )  # fmt: skip

        keeper = partial(Draws, rankings.n_users, rankings.n_items, n_factors, self.n_draws)
        key = stream_key(self.seed)
        return mapped(draw_posterior(problem, n_factors, scale, self.n_draws, key, n_sweeps, keeper), learned)

    def growing(
        self, before: FactoredEstimate, start: Start, rankings: Rankings, n_sweeps: int, rules: Named
    ) -> Learner[FactoredEstimate]:
        """From an estimate of less data."""
        if self.method == "point":
            return self._point(rankings, n_sweeps, rules, (start.theta, start.modes))
        problem = self.problem(rankings, before.thresholds, self._coordinates(rankings))
        key = stream_key(self.seed, 1)

        def learned(found: Posterior) -> FactoredEstimate:
            users, items, intercepts, bases = found.mean
            effects: Named = dict(zip(EFFECTS, found.effects, strict=True))
            return replace(
                before, item_draws=found.items, user_factors=users, item_factors=items, item_intercepts=intercepts,
                bases=bases, co_listing=problem.co_listing, user_slopes=found.slopes, item_variances=found.variances,
                score_error=found.error, **effects, **rules,
            )  # fmt: skip

        keeper = partial(Draws, rankings.n_users, rankings.n_items, before.n_factors, self.n_draws)
        draws = draw_posterior(
            problem, before.n_factors, before.factor_scale, self.n_draws, key, n_sweeps, keeper, start
        )
        return mapped(draws, learned)

    def _point(
        self, rankings: Rankings, n_sweeps: int, rules: Named, begin: tuple[Array, Array] | None
    ) -> Learner[FactoredEstimate]:
        return point_estimate(
            rankings, n_sweeps, stream_key(self.seed), n_factors=int(self.n_factors),
            user_penalty=self.user_penalty, item_penalty=self.item_penalty,
            tol=self.tol, ties=TIES[self.ties], shuffle=self.ties == "shuffle", intercepts=self.intercepts,
            damping=self.damping, rules=rules, n_starts=int(self.n_starts), begin=begin,
        )  # fmt: skip


def usual_sweeps(method: str) -> int:
    """The most sweeps where no number is given."""
    return _MOST_ASCENTS if method == "point" else _MOST_SWEEPS


def _last_modes(estimate: FactoredEstimate, rankings: Rankings) -> Float64Array:
    """Modes of the users that an estimate knows under the last of its draws."""
    if estimate.factor_scale == 0.0:  # a point estimate has them
        return np.asarray(estimate.user_factors, np.float64)
    last = replace(
        estimate, item_draws=estimate.item_draws[-1:], bases=estimate.bases[-1:],
        user_slopes=estimate.user_slopes[-1:],
    )  # fmt: skip
    return race.fold_in(last, Said(rankings, rankings.items))[:, 0]


def grown(estimate: FactoredEstimate, before: Rankings, after: Rankings) -> Start:
    """The last draw in the numbering of more data; what is new is at 0."""
    n_columns, last = estimate.n_columns, estimate.item_draws[-1]
    theta = np.zeros((after.n_items + estimate.thresholds.size, n_columns + 1))
    modes = np.zeros((after.n_users, n_columns))
    if estimate.odds:
        theta[:, -2] = last[0, -2]  # the loading on the users' level, the same for every item
    theta[after.item_ids.ids.search_sorted(before.item_ids.ids)] = last[: before.n_items]
    theta[after.n_items :] = last[before.n_items :]
    modes[after.user_ids.ids.search_sorted(before.user_ids.ids)] = _last_modes(estimate, before)
    return Start(theta, modes)
