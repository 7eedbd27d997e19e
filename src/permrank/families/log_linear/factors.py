"""Factors of users in log-linear models: a posterior over them by draws, point estimates, and new users (§4.5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from permrank.families.log_linear.kernels.arguments import Moves, Positions
from permrank.families.log_linear.kernels.moves import advance_chains
from permrank.families.log_linear.kernels.swap_users import move_swap_users, swap_posterior_draws
from permrank.families.log_linear.learning import STRUCTURES, precision_of
from permrank.families.log_linear.lists import (
    Lists,
    likelihoods,
    lists_of_rankings,
    no_pairs,
    partners_of,
    position_table,
    shards_of_lists,
    statistics,
    strict_lists,
    strict_order,
)
from permrank.kernels.lists import Lists as UserLists
from permrank.learning.lbfgs import minimise
from permrank.learning.learner import Learner, State, Step, mapped, standing
from permrank.posterior.chain import draw_posterior
from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Noise, Prior, Users
from permrank.posterior.problem import Problem
from permrank.posterior.store import WholeDraws
from permrank.ragged import frozen, new_blocks
from permrank.ragged import positions as positions_in_lists
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Key


def entry_positions(rankings: Rankings, position: str | Sequence[float]) -> Float64Array:
    """Position function of every entry, averaged over the positions of its tie."""
    lengths = rankings.lengths
    start, table = position_table(lengths, position, 1)
    g = table[np.repeat(start[lengths], lengths) + positions_in_lists(rankings.indptr), 0]
    if rankings.has_ties:
        tie = np.cumsum(new_blocks(rankings.levels, rankings.indptr)) - 1
        g = (np.bincount(tie, g) / np.bincount(tie))[tie]
    return np.asarray(g)


def usual_scale(rankings: Rankings) -> float:
    """Standard deviation of the factors' part of a score a priori, by a rule.

    2 for strict lists (Sushi, seeds 10 and 11); with ties sqrt(mean entries of a user / 25), at most 2 (ML-100K, seeds
    10 and 11, with 10, 20 and 50 ratings a user). The optimum is flat. Scores are larger than in the factored
    Plackett-Luce model, whose rule this follows: a list says about a third as much about each.
    """
    if not rankings.has_ties:
        return 2.0
    lengths = np.diff(rankings.user_bounds)
    return float(min(2.0, np.sqrt(lengths[lengths > 0].mean() / 25.0)))


def _swap_users(
    lists: UserLists, theta: Float64Array, prior: Prior, users: Users, newton: Newton, noise: Noise, entries: Entries
) -> Float64Array:
    """A `UserPass`; its lists have position functions in the place of levels."""
    return np.asarray(move_swap_users(lists, theta, prior.precision, users, newton, noise, entries))


def _by_positions(position: str | Sequence[float], problem: Problem) -> Problem:
    """The same data for the likelihood of swaps."""
    (values,) = frozen(entry_positions(problem.rankings, position))
    # Prior means of the users stay 0 here: only items depend on co-listing.
    return problem._replace(
        user_pass=_swap_users, lists=problem.lists._replace(levels=values),
        user_coordinates=np.zeros((problem.rankings.n_users, 0)), adapted=partial(_by_positions, position),
    )  # fmt: skip


def draw_factors(
    rankings: Rankings, position: str | Sequence[float], n_factors: int, scale: float, n_draws: int, seed: int,
    n_sweeps: int, intercepts: bool,
) -> Learner[tuple[Array, Array, float]]:  # fmt: skip
    """Alternate draws of users and items, as in the factored Plackett-Luce model, with the likelihood of swaps.

    The third of what is found is the weight of the factors' part of a score, from pairs that were held out.
    """
    problem = Problem.of(
        rankings, 0, shuffle=False, intercepts=intercepts, co_listing=co_listing_coordinates(rankings, seed)
    )
    problem = _by_positions(position, problem)
    if not n_factors:  # there is no such part
        problem = problem._replace(adapted=None)
    keeper = partial(WholeDraws, rankings.n_users, n_factors)
    return draw_posterior(problem, n_factors, scale, n_draws, stream_key(seed), n_sweeps, keeper)


def modes_of(
    rankings: Rankings, items: Array, item_draws: Array, n_factors: int, position: str | Sequence[float]
) -> Float64Array:
    """Factors of new users under every draw of the items: (n_draws, n_users, K); items in the model's numbering."""
    items, values = frozen(items, entry_positions(rankings, position))
    found = np.zeros((len(item_draws), rankings.n_users, n_factors))
    lists = UserLists(rankings.user_indptr, rankings.indptr, items, values, rankings.weights)
    entries = Entries(np.empty(0), np.empty(0))
    for modes, stored in zip(found, item_draws, strict=True):
        theta, users = np.asarray(stored, np.float64), Users(modes, np.empty_like(modes))
        move_swap_users(lists, theta, np.ones(n_factors), users, Newton(50, 1e-9), NO_NOISE, entries)
    return found


