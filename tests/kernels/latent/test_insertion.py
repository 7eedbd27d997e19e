"""Insertion with communities: every place, the odds and the work, against direct evaluation (§3.2.2)."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permrank.kernels.latent.insertion import (
    EXPECTED,
    MODE,
    insertion_scores,
    latent_insertion_probabilities,
    position_log_probabilities,
)
from permrank.kernels.latent.stages import BY_LIST, BY_STAGE, EFRON, Rules
from permrank.kernels.lists import Lists
from permrank.ragged import frozen
from permrank.testing.oracles import community_probability as probability

MIXING = {"stage": BY_STAGE, "list": BY_LIST}


def problem(seed, n, n_communities):
    """Worths of n listed items and one more, the last, and a membership."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(size=(n + 1, n_communities))), rng.dirichlet(np.ones(n_communities))


def direct(worths, theta, mixing):
    """P of the list 0 .. n-1 with item n at every place over P of the list alone, by whole lists.

    By list, θ is the membership given the list: P(place) = Σ_z θ_z P(place | list, z).
    """
    n = len(worths) - 1
    orders = [[*range(j), n, *range(j, n)] for j in range(n + 1)]
    if mixing == "stage":
        alone = probability(range(n), worths, theta, mixing)
        return np.array([probability(order, worths, theta, mixing) / alone for order in orders])
    corners = np.eye(len(theta))
    every = [
        [probability(order, worths, z, mixing) / probability(range(n), worths, z, mixing) for order in orders]
        for z in corners
    ]
    return np.array(theta @ np.array(every))


def probabilities(worths, theta, mixing, levels=None):
    n = len(worths) - 1
    levels = np.arange(n) if levels is None else np.array(levels)
    items = np.arange(n)
    return latent_insertion_probabilities(levels, items, worths, theta, worths[n], EFRON, MIXING[mixing])


@pytest.mark.parametrize("mixing", ["stage", "list"])
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 5))
def test_every_place_has_the_probability_of_the_whole_list(mixing, seed, n, n_communities):
    worths, theta = problem(seed, n, n_communities)
    found, wanted = probabilities(worths, theta, mixing), direct(worths, theta, mixing)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-10, atol=0)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 5))
def test_neighbouring_places_have_the_odds_of_the_paper(seed, n, n_communities):
    worths, theta = problem(seed, n, n_communities)
    found, x = probabilities(worths, theta, "stage"), worths[n]

    def choice(item, left):
        return math.fsum(t * worths[item][z] / math.fsum(worths[j][z] for j in left) for z, t in enumerate(theta))

    for j in range(n):
        rest = [*range(j, n), n]
        after = [i for i in rest if i != j]
        before = [i for i in rest if i != n]
        odds = choice(j, rest) * choice(n, after) / (choice(n, rest) * choice(j, before))
        np.testing.assert_allclose(found[j + 1] / found[j], odds, rtol=1e-10)
    assert x.shape == (n_communities,)


def counted_places(worths, theta, naive):
    """L_j of all places by one pass with shared suffix sums, or naively; and how many terms (stage, z) it takes."""
    n, n_communities = len(worths) - 1, len(theta)
    work = 0

    def stage(item, denominators):
        nonlocal work
        work += n_communities
        return math.fsum(theta[z] * worths[item][z] / denominators[z] for z in range(n_communities))

    def tail(items):
        return [math.fsum(worths[i][z] for i in items) for z in range(n_communities)]

    if naive:
        places = []
        for j in range(n + 1):
            order = [*range(j), n, *range(j, n)]
            places.append(math.prod(stage(item, tail(order[i:])) for i, item in enumerate(order)))
        return places, work
    old = [tail(range(i, n)) for i in range(n)]
    shared = [stage(i, old[i]) for i in range(n)]  # once for all candidates of the user: not counted
    work, before, places = 0, 1.0, []
    for i in range(n):
        new = [a + x for a, x in zip(old[i], worths[n], strict=True)]
        work += n_communities  # the candidate's term shares its division with the next
        places.append(before * math.fsum(t * x / a for t, x, a in zip(theta, worths[n], new, strict=True)))
        before *= math.fsum(theta[z] * worths[i][z] / new[z] for z in range(n_communities)) / shared[i]
    return [*places, before], work + n_communities


