"""How far differences of scores can be believed: a temperature from pairs that were held out.

Breslow's likelihood takes a tie for evidence of closeness, so scores learnt from ratings lie too close together: pairs
come out right more often than their probability says. One number mends it: the factor on the scores under which pairs
of different ratings that were held out are likeliest.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from permrank.data.hold_out import held_out_entries, keep_entries
from permrank.models.factored.problem import Problem
from permrank.types import Float64Array, Int64Array

# At least so much of a list is held out, at most the other; in between three entries of a list of usual length.
_LEAST_SHARE, _MOST_SHARE = 0.04, 0.3
# Partners of each held-out entry, and pairs in all.
_PARTNERS, _MOST_PAIRS = 3, 100_000
# Users of whom entries are held out: so many, but never more than this part of them.
_USERS, _PART_OF_USERS = 4_000, 0.5
# Prior deviation of the logarithm of the temperature around 0: a few pairs do not move it far.
_LOG_DEVIATION = 0.5
_RANGE = 3.0


class HeldOut:
    """Pairs of entries that the sweeps do not see, and their differences of score under the draws observed."""

    def __init__(self, problem: Problem, users: Int64Array, better: Int64Array, worse: Int64Array) -> None:
        self.problem = problem
        self._users, self._better, self._worse = users, better, worse
        self._modes: list[Float64Array] = []
        self._squared_noise = np.zeros(users.size)

    def state(self) -> dict[str, Float64Array]:
        """What was observed, as arrays by name."""
        return {
            "held_modes": np.reshape(self._modes, (-1, self._users.size)),
            "held_squared_noise": self._squared_noise,
        }

    def restore(self, state: dict[str, Float64Array]) -> None:
        """Go on from what `state` gave."""
        self._modes, self._squared_noise = list(state["held_modes"]), state["held_squared_noise"]

    def observe(self, theta: Float64Array, modes: Float64Array, noise: Float64Array, variances: Float64Array) -> None:
        """Differences of the scores of all pairs under one draw: at the users' modes, and what noise adds.

        noise: of the users; variances: of the items' scores (see `kernels.factored.items.item_steps`).
        """
        rows = theta[self._better] - theta[self._worse]
        self._modes.append(np.einsum("pk,pk->p", rows[:, :-1], modes[self._users]) + rows[:, -1])
        self._squared_noise += np.einsum("pk,pk->p", rows[:, :-1], noise[self._users]) ** 2
        self._squared_noise += variances[self._better] + variances[self._worse]

    def temperature(self) -> float:
        """The factor under which the better of a pair is likeliest to be chosen, averaged over the posterior.

        A mean over few draws is noisier than the answers, which average over many, and noise asks for a smaller factor:
        so the factor of the whole mean is corrected by what it gains over those of the two halves (a jackknife).
        """
        n = len(self._modes)
        if n == 0:
            return 1.0
        whole = self._best(slice(0, n))
        halves = self._best(slice(0, n // 2)) + self._best(slice(n // 2, n)) if n > 1 else 2.0 * whole
        return float(np.exp(2.0 * whole - halves / 2.0))

    def losses(self) -> Float64Array:
        """-log P of the better of each pair at the best factor, in nats."""
        whole = slice(0, len(self._modes))
        return np.asarray(np.logaddexp(0.0, -_log_odds(np.exp(self._best(whole)), *self._moments(whole))))

    def _moments(self, part: slice) -> tuple[Float64Array, Float64Array]:
        observed = np.stack(self._modes[part])
        return observed.mean(axis=0), observed.var(axis=0) + self._squared_noise / len(self._modes)

    def _best(self, part: slice) -> float:
        """Logarithm of the likeliest factor given some of the draws."""
        mean, variance = self._moments(part)

        def loss(log_factor: float) -> float:
            log_odds = _log_odds(np.exp(log_factor), mean, variance)
            return 0.5 * (log_factor / _LOG_DEVIATION) ** 2 + float(np.sum(np.logaddexp(0.0, -log_odds)))

        return float(minimize_scalar(loss, bounds=(-_RANGE, _RANGE), method="bounded").x)


def _log_odds(factor: float, mean: Float64Array, variance: Float64Array) -> Float64Array:
    """The average of σ(τ d) over d ~ N(μ, v) is close to σ(τ μ / sqrt(1 + π τ² v / 8)) (MacKay 1992)."""
    return np.asarray(factor * mean / np.sqrt(1.0 + np.pi * factor**2 * variance / 8.0))


def hold_out_pairs(problem: Problem, seed: int) -> HeldOut | None:
    """Hold out a part of the lists of some users; None if no pair of different levels is found there.

    How far scores spread depends on how long lists are, so most lists stay whole.
    """
    rankings = problem.rankings
    share = float(np.clip(3.0 / rankings.lengths.mean(), _LEAST_SHARE, _MOST_SHARE))
    rng = np.random.default_rng(seed)
    held = held_out_entries(rankings, share, seed=rng)
    some = rng.random(rankings.n_users) < min(_PART_OF_USERS, _USERS / rankings.n_users)
    held &= np.repeat(some, np.diff(rankings.user_bounds))
    entries = rng.permutation(np.flatnonzero(held))
    ranking = np.searchsorted(rankings.indptr, entries, side="right") - 1
    order = np.argsort(ranking, kind="stable")
    entries, ranking = entries[order], ranking[order]
    pairs = []
    for shift in range(1, _PARTNERS + 1):
        same = np.flatnonzero(ranking[shift:] == ranking[:-shift])
        pairs.append(np.column_stack((entries[same], entries[same + shift])))
    both = np.concatenate(pairs)
    levels = rankings.levels[both]
    both = both[levels[:, 0] != levels[:, 1]]
    if len(both) == 0:
        return None
    if len(both) > _MOST_PAIRS:
        both = both[rng.choice(len(both), _MOST_PAIRS, replace=False)]
    both = np.where((rankings.levels[both[:, 0]] < rankings.levels[both[:, 1]])[:, None], both, both[:, ::-1])
    users = np.searchsorted(rankings.user_bounds, both[:, 0], side="right") - 1
    # Co-listing is that of all entries: it tells that the held-out items were listed, not how they were ranked.
    seen = Problem.of(
        keep_entries(rankings, ~held), problem.ties, shuffle=problem.shuffle, intercepts=problem.intercepts,
        thresholds=problem.thresholds, odds=problem.odds, co_listing=problem.co_listing,
    )  # fmt: skip
    items = rankings.items.astype(np.int64)
    return HeldOut(seen, users, items[both[:, 0]], items[both[:, 1]])
