"""Moves of a user's utilities: partial orders against enumeration of their linear extensions."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from permrank.families.thurstone.estimate import first_utilities
from permrank.families.thurstone.kernels.conditioning import (
    Population,
    _condition_factors,
    _condition_slots,
    conditional,
    draw_factors,
    factors_mean,
    factors_variance,
)
from permrank.families.thurstone.kernels.orders import Statements, depths
from permrank.families.thurstone.kernels.users import Rounds, move_users
from permrank.ragged import frozen
from permrank.randomness import stream_key

# Rankings of one person, levels by |: pairs, a chain with ties, several lists, an order with two minima.
ORDERS = {
    "a chain": ["0|1|2|3"],
    "ties": ["0,1|2|3,4"],
    "pairs": ["0|1", "2|3", "0|3", "4|1"],
    "two lists": ["0|1|2", "3|1,4", "5|2"],
    "nothing but items": ["0", "1", "2,3"],
}


def parsed(texts):
    return [[(int(item), level) for level, part in enumerate(t.split("|")) for item in part.split(",")] for t in texts]


def statements(texts, n_users, one_draw=True):
    """The same rankings said by many people."""
    lists = parsed(texts)
    n_items = 1 + max(item for entries in lists for item, _ in entries)
    items = [item for entries in lists for item, _ in entries]
    order = list(dict.fromkeys(items))  # slots in the order of mention
    slots = [order.index(item) for item in items]
    lengths = [len(entries) for entries in lists]
    indptr = np.concatenate(([0], np.cumsum(np.tile(lengths, n_users))))
    said = Statements(
        *frozen(
            np.arange(n_users + 1) * len(lists), indptr,
            np.tile([level for entries in lists for _, level in entries], n_users).astype(np.int32),
            np.tile(slots, n_users).astype(np.int32), np.arange(n_users + 1) * n_items,
            np.tile(order, n_users).astype(np.int32), np.full(n_items * n_users, -1, np.int32),
        ),
        one_draw,
    )  # fmt: skip
    return said, np.array(order)


def agrees(order, texts):
    place = np.argsort(order)
    return all(place[a] < place[b] for entries in parsed(texts) for a, la in entries for b, lb in entries if la < lb)


def people(said, population, n_sweeps, n_scans=1):
    """Utilities of all users after some sweeps of moves, with the slots as columns."""
    n_users = said.user_indptr.size - 1
    depth = np.zeros(said.slot_items.size, np.int64)
    depths(said, depth)
    x = first_utilities(depth, said.slot_indptr)
    size = population.theta.shape[3] - 1
    draws, means = np.zeros((2, 1, n_users, size))
    centres = np.insert(draws, size, 1.0, axis=2)
    state = np.zeros((1, n_users), np.int64), draws, means, np.empty((1, x.size))
    rounds = Rounds(n_sweeps - 1, 1, n_scans)
    move_users(said, population, centres, rounds, stream_key(11), np.uint64(0), x[None], *state)
    return x.reshape(n_users, -1)


def populated(n_items, n_factors=2, seed=4, flip=0.0):
    rng = np.random.default_rng(seed)
    theta = 0.7 * rng.normal(size=(1, 1, n_items, n_factors + 1))
    variances = rng.uniform(0.5, 1.5, (1, 1, n_items))
    return Population(theta, variances, np.zeros((1, 1)), np.zeros((1, 0)), np.array([flip]))


def order_shares(population, n, size=400_000):
    """Shares of all orders of n items in the population, by simulation without any constraint."""
    rng = np.random.default_rng(99)
    theta, k = population.theta[0, 0], population.theta.shape[3] - 1
    x = theta[:, k] + rng.normal(size=(size, k)) @ theta[:, :k].T
    x += rng.normal(size=x.shape) * np.sqrt(population.variances[0, 0])
    codes = np.argsort(-x, axis=1) @ (n ** np.arange(n))
    return dict(zip(*np.unique(codes, return_counts=True), strict=True))


def order_test(texts, population, wanted, n_users=3000):
    """p-value of the orders drawn given what is said against the population's orders that agree with ``wanted``."""
    said, slots = statements(texts, n_users)
    n = slots.size
    x = np.empty((n_users, n))
    x[:, slots] = people(said, population, 25)
    drawn = np.argsort(-x, axis=1) @ (n ** np.arange(n))
    shares = order_shares(population, n)
    allowed = [np.array(o) @ (n ** np.arange(n)) for o in permutations(range(n)) if agrees(np.array(o), wanted)]
    expected = np.array([shares.get(code, 0) for code in allowed], float)
    observed = np.array([np.count_nonzero(drawn == code) for code in allowed], float)
    expected *= observed.sum() / expected.sum()
    rare = expected < 5
    if rare.any():
        observed, expected = (np.append(v[~rare], v[rare].sum()) for v in (observed, expected))
    # Both are samples: that of the population is so large that its noise adds little.
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue, drawn, allowed


