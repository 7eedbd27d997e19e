"""Learners of coefficients of items and pairs: exact, by pseudo-likelihood (§4.3), by contrast (§4.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from permrank.data.rankings import Rankings
from permrank.inference.convergence import Monitor
from permrank.inference.optimisers import quasi_newton
from permrank.kernels.log_linear_moves import SWAP, advance_chains
from permrank.kernels.pseudo_likelihood import BY_RELOCATION, BY_SWAPS, BY_WINDOWS, EXACT, list_likelihoods
from permrank.models.log_linear_lists import (
    Lists,
    Pairs,
    Positions,
    by_item,
    grouped,
    lists_of_rankings,
    statistics,
    strict_lists,
)
from permrank.randomness import stream_key
from permrank.types import Float64Array

STRUCTURES = {"relocation": BY_RELOCATION, "swaps": BY_SWAPS, "windows": BY_WINDOWS, "exact": EXACT}
CONTRASTS = ("contrastive", "persistent")


class Parameters(NamedTuple):
    """Coefficients of items (n_items, B) and of pairs (n_pairs,)."""

    items: Float64Array
    pairs: Float64Array

    def joined(self) -> Float64Array:
        """All of them in one vector."""
        return np.concatenate((self.items.ravel(), self.pairs))

    def split(self, point: Float64Array) -> Parameters:
        """A vector as parameters of this shape."""
        n = self.items.size
        return Parameters(point[:n].reshape(self.items.shape), point[n:])


class Problem(NamedTuple):
    """What a learner needs: lists, position functions, pairs, and the precisions of the Gaussian priors."""

    lists: Lists
    positions: Positions
    pairs: Pairs
    n_items: int
    precisions: Parameters

    @property
    def start(self) -> Parameters:
        """No preference at all."""
        return Parameters(np.zeros((self.n_items, self.positions.table.shape[1])), np.zeros(self.pairs.items.size))


def likelihood(problem: Problem, structure: int, width: int, point: Parameters) -> tuple[float, Parameters]:
    """Weighted log-likelihood of all lists by one of the structures, and its gradient."""
    lists, pairs = problem.lists, problem.pairs
    of_entries = np.zeros((lists.items.size, point.items.shape[1]))
    of_pairs = np.zeros((pairs.blocks, pairs.items.size))
    values = list_likelihoods(
        structure, width, lists.indptr, lists.items, lists.orders, lists.weights, point.items[lists.items],
        *problem.positions, *pairs, point.pairs, of_entries, of_pairs,
    )  # fmt: skip
    gradient = Parameters(by_item(of_entries, lists.items, problem.n_items), of_pairs.sum(axis=0))
    return float(values @ lists.weights), gradient


def maximise(
    problem: Problem, structure: int, width: int, linear: Parameters, monitor: Monitor, tol: float
) -> Parameters:
    """Posterior mode by L-BFGS: log-likelihood + linear part - Σ precision * parameter² / 2."""
    shape = problem.start
    precision, slope = problem.precisions.joined(), linear.joined()

    def objective(x: Float64Array) -> tuple[float, Float64Array]:
        value, gradient = likelihood(problem, structure, width, shape.split(x))
        return value + float(slope @ x - 0.5 * precision @ x**2), gradient.joined() + slope - precision * x

    return shape.split(quasi_newton(objective, shape.joined(), monitor, tol=tol))


def learn_deterministic(
    rankings: Rankings, structure: str, width: int, positions: Positions, pairs: Pairs, precisions: Parameters,
    seed: int, monitor: Monitor, tol: float,
) -> Parameters:  # fmt: skip
    """Exact likelihood, or one of the pseudo-likelihoods.

    The exact one sums over rankings once for all lists over the same items: a list stands for its group, and what the
    others differ from it by is linear in the parameters. Ties are averaged over there; a pseudo-likelihood is shown
    random orders of them.
    """
    n_items = rankings.n_items
    if structure != "exact":
        problem = Problem(strict_lists(rankings, seed), positions, pairs, n_items, precisions)
        return maximise(problem, STRUCTURES[structure], width, problem.start, monitor, tol)
    lists = lists_of_rankings(rankings)
    problem = Problem(grouped(lists), positions, pairs, n_items, precisions)
    said, order = statistics(lists, positions, pairs), statistics(problem.lists, positions, pairs)
    linear = Parameters(
        by_item(said[0], lists.items, n_items) - by_item(order[0], problem.lists.items, n_items), said[1] - order[1]
    )
    return maximise(problem, EXACT, 0, linear, monitor, tol)


def learn_by_contrast(
    rankings: Rankings, persistent: bool, n_steps: int, positions: Positions, pairs: Pairs, precisions: Parameters,
    seed: int, monitor: Monitor,
) -> Parameters:  # fmt: skip
    """Contrastive divergence (Hinton 2002; §4.2): raise what the lists say, lower what short chains from them say.

    Chains start from the lists in every sweep, or go on where they were (persistent; Tieleman 2008). Steps are scaled
    by the curvature of the likelihood of equally likely rankings, fall like 1 / sqrt(sweep), and the answer is the mean
    over the last half of the sweeps (Polyak and Juditsky 1992).
    """
    n_items = rankings.n_items
    said_lists = lists_of_rankings(rankings)
    lists = strict_lists(rankings, seed)
    problem = Problem(lists, positions, pairs, n_items, precisions)
    said = _sums(statistics(said_lists, positions, pairs), said_lists, n_items)
    scale = _curvature(problem) + precisions.joined()
    start, point = problem.start, problem.start.joined()
    chains, strict = lists.orders.copy(), lists._replace(levels=_strict_levels(lists))
    mean, n_kept = np.zeros_like(point), 0
    while not monitor.exhausted:
        sweep = len(monitor.history)
        here = start.split(point)
        if not persistent:
            chains = lists.orders.copy()
        advance_chains(
            lists.indptr, lists.items, chains, here.items[lists.items], *positions, *pairs, here.pairs, SWAP,
            n_steps, stream_key(seed, sweep),
        )  # fmt: skip
        drawn = _sums(statistics(strict._replace(orders=chains), positions, pairs), lists, n_items)
        gradient = said - drawn - precisions.joined() * point
        point = point + gradient / (scale * np.sqrt(1.0 + sweep / _SLOWER_AFTER))
        if 2 * sweep >= monitor.max_iter:
            n_kept += 1
            mean += (point - mean) / n_kept
        # There is no objective to be had; how far the chains' statistics are from the data's is what is driven to 0.
        monitor.update(-float(np.sqrt(np.mean(gradient**2 / scale))))
    monitor.converged = not monitor.stopped
    return start.split(mean if n_kept else point)


# Sweeps until the steps have fallen to 1 / sqrt(2) of their first length.
_SLOWER_AFTER = 10.0


def _strict_levels(lists: Lists) -> Any:
    lengths = np.diff(lists.indptr)
    return (np.arange(lists.items.size) - np.repeat(lists.indptr[:-1], lengths)).astype(np.int32)


def _sums(found: tuple[Float64Array, Float64Array], lists: Lists, n_items: int) -> Float64Array:
    return Parameters(by_item(found[0], lists.items, n_items), found[1]).joined()


def _curvature(problem: Problem) -> Float64Array:
    """Diagonal of the information under equally likely rankings: Σ variance of g, and Σ weights for a pair."""
    lists, positions = problem.lists, problem.positions
    lengths = np.diff(lists.indptr)
    variance = np.zeros((positions.start.size, positions.table.shape[1]))
    for n in np.unique(lengths):
        variance[n] = positions.table[positions.start[n] : positions.start[n] + n].var(axis=0)
    weights = np.repeat(lists.weights, lengths)
    of_items = by_item(variance[np.repeat(lengths, lengths)] * weights[:, None], lists.items, problem.n_items)
    together = np.abs(statistics(_ascending(lists), positions, problem.pairs)[1])
    return Parameters(of_items, together).joined() + 1.0


def _ascending(lists: Lists) -> Lists:
    """The same lists with their items in ascending order: every pair has the sign + then."""
    levels = _strict_levels(lists)
    return lists._replace(orders=levels.astype(np.int64), levels=levels)
