"""Communities: likelihood and sums against plain Python by the definition (§3.2), draws, memberships."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from laws import p_value
from permrank.families.latent.kernels.membership import (
    given_log_likelihoods,
    integrated_log_likelihoods,
    latent_rankings,
    memberships,
    top_by_subsets,
)
from permrank.families.latent.kernels.stages import (
    BRESLOW,
    BY_LIST,
    BY_STAGE,
    EFRON,
    Rules,
    latent_statistics,
    worth_table,
)
from permrank.kernels.lists import Lists
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.testing.oracles import community_probability as probability
from permrank.testing.oracles import stage_terms
from threads import by_threads

MIXING = {"stage": BY_STAGE, "list": BY_LIST}


def tables(seed, n, n_communities):
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(size=(n, n_communities))), rng.dirichlet(np.ones(n_communities))


def statistics(orders, worths, thetas, mixing, levels=None, weights=None, ties=EFRON):
    """`latent_statistics` with one list a user."""
    indptr = np.cumsum([0, *map(len, orders)])
    items = np.concatenate(orders).astype(np.int32)
    levels = np.concatenate([np.arange(len(o)) for o in orders]) if levels is None else np.concatenate(levels)
    weights = np.ones(len(orders)) if weights is None else np.asarray(weights, float)
    users = np.arange(len(orders) + 1)
    ones = np.ones(len(orders))
    bounds = np.array([0, len(orders) // 2, len(orders)])
    lists = Lists(*frozen(users, indptr, items, levels.astype(np.int32), weights))
    value, counts, chosen, available = latent_statistics(
        bounds, lists, ones, worths, np.array(thetas), Rules(ties, MIXING[mixing])
    )
    return value, counts, chosen.sum(axis=0), available.sum(axis=0)


@pytest.mark.parametrize("mixing", ["stage", "list"])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_likelihood_is_the_definition_and_adds_up_to_one_over_all_orders(mixing, n):
    worths, theta = tables(n, n, 3)
    orders = [np.array(order) for order in itertools.permutations(range(n))]
    value, _, _, _ = statistics(orders, worths, [theta] * len(orders), mixing)
    wanted = [math.log(probability(order, worths, theta, mixing)) for order in orders]
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(value).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_the_sums_for_the_m_step_are_those_of_the_definition(mixing):
    worths, _ = tables(1, 7, 3)
    rng = np.random.default_rng(2)
    orders = [rng.permutation(7)[:n] for n in (2, 4, 7, 1, 5)]
    thetas = rng.dirichlet(np.ones(3), size=5)
    weights = [1.0, 2.0, 0.5, 1.0, 3.0]
    _, counts, chosen, available = statistics(orders, worths, thetas, mixing, weights=weights)
    wanted_counts, wanted_chosen, wanted_available = np.zeros((5, 3)), np.zeros((7, 3)), np.zeros((7, 3))
    for u, order in enumerate(orders):
        terms = stage_terms(order, worths)
        posterior = [thetas[u][z] * math.prod(row[z] for row in terms) ** weights[u] for z in range(3)]
        posterior = [p / sum(posterior) for p in posterior]
        for i in range(len(order) - 1):
            q = [t * p for t, p in zip(thetas[u], terms[i], strict=True)]
            q = [x / sum(q) for x in q] if mixing == "stage" else posterior
            for z in range(3):
                wanted_counts[u, z] += weights[u] * q[z]
                wanted_chosen[order[i], z] += weights[u] * q[z]
                for j in order[i:]:
                    wanted_available[j, z] += weights[u] * q[z] * terms[i][z] / worths[order[i]][z]
        if mixing == "list":
            wanted_counts[u] = posterior
    np.testing.assert_allclose(counts, wanted_counts, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(chosen, wanted_chosen, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(available, wanted_available, rtol=1e-12, atol=1e-15)


def test_two_lists_of_a_user_share_the_one_community_of_the_user():
    worths, theta = tables(3, 5, 2)
    first, second = (0, 3, 1), (4, 2)
    items, levels = np.array(first + second, np.int32), np.array([0, 1, 2, 0, 1], np.int32)
    lists = Lists(*frozen(np.array([0, 2]), np.array([0, 3, 5]), items, levels, np.ones(2)))
    for name, code in MIXING.items():
        value, _, _, _ = latent_statistics(np.array([0, 1]), lists, np.ones(1), worths, theta[None], Rules(EFRON, code))
        if name == "stage":
            wanted = probability(first, worths, theta, name) * probability(second, worths, theta, name)
        else:
            corners = np.eye(2)
            wanted = sum(
                theta[z] * probability(first, worths, corners[z], name) * probability(second, worths, corners[z], name)
                for z in range(2)
            )
        np.testing.assert_allclose(value[0], math.log(wanted), rtol=1e-12)


@pytest.mark.parametrize("ties", [EFRON, BRESLOW])
@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_the_order_in_which_tied_items_are_stored_does_not_matter(ties, mixing):
    worths, theta = tables(4, 6, 3)
    levels = [np.array([0, 1, 1, 1, 2, 2])]
    expected = None
    for inner in itertools.permutations([1, 2, 3]):
        for last in ([4, 5], [5, 4]):
            found = statistics([np.array([0, *inner, *last])], worths, [theta], mixing, levels=levels, ties=ties)
            expected = expected or found
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13)


def test_tied_denominators_are_those_of_breslow_and_the_mean_of_efron():
    worths = np.array([[2.0], [3.0], [5.0]])
    orders, levels = [np.array([0, 1, 2])], [np.array([0, 0, 1])]
    for ties, share in ((BRESLOW, 1.0), (EFRON, 0.75)):
        value, _, _, available = statistics(orders, worths, [[1.0]], "stage", levels=levels, ties=ties)
        denominator = 5.0 + share * 5.0
        np.testing.assert_allclose(value[0], math.log(2 * 3 / denominator**2), rtol=1e-14)
        np.testing.assert_allclose(available[:, 0], np.array([share, share, 1.0]) * 2 / denominator, rtol=1e-14)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_the_bits_are_the_same_for_one_thread_and_two(mixing):
    rng = np.random.default_rng(5)
    orders = [rng.permutation(30)[: rng.integers(1, 20)] for _ in range(400)]
    worths, _ = tables(5, 30, 5)
    thetas = rng.dirichlet(np.ones(5), size=400)
    for one, other in zip(*by_threads(lambda: statistics(orders, worths, thetas, mixing)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_long_lists_of_very_unequal_worths_stay_finite():
    scores = np.random.default_rng(6).normal(scale=60.0, size=(800, 2))
    worths = worth_table(scores)
    order = np.random.default_rng(7).permutation(800)
    for mixing in MIXING:
        value, counts, _, available = statistics([order], worths, [[0.5, 0.5]], mixing)
        assert np.isfinite(value).all()
        assert np.isfinite(counts).all()
        assert np.isfinite(available).all()


def test_the_membership_with_items_fixed_is_the_maximum_of_its_objective():
    worths, _ = tables(8, 9, 3)
    rng = np.random.default_rng(9)
    order, prior = rng.permutation(9), np.array([0.5, 1.0, 0.2])
    listed, levels = order.astype(np.int32), np.arange(9, dtype=np.int32)
    lists = Lists(*frozen(np.array([0, 1]), np.array([0, 9]), listed, levels, np.ones(1)))
    theta = memberships(lists, worths, prior, Rules(EFRON, BY_STAGE), 5000, 1e-13)[0]

    def objective(point):
        return math.log(probability(order, worths, point, "stage")) + float(prior @ np.log(point))

    for _ in range(200):
        near = theta * np.exp(0.02 * rng.normal(size=3))
        assert objective(near / near.sum()) <= objective(theta) + 1e-12
    posterior = memberships(lists, worths, prior, Rules(EFRON, BY_LIST), 1, 1.0)[0]
    joint = prior / prior.sum() * [probability(order, worths, row, "list") for row in np.eye(3)]
    np.testing.assert_allclose(posterior, joint / joint.sum(), rtol=1e-12)


def integral_by_assignments(order, worths, prior):
    """∫ Π_i Σ_z θ_z p_i^z Dir(θ | prior) dθ: the sum over the communities of all stages, by Pólya's urn."""
    terms = stage_terms(order, worths)[:-1]
    total = 0.0
    for communities in itertools.product(range(len(prior)), repeat=len(terms)):
        counts, weight = list(prior), 1.0
        for row, z in zip(terms, communities, strict=True):
            weight *= counts[z] / math.fsum(counts) * row[z]
            counts[z] += 1
        total += weight
    return total


