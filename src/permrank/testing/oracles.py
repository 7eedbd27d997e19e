"""Slow, plain answers by enumeration, by differences or by mpmath.

Of any model that has a likelihood, `all_rankings` gives the whole distribution over the orders of a few items, and
`before` and `among_first` read answers off it. The others are the definitions of the models of this package, and share
no code with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from permrank.core.ranker import Ranker
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, UserId

Orders: TypeAlias = dict[tuple[UserId, ...], float]


def all_rankings(model: Ranker, user: UserId, items: Iterable[UserId]) -> Orders:
    """Probability of every order of some items, by the likelihood of a fitted model; n! of them.

    Parameters
    ----------
    model : Ranker
        A fitted model that answers `log_likelihood`.
    user : id
        A user that it knows.
    items : iterable of ids
        Few: seven are 5,040 orders.

    Returns
    -------
    dict
        Order to probability. If the model is a distribution over orders of these items, they add up to 1.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.testing import oracles
    >>> model = pr.PlackettLuce(prior="gamma").fit(pr.Rankings.from_lists({"u": ["a", "b", "c"], "v": ["b", "c"]}))
    >>> orders = oracles.all_rankings(model, "u", ["a", "b", "c"])
    >>> len(orders), round(sum(orders.values()), 12)
    (6, 1.0)
    >>> abs(oracles.before(orders, "a", "c") - model.prefers("u", "a", "c")) < 1e-9
    True
    """
    orders = list(itertools.permutations(items))
    lists = Rankings.from_lists([list(order) for order in orders], users=[user] * len(orders))
    return dict(zip(orders, np.exp(model.log_likelihood(lists)).tolist(), strict=True))


def before(orders: Mapping[tuple[UserId, ...], float], item: UserId, other: UserId) -> float:
    """Probability that an item comes before another, by enumeration: what `Ranker.prefers` says.

    Examples
    --------
    >>> from permrank.testing import oracles
    >>> oracles.before({("a", "b"): 0.75, ("b", "a"): 0.25}, "a", "b")
    0.75
    """
    return math.fsum(p for order, p in orders.items() if order.index(item) < order.index(other))


def among_first(orders: Mapping[tuple[UserId, ...], float], item: UserId, k: int) -> float:
    """Probability that an item is among the first ``k``, by enumeration: what `Ranker.top_probability` says.

    Examples
    --------
    >>> from permrank.testing import oracles
    >>> oracles.among_first({("a", "b"): 0.75, ("b", "a"): 0.25}, "b", 1)
    0.25
    """
    return math.fsum(p for order, p in orders.items() if item in order[:k])


def strict_probability(worths: Sequence[float]) -> float:
    """Plackett-Luce probability of the order in which the worths are given."""
    probability = 1.0
    for position in range(len(worths)):
        probability *= worths[position] / math.fsum(worths[position:])
    return probability


def blocks_of(levels: Sequence[int]) -> list[list[int]]:
    """Positions of a ranking grouped by level, best first."""
    return [[p for p, level in enumerate(levels) if level == wanted] for wanted in sorted(set(levels))]


def exact_probability(scores: Sequence[float], levels: Sequence[int]) -> float:
    """Sum of the probabilities of all orders that agree with the tie pattern."""
    worths = [math.exp(score) for score in scores]
    inside = [list(itertools.permutations(block)) for block in blocks_of(levels)]
    orders = (itertools.chain.from_iterable(choice) for choice in itertools.product(*inside))
    return math.fsum(strict_probability([worths[p] for p in order]) for order in orders)


def log_likelihood(scores: Sequence[float], levels: Sequence[int], ties: str) -> float:
    """log P of one ranking by the definition of each treatment of ties, for moderate scores."""
    if ties == "exact":
        return math.log(exact_probability(scores, levels))
    blocks, total = blocks_of(levels), 0.0
    for index, block in enumerate(blocks):
        left = [p for later in blocks[index:] for p in later]
        if len(left) == 1:
            continue
        m, inside = len(block), math.fsum(math.exp(scores[p]) for p in block)
        available = math.fsum(math.exp(scores[p]) for p in left)
        if ties == "partition":
            sizes = range(1, len(left) + 1)
            # Each item is in C(N - 1, k - 1) subsets of size k, and counts 1 / k there.
            normaliser = available * math.fsum(math.comb(len(left) - 1, k - 1) / k for k in sizes)
            total += math.log(inside / m) - math.log(normaliser)
            continue
        total += math.fsum(scores[p] for p in block)
        for j in range(m):
            total -= math.log(available - (inside * j / m if ties == "efron" else 0.0))
    return total


def compositions(n: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write n as a sum of positive integers: the tie patterns of n items."""
    if n == 0:
        yield ()
    for first in range(1, n + 1):
        for others in compositions(n - first):
            yield (first, *others)


