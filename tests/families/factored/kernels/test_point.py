"""The user pass of the factored model's point estimate."""

from itertools import pairwise

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

import permrank as pr
from permrank.families.factored.kernels import Steps, Sums, _room, add_blocks, climb_users
from permrank.kernels.lists import Lists
from permrank.kernels.luce.damping import damped_statistics, damping_sequence
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION, stage_statistics
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Prior, Users
from permrank.posterior.kernels.choices import Law, directional_curvature, ranking_terms
from permrank.posterior.kernels.users import move_users
from permrank.ragged import frozen

TREATMENTS = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION}
K, PENALTY, NONE = 5, 0.8, np.zeros(0)


def data(seed, n_users=9, n_items=8, *, ties=True):
    """Users with one or two rankings, weights, lists of one item, and one user without a ranking."""
    rng = np.random.default_rng(seed)
    lists, users = [["0"]], [0]
    for user in range(n_users):
        for _ in range(rng.integers(1, 3)):
            order = rng.permutation(n_items)[: rng.integers(1, n_items)].tolist()
            blocks = [[order[0]]]
            for item in order[1:]:
                blocks[-1].append(item) if ties and rng.random() < 0.4 else blocks.append([item])
            lists.append(blocks)
            users.append(user)
    lists, users = lists[1:], users[1:]
    weights = rng.uniform(0.5, 2.0, len(lists))
    rankings = pr.Rankings.from_lists(
        [*lists, []], users=[*users, n_users], weights=[*weights, 1.0], items=range(n_items)
    )
    theta = rng.normal(size=(n_items, K + 1)).astype(np.float32)
    return rankings, theta, rng.normal(size=(n_users + 1, K)).astype(np.float32)


def lists_of(rankings):
    return Lists(rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights)


def nowhere(rankings):
    """Places of the users and slopes that make all prior means 0."""
    return np.zeros((rankings.n_users, 0)), np.zeros((0, K))


def climb(rankings, theta, users, ties, most, damping=NONE, bounds=None):
    bounds = np.array([0, 3, 3, rankings.n_users]) if bounds is None else bounds
    n_blocks, users = bounds.size - 1, users.copy()
    gradients = np.empty((n_blocks, rankings.n_items, K + 2), np.float32)
    moments, in_damping = np.empty((n_blocks, K + 1)), np.empty((n_blocks, damping.size))
    sums, steps = Sums(gradients, moments, in_damping), Steps(most, 20)
    values = climb_users(bounds, lists_of(rankings), Law(ties, damping), theta, np.float32(PENALTY), users, steps, sums)
    sums = gradients.sum(axis=0, dtype=float)
    return values, users, sums, moments.sum(axis=0), in_damping.sum(axis=0), gradients


def owners(rankings):
    ranking = np.repeat(np.arange(rankings.n_rankings), np.diff(rankings.indptr))
    return ranking, np.repeat(np.arange(rankings.n_users), np.diff(rankings.user_indptr))[ranking]


def log_posteriors(rankings, theta, users, ties, damping=NONE):
    """Through the tested kernels of the likelihood; also residual and curvature of each entry, weights included."""
    ranking, owner = owners(rankings)
    scores = theta[rankings.items, K].astype(float) + np.sum(theta[rankings.items, :K] * users[owner], 1, dtype=float)
    made, expected, curvature = np.empty((3, scores.size))
    if damping.size:
        logs = damped_statistics(rankings.indptr, scores, damping, made, expected, curvature)
    else:
        logs = stage_statistics(rankings.indptr, rankings.levels, scores, ties, made, expected)
        curvature = expected
    weight = rankings.weights[ranking]
    values = np.zeros(rankings.n_users)
    np.add.at(values, np.repeat(np.arange(rankings.n_users), np.diff(rankings.user_indptr)), logs * rankings.weights)
    values -= 0.5 * PENALTY * np.sum(users.astype(float) ** 2, axis=1)
    return values, weight * (made - expected), weight * curvature, scores


