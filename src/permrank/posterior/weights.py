"""How far scores can be believed: two weights from pairs that were held out.

A score is what an item has for everybody and what the factors add for the user. A likelihood that is not quite true of
people gets the scale of both wrong, and not alike: Breslow's takes a tie for evidence of closeness, so scores lie too
close together; people differ in how they use the scale and in how sure they are, which is taken for taste. So the sum
is temperature * (common + personal weight * personal), with the two weights under which pairs of different ratings that
were held out are likeliest. The personal weight matters for the order too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.passes import SomeUsers
from permrank.posterior.problem import Problem
from permrank.rankings.selection import held_out_entries, keep_entries
from permrank.types import Float64Array, Int64Array

# At least so much of a list is held out, at most the other; in between so many entries of a list of usual length.
_LEAST_SHARE, _MOST_SHARE, _ENTRIES = 0.04, 0.3, 6.0
# Partners of each held-out entry, and pairs in all.
_PARTNERS, _MOST_PAIRS = 5, 100_000
# Users of whom entries are held out at a time: so many, but never more than this part of them.
_USERS, _PART_OF_USERS = 4_000, 0.5
# Pairs that are wanted of all folds together, and the most folds: weights from one thousand err by a seventh.
_WANTED_PAIRS, _FOLDS = 10_000, 8
# Prior deviation of the logarithms of both weights around 0: a few pairs do not move them far.
_LOG_DEVIATION = 1.0


class Weights(NamedTuple):
    """What scores are made with: temperature * (common + personal * factors' part)."""

    temperature: float = 1.0
    personal: float = 1.0


class _Moments(NamedTuple):
    """Of the differences of pairs under the draws: means of both parts, their variances, covariance; (n_pairs,)."""

    common: Float64Array
    personal: Float64Array
    common_variance: Float64Array
    personal_variance: Float64Array
    covariance: Float64Array

    def log_odds(self, weights: Weights) -> Float64Array:
        """The average of σ(τ d) over d ~ N(μ, v) is close to σ(τ μ / sqrt(1 + π τ² v / 8)) (MacKay 1992)."""
        factor, w = weights
        variance = self.common_variance + w * (w * self.personal_variance + 2.0 * self.covariance)
        return np.asarray(
            factor * (self.common + w * self.personal) / np.sqrt(1.0 + np.pi * factor**2 * variance / 8.0)
        )


class HeldOut:
    """Pairs of entries that the sweeps do not see, and their differences of score under the draws observed."""

    def __init__(self, problem: Problem, users: Int64Array, better: Int64Array, worse: Int64Array) -> None:
        self.problem = problem
        self._users, self._better, self._worse = users, better, worse
        self._common: list[Float64Array] = []
        self._personal: list[Float64Array] = []
        self._squared_noise = np.zeros(users.size)

    @cached_property
    def people(self) -> SomeUsers:
        """Those of whom pairs are held out."""
        return SomeUsers.of(self.problem, np.unique(self._users))

    def state(self) -> dict[str, Float64Array]:
        """What was observed, as arrays by name."""
        return {
            "common": np.reshape(self._common, (-1, self._users.size)),
            "personal": np.reshape(self._personal, (-1, self._users.size)),
            "squared_noise": self._squared_noise,
        }

    def restore(self, state: dict[str, Float64Array]) -> None:
        """Go on from what `state` gave."""
        self._common, self._personal = list(state["common"]), list(state["personal"])
        self._squared_noise = state["squared_noise"].copy()

    def observe(self, theta: Float64Array, modes: Float64Array, noise: Float64Array, variances: Float64Array) -> None:
        """Differences of the scores of all pairs under one draw: at the users' modes, and what noise adds.

        noise: of the users; variances: of the items' scores (see `posterior.kernels.items.item_steps`).
        """
        rows = theta[self._better] - theta[self._worse]
        self._common.append(rows[:, -1].copy())
        self._personal.append(np.einsum("pk,pk->p", rows[:, :-1], modes[self._users]))
        self._squared_noise += np.einsum("pk,pk->p", rows[:, :-1], noise[self._users]) ** 2
        self._squared_noise += variances[self._better] + variances[self._worse]

    def differences(self) -> Float64Array:
        """Differences of score of all pairs under every draw observed: (n_observed, n_pairs)."""
        return np.asarray(np.stack(self._common) + np.stack(self._personal))

    def forget(self) -> None:
        """Begin anew with what is observed."""
        self._common, self._personal, self._squared_noise = [], [], np.zeros(self._users.size)

    @property
    def n_pairs(self) -> int:
        """Pairs held out."""
        return int(self._users.size)

    @property
    def n_observed(self) -> int:
        """Draws observed."""
        return len(self._common)

    def moments(self, part: slice) -> _Moments:
        """Under some of the draws; what noise adds is that of all of them."""
        common, personal = np.stack(self._common[part]), np.stack(self._personal[part])
        means = common.mean(axis=0), personal.mean(axis=0)
        covariance = np.mean((common - means[0]) * (personal - means[1]), axis=0)
        noise = self._squared_noise / self.n_observed
        return _Moments(*means, common.var(axis=0), personal.var(axis=0) + noise, covariance)

    def losses(self) -> Float64Array:
        """-log P of the better of each pair at the best weights, in nats."""
        whole = [self.moments(slice(None))]
        return np.asarray(np.logaddexp(0.0, -whole[0].log_odds(Weights(*np.exp(_best(whole))))))


def best_weights(folds: Sequence[HeldOut]) -> Weights:
    """The weights under which the better of a pair is likeliest to be chosen, averaged over the posterior.

    A mean over few draws is noisier than the answers, which average over many, and noise asks for smaller weights: so
    those of the whole mean are corrected by what they gain over those of the two halves (a jackknife).
    """
    folds = [fold for fold in folds if fold.n_observed > 0]
    if not folds:
        return Weights()
    whole = _best([fold.moments(slice(None)) for fold in folds])
    if min(fold.n_observed for fold in folds) > 1:
        first = _best([fold.moments(slice(0, fold.n_observed // 2)) for fold in folds])
        second = _best([fold.moments(slice(fold.n_observed // 2, None)) for fold in folds])
        whole = 2.0 * whole - (first + second) / 2.0
    temperature, personal = np.exp(whole).tolist()
    return Weights(temperature, personal)


def _best(folds: list[_Moments]) -> Float64Array:
    """Logarithms of the likeliest weights."""

    def loss(logs: Float64Array) -> float:
        weights = Weights(*np.exp(np.clip(logs, -5.0, 5.0)))
        pairs = sum(float(np.sum(np.logaddexp(0.0, -fold.log_odds(weights)))) for fold in folds)
        return 0.5 * float(np.sum(logs**2)) / _LOG_DEVIATION**2 + pairs

    return np.asarray(minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-3}).x)


def hold_out_folds(problem: Problem, seed: int, most: int) -> list[HeldOut]:
    """As many folds as it takes to have enough pairs, within ``most``; none if there are no pairs."""
    first = hold_out_pairs(problem, seed)
    if first is None:
        return []
    wanted = min(-(-_WANTED_PAIRS // first.n_pairs), _FOLDS, most)
    return [first, *filter(None, (hold_out_pairs(problem, seed, fold) for fold in range(1, wanted)))]


def hold_out_pairs(problem: Problem, seed: int, fold: int = 0) -> HeldOut | None:
    """Hold out a part of the lists of some users; None if no pair of different levels is found there.

    How far scores spread depends on how long lists are, so most lists stay whole. The next fold has the other
    users, the one after it other entries of the first.
    """
    rankings = problem.rankings
    share = float(np.clip(_ENTRIES / rankings.lengths.mean(), _LEAST_SHARE, _MOST_SHARE))
    parts = int(1.0 / _PART_OF_USERS)
    rng = np.random.default_rng([seed, fold // parts])
    held = held_out_entries(rankings, share, seed=rng)
    part = min(_PART_OF_USERS, _USERS / rankings.n_users)
    some = np.floor(np.random.default_rng(seed).random(rankings.n_users) / part) == fold % parts
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
    # Nobody is asked about items that are in no list.
    known = np.bincount(rankings.items[~held], minlength=rankings.n_items) > 0
    both = both[(levels[:, 0] != levels[:, 1]) & known[rankings.items[both]].all(axis=1)]
    if len(both) == 0:
        return None
    if len(both) > _MOST_PAIRS:
        both = both[rng.choice(len(both), _MOST_PAIRS, replace=False)]
    both = np.where((rankings.levels[both[:, 0]] < rankings.levels[both[:, 1]])[:, None], both, both[:, ::-1])
    users = np.searchsorted(rankings.user_bounds, both[:, 0], side="right") - 1
    rest = keep_entries(rankings, ~held)
    # What is listed together is that of the rest, too: a rare item would be known for what its only readers list.
    n_dimensions = problem.co_listing.shape[1]
    table = co_listing_coordinates(rest, seed % 2**32, n_dimensions) if n_dimensions else problem.co_listing
    seen = Problem.of(
        rest, problem.ties, shuffle=problem.shuffle, intercepts=problem.intercepts, thresholds=problem.thresholds,
        co_listing=table, known=problem.known,
    )  # fmt: skip
    seen = seen if problem.adapted is None else problem.adapted(seen)
    items = rankings.items.astype(np.int64)
    return HeldOut(seen, users, items[both[:, 0]], items[both[:, 1]])
