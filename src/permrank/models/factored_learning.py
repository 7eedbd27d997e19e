"""The default learner of `FactoredPlackettLuce`: alternating draws (for the point estimate see factored_point.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.inference.convergence import Monitor
from permrank.kernels.factored import item_steps
from permrank.models.factored_calibration import HeldOut, hold_out_pairs
from permrank.models.factored_data import Problem
from permrank.randomness import stream_key
from permrank.types import Float64Array

# The first sweeps go to the modes, without noise: a draw around a random start helps nobody.
_QUIET_SWEEPS = 3
# Precision of an intercept around its prior mean, until it is learnt.
_FIRST_PRECISION = 4.0
# An item seen this often counts half in the regression of intercepts on their covariates.
_HALF_TRUSTED = 5.0
# Draws are kept after the first third of the sweeps; the temperature is measured on the last two thirds of that.
_FIRST_KEPT, _FIRST_MEASURED = 3, 9
# Under n_factors="auto": the numbers that are tried, and sweeps for each, of which the second half is measured.
_TRIED_FACTORS, _TRIED_SWEEPS = (4, 8, 16, 32), 60


class InterceptPrior:
    """b_y ~ N(covariates_y β, 1 / precision), with β and the precision learnt; thresholds have β = 0."""

    def __init__(self, problem: Problem) -> None:
        counts = np.bincount(problem.rankings.items, minlength=problem.rankings.n_items)
        self._trust = counts / (counts + _HALF_TRUSTED)
        self._covariates = problem.covariates
        self.centre = np.zeros(problem.n_rows)
        self.precision = _FIRST_PRECISION

    def update(self, intercepts: Float64Array) -> None:
        """Weighted least squares for β, then the precision of what is left; two imaginary items keep it finite."""
        n_items = self._trust.size
        weighted = self._covariates * self._trust[:, None]
        # A hundredth of an item's worth of ridge: covariates may be constant.
        normal = weighted.T @ self._covariates + 0.01 * np.eye(weighted.shape[1])
        self.centre[:n_items] = self._covariates @ np.linalg.solve(normal, weighted.T @ intercepts[:n_items])
        seen = self._trust > 0
        squares = float(np.sum((intercepts - self.centre)[:n_items][seen] ** 2))
        self.precision = (seen.sum() + 2.0) / (squares + 1.0)


class Start(NamedTuple):
    """Where draws go on from: items and thresholds (n_rows, n_factors + 1), users (n_users, n_factors)."""

    theta: Float64Array
    modes: Float64Array


class Posterior(NamedTuple):
    """What is kept of the draws.

    Attributes
    ----------
    items : float32 (n_kept, n_rows, n_factors + 1)
    users : float32 (n_kept, n_users, n_factors)
    temperature : float
        What differences of scores are multiplied with to be log-odds of held-out pairs; 1 if there are no ties.
    """

    items: Any
    users: Any
    temperature: float


class Sampler:
    """State of the alternating draws; `sweep` draws users, then items."""

    def __init__(self, problem: Problem, n_factors: int, scale: float, key: Any, start: Start | None) -> None:
        self._key, self._quiet = key, 0 if start else _QUIET_SWEEPS
        begin = start or Start(*_start(problem.n_rows, problem.rankings.n_users, n_factors, key))
        self.theta, self.modes = begin.theta.copy(), begin.modes.copy()
        self._user_precision = np.ones(n_factors)
        self._precision = np.full(n_factors + 1, n_factors / scale**2)
        self.use(problem)

    def go_on(self, problem: Problem, state: Start) -> None:
        """Go on from the state that an earlier run was left in: all else follows from it."""
        self.theta, self.modes = state
        self.use(problem)

    def use(self, problem: Problem) -> None:
        """Go on with other lists of the same users and items."""
        self.problem = problem
        self.draws, self._residual, self._curvature = _scratch(problem, self.modes.shape[1])
        self._prior = InterceptPrior(problem)
        self._prior.update(self.theta[:, -1])

    def sweep(self, number: int, *, keep: bool) -> tuple[float, tuple[Any, Any] | None]:
        """Draw everything once; returns the log-posterior of the users' modes, and what is kept, if asked."""
        problem, prior = self.problem, self._prior
        lists, view, owner = problem.in_sweep(self._key, number)
        noisy = number >= self._quiet
        values = problem.update_users(
            lists, self.theta, self._user_precision, self.modes, self.draws,
            stream_key(int(self._key), number, 0), noisy, 1 if noisy else 3, 1e-6, self._residual, self._curvature,
        )  # fmt: skip
        # Without intercepts their prior is a wall at 0.
        self._precision[-1] = prior.precision if problem.intercepts else 1e12
        kept = self._smoothed() if keep else None
        self.theta += item_steps(
            view.indptr, view.entries, owner, self.draws, self.theta, prior.centre, self._precision, self._residual,
            self._curvature, stream_key(int(self._key), number, 1), noisy,
        )  # fmt: skip
        if problem.intercepts:
            self.theta[:, -1] -= self.theta[: problem.rankings.n_items, -1].mean()
            prior.update(self.theta[:, -1])
        else:
            self.theta[:, -1] = 0.0
        return float(values.sum()), kept

    @property
    def noise(self) -> Float64Array:
        """By how much the last draw of the users differs from their modes."""
        return np.asarray(self.draws - self.modes)

    def _smoothed(self) -> tuple[Float64Array, Float64Array]:
        """What is kept of a sweep: the conditional mean of the items given the users drawn, and the users' modes there.

        A draw of the items carries noise that only a large average removes; their mean given the users' draw carries
        that of the users alone, which differs from user to user and averages out within an item.
        """
        problem = self.problem
        if problem.shuffle:
            return self.theta.copy(), self.modes.copy()
        mean = self.theta + item_steps(
            problem.view.indptr, problem.view.entries, problem.user_of_entry, self.draws, self.theta,
            self._prior.centre, self._precision, self._residual, self._curvature, np.uint64(0), False,
        )  # fmt: skip
        users, scratch = self.modes.copy(), np.empty((2, self._residual.size))
        problem.update_users(
            problem.lists, mean, self._user_precision, users, np.empty_like(users), np.uint64(0), False,
            2, 1e-4, scratch[0], scratch[1],
        )  # fmt: skip
        return mean, users