def test_one_pass_takes_n_plus_one_times_k_steps_and_the_naive_way_n_times_as_many():
    for n, n_communities in ((4, 2), (8, 2), (8, 6), (16, 3)):
        worths, theta = problem(n, n, n_communities)
        linear, steps = counted_places(worths, theta, naive=False)
        naive, naive_steps = counted_places(worths, theta, naive=True)
        np.testing.assert_allclose(np.array(linear) / sum(linear), np.array(naive) / sum(naive), rtol=1e-10)
        np.testing.assert_allclose(probabilities(worths, theta, "stage"), np.array(linear) / sum(linear), rtol=1e-10)
        assert steps == (n + 1) * n_communities
        assert naive_steps == (n + 1) ** 2 * n_communities


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_the_order_of_tied_items_does_not_matter_and_places_add_up_to_one(mixing):
    worths, theta = problem(3, 5, 3)
    levels = [0, 1, 1, 1, 2]
    first = probabilities(worths, theta, mixing, levels)
    np.testing.assert_allclose(first.sum(), 1.0, rtol=1e-12)
    other = worths[[0, 3, 1, 2, 4, 5]]
    np.testing.assert_allclose(probabilities(other, theta, mixing, levels), first, rtol=1e-12)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_scores_are_the_expected_share_that_is_beaten_or_the_papers_rule(mixing):
    rng = np.random.default_rng(4)
    worths = np.exp(rng.normal(size=(12, 3)))
    thetas = rng.dirichlet(np.ones(3), size=2)
    lists = [[0, 4, 2, 7], [5, 1], [9, 3, 8]]  # the second user has two
    bounds = np.array([0, 1, 3]), np.array([0, 4, 6, 9])
    items = np.array([i for each in lists for i in each], np.int32)
    levels = np.concatenate([np.arange(len(each)) for each in lists]).astype(np.int32)
    asked = [[10, 11, 6], [10, 2]]
    candidates = np.array([i for each in asked for i in each])
    found = {
        rule: insertion_scores(
            Lists(*frozen(*bounds, items, levels, np.ones(3))), worths, thetas, np.array([0, 3, 5]), candidates,
            Rules(EFRON, MIXING[mixing]), rule,
        )
        for rule in (EXPECTED, MODE)
    }  # fmt: skip
    place = 0
    for user, own in enumerate([[lists[0]], lists[1:]]):
        for candidate in asked[user]:
            beaten, best = 0.0, 0.0
            for each in own:
                rows = worths[[*each, candidate]]
                every = direct(rows, thetas[user], mixing)
                beaten += len(each) - float(every @ np.arange(len(each) + 1)) / every.sum()
                best += len(each) - every.argmax() + every.max()
            n = sum(map(len, own))
            np.testing.assert_allclose(found[EXPECTED][place], beaten / n, rtol=1e-10)
            np.testing.assert_allclose(found[MODE][place], best / (n + len(own)), rtol=1e-10)
            place += 1


def test_many_candidates_have_the_same_bits_for_one_thread_and_two_and_in_any_company():
    rng = np.random.default_rng(5)
    worths = np.exp(rng.normal(size=(5000, 6)))
    theta = rng.dirichlet(np.ones(6), size=1)
    listed = np.arange(20, dtype=np.int32)
    lists = Lists(*frozen(np.array([0, 1]), np.array([0, 20]), listed, listed, np.ones(1)))

    def scores(candidates):
        asked = np.array([0, candidates.size])
        return insertion_scores(lists, worths, theta, asked, candidates, Rules(EFRON, BY_STAGE), EXPECTED)

    before, found = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            found.append(scores(np.arange(20, 5000)))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0][100:110], scores(np.arange(120, 130)))


def test_the_log_probability_of_a_place_is_that_of_the_distribution():
    worths, theta = problem(6, 5, 3)
    listed = np.arange(5, dtype=np.int32)
    lists = Lists(*frozen(np.array([0, 1]), np.array([0, 5]), listed, listed, np.ones(1)))
    wanted = probabilities(worths, theta, "stage")
    for first, last in ((0, 0), (2, 2), (5, 5), (1, 3)):
        found = position_log_probabilities(
            lists, worths, theta[None], np.array([5]), np.array([first]), np.array([last]), Rules(EFRON, BY_STAGE)
        )
        np.testing.assert_allclose(found[0], math.log(wanted[first : last + 1].sum()), rtol=1e-12)
