"""A new item of the factored model: the mode given its prior and the lists that mention it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permrank.core.fitted import Fitted
from permrank.families.factored.estimate import FactoredEstimate
from permrank.posterior.kernels.arguments import NO_MEANS, Items, Newton, Noise
from permrank.posterior.new_items import Beginning, factors_in_mean
from permrank.posterior.passes import Move, Passes
from permrank.posterior.prior_means import ItemPrior, ScaledItemPrior
from permrank.posterior.problem import Problem
from permrank.posterior.side_information import modes_of_many
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

# Newton steps of the new item given the users: quadratic convergence needs about five.
_STEPS = 8


@dataclass(frozen=True)
class FactoredItems:
    """An `ItemLikelihood`."""

    fitted: Fitted[FactoredEstimate]
    intercepts: bool

    @property
    def before(self) -> FactoredEstimate:
        """What was learnt without the item."""
        return self.fitted.estimate

    def tables(self) -> Float64Array:
        """Items and thresholds under every draw."""
        return self.before.item_draws.astype(np.float64)

    def prior(self, problem: Problem) -> ItemPrior:
        """That of the sweeps."""
        return ScaledItemPrior(problem, self.before.n_factors, float(self.before.factor_scale))

    def enlarged(self, index: int, begin: Beginning, mentions: Rankings | None) -> FactoredEstimate:
        """The estimate with one item more: in its draws, and in the mean scores as these have it on average."""
        before = self.before
        draws = np.insert(self.tables(), index, begin.means, axis=1)
        variances = np.insert(before.item_variances.astype(np.float64), index, begin.variance, axis=1)
        if mentions is not None:
            draws[:, index] = self._modes(index, draws, begin.precisions[-1], mentions)
        mine = draws[:, index]
        factors = factors_in_mean(before.bases, mine[:, : before.n_factors])
        return replace(
            before,
            item_draws=draws.astype(before.item_draws.dtype),
            item_variances=variances.astype(before.item_variances.dtype),
            item_factors=np.insert(before.item_factors, index, factors, axis=0),
            item_intercepts=np.insert(before.item_intercepts, index, float(np.mean(mine[:, -1])), axis=0),
            co_listing=np.insert(before.co_listing, index, 0.0, axis=0),
        )

    def _modes(self, index: int, draws: Float64Array, precision: Float64Array, rankings: Rankings) -> Float64Array:
        """Mode of the item given users who mention it, under every draw, from its prior mean."""
        estimate, users = self.before, self.fitted.user_ids.indices(rankings.user_ids.ids)
        thresholds = estimate.thresholds if rankings.ratings is not None else np.zeros(0)
        problem = Problem.of(rankings, estimate.ties, shuffle=False, intercepts=True, thresholds=thresholds)
        n_columns, modes = estimate.n_columns, []
        passes, pull = Passes(problem, n_columns), np.zeros((rankings.n_users, 0))
        slopes = np.zeros((problem.user_coordinates.shape[1], n_columns))
        for at_modes, stored in zip(modes_of_many(estimate, users), draws, strict=True):
            theta, own = np.ascontiguousarray(stored[: problem.n_rows]), np.ascontiguousarray(at_modes)
            centre = theta.copy()
            for _ in range(_STEPS):
                held = Newton(0, 1.0)  # the users stay where they are
                move = Move(problem.pass_over_users(), theta, np.ones(n_columns), slopes, np.uint64(0), False, held)
                passes.users(move, own.copy(), own.copy(), pull)
                given = Items(theta, centre, precision)
                step = passes.items(given, own, Noise(np.uint64(0), False), NO_MEANS)[index]
                if estimate.odds:
                    step[-2] = 0.0
                theta[index] += np.clip(step, -1.0, 1.0)
            modes.append(theta[index])
        return np.array(modes)
