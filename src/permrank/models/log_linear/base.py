"""What the two log-linear models share: checks, factors by draws, new users."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from permrank.checks import a_seed, above, one_of, whole_from
from permrank.data.rankings import Rankings
from permrank.distributions.normaliser import LONGEST_EXACT, MOVES, log_normaliser
from permrank.errors import InputError
from permrank.kernels.log_linear.subsets import many_log_sums
from permrank.learning.learner import Learner
from permrank.models.log_linear.distribution import LogLinearRanker, log_weight
from permrank.models.log_linear.factors import draw_factors, modes_of, prior_draws, usual_scale
from permrank.models.log_linear.learning import CONTRASTS, STRUCTURES
from permrank.models.log_linear.lists import Pairs
from permrank.models.users import NewUser, new_user
from permrank.randomness import stream_key
from permrank.types import Float64Array

LEARNERS = (*STRUCTURES, *CONTRASTS)
# The likelihood of a new person's list: draws of the items that are used, and vectors of the person for each.
_ITEM_DRAWS, _USER_DRAWS = 8, 8


class FactoredLogLinear(LogLinearRanker):
    """A log-linear model whose users may have factors, drawn from a posterior."""

    resumable = True
    n_factors: int
    n_draws: int
    seed: int
    factor_scale: Any
    max_iter: int | None

    def _check_learned(self) -> None:
        super()._check_learned()
        if len(self.item_draws_) > self.n_draws:
            raise InputError(f"item_draws_ has {len(self.item_draws_)} draws, more than n_draws={self.n_draws}")

    def _draws(self, rankings: Rankings, n_sweeps: int, intercepts: bool = True) -> Learner[tuple[Any, Any]]:
        scale = usual_scale(rankings) if self.factor_scale == "auto" else float(self.factor_scale)
        return draw_factors(
            rankings, self.position, self.n_factors, scale, self.n_draws, self.seed, n_sweeps, intercepts
        )

    def _check_lengths(self, rankings: Rankings, learner: str) -> None:
        longest = int(np.diff(rankings.indptr).max(initial=0))
        if learner == "exact" and longest > LONGEST_EXACT:
            raise InputError(
                f"learner='exact' sums over all rankings of lists of up to {LONGEST_EXACT} items, and the longest has "
                f"{longest}; take another learner, for example 'relocation'"
            )

    def _estimate(self, items: Any, users: Any, pairs: Pairs, values: Float64Array, **more: float) -> Any:
        parts = items, users, pairs.indptr, pairs.items, values
        made: Any = self.estimate_type
        return made(*parts, *more.values(), **self._rules())

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
        found = modes_of(rankings, items, self.item_draws_, self._n_factors, self.estimate_.position)
        return np.ascontiguousarray(found.transpose(1, 0, 2))

    def log_likelihood_with_error(self, rankings: Rankings) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities with the user integrated out, as if every ranking were given by somebody new, and errors.

        The integral over the user's factors is estimated by importance sampling from the posterior of swaps. The
        normaliser is exact for lists of up to 16 items, and then without factors the error is 0; longer lists are
        annealed forwards and backwards, which takes seconds for each, and with factors for each of 64 vectors.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        self._require_fitted()
        if not self._n_factors:
            return super().log_likelihood_with_error(rankings)
        items = self._aligned_items(rankings)
        kept = np.unique(np.linspace(0, len(self.item_draws_) - 1, _ITEM_DRAWS).round().astype(int))
        parts = [self._integrands(rankings, items, self.item_draws_[d], stream_key(self.seed, int(d))) for d in kept]
        logs, errors = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        top = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - top)
        mean = weights.mean(axis=1)
        spread = weights.std(axis=1) / (mean * np.sqrt(logs.shape[1]))
        share = weights / weights.sum(axis=1, keepdims=True)
        return np.asarray(top[:, 0] + np.log(mean)), np.hypot(spread, np.sqrt(np.sum((share * errors) ** 2, axis=1)))

    def _integrands(self, rankings: Rankings, items: Any, theta: Any, key: Any) -> tuple[Float64Array, Float64Array]:
        """log P(ranking | user) + log prior / density of some vectors of each ranking's user, and errors: (n, size)."""
        k = self._n_factors
        drawn, logs = prior_draws(rankings, items, theta, k, self.estimate_.position, _USER_DRAWS, key)
        theta, errors = np.asarray(theta, np.float64), np.zeros_like(logs)
        for r in range(rankings.n_rankings):
            part = slice(int(rankings.indptr[r]), int(rankings.indptr[r + 1]))
            own, levels = items[part], rankings.levels[part]
            rows, basis = theta[own], self._basis(own.size)
            pair = self._potentials(own)
            unary = (drawn[r] @ rows[:, :k].T + rows[:, k])[:, :, None].copy()
            if own.size <= LONGEST_EXACT:
                logs[r] -= many_log_sums(unary, basis, pair)
            for j, coefficients in enumerate(unary):
                above, errors[r, j] = log_weight(levels, coefficients, basis, pair)
                logs[r, j] += above
                if own.size > LONGEST_EXACT:
                    below = log_normaliser(coefficients, basis, pair)
                    logs[r, j] -= below.value
                    errors[r, j] = np.hypot(errors[r, j], below.error)
        return logs, errors


def check_common(model: Any) -> None:
    """Raise on bad parameters that both models have."""
    whole_from("n_factors", model.n_factors, 0)
    whole_from("window", model.window, 2)
    if model.window > LONGEST_EXACT:
        raise InputError(f"window={model.window}, expected at most {LONGEST_EXACT}: its orders are summed over")
    whole_from("n_steps", model.n_steps, 0)
    whole_from("n_draws", model.n_draws, 1)
    a_seed(model.seed)
    if model.max_iter is not None:
        whole_from("max_iter", model.max_iter, 1)
    one_of("move", model.move, tuple(MOVES))
    above("tol", model.tol, 0.0)
    for name in ("item_scale", "factor_scale"):
        value = getattr(model, name)
        if value is not None and not (name == "factor_scale" and value == "auto"):
            above(name, value, 0.0)
    if isinstance(model.position, str) or not isinstance(model.position, Iterable):
        one_of("position", model.position, ("centred", "linear"))
    else:
        numbers = list(model.position)
        for number in numbers:
            above("position", number, -float("inf"))
        if len(numbers) < 2 or any(b > a for a, b in itertools.pairwise(numbers)) or numbers[0] == numbers[-1]:
            raise InputError(f"position={model.position!r}, expected two or more numbers that decrease")
