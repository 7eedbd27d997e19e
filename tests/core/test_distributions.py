"""Distributions over rankings against enumeration of all orders; nothing is fitted here.

Every case comes with a weight of an order that shares no code with the library.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from bounded import at_most
from permrank.core.distribution import RankingDistribution
from permrank.core.luce import LuceMixture
from permrank.errors import InputError
from permrank.families.baselines.uniform import Uniform
from permrank.families.factored.damped import DampedLuce
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, EFRON
from permrank.families.latent.law import Communities
from permrank.families.log_linear.law import LogLinear, Question
from permrank.families.mallows.kernels.mallows import precedence
from permrank.families.mallows.law import MallowsMixture
from permrank.families.thurstone.law import NormalUtilities
from permrank.kernels.luce.ranks import rank_distributions

N = 4
RNG = np.random.default_rng(7)
SCORES = RNG.normal(size=(3, N))
DAMPING = np.array([0.9, 0.6, 0.3, 0.1])
WORTHS = np.exp(RNG.normal(size=(2, 3, N)) - 2.0)
THETA = RNG.dirichlet(np.ones(3), size=2)
CENTRES, DISPERSIONS, SHARES = (
    np.array([[2, 0, 5, 1, 4, 3], [1, 4, 3, 0, 2, 5]]),
    np.array([0.7, 0.3]),
    np.array([0.6, 0.4]),
)
ASKED = np.array([4, 0, 3, 2])
UNARY, BASIS = RNG.normal(size=(2, N + 2, 1)), np.linspace(1.0, -1.0, N + 2)[:, None]
PAIR = RNG.normal(size=(N + 2, N + 2))
PAIR = PAIR - PAIR.T


def luce_law(order):
    return np.mean(
        [
            math.prod(math.exp(s[y]) / sum(math.exp(s[x]) for x in order[i:]) for i, y in enumerate(order))
            for s in SCORES
        ]
    )


def damped_law(order):
    def one(s):
        stages = ((DAMPING[i], y, order[i:]) for i, y in enumerate(order))
        return math.prod(math.exp(r * s[y]) / sum(math.exp(r * s[x]) for x in rest) for r, y, rest in stages)

    return np.mean([one(s) for s in SCORES])


def choice(worths, order, i):
    return worths[:, order[i]] / worths[:, list(order[i:])].sum(axis=1)


def by_stage_law(order):
    return np.mean(
        [math.prod(theta @ choice(w, order, i) for i in range(N)) for w, theta in zip(WORTHS, THETA, strict=True)]
    )


def by_list_law(order):
    each = [
        theta @ np.prod([choice(w, order, i) for i in range(N)], axis=0) for w, theta in zip(WORTHS, THETA, strict=True)
    ]
    return np.mean(each)


def kendall(a, b):
    place = {y: i for i, y in enumerate(b)}
    return sum(place[x] > place[y] for x, y in itertools.combinations(a, 2))


def mallows_law(order):
    """Sum over the orders of all six items that agree."""
    asked, total = [int(ASKED[y]) for y in order], 0.0
    for centre, theta, share in zip(CENTRES.tolist(), DISPERSIONS, SHARES, strict=True):
        weights = {every: math.exp(-theta * kendall(every, centre)) for every in itertools.permutations(range(6))}
        agree = sum(w for every, w in weights.items() if [y for y in every if y in asked] == asked)
        total += share * agree / sum(weights.values())
    return total


def weight(order, unary, pair):
    """e^{-E} of an order of items with these coefficients."""
    value = sum(unary[y, 0] * BASIS[i, 0] for i, y in enumerate(order))
    return math.exp(value + sum(pair[x, y] for x, y in itertools.combinations(order, 2)))


def log_linear_law(order, n_context=2):
    """Items N and N + 1 stand in this order among the others."""
    total = 0.0
    for unary in UNARY:
        every = [each for each in itertools.permutations(range(N + 2)) if each.index(N) < each.index(N + 1)]
        agree = [each for each in every if [y for y in each if y < N] == list(order)]
        total += sum(weight(each, unary, PAIR) for each in agree) / sum(weight(each, unary, PAIR) for each in every)
    return total / len(UNARY)


def log_linear():
    return LogLinear([Question(u[:N].copy(), u[N:].copy(), BASIS, PAIR.copy()) for u in UNARY], 2)


def mallows():
    table = np.stack([precedence(theta, 6) for theta in DISPERSIONS])
    gap = np.arange(6)[None, :] - np.arange(6)[:, None]
    table = np.where(gap > 0, table[:, np.abs(gap)], 1.0 - table[:, np.abs(gap)])
    return MallowsMixture(ASKED, SHARES, CENTRES, DISPERSIONS, table, kendall=True)


class Plain(RankingDistribution):
    """Supplies what every distribution must, and takes all else from the base."""

    n_items = N

    def _sample(self, size, seed):
        return LuceMixture(SCORES).sample(size, seed)

    def _log_probability(self, order):
        return math.log(luce_law(tuple(order)))


CASES = {
    "Plackett-Luce mixture": (LuceMixture(SCORES), luce_law),
    "damped": (DampedLuce(SCORES, DAMPING), damped_law),
    "communities by stage": (Communities(WORTHS, THETA, BY_STAGE, EFRON), by_stage_law),
    "communities by list": (Communities(WORTHS, THETA, BY_LIST, EFRON), by_list_law),
    "Mallows": (mallows(), mallows_law),
    "log-linear": (log_linear(), log_linear_law),
    "uniform": (Uniform(N), lambda order: 1 / math.factorial(N)),
    "base": (Plain(), luce_law),
}
ORDERS = list(itertools.permutations(range(N)))
# What is a mean over draws: 4,096 of them, five standard errors.
DRAWN = {
    ("Mallows", "top"),
    ("damped", "prefers"),
    ("communities by stage", "prefers"),
    ("base", "top"),
    ("base", "prefers"),
}


@pytest.fixture(params=CASES)
def case(request):
    distribution, law = CASES[request.param]
    return request.param, distribution, {order: law(order) for order in ORDERS}


def tolerance(name, question):
    return 0.04 if (name, question) in DRAWN else 1e-9


def test_the_probabilities_of_all_orders_are_those_of_the_law(case):
    _, distribution, law = case
    np.testing.assert_allclose(sum(law.values()), 1, rtol=1e-12)
    found = [math.exp(distribution.log_probability(order)) for order in ORDERS]
    np.testing.assert_allclose(found, list(law.values()), rtol=1e-9)


def test_pairs_are_sums_over_orders(case):
    name, distribution, law = case
    for first, second in itertools.permutations(range(N), 2):
        wanted = sum(p for order, p in law.items() if order.index(first) < order.index(second))
        assert abs(distribution.prefers(first, second) - wanted) < tolerance(name, "prefers")


def test_first_ranks_are_sums_over_orders(case):
    name, distribution, law = case
    for k in (1,) if name == "damped" else range(1, N + 1):
        wanted = [sum(p for order, p in law.items() if item in order[:k]) for item in range(N)]
        np.testing.assert_allclose(distribution.top(k), wanted, rtol=0, atol=tolerance(name, "top"))
    assert name == "damped" or distribution.top(9).tolist() == pytest.approx([1.0] * N)


def test_an_item_enters_where_the_law_of_the_longer_list_has_it(case):
    name, distribution, law = case
    levels = np.arange(N - 1, dtype=np.int32)
    orders = [tuple(np.insert(np.arange(N - 1), j, N - 1).tolist()) for j in range(N)]
    if name == "log-linear":  # a list has nothing beside it
        alone = LogLinear([Question(u[:N].copy(), u[:0].copy(), BASIS[:N], PAIR[:N, :N].copy()) for u in UNARY], 2)
        with pytest.raises(InputError, match="give all items of the list"):
            distribution.enter(levels)
        distribution = alone
        each = [[weight(order, u, PAIR) for order in orders] for u in UNARY]
    elif name in ("Plackett-Luce mixture", "damped"):  # components are averaged after the list is given
        scores = [LuceMixture(s[None]) if name[0] == "P" else DampedLuce(s[None], DAMPING) for s in SCORES]
        each = [[math.exp(one.log_probability(order)) for order in orders] for one in scores]
    elif name == "communities by list":  # θ is what is known of the community after the list
        parts = [(w[z : z + 1], share) for w, t in zip(WORTHS, THETA, strict=True) for z, share in enumerate(t)]
        alone = [(Communities(w[None], np.ones((1, 1)), BY_LIST, EFRON), share) for w, share in parts]
        rows = [np.exp([one.log_probability(order) for order in orders]) for one, _ in alone]
        each = [sum(share * row / row.sum() for row, (_, share) in zip(rows, alone, strict=True)) / len(WORTHS)]
    elif name == "communities by stage":
        fits = [Communities(w[None], t[None], distribution.mixing, EFRON) for w, t in zip(WORTHS, THETA, strict=True)]
        each = [[math.exp(fit.log_probability(order)) for order in orders] for fit in fits]
    else:
        each = [[law[order] for order in orders]]
    wanted = np.mean([np.array(row) / sum(row) for row in each], axis=0)
    found = distribution.enter(levels)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-12)


def test_samples_follow_the_law_and_the_same_seed_gives_the_same_rows(case):
    name, distribution, law = case
    rows = distribution.sample(6_000, seed=3)
    assert rows.shape == (6_000, N)
    np.testing.assert_array_equal(rows[:50], distribution.sample(6_000, seed=3)[:50])
    place = {order: index for index, order in enumerate(ORDERS)}
    counts = np.bincount([place[tuple(row)] for row in rows.tolist()], minlength=len(ORDERS))
    wanted = np.array(list(law.values()))
    assert chisquare(counts, wanted * counts.sum()).pvalue > 1e-4
    # The control: another law is noticed.
    other = np.array([law[order[::-1]] for order in ORDERS]) * 0.5 + 0.5 * np.roll(wanted, 1)
    assert name == "uniform" or chisquare(counts, other * counts.sum()).pvalue < 1e-6
    assert distribution.sample(0).shape == (0, N)


def test_quantiles_of_ranks_are_those_of_the_law(case):
    _, distribution, law = case
    probabilities = np.array([0.05, 0.5, 0.95])
    found = distribution.rank_quantiles(np.arange(N), probabilities)
    assert found.shape == (N, 3)
    for item in range(N):
        cdf = np.cumsum([sum(p for order, p in law.items() if order[r] == item) for r in range(N)])
        for q, quantile in zip(probabilities, found[item], strict=True):
            # Of 512 draws: the true probabilities on both sides, give or take five standard errors.
            assert cdf[quantile] > q - 0.11
            assert quantile == 0 or cdf[quantile - 1] < q + 0.11
    assert distribution.rank_quantiles(np.zeros(0, np.int64), probabilities).shape == (0, 3)


def test_ranks_that_are_counted_are_those_of_the_rankings_drawn():
    scores = np.random.default_rng(3).normal(size=(5, 90))
    several, chosen = LuceMixture(scores), np.array([3, 80, 41])
    found = several._sample_ranks(chosen, 40)
    orders = several.sample(40, seed=0)
    np.testing.assert_array_equal(found, [[order.tolist().index(item) for item in chosen] for order in orders])
    assert (found != LuceMixture(scores[::-1])._sample_ranks(chosen, 40)).any()  # the control: other draws
    every = several._sample_ranks(np.arange(90), 40)  # sorted, for there are many
    np.testing.assert_array_equal(every[:, chosen], found)


def test_ranks_of_one_component_are_exact():
    one = LuceMixture(SCORES[:1])
    found = one.rank_quantiles(np.arange(N), np.array([0.25, 0.9]))
    law = {order: math.exp(one.log_probability(order)) for order in ORDERS}
    for item in range(N):
        cdf = np.cumsum([sum(p for order, p in law.items() if order[r] == item) for r in range(N)])
        assert found[item].tolist() == [int(np.argmax(cdf >= 0.25)), int(np.argmax(cdf >= 0.9))]


def test_an_interval_of_ranks_holds_what_it_says_and_is_no_wider_than_equal_tails():
    rng, narrower = np.random.default_rng(8), 0
    for spread in (0.3, 1.0, 3.0):
        scores = spread * rng.normal(size=(1, 6))
        law, items = LuceMixture(scores), np.arange(6)
        chances = rank_distributions(scores[0], items)
        found, tails = law.rank_interval(items, 0.8), law.rank_quantiles(items, [0.1, 0.9])
        held = [chance[low : high + 1].sum() for chance, (low, high) in zip(chances, found, strict=True)]
        assert min(held) > 0.8 - 1e-9
        assert (np.diff(found) <= np.diff(tails)).all()
        narrower += np.sum(np.diff(found) < np.diff(tails))
    assert narrower > 0
    assert law.rank_interval([], 0.8).shape == (0, 2)
    with pytest.raises(InputError, match=r"probability=1\.0, expected a number between 0 and 1"):
        law.rank_interval(items, 1.0)


def test_what_is_no_order_of_the_items_is_refused(case):
    _, distribution, _ = case
    for wrong in ([0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4]):
        with pytest.raises(InputError, match="expected the indices 0 to 3"):
            distribution.log_probability(wrong)


def test_all_orders_of_a_tie_are_summed_over():
    levels, law = np.array([0, 1, 1], np.int32), {order: mallows_law(order) for order in ORDERS}
    agree = [order for order in ORDERS if order.index(0) < min(order.index(1), order.index(2))]
    wanted = np.array([sum(law[order] for order in agree if order.index(3) == j) for j in range(N)])
    np.testing.assert_allclose(mallows().enter(levels), wanted / wanted.sum(), rtol=1e-9)
    mixed = sum(luce_law(order) for order in agree if order.index(3) == 2) / sum(luce_law(order) for order in agree)
    np.testing.assert_allclose(Plain().enter(levels)[2], mixed, rtol=1e-9)
    with pytest.raises(InputError, match="too many orders"):
        RankingDistribution._enter(Uniform(9), np.zeros(8, np.int32))


def test_what_has_no_answer_under_damping_is_refused():
    with pytest.raises(InputError, match="strict order"):
        DampedLuce(SCORES, DAMPING).enter(np.zeros(N - 1, np.int32))
    with pytest.raises(InputError, match="only k=1"):
        DampedLuce(SCORES, DAMPING).top(2)


def test_arguments_that_make_no_sense_are_named_before_a_kernel_sees_them(case):
    _, distribution, _ = case
    for ask, words in (
        (lambda d: d.prefers(0, N), f"second={N}, expected an index from 0 to {N - 1}"),
        (lambda d: d.prefers(-1, 0), "first=-1"),
        (lambda d: d.prefers(0.5, 0), "first=0.5"),
        (lambda d: d.top(0), "k=0"),
        (lambda d: d.enter([0, 1]), r"levels has shape \(2,\), expected 3 whole numbers"),
        (lambda d: d.enter([1, 0, 2]), "that do not decrease"),
        (lambda d: d.enter([0.0, 1.0, 2.0]), "whole numbers"),
        (lambda d: d.sample(-1), "size=-1"),
        (lambda d: d.sample(1, seed=-1), "seed=-1"),
        (lambda d: d.rank_quantiles([70_000], [0.5]), "chosen=.*, expected indices from 0 to 3"),
        (lambda d: d.rank_quantiles([0], [1.5]), "probabilities=.*, expected numbers between 0 and 1"),
    ):
        with pytest.raises(InputError, match=words):
            ask(distribution)
    assert distribution.prefers(2, 2) == 0.5
    assert distribution.rank_quantiles([0, 1], [0.5]).shape == (2, 1)


def test_a_spearman_model_knows_complete_orders_only():
    table = np.full((2, 6, 6), 0.5)
    parts = SHARES, CENTRES, DISPERSIONS, table
    whole = MallowsMixture(np.arange(6), *parts, kendall=False)
    total = sum(math.exp(whole.log_probability(order)) for order in itertools.permutations(range(6)))
    np.testing.assert_allclose(total, 1, rtol=1e-9)
    with pytest.raises(InputError, match="an order of 4 of 6 items has no known probability"):
        MallowsMixture(ASKED, *parts, kendall=False).log_probability([0, 1, 2, 3])


@pytest.mark.parametrize(
    "distribution",
    [
        lambda n: Communities(np.full((2, 3, n), 0.5), np.full((2, 3), 1 / 3), BY_STAGE, EFRON),
        lambda n: DampedLuce(np.zeros((2, n)), np.ones(n)),
        lambda n: LogLinear([Question(np.zeros((n, 1)), np.zeros((0, 1)), np.zeros((n, 1)), np.zeros((0, 0)))], 5),
    ],
)
def test_what_draws_of_a_catalogue_would_take_hours_for_is_refused_with_its_size(distribution):
    with (
        at_most(2**30),
        pytest.raises(InputError, match=r"drawn rankings of 20,000 items, .* minutes; ask about fewer"),
    ):
        distribution(20_000).prefers(3, 4)


def test_draws_of_a_catalogue_are_looked_at_in_blocks():
    n, first = 20_000, 8.0
    utilities = NormalUtilities(np.where(np.arange(n) == 5, first, 0.0)[None], np.ones((1, n)))
    with at_most(1.2 * 2**30):  # all draws at once are 3 arrays of 655 MB, and one of 328
        top = utilities.top(1)
    np.testing.assert_allclose([top[5], top.sum()], 1.0, rtol=0, atol=0.01)  # 4 standard deviations above the best


def test_blocks_of_draws_are_draws(monkeypatch):
    monkeypatch.setattr("permrank.core.distribution._BLOCK", 100 * N)
    found = Communities(WORTHS, THETA, BY_STAGE, EFRON)
    orders = list(itertools.permutations(range(N)))
    law = {order: math.exp(found.log_probability(order)) for order in orders}
    exact = sum(p for order, p in law.items() if order.index(0) < order.index(1))
    assert abs(found.prefers(0, 1) - exact) < 5 * 0.5 / math.sqrt(40_000)
    first = [sum(p for order, p in law.items() if order[0] == item) for item in range(N)]
    np.testing.assert_allclose(RankingDistribution._top(found, 1), first, rtol=0, atol=5 * 0.5 / math.sqrt(40_000))