def prior_draws(
    rankings: Rankings, items: Array, theta: Array, n_factors: int, position: str | Sequence[float], size: int, key: Key
) -> tuple[Float64Array, Float64Array]:
    """Vectors for each ranking by itself, near its posterior, (n_rankings, size, K), and log(prior / their density)."""
    n = rankings.n_rankings
    each, items, values, ones = frozen(np.arange(n + 1), items, entry_positions(rankings, position), np.ones(n))
    lists = UserLists(each, rankings.indptr, items, values, ones)
    theta, modes, density = np.asarray(theta, np.float64), np.zeros((n, n_factors)), np.empty((n, size))
    drawn = swap_posterior_draws(lists, theta, np.ones(n_factors), modes, key, size, density)
    prior = -0.5 * np.sum(drawn**2, axis=2) - 0.5 * n_factors * np.log(2.0 * np.pi)
    return drawn, prior - density


# Point estimates, as published


class Factors(NamedTuple):
    """Intercepts (n_items,), factors of items (n_items, K) and of users (n_users, K)."""

    intercepts: Float64Array
    items: Float64Array
    users: Float64Array

    def joined(self) -> Float64Array:
        """All of them in one vector."""
        return np.concatenate([part.ravel() for part in self])

    def split(self, point: Float64Array) -> Factors:
        """A vector as factors of this shape."""
        a, b = self.intercepts.size, self.intercepts.size + self.items.size
        return Factors(point[:a], point[a:b].reshape(self.items.shape), point[b:].reshape(self.users.shape))

    def scores(self, items: Array, users: Array) -> Float64Array:
        """Scores of (user, item) pairs."""
        return np.asarray(self.intercepts[items] + np.einsum("ek,ek->e", self.items[items], self.users[users]))

    def gradient(self, of_scores: Float64Array, items: Array, users: Array) -> Float64Array:
        """Derivative in the factors from that in the scores."""
        n_items, n_users = self.intercepts.size, len(self.users)
        k = range(self.items.shape[1])
        of_items = [np.bincount(items, of_scores * self.users[users, j], n_items) for j in k]
        of_users = [np.bincount(users, of_scores * self.items[items, j], n_users) for j in k]
        parts = np.bincount(items, of_scores, n_items), np.stack(of_items, axis=1), np.stack(of_users, axis=1)
        return np.concatenate([part.ravel() for part in parts])


def point_factors(
    rankings: Rankings, learner: str, moves: Moves, positions: Positions, n_factors: int,
    scale: float | None, item_scale: float | None, intercepts: bool, seed: int, n_sweeps: int, tol: float,
) -> Learner[tuple[Array, Array]]:  # fmt: skip
    """Posterior mode of users and items under Gaussian priors, by L-BFGS or by contrastive steps.

    moves: of the chains; its width is that of windows too, or how many items of a list are relocated. A scale that is
    None stands for no prior: maximum likelihood.
    """
    rng = np.random.default_rng(seed)
    spread = usual_scale(rankings) if scale is None else scale
    start = Factors(
        np.zeros(rankings.n_items),
        0.3 * spread / np.sqrt(n_factors) * rng.normal(size=(rankings.n_items, n_factors)),
        0.3 * rng.normal(size=(rankings.n_users, n_factors)),
    )
    precision = Factors(
        np.full(rankings.n_items, precision_of(item_scale)),
        np.full(start.items.shape, 0.0 if scale is None else n_factors / scale**2),
        np.full(start.users.shape, 0.0 if scale is None else 1.0),
    ).joined()
    # What does not move has no slope.
    free = np.ones(precision.size)
    free[: rankings.n_items] = float(intercepts)
    lists = strict_lists(rankings, seed)
    users = lists.entry_users()

    def halves(x: Float64Array) -> tuple[Array, Array]:
        point = start.split(x)
        theta = np.concatenate((point.items, point.intercepts[:, None]), axis=1)
        return theta[None].astype(np.float32), point.users[None].astype(np.float32)

    if learner in STRUCTURES:
        steps = _ascend(lists, users, STRUCTURES[learner], moves.width, positions, start, precision, free, tol)
    else:
        steps = _contrast(
            rankings, lists, users, learner == "persistent", moves, positions, start, precision, free, seed, n_sweeps,
        )  # fmt: skip
    return mapped(steps, halves)


