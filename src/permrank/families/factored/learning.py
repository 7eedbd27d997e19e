"""How `FactoredPlackettLuce` learns: from its settings and data to a stream of estimates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from permrank.families.factored import undamped
from permrank.families.factored.estimate import TIES, FactoredEstimate
from permrank.families.factored.point import point_estimate
from permrank.learning.learner import Learner, mapped
from permrank.posterior.chain import choose_factors, draw_posterior
from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.effects import EFFECTS
from permrank.posterior.estimate import Evidence
from permrank.posterior.known import Known
from permrank.posterior.problem import Problem, thresholds_of
from permrank.posterior.sampler import Start
from permrank.posterior.store import Draws, Posterior
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Named

if TYPE_CHECKING:
    from permrank.families.factored.model import FactoredPlackettLuce

# Draws end when means over them are steady, after so many sweeps at the most.
_MOST_SWEEPS = 600
# The point estimate goes on until it has converged, which takes hundreds of sweeps where penalties are weak.
_MOST_ASCENTS = 5_000


def learner(settings: FactoredPlackettLuce, rankings: Rankings, n_sweeps: int) -> Learner[FactoredEstimate]:
    """From nothing."""
    if settings.method == "point":
        return point_estimate(settings, rankings, n_sweeps, None)
    thresholds = thresholds_of(rankings) if settings.rating_thresholds else np.zeros(0)
    problem, key = _problem(settings, rankings, thresholds), stream_key(settings.seed)
    scale = problem.usual_scale() if settings.factor_scale == "auto" else float(settings.factor_scale)
    curve = np.zeros((0, 3))
    if settings.n_factors == "auto":
        curve = choose_factors(problem, scale, key, n_sweeps)
    n_factors = int(curve[curve[:, 1].argmin(), 0]) if settings.n_factors == "auto" else int(settings.n_factors)

    def learned(found: Posterior) -> FactoredEstimate:
        return FactoredEstimate(
            **_learnt(found), factor_scale=float(scale), temperature=found.weights.temperature, curve=curve,
            personal_weight=found.weights.personal, thresholds=problem.thresholds, co_listing=problem.co_listing,
            **settings._rules(),
        )  # fmt: skip

    keeper = partial(Draws, rankings.n_users, rankings.n_items, n_factors, settings.n_draws)
    return mapped(draw_posterior(problem, n_factors, scale, settings.n_draws, key, n_sweeps, keeper), learned)


def growing(
    settings: FactoredPlackettLuce, before: FactoredEstimate, start: Start, rankings: Rankings, n_sweeps: int
) -> Learner[FactoredEstimate]:
    """From an estimate of less data."""
    if settings.method == "point":
        return point_estimate(settings, rankings, n_sweeps, (start.theta, start.modes))
    problem, key = _problem(settings, rankings, before.thresholds), stream_key(settings.seed, 1)

    def learned(found: Posterior) -> FactoredEstimate:
        return replace(before, co_listing=problem.co_listing, **_learnt(found), **settings._rules())

    keeper = partial(Draws, rankings.n_users, rankings.n_items, before.n_factors, settings.n_draws)
    scale, n_draws = before.factor_scale, settings.n_draws
    return mapped(draw_posterior(problem, before.n_factors, scale, n_draws, key, n_sweeps, keeper, start), learned)


def _learnt(found: Posterior) -> Named:
    """What is kept of the draws, as fields of the estimate."""
    users, items, intercepts, bases = found.mean
    effects: Named = dict(zip(EFFECTS, found.effects, strict=True))
    return {
        "item_draws": found.items, "user_factors": users, "item_factors": items, "item_intercepts": intercepts,
        "bases": bases, "user_slopes": found.slopes, "item_variances": found.variances, "score_error": found.error,
        **effects,
    }  # fmt: skip


def _problem(settings: FactoredPlackettLuce, rankings: Rankings, thresholds: Float64Array) -> Problem:
    """The data in the form of the sweeps."""
    return Problem.of(
        rankings, TIES[settings.ties], shuffle=settings.ties == "shuffle", intercepts=settings.intercepts,
        thresholds=thresholds, known=Known.of(rankings),
        co_listing=co_listing_coordinates(rankings, settings.seed) if settings.co_listing else None,
    )  # fmt: skip


def usual_sweeps(method: str) -> int:
    """The most sweeps where no number is given."""
    return _MOST_ASCENTS if method == "point" else _MOST_SWEEPS


def _last_modes(estimate: FactoredEstimate, rankings: Rankings) -> Float64Array:
    """Modes of the users that an estimate knows under the last of its draws."""
    if estimate.is_point:  # which has them
        return np.asarray(estimate.user_factors, np.float64)
    last = replace(
        estimate, item_draws=estimate.item_draws[-1:], bases=estimate.bases[-1:],
        user_slopes=estimate.user_slopes[-1:],
    )  # fmt: skip
    return undamped.fold_in(last, Evidence(rankings, rankings.items))[:, 0]


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
