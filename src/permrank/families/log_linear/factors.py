"""Factors of users in log-linear models: a posterior over them by draws, and new users (§4.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from permrank.families.log_linear.kernels.swap_users import move_swap_users, swap_posterior_draws
from permrank.families.log_linear.lists import position_table
from permrank.kernels.lists import Lists
from permrank.learning.learner import Learner
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
    lists: Lists, theta: Float64Array, prior: Prior, users: Users, newton: Newton, noise: Noise, entries: Entries
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

    The third of them is the weight of the factors' part of a score, from pairs that were held out.
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
    every = np.zeros((len(item_draws), rankings.n_users, n_factors))
    lists = Lists(rankings.user_indptr, rankings.indptr, items, values, rankings.weights)
    entries = Entries(np.empty(0), np.empty(0))
    for modes, stored in zip(every, item_draws, strict=True):
        theta, users = np.asarray(stored, np.float64), Users(modes, np.empty_like(modes))
        move_swap_users(lists, theta, np.ones(n_factors), users, Newton(50, 1e-9), NO_NOISE, entries)
    return every


def prior_draws(
    rankings: Rankings, items: Array, theta: Array, n_factors: int, position: str | Sequence[float], size: int, key: Key
) -> tuple[Float64Array, Float64Array]:
    """Vectors for each ranking by itself, near its posterior, (n_rankings, size, K), and log(prior / their density)."""
    n = rankings.n_rankings
    each, items, values, ones = frozen(np.arange(n + 1), items, entry_positions(rankings, position), np.ones(n))
    lists = Lists(each, rankings.indptr, items, values, ones)
    theta, modes, density = np.asarray(theta, np.float64), np.zeros((n, n_factors)), np.empty((n, size))
    drawn = swap_posterior_draws(lists, theta, np.ones(n_factors), modes, key, size, density)
    prior = -0.5 * np.sum(drawn**2, axis=2) - 0.5 * n_factors * np.log(2.0 * np.pi)
    return drawn, prior - density
