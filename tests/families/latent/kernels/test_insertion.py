"""Insertion with communities: every place, the odds and the work, against direct evaluation (§3.2.2)."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permrank.families.latent.kernels.insertion import (
    EXPECTED,
    MODE,
    _block_ends,
    _positions_by_list,
    _positions_by_stage,
    _prepare,
    insertion_scores,
    latent_insertion_probabilities,
    position_log_probabilities,
)
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, EFRON, Rules
from permrank.kernels.jit import njit
from permrank.kernels.lists import Lists
from permrank.ragged import frozen
from permrank.testing.oracles import community_probability as probability
from threads import by_threads

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


def lines_run(kernel, *arguments):
    """How many lines of a kernel are executed, taken as Python."""
    count = 0

    def each(frame, event, _):
        nonlocal count
        count += event == "line" and frame.f_code is kernel.py_func.__code__
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        kernel.py_func(*arguments)
    finally:
        sys.settrace(before)
    return count


def places_quadratic(block_ends, denominators, tops, inverse_p, theta, x, probabilities):
    """`_positions_by_stage` of strict lists, the naive way: the product for every place from the beginning."""
    n = len(denominators)
    for j in range(n + 1):
        probabilities[j] = 1.0
        for i in range(j):
            passes = 0.0
            for z in range(theta.size):
                passes += tops[i, z] / (denominators[i, z] + x[z])
            probabilities[j] *= passes * inverse_p[i]
        if j < n:
            probabilities[j] *= sum(theta * x / (denominators[j] + x))


@pytest.mark.parametrize("kind", ["strict", "tied", "list", "naive"])
def test_the_kernel_takes_time_that_is_linear_in_items_and_communities(kind):
    kernel = {"list": _positions_by_list, "naive": njit(places_quadratic)}.get(kind, _positions_by_stage)

    def lines(n, n_communities):
        worths, theta = problem(n, n, n_communities)
        levels, found = np.arange(n) // (n if kind == "tied" else 1), np.empty(n + 1)
        denominators, tops, inverse_p = _prepare(levels, np.arange(n), np.int64(0), n, worths, theta, EFRON)
        if kind == "list":
            count = lines_run(kernel, denominators, theta, worths[n], found, np.empty(n_communities))
        else:
            ends = _block_ends(levels, np.int64(0), n)
            count = lines_run(kernel, ends, denominators, tops, inverse_p, theta, worths[n], found)
        mixing = "list" if kind == "list" else "stage"
        np.testing.assert_allclose(found / found.sum(), probabilities(worths, theta, mixing, levels), rtol=1e-10)
        return count

    in_items = [lines(n, 3) for n in (8, 16, 24)]
    in_communities = [lines(8, k) for k in (2, 4, 6)]
    # Equal differences: exactly linear; the control is not.
    assert (np.diff(in_items, 2)[0] == 0) == (kind != "naive")
    assert np.diff(in_communities, 2)[0] == 0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 4), st.integers(0, 3))
def test_a_candidate_passes_a_tie_with_the_ratios_of_all_its_items(seed, n_communities, size, n_after):
    n = 1 + size + n_after
    worths, theta = problem(seed, n, n_communities)
    levels = [0, *[1] * size, *range(2, 2 + n_after)]
    found = probabilities(worths, theta, "stage", levels)
    # Efron's mean denominator of the tie: what comes after it, and (m + 1) / 2m of its own items.
    shared = worths[1 + size : n].sum(axis=0) + (size + 1) / (2 * size) * worths[1 : 1 + size].sum(axis=0)
    odds = [(theta @ (worths[i] / (shared + worths[n]))) / (theta @ (worths[i] / shared)) for i in range(1, 1 + size)]
    inside = found[1 : 1 + size]
    np.testing.assert_allclose(inside[1:] / inside[:-1], np.prod(odds) ** (1 / size), rtol=1e-10)
    # From before the tie to behind it, all of them; the next choice is by the worths that are left.
    after = worths[1 + size : n].sum(axis=0)
    next_enters = theta @ (worths[n] / (after + worths[n])) if n_after else 1.0
    enters = theta @ (worths[n] / (shared + worths[n]))
    np.testing.assert_allclose(found[1 + size] / inside[0], np.prod(odds) * next_enters / enters, rtol=1e-10)


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

    one, all_of_them = by_threads(lambda: scores(np.arange(20, 5000)))
    np.testing.assert_array_equal(one, all_of_them)
    np.testing.assert_array_equal(one[100:110], scores(np.arange(120, 130)))


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