def levels_of(sizes: Sequence[int]) -> list[int]:
    """Levels of a ranking with blocks of these sizes."""
    return [level for level, size in enumerate(sizes) for _ in range(size)]


def ordered_partitions(items: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to fill blocks of the given sizes; the order inside a block is that of the input."""
    if not sizes:
        yield ()
        return
    for block in itertools.combinations(items, sizes[0]):
        others = [item for item in items if item not in block]
        for filled in ordered_partitions(others, sizes[1:]):
            yield (*block, *filled)


def log_block_probability(log_rates: Sequence[float]) -> float:
    """log ∫_0^∞ e^{-x} Π (1 - e^{-a x}) dx by mpmath, over panels in log x that cover the integrand."""
    import mpmath

    with mpmath.workdps(20):
        rates = [mpmath.exp(mpmath.mpf(float(value))) for value in log_rates]

        def log_integrand(y: Any) -> Any:
            x = mpmath.exp(y)
            # -z where e^-z vanishes beside 1: log(1 - e^-z) = 0 to all digits kept
            return y - x + sum(mpmath.log(-mpmath.expm1(-a * x)) for a in rates if a * x < 60)

        grid = [mpmath.mpf(k) / 4 for k in range(-180, 4 * (5 + int(math.log(1 + len(rates)))))]
        values = [log_integrand(y) for y in grid]
        peak = max(values)
        alive = [y for y, value in zip(grid, values, strict=True) if value > peak - 50]
        low, high = alive[0] - mpmath.mpf(1) / 4, alive[-1] + mpmath.mpf(1) / 4
        panels = [low + (high - low) * k / 8 for k in range(9)]
        integral = mpmath.quad(lambda y: mpmath.exp(log_integrand(y) - peak), panels, method="gauss-legendre")
        return float(peak + mpmath.log(integral))


def stage_terms(order: Sequence[int], worths: Sequence[Sequence[float]]) -> list[list[float]]:
    """p_i^z of every stage, the last included: [stage][community]."""
    n_communities = len(worths[0])
    return [
        [worths[order[i]][z] / math.fsum(worths[j][z] for j in order[i:]) for z in range(n_communities)]
        for i in range(len(order))
    ]


def community_probability(
    order: Sequence[int], worths: Sequence[Sequence[float]], theta: Sequence[float], mixing: str
) -> float:
    """P(order | θ) by §3.2, stage by stage or list by list."""
    terms = stage_terms(order, worths)
    if mixing == "stage":
        return math.prod(math.fsum(t * p for t, p in zip(theta, row, strict=True)) for row in terms)
    return math.fsum(theta[z] * math.prod(row[z] for row in terms) for z in range(len(theta)))


def log_linear_energy(order: Sequence[int], unary: Array, basis: Array, pair: Array) -> float:
    """E(order) = -Σ_i γ·g(i) - Σ_{i<j} λ, term by term."""
    n = len(order)
    single = sum(float(unary[order[i]] @ basis[i]) for i in range(n))
    return -single - sum(float(pair[order[i], order[j]]) for i in range(n) for j in range(i + 1, n))


def log_linear_target(unary: Array, basis: Array, pair: Array) -> tuple[list[tuple[int, ...]], Float64Array, float]:
    """All rankings of a log-linear model with their probabilities, and log Z."""
    orders = list(itertools.permutations(range(len(unary))))
    weights = np.array([-log_linear_energy(order, unary, basis, pair) for order in orders])
    log_z = float(np.logaddexp.reduce(weights))
    return orders, np.exp(weights - log_z), log_z


def random_log_linear(
    n: int, n_functions: int, seed: int, scale: float = 0.6
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Coefficients, position functions and an antisymmetric table of pairs, at random."""
    rng = np.random.default_rng(seed)
    pair = scale * rng.normal(size=(n, n))
    return scale * rng.normal(size=(n, n_functions)), rng.normal(size=(n, n_functions)), pair - pair.T


def differences(function: Callable[[Array], float], point: Array, step: float = 1e-4) -> Float64Array:
    """Gradient of a function of an array, by central differences.

    Examples
    --------
    >>> import numpy as np
    >>> from permrank.testing import oracles
    >>> oracles.differences(lambda x: float(x @ x), np.array([1.0, 3.0])).round(6).tolist()
    [2.0, 6.0]
    """
    found = np.empty(point.size)
    for k in range(point.size):
        up, down = point.copy(), point.copy()
        up.flat[k] += step
        down.flat[k] -= step
        found[k] = (function(up) - function(down)) / (2 * step)
    return found
