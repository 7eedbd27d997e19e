"""Proportional odds: probabilities, derivatives and sums against direct ones."""

import numpy as np
import pytest
from scipy.special import expit

from permrank.kernels.lists import Lists
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Prior, Users
from permrank.posterior.kernels.odds import edges_of, odds_statistics, threshold_sums
from permrank.posterior.kernels.user_lists import gathered_lists
from permrank.posterior.kernels.users import move_users
from permrank.ragged import frozen

CUTS = np.array([-1.2, 0.1, 2.0])


def log_p(score, below, cuts=CUTS):
    """From the definition: σ(s - a) - σ(s - b)."""
    edges = np.concatenate(([-np.inf], cuts, [np.inf]))
    return np.log(expit(score - edges[below]) - expit(score - edges[below + 1]))


def of_thresholds(below, cuts=CUTS):
    """What is about the thresholds alone."""
    inner = 0 < below < cuts.size
    return np.log(-np.expm1(cuts[below - 1] - cuts[below])) if inner else 0.0


def statistics(scores, below):
    theta = np.zeros((2 + CUTS.size, 2))
    theta[2:, 1] = CUTS
    levels, bounds = np.asarray(below, np.int32), np.array([0, scores.size])
    lists = Lists(*frozen(np.array([0, 1]), bounds, np.zeros(scores.size, np.int32), levels, np.ones(1)))
    of_user = gathered_lists(lists, 0, theta)
    of_user.scores[:] = scores
    value = odds_statistics(lists.levels, edges_of(theta, CUTS.size), of_user, 0, scores.size)
    return value, of_user.made, of_user.expected