def _ascend(
    lists: Lists, users: Array, structure: int, width: int, positions: Positions, start: Factors,
    precision: Float64Array, free: Float64Array, tol: float,
) -> Learner[Float64Array]:  # fmt: skip
    nothing = no_pairs(start.intercepts.size)
    shards, nobody = shards_of_lists(lists, nothing), partners_of(nothing)

    def descended(x: Float64Array) -> tuple[float, Float64Array]:
        here = start.split(x)
        unary = here.scores(lists.items, users)[:, None]
        values, slope, _ = likelihoods(shards, structure, width, unary, positions, nothing, nobody, np.zeros(0))
        gradient = precision * x - here.gradient(slope[:, 0], lists.items, users)
        return float(0.5 * precision @ x**2 - values @ lists.weights), free * gradient

    return minimise(descended, start.joined(), np.ones(precision.size), tol=tol)


def _contrast(
    rankings: Rankings, lists: Lists, users: Array, persistent: bool, moves: Moves, positions: Positions,
    start: Factors, precision: Float64Array, free: Float64Array, seed: int, n_sweeps: int,
) -> Learner[Float64Array]:  # fmt: skip
    """Contrastive divergence (§4.2) with steps by Adam (Kingma and Ba 2015), the last half of them averaged."""
    nothing = no_pairs(start.intercepts.size)
    said_lists = lists_of_rankings(rankings)
    said_users = said_lists.entry_users()
    said = statistics(said_lists, positions, nothing)[0][:, 0]
    strict = strict_order(lists)

    def steps(kept: State | None) -> Iterator[Step[Float64Array]]:
        x, chains, n_kept, done = start.joined(), lists.orders.copy(), 0, 0
        first, second, mean = np.zeros((3, x.size))
        if kept:
            x, first, second, mean, n_kept, chains, done = (kept[name] for name in _CONTRAST_STATE)

        def estimate() -> Float64Array:
            return mean if n_kept else x

        def state() -> State:
            return dict(zip(_CONTRAST_STATE, (x, first, second, mean, n_kept, chains, done), strict=True))

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            here = start.split(x)
            if not persistent:
                chains = lists.orders.copy()
            advance_chains(
                lists.indptr, lists.items, chains, here.scores(lists.items, users)[:, None], positions, nothing,
                np.zeros(0), moves, stream_key(seed, sweep),
            )  # fmt: skip
            drawn = statistics(strict._replace(orders=chains), positions, nothing)[0][:, 0]
            gradient = here.gradient(said, said_lists.items, said_users) - here.gradient(drawn, lists.items, users)
            gradient = free * (gradient - precision * x)
            first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
            corrected = first / (1.0 - 0.9 ** (sweep + 1)) / (np.sqrt(second / (1.0 - 0.99 ** (sweep + 1))) + 1e-8)
            x = x + _STEP * corrected
            if 2 * sweep >= n_sweeps:
                n_kept += 1
                mean += (x - mean) / n_kept
            done = sweep + 1
            yield Step(-float(np.sqrt(np.mean(gradient**2))), estimate, state, converged=done == n_sweeps)

    return steps


_CONTRAST_STATE = ("x", "first", "second", "mean", "n_kept", "chains", "done")
_STEP = 0.03  # of Adam: a parameter crosses its prior's width in some tens of sweeps
