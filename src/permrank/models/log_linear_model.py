"""What the two log-linear models share: checks, factors by draws, new users."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.inference.convergence import Monitor
from permrank.models.checks import above, one_of, whole_from
from permrank.models.log_linear_answers import LogLinearRanker
from permrank.models.log_linear_factors import draw_factors, modes_of, usual_scale
from permrank.models.log_linear_learning import CONTRASTS, STRUCTURES
from permrank.models.log_linear_lists import Pairs
from permrank.models.normaliser import LONGEST_EXACT
from permrank.models.users import NewUser, new_user
from permrank.types import Float64Array

LEARNERS = (*STRUCTURES, *CONTRASTS)


class FactoredLogLinear(LogLinearRanker):
    """A log-linear model whose users may have factors, drawn from a posterior."""

    n_factors: int
    n_draws: int
    seed: int
    factor_scale: Any
    max_iter: int | None

    def _draws(self, rankings: Rankings, monitor: Monitor) -> tuple[Any, Any]:
        scale = usual_scale(rankings) if self.factor_scale == "auto" else float(self.factor_scale)
        return draw_factors(rankings, self.position, self.n_factors, scale, self.n_draws, self.seed, monitor)

    def _check_lengths(self, rankings: Rankings, learner: str) -> None:
        longest = int(np.diff(rankings.indptr).max(initial=0))
        if learner == "exact" and longest > LONGEST_EXACT:
            raise InputError(
                f"learner='exact' sums over all rankings of lists of up to {LONGEST_EXACT} items, and the longest has "
                f"{longest}; take another learner, for example 'relocation'"
            )

    def _parts(self, items: Any, users: Any, pairs: Pairs, values: Float64Array) -> dict[str, Any]:
        return {
            "item_draws_": items,
            "user_modes_": users,
            "pair_indptr_": pairs.indptr,
            "pair_items_": pairs.items,
            "pair_values_": values,
        }

    def _mean_pairs(self, users: Any, items: Any) -> Float64Array:
        """Coefficients of (user, item) pairs averaged over the draws, (n, B)."""
        k = self._n_factors
        total = np.zeros((len(items), self._degree()))
        for theta, modes in zip(self.item_draws_, self.user_modes_, strict=True):
            rows = theta[items]
            total += rows[:, k:]
            total[:, 0] += np.einsum("ek,ek->e", rows[:, :k], modes[users])
        return total / len(self.item_draws_)

    def fold_in(self, said: Any) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating: the items stay as they are."""
        self._require_fitted()
        made = new_user(said, self.item_ids)
        return NewUser(made.rankings, {"modes": self.fold_in_many(made.rankings)[0]})

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Factors of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        items = self._aligned_items(rankings)
        if not self._n_factors:
            return np.zeros((rankings.n_users, len(self.item_draws_), 0))
        found = modes_of(rankings, items, self.item_draws_, self._n_factors, self.position)
        return np.ascontiguousarray(found.transpose(1, 0, 2))


def check_common(model: Any) -> None:
    """Raise on bad parameters that both models have."""
    whole_from("n_factors", model.n_factors, 0)
    whole_from("window", model.window, 2)
    if model.window > LONGEST_EXACT:
        raise InputError(f"window={model.window}, expected at most {LONGEST_EXACT}: its orders are summed over")
    whole_from("n_steps", model.n_steps, 0)
    whole_from("n_draws", model.n_draws, 1)
    whole_from("seed", model.seed, 0)
    if model.max_iter is not None:
        whole_from("max_iter", model.max_iter, 1)
    for name in ("item_scale", "tol", *(() if model.factor_scale == "auto" else ("factor_scale",))):
        above(name, getattr(model, name), 0.0)
    if isinstance(model.position, str) or not isinstance(model.position, Iterable):
        one_of("position", model.position, ("centred", "linear"))
    else:
        numbers = list(model.position)
        for number in numbers:
            above("position", number, -float("inf"))
        if len(numbers) < 2 or any(b > a for a, b in itertools.pairwise(numbers)) or numbers[0] == numbers[-1]:
            raise InputError(f"position={model.position!r}, expected two or more numbers that decrease")