@pytest.mark.parametrize("below", range(4))
@pytest.mark.parametrize("score", [-3.0, 0.3, 4.0])
def test_value_slope_and_curvature_are_those_of_the_definition(score, below):
    value, chosen, expected = statistics(np.array([score]), [below])
    np.testing.assert_allclose(value + of_thresholds(below), log_p(score, below), rtol=1e-10)
    h = 1e-4
    up, middle, down = (log_p(score + x, below) for x in (h, 0.0, -h))
    np.testing.assert_allclose(chosen[0] - expected[0], (up - down) / (2 * h), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(expected[0], -(up - 2 * middle + down) / h**2, rtol=1e-3, atol=1e-6)


def test_probabilities_of_all_ratings_add_up_to_one():
    for score in (-30.0, -1.0, 2.5, 40.0):
        total = sum(np.exp(statistics(np.array([score]), [below])[0] + of_thresholds(below)) for below in range(4))
        np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    assert np.isfinite(statistics(np.array([1e4, -1e4]), [0, 3])[0])


@pytest.mark.parametrize("n", [1, 3, 4, 9, 64])
def test_values_are_sums_of_logarithms_however_far_scores_are(n):
    """Lists of every length, all levels, and scores beyond what exponentials can hold."""
    rng = np.random.default_rng(n)
    edges = np.concatenate(([-np.inf], CUTS, [np.inf]))
    for scale in (1.0, 30.0, 160.0, 250.0, 5_000.0):
        scores, below = scale * rng.normal(size=n), rng.integers(0, 4, n)
        direct = -np.logaddexp(0.0, edges[below] - scores) - np.logaddexp(0.0, scores - edges[below + 1])
        value, made, expected = statistics(scores, below)
        np.testing.assert_allclose(value, direct.sum(), rtol=1e-10, atol=1e-10)
        slope = expit(edges[below] - scores) - expit(scores - edges[below + 1])
        np.testing.assert_allclose(made - expected, slope, rtol=0, atol=1e-10)


def data(seed=0, n_users=9, n_items=6, n_factors=2):
    rng = np.random.default_rng(seed)
    items = np.concatenate([rng.permutation(n_items)[:4] for _ in range(n_users)]).astype(np.int32)
    below = rng.integers(0, CUTS.size + 1, items.size).astype(np.int32)
    bounds = np.arange(n_users + 1)
    lists = Lists(*frozen(bounds, 4 * bounds, items, below, rng.uniform(0.5, 2.0, n_users)))
    theta = rng.normal(size=(n_items + CUTS.size, n_factors + 1))
    theta[n_items:] = 0.0
    theta[n_items:, -1] = CUTS
    return lists, theta, rng.normal(size=(n_users, n_factors))


def total(lists, theta, users, cuts):
    value = 0.0
    for e, (item, below) in enumerate(zip(lists.items, lists.levels, strict=True)):
        score = theta[item, -1] + theta[item, :-1] @ users[e // 4]
        value += lists.weights[e // 4] * (log_p(score, below, cuts) - of_thresholds(below, cuts))
    return value


def test_sums_of_the_thresholds_are_derivatives_and_do_not_depend_on_the_blocks():
    lists, theta, users = data()
    entries = Entries(np.empty(lists.items.size), np.empty(lists.items.size))
    prior = Prior(np.zeros((9, 0)), np.zeros((0, 2)), np.ones(2), np.zeros((9, 0)))
    stay = Newton(0, 0.0)
    move_users(lists, -CUTS.size, theta, prior, Users(users.copy(), np.empty((9, 2))), stay, NO_NOISE, entries)
    one = threshold_sums(np.array([0, 9]), lists, entries, CUTS.size)[0]
    h = 1e-4
    for j, step in enumerate(h * np.eye(CUTS.size)):
        up, middle, down = (total(lists, theta, users, CUTS + x * step) for x in (1, 0, -1))
        np.testing.assert_allclose(one[j, 0], (up - down) / (2 * h), rtol=1e-5)
        np.testing.assert_allclose(one[j, 1], -(up - 2 * middle + down) / h**2, rtol=1e-4)
        np.testing.assert_allclose(one[j, 2], np.sum(np.repeat(lists.weights, 4)[lists.levels == j]), rtol=1e-12)
    several = threshold_sums(np.array([0, 2, 3, 9]), lists, entries, CUTS.size)
    np.testing.assert_allclose(several.sum(axis=0), one, rtol=1e-12)


def test_users_move_to_the_mode_of_their_posterior():
    lists, theta, _ = data(1)
    users = Users(np.zeros((9, 2)), np.empty((9, 2)))
    prior = Prior(np.zeros((9, 0)), np.zeros((0, 2)), np.ones(2), np.zeros((9, 0)))
    entries = Entries(np.empty(lists.items.size), np.empty(lists.items.size))
    values = move_users(lists, -CUTS.size, theta, prior, users, Newton(50, 1e-10), NO_NOISE, entries)

    def objective(points):
        return total(lists, theta, points, CUTS) - 0.5 * np.sum(points**2)

    np.testing.assert_allclose(values.sum(), objective(users.modes), rtol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(5):
        away = 1e-4 * rng.normal(size=users.modes.shape)
        slope = (objective(users.modes + away) - objective(users.modes - away)) / (2 * np.linalg.norm(away))
        assert abs(slope) < 1e-5
        assert objective(users.modes + 100 * away) < objective(users.modes)


def test_a_last_step_that_is_not_looked_at_leaves_what_belongs_to_where_it_ends():
    lists, theta, _ = data(2)
    n, shape = lists.items.size, (9, 2)
    prior = Prior(np.zeros((9, 0)), np.zeros((0, 2)), np.ones(2), np.zeros((9, 0)))

    def moved(start, most, size=n):
        users, entries = Users(start.copy(), np.empty(shape)), Entries(np.zeros(size), np.zeros(size))
        values = move_users(lists, -CUTS.size, theta, prior, users, Newton(most, 0.0), NO_NOISE, entries)
        return values, users.modes, entries

    start = np.zeros(shape)
    before, _, at_start = moved(start, 0)
    told, modes, entries = moved(start, 1)
    there, _, expected = moved(modes, 0)
    np.testing.assert_allclose(entries.residual, expected.residual, rtol=1e-10)
    np.testing.assert_allclose(entries.curvature, expected.curvature, rtol=1e-10)
    assert np.abs(entries.residual - at_start.residual).max() > 0.05  # not those of where the step began
    assert np.all(there > before)
    # The value is told as if the posterior were quadratic, where the step was not looked at.
    assert np.abs(told - there).max() > 1e-6
    np.testing.assert_allclose(told - before, there - before, rtol=0.3)
    # Nobody asks for entries: the same modes.
    np.testing.assert_array_equal(moved(start, 1, 0)[1], modes)