@pytest.mark.parametrize("ties", TREATMENTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_without_a_step_values_and_sums_are_those_of_the_likelihood(ties, seed):
    rankings, theta, users = data(seed)
    values, same, sums, moments, _, blocks = climb(rankings, theta, users, TREATMENTS[ties], 0)
    assert_array_equal(same, users)
    expected_values, residual, curvature, _ = log_posteriors(rankings, theta, users, TREATMENTS[ties])
    assert_allclose(values, expected_values, rtol=1e-6, atol=1e-6)
    _, owner = owners(rankings)
    expected = np.zeros((rankings.n_items, K + 2))
    np.add.at(expected, rankings.items, np.column_stack((residual[:, None] * users[owner], residual, curvature)))
    assert_allclose(sums, expected, rtol=1e-5, atol=1e-5)
    assert_allclose(moments[:K], curvature @ users[owner].astype(float) ** 2, rtol=1e-5, atol=1e-6)
    assert_allclose(moments[K], curvature.sum(), rtol=1e-5)
    gradient, diagonal = np.empty((2, *theta.shape))
    add_blocks(blocks, theta, 0.6, np.arange(1.0, K + 2), seed == 0, gradient, diagonal)
    assert_allclose(gradient[:, :K], expected[:, :K] - 0.6 * theta[:, :K], rtol=1e-5, atol=1e-5)
    assert_allclose(gradient[:, K], (expected[:, K] - 0.6 * theta[:, K]) * (seed == 0), rtol=1e-5, atol=1e-5)
    assert_allclose(diagonal, 1 / (0.6 + expected[:, -1:] * np.arange(1.0, K + 2)), rtol=1e-5)


@pytest.mark.parametrize("ties", TREATMENTS)
def test_users_reach_the_modes_that_newton_with_the_whole_hessian_finds(ties):
    rankings, theta, users = data(2)
    modes, unused = np.zeros((rankings.n_users, K)), Entries(*np.empty((2, rankings.n_entries)))
    moved = Users(modes, np.empty_like(modes))
    prior = Prior(*nowhere(rankings), np.full(K, PENALTY), np.zeros((rankings.n_users, 0)))
    best = move_users(
        lists_of(rankings), TREATMENTS[ties], theta.astype(float), prior, moved, Newton(60, 1e-10), NO_NOISE, unused
    )
    values, found, _, _, _, _ = climb(rankings, theta, users, TREATMENTS[ties], 60)
    assert_allclose(values, best, rtol=1e-6, atol=1e-5)
    if ties != "partition":  # its numerators make the posterior of a user only nearly concave
        assert_allclose(found, modes, rtol=0, atol=2e-3)
    assert_allclose(found[-1], 0, atol=1e-6)  # nothing is known of the user without a ranking


@pytest.mark.parametrize("ties", TREATMENTS)
def test_a_step_never_lowers_a_users_value(ties):
    rankings, theta, users = data(3)
    values = [climb(rankings, 3 * theta, 2 * users, TREATMENTS[ties], most)[0] for most in range(6)]
    assert (np.diff(values, axis=0) >= 0).all()
    assert (values[-1] > values[0]).any()


@pytest.mark.parametrize("ties", TREATMENTS)
def test_scores_of_any_size_are_as_good(ties):
    rankings, theta, users = data(4)
    for scale in (0.0, 20.0, 400.0):
        values = climb(rankings, scale * theta, users, TREATMENTS[ties], 0)[0]
        assert_allclose(
            values, log_posteriors(rankings, scale * theta, users, TREATMENTS[ties])[0], rtol=1e-5, atol=1e-5
        )
        assert np.isfinite(climb(rankings, scale * theta, users, TREATMENTS[ties], 2)[0]).all()


@pytest.mark.parametrize("strict", [True, False])
def test_the_curvature_along_a_change_is_the_second_difference(strict):
    rng = np.random.default_rng(5)
    n = 12
    levels = np.arange(n) if strict else np.array([0, 0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 6])
    items, levels = np.arange(n, dtype=np.int32), levels.astype(np.int32)
    lists = Lists(*frozen(np.array([0, 1]), np.array([0, n]), items, levels, np.ones(1)))
    scores, change = rng.normal(size=n), rng.normal(size=n).astype(np.float32)

    def terms(step):
        room = _room(n, K)
        room.work[0] = scores + step * change.astype(float)
        return *ranking_terms(lists, 0, 0, Law(BRESLOW, NONE), room), room.work

    value, known, work = terms(0.0)
    assert known
    h = 1e-3
    second = (2 * value - terms(h)[0] - terms(-h)[0]) / h**2
    assert_allclose(directional_curvature(work[1], work[2], change, n), second, rtol=1e-5)
    # The bound that the conjugate gradients use: the variance over all stages together.
    expected = work[1] * np.cumsum(work[2])
    centred = change - (expected @ change) / expected.sum()
    assert expected @ centred**2 >= second


@pytest.mark.parametrize("kind", ["log", "learned"])
def test_damping_has_the_values_and_derivatives_of_its_own_kernel(kind):
    rankings, theta, users = data(6, ties=False)
    damping = damping_sequence("log" if kind == "log" else [1.0, 0.8, 0.75, 0.2], 8)
    values, _, sums, _, in_damping, _ = climb(rankings, theta, users, BRESLOW, 0, damping)
    expected, residual, _, scores = log_posteriors(rankings, theta, users, BRESLOW, damping)
    assert_allclose(values, expected, rtol=1e-6, atol=1e-6)
    slopes = np.zeros(8)  # by the definition, stage by stage
    for r, (a, b) in enumerate(pairwise(rankings.indptr)):
        for i in range(b - a - 1):
            shares = softmax(damping[i] * scores[a + i : b])
            slopes[i] += rankings.weights[r] * (scores[a + i] - shares @ scores[a + i : b])
    assert_allclose(in_damping, slopes, rtol=1e-5, atol=1e-5)
    intercept = np.zeros(rankings.n_items)
    np.add.at(intercept, rankings.items, residual)
    assert_allclose(sums[:, K], intercept, rtol=1e-5, atol=1e-5)
    better = climb(rankings, theta, users, BRESLOW, 400, damping)
    assert (better[0] >= values).all()
    again = climb(rankings, theta, better[1], BRESLOW, 0, damping)
    _, owner = owners(rankings)
    gradient = -PENALTY * better[1].astype(float)
    np.add.at(
        gradient,
        owner,
        log_posteriors(rankings, theta, better[1], BRESLOW, damping)[1][:, None] * theta[rankings.items, :K],
    )
    assert_allclose(gradient, 0, atol=4e-3)  # of some 10 at the beginning; users are kept in single precision
    assert_array_equal(again[0], better[0])


def test_the_number_of_threads_changes_no_bit_and_blocks_only_the_rounding():
    rankings, theta, users = data(7, n_users=60)
    before, found = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            found.append(climb(rankings, theta, users, BRESLOW, 2, bounds=np.arange(0, 62, 1)))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)
    whole = climb(rankings, theta, users, BRESLOW, 2, bounds=np.array([0, 61]))
    assert_array_equal(whole[0], found[0][0])
    assert_allclose(whole[2], found[0][2], rtol=1e-4, atol=1e-4)