@pytest.mark.parametrize("n_factors", [2, 7])  # more and fewer slots than factors have forms of their own
@pytest.mark.parametrize("name", ORDERS)
def test_orders_given_what_is_said_are_those_of_the_population(name, n_factors):
    texts = ORDERS[name]
    population = populated(1 + max(item for entries in parsed(texts) for item, _ in entries), n_factors)
    p, drawn, allowed = order_test(texts, population, texts)
    assert np.isin(drawn, allowed).all()
    assert p > 1e-4 or len(allowed) == 1


def test_orders_of_another_population_are_told_apart():
    texts = ORDERS["pairs"]
    population = populated(5)
    said, slots = statements(texts, 3000)
    wrong = population._replace(theta=-population.theta)  # worse is better
    x = np.empty((3000, 5))
    x[:, slots] = people(said, wrong, 25)
    drawn = np.argsort(-x, axis=1) @ (5 ** np.arange(5))
    shares = order_shares(population, 5)
    allowed = [np.array(o) @ (5 ** np.arange(5)) for o in permutations(range(5)) if agrees(np.array(o), texts)]
    expected = np.array([shares.get(code, 0) for code in allowed], float)
    observed = np.array([np.count_nonzero(drawn == code) for code in allowed], float)
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue < 1e-6


def test_contradicting_answers_are_weighed_by_the_probability_of_a_flip():
    texts, flip, n_users = ["0|1", "1|2", "2|0", "0|1|2"], 0.2, 4000
    population = populated(3, flip=flip)
    said, slots = statements(texts, n_users)
    assert depths(said, np.zeros(said.slot_items.size, np.int64)).all()
    x = np.empty((n_users, 3))
    x[:, slots] = people(said, population, 25)
    drawn = np.argsort(-x, axis=1) @ (3 ** np.arange(3))
    shares, expected, observed = order_shares(population, 3), [], []
    for order in permutations(range(3)):
        place, code = np.argsort(order), np.array(order) @ (3 ** np.arange(3))
        answers = [(0, 1), (1, 2), (2, 0), (0, 1), (1, 2)]
        flips = sum(place[a] > place[b] for a, b in answers)
        expected.append(shares.get(code, 0) * flip**flips * (1 - flip) ** (len(answers) - flips))
        observed.append(np.count_nonzero(drawn == code))
    expected, observed = np.array(expected), np.array(observed, float)
    assert stats.chisquare(observed, expected * n_users / expected.sum()).pvalue > 1e-4
    tempered = expected**0.7
    assert stats.chisquare(observed, tempered * n_users / tempered.sum()).pvalue < 1e-6


def test_consistent_answers_have_no_cycle():
    for texts in ORDERS.values():
        said, _ = statements(texts, 2)
        depth = np.zeros(said.slot_items.size, np.int64)
        assert not depths(said, depth).any()
        x = first_utilities(depth, said.slot_indptr)[: depth.size // 2]
        order = said.slot_items[: x.size][np.argsort(-x, kind="stable")]
        assert agrees(order, texts)


def test_both_forms_of_the_conditional_distribution_are_that_of_the_joint_one():
    rng = np.random.default_rng(8)
    for n, k in ((4, 6), (6, 3)):
        loads, variance, residual = rng.normal(size=(n, k)), rng.uniform(0.2, 2.0, n), rng.normal(size=n)
        covariance = loads @ loads.T + np.diag(variance)
        precision, x = np.linalg.inv(covariance), residual + 3.0
        mean = loads.T @ precision @ residual
        direction = rng.normal(size=k)
        spread = direction @ (np.eye(k) - loads.T @ precision @ loads) @ direction
        for form in (_condition_slots, _condition_factors):
            given, value = form(loads, variance, residual.copy())
            expected = stats.multivariate_normal(np.zeros(n), covariance).logpdf(residual)
            np.testing.assert_allclose(value, expected, rtol=1e-10)
            found = np.array([conditional(given, x, s) for s in range(n)])
            np.testing.assert_allclose(found[:, 0], x - precision @ residual / np.diag(precision), rtol=1e-9)
            np.testing.assert_allclose(found[:, 1], np.diag(precision) ** -0.5, rtol=1e-9)
            told = np.empty(k)
            factors_mean(given, told)
            np.testing.assert_allclose(told, mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(factors_variance(given, direction.copy()), spread, rtol=1e-8)
            drawn = np.empty((4000, k))
            for i in range(len(drawn)):
                draw_factors(given, stream_key(2, i), np.uint64(0), drawn[i])
            z = (drawn @ direction - mean @ direction) / np.sqrt(spread)
            assert stats.kstest(z, "norm").pvalue > 1e-4