def test_the_integral_over_memberships_is_met_within_its_error_and_missed_with_another_prior():
    worths, _ = tables(10, 5, 3)
    prior = np.array([0.4, 0.8, 0.3])
    orders = np.array(list(itertools.permutations(range(5)))[:40], np.int32)
    indptr, levels = np.arange(0, 201, 5), np.tile(np.arange(5, dtype=np.int32), 40)
    arrays = *frozen(indptr, orders.ravel(), levels), worths
    wanted = np.log([integral_by_assignments(order, worths, prior) for order in orders])
    found = integrated_log_likelihoods(*arrays, prior, EFRON, BY_STAGE, 4000, stream_key(0))
    distances = (found[:, 0] - wanted) / found[:, 1]
    assert found[:, 1].max() < 0.02
    # 40 independent distances of one standard error: chi-square, with a control that must fail.
    assert chi2.sf(np.sum(distances**2), 40) > 1e-4
    other = integrated_log_likelihoods(*arrays, 8 * prior, EFRON, BY_STAGE, 4000, stream_key(0))
    assert chi2.sf(np.sum(((other[:, 0] - wanted) / other[:, 1]) ** 2), 40) < 1e-6
    exact = integrated_log_likelihoods(*arrays, prior, EFRON, BY_LIST, 1, stream_key(0))
    by_list = [probability(order, worths, prior / prior.sum(), "list") for order in orders]
    np.testing.assert_allclose(exact[:, 0], np.log(by_list), rtol=1e-12)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_given_memberships_give_the_likelihood_of_the_definition(mixing):
    worths, _ = tables(11, 4, 2)
    orders = np.array(list(itertools.permutations(range(4))), np.int32)
    theta = np.random.default_rng(12).dirichlet(np.ones(2), size=24)
    lists = np.arange(0, 97, 4), orders.ravel(), np.tile(np.arange(4, dtype=np.int32), 24)
    found = given_log_likelihoods(*lists, worths, theta, EFRON, MIXING[mixing])
    wanted = [math.log(probability(order, worths, own, mixing)) for order, own in zip(orders, theta, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_draws_follow_the_model_and_not_one_with_sharper_worths(mixing):
    n, size = 4, 20_000
    fits = [tables(seed, n, 2) for seed in (13, 14)]

    def law(power):
        return {
            order: np.mean([probability(order, worths**power, theta, mixing) for worths, theta in fits])
            for order in itertools.permutations(range(n))
        }

    stack = np.stack([np.ascontiguousarray(worths.T) for worths, _ in fits])
    drawn = latent_rankings(stack, np.stack([t for _, t in fits]), MIXING[mixing], n, stream_key(1), size)
    assert p_value(drawn, law(1.0)) > 1e-4
    assert p_value(drawn, law(1.2)) < 1e-6


def test_a_draw_does_not_depend_on_how_many_are_drawn():
    worths, theta = tables(15, 6, 3)
    arguments = np.ascontiguousarray(worths.T)[None], theta[None], BY_STAGE, 6, stream_key(2)
    np.testing.assert_array_equal(latent_rankings(*arguments, 50)[:7], latent_rankings(*arguments, 7))


def test_the_first_places_are_those_of_the_enumeration():
    worths, theta = tables(16, 5, 3)
    table = np.ascontiguousarray(worths.T)
    for k in range(1, 6):
        wanted = np.zeros(5)
        for order in itertools.permutations(range(5)):
            wanted[list(order[:k])] += probability(order, worths, theta, "stage")
        np.testing.assert_allclose(top_by_subsets(table, theta, k), wanted, rtol=1e-12)