def draw_posterior(
    problem: Problem,
    n_factors: int,
    scale: float,
    n_draws: int,
    key: Any,
    monitor: Monitor,
    start: Start | None = None,
) -> Posterior:
    """Alternate draws of users and items; keep some of them.

    Until the first draw is kept, a part of the entries of tied lists is held out: it measures the temperature, and
    costs nothing. A start, which is the state of an earlier posterior, is taken as it is and needs no such part.
    """
    kept_sweeps = _kept(monitor.max_iter, n_draws)
    first = 0 if start else min(kept_sweeps)
    held: HeldOut | None = None
    if start is None and problem.rankings.has_ties and problem.places is None:
        held = hold_out_pairs(problem, int(stream_key(int(key), 3)) % 2**63)
    sampler = Sampler(held.problem if held else problem, n_factors, scale, key, start)
    temperature = 1.0
    items, users = [], []
    if state := monitor.resumed():
        temperature, items, users = state["temperature"], list(state["items"]), list(state["users"])
        if held and len(monitor.history) <= first:
            held.restore(state)
        elif held:
            held = None
        sampler.go_on(held.problem if held else problem, Start(state["theta"], state["modes"]))

    def found() -> Posterior:
        # Before the first draw that is kept, the present state stands for it.
        theta, modes = (items, users) if items else ([sampler.theta], [sampler.modes])
        return Posterior(np.array(theta, np.float32), np.array(modes, np.float32), temperature)

    monitor.through(lambda _: found())
    while not monitor.exhausted:
        sweep = len(monitor.history)
        if held and sweep == first:
            temperature = held.temperature()
            held = None
            sampler.use(problem)
        measured = held is not None and sweep >= max(monitor.max_iter // _FIRST_MEASURED, _QUIET_SWEEPS + 1)
        value, kept = sampler.sweep(sweep, keep=measured or sweep in kept_sweeps)
        if held and kept and measured:
            held.observe(*kept, sampler.noise)
        elif kept:
            items.append(kept[0].astype(np.float32))
            users.append(kept[1].astype(np.float32))
        monitor.update(value)
        if monitor.due:
            monitor.keep(
                theta=sampler.theta, modes=sampler.modes, temperature=temperature,
                items=_stacked(items, sampler.theta), users=_stacked(users, sampler.modes),
                **(held.state() if held else {}),
            )  # fmt: skip
    monitor.converged = len(monitor.history) >= monitor.max_iter
    return found()


def choose_factors(problem: Problem, scale: float, key: Any) -> Float64Array:
    """Loss of held-out pairs for several numbers of factors: rows of number, loss, standard error."""
    rows = []
    for n_factors in _TRIED_FACTORS:
        held = hold_out_pairs(problem, int(stream_key(int(key), 4)) % 2**63)
        if held is None:
            return np.array([[_TRIED_FACTORS[0], 0.0, 0.0]])
        sampler = Sampler(held.problem, n_factors, scale, key, None)
        for sweep in range(_TRIED_SWEEPS):
            _, kept = sampler.sweep(sweep, keep=sweep >= _TRIED_SWEEPS // 2)
            if kept:
                held.observe(*kept, sampler.noise)
        rows.append((n_factors, *held.loss()))
    return np.array(rows)


def _start(n_items: int, n_users: int, n_factors: int, key: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(int(key))
    # Large enough to break the symmetry of the factors, small against the scores that are learnt.
    theta = 0.1 * rng.normal(size=(n_items, n_factors + 1))
    theta[:, -1] = 0.0
    return theta, 0.3 * rng.normal(size=(n_users, n_factors))


def _scratch(problem: Problem, n_factors: int) -> tuple[Float64Array, Float64Array, Float64Array]:
    n_entries = problem.lists.items.size
    return np.zeros((problem.rankings.n_users, n_factors)), np.empty(n_entries), np.empty(n_entries)


def _stacked(draws: list[Any], like: Float64Array) -> Any:
    return np.array(draws, np.float32).reshape(len(draws), *like.shape)


def _kept(n_sweeps: int, n_draws: int) -> set[int]:
    """Sweeps whose state is kept: evenly spread over the last two thirds, the last one among them."""
    first = min(n_sweeps - 1, max(n_sweeps // _FIRST_KEPT, _QUIET_SWEEPS + 1))
    return set(np.unique(np.linspace(first, n_sweeps - 1, n_draws).round().astype(int)).tolist())
