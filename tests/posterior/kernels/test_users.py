"""The user pass and the item pass of the factored model."""

import numba
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2, kstest

import permrank as pr
from permrank.kernels.lists import Lists
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION, stage_statistics
from permrank.posterior.kernels import choices, user_lists
from permrank.posterior.kernels import items as factored_items
from permrank.posterior.kernels import users as factored
from permrank.posterior.kernels.arguments import (
    NO_MEANS,
    NO_NOISE,
    Entries,
    Gaussian,
    ItemMeans,
    Items,
    Newton,
    Noise,
    Prior,
    Users,
)
from permrank.ragged import frozen

TREATMENTS = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION}
K = 3
BLOCKS = np.array([0, 2, 2, 5, 7])  # of the users of `data`


def data(seed, n_users=6, n_items=9, *, ties=True):
    """Users with one or two rankings, weights, and one user without a ranking."""
    rng = np.random.default_rng(seed)
    lists, users = [], []
    for user in range(n_users):
        for _ in range(rng.integers(1, 3)):
            order = rng.permutation(n_items)[: rng.integers(2, n_items)].tolist()
            blocks = [[order[0]]]
            for item in order[1:]:
                blocks[-1].append(item) if ties and rng.random() < 0.4 else blocks.append([item])
            lists.append(blocks)
            users.append(user)
    weights = rng.uniform(0.5, 2.0, len(lists))
    lists.append([])
    users.append(n_users)
    return pr.Rankings.from_lists(lists, users=users, weights=[*weights, 1.0], items=range(n_items))


def problem(seed, **options):
    rng = np.random.default_rng(seed + 100)
    rankings = data(seed, **options)
    return rankings, rng.normal(size=(rankings.n_items, K + 1)), rng.uniform(0.5, 2.0, K)


def lists_of(rankings):
    return Lists(rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights)


def dependence(rankings):
    """Places of the users and slopes: what the prior means of the users' factors depend on."""
    rng = np.random.default_rng(200)
    return rng.normal(size=(rankings.n_users, 2)), rng.normal(size=(2, K))


def prior_means(rankings):
    places, slopes = dependence(rankings)
    return places @ slopes


def log_posterior(rankings, theta, precision, ties, user, vector):
    """Through the tested likelihood kernel, one user at a time."""
    total = -0.5 * precision @ (vector - prior_means(rankings)[user]) ** 2
    for r in range(rankings.user_indptr[user], rankings.user_indptr[user + 1]):
        part = slice(rankings.indptr[r], rankings.indptr[r + 1])
        items = rankings.items[part]
        scores = theta[items, K] + theta[items, :K] @ vector
        scratch = np.empty(items.size), np.empty(items.size)
        bounds = frozen(np.array([0, items.size]))[0]
        total += rankings.weights[r] * stage_statistics(bounds, rankings.levels[part], scores, ties, *scratch)[0]
    return total


def ascend(rankings, theta, precision, ties, *, draw=False, most=50, key=1):
    users = Users(np.zeros((rankings.n_users, K)), np.zeros((rankings.n_users, K)))
    entries = Entries(np.empty(rankings.n_entries), np.empty(rankings.n_entries))
    prior = Prior(*dependence(rankings), precision, np.zeros((rankings.n_users, 0)))
    noise = Noise(np.uint64(key), draw)
    values = factored.move_users(lists_of(rankings), ties, theta, prior, users, Newton(most, 1e-10), noise, entries)
    return values, *users, *entries


@pytest.mark.parametrize("ties", TREATMENTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_user_reaches_the_mode_that_a_general_optimiser_finds(ties, seed):
    rankings, theta, precision = problem(seed)
    # Only for Breslow's ties are the steps exactly Newton's; under the others they come near linearly.
    values, modes, draws, _, _ = ascend(rankings, theta, precision, TREATMENTS[ties], most=1_000)
    np.testing.assert_array_equal(draws, modes)
    for user in range(rankings.n_users):
        found = minimize(
            lambda v, user=user: -log_posterior(rankings, theta, precision, TREATMENTS[ties], user, v),
            np.zeros(K),
            options={"gtol": 1e-9},
        )
        assert values[user] >= -found.fun - (1e-6 if ties == "partition" else 1e-9)
        if ties != "partition":  # its numerators make the posterior of a user only nearly concave
            np.testing.assert_allclose(modes[user], found.x, rtol=0, atol=1e-5)
    np.testing.assert_allclose(modes[-1], prior_means(rankings)[-1], rtol=1e-12)


@pytest.mark.parametrize("ties", ["strict", "breslow"])
def test_the_hessian_of_a_user_is_exact_for_strict_rankings_and_for_breslow(ties):
    rankings, theta, precision = problem(3, ties=ties != "strict")
    _, modes, _, _, _ = ascend(rankings, theta, precision, BRESLOW)
    h = 1e-4
    for user in range(rankings.n_users - 1):
        information = laplace_precision(rankings, theta, precision, BRESLOW, user, modes[user])

        def value(v, user=user):
            return log_posterior(rankings, theta, precision, BRESLOW, user, v)

        for i in range(K):
            for j in range(K):
                a, b = h * np.eye(K)[i], h * np.eye(K)[j]
                m = modes[user]
                second = (value(m + a + b) - value(m + a - b) - value(m - a + b) + value(m - a - b)) / (4 * h * h)
                np.testing.assert_allclose(information[i, j], -second, rtol=1e-4, atol=1e-5)


def laplace_precision(rankings, theta, precision, ties, user, mode):
    """What the kernel factors: L Lᵀ."""
    lists, prior, lower = lists_of(rankings), Gaussian(prior_means(rankings)[user], precision), np.zeros((K, K))
    of_user = user_lists.gathered_lists(lists, user, theta)
    user_lists.set_scores(of_user, mode)
    user_lists.lists_statistics(lists, user, ties, None, of_user)
    factored._newton_system(lists, user, ties, of_user, mode, prior, lower, np.empty(K))
    lower = np.tril(lower)
    return lower @ lower.T


@pytest.mark.parametrize("ties", TREATMENTS)
def test_the_hessian_is_never_less_than_the_prior(ties):
    for seed in range(4):
        rankings, theta, precision = problem(seed)
        _, modes, _, _, _ = ascend(rankings, 3 * theta, precision, TREATMENTS[ties])
        for user in range(rankings.n_users):
            information = laplace_precision(rankings, 3 * theta, precision, TREATMENTS[ties], user, modes[user])
            assert np.linalg.eigvalsh(information - np.diag(precision)).min() > -1e-8


def kept_of(theta):
    return ItemMeans(np.empty_like(theta), np.empty(len(theta)))


def test_item_steps_solve_the_newton_equations_with_diagonal_blocks():
    rankings, theta, precision = problem(5)
    _, modes, _, residual, curvature = ascend(rankings, theta, precision, BRESLOW)
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr])).astype(np.int32)
    centre = np.random.default_rng(0).normal(size=theta.shape)
    item_precision = np.array([1.0, 2.0, 3.0, 4.0])
    view = rankings.item_view
    kept = kept_of(theta)
    items, entries = Items(theta, centre, item_precision), Entries(residual, curvature)
    steps = factored_items.item_steps(BLOCKS, view, owner[view.entries], modes, items, entries, NO_NOISE, kept)
    np.testing.assert_array_equal(steps, kept.steps)
    noisy = factored_items.item_steps(
        BLOCKS, view, owner[view.entries], modes, items, entries, Noise(np.uint64(1), True), kept
    )
    np.testing.assert_array_equal(steps, kept.steps)
    assert (noisy != steps).all()
    for y in range(rankings.n_items):
        system = np.diag(item_precision)
        right = -item_precision * (theta[y] - centre[y])
        for e in np.flatnonzero(rankings.items == y):
            x = np.append(modes[owner[e]], 1.0)
            system = system + curvature[e] * np.outer(x, x)
            right = right + residual[e] * x
        np.testing.assert_allclose(steps[y], np.linalg.solve(system, right), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kept.variance[y], np.trace(np.linalg.inv(system)), rtol=1e-9)


@pytest.mark.parametrize("ties", TREATMENTS)
def test_scores_so_wide_that_worths_vanish_give_the_same_as_narrow_ones(ties):
    """The quick exponentials are for narrow scores; both ways meet where the limit between them is passed."""
    rankings, theta, _ = problem(12)
    users, found = np.zeros((rankings.n_users, K)), []
    spread = float(np.ptp(theta[:, K]))
    for factor in (1.0 - 1e-6, 1.0 + 1e-6):
        moved = theta.copy()
        moved[:, K] *= factor * choices.NARROW / spread
        found.append(factored.user_log_likelihoods(lists_of(rankings), TREATMENTS[ties], moved, users))
    np.testing.assert_allclose(*found, rtol=1e-4)
    assert (found[0] != found[1]).any()


@pytest.mark.parametrize("draw", [False, True])
def test_item_steps_from_the_sums_of_blocks_have_the_same_bits(draw):
    rankings, theta, precision = problem(11, n_users=200)
    _, _, draws, *sides = ascend(rankings, theta, precision, BRESLOW, draw=True)
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr])).astype(np.int32)
    view, items, found = rankings.item_view, Items(theta, np.ones_like(theta), np.ones(K + 1)), []
    entries, noise = Entries(*sides), Noise(np.uint64(3), draw)
    for bounds in (np.array([0, 50, 50, 120, 201]), np.array([0, 201])):
        walked, summed = kept_of(theta), kept_of(theta)
        steps = factored_items.item_steps(bounds, view, owner[view.entries], draws, items, entries, noise, walked)
        sums = factored_items.item_sums(bounds, lists_of(rankings), draws, entries, rankings.n_items)
        others = factored_items.steps_from_sums(sums, items, noise, summed)
        np.testing.assert_array_equal(steps, others)
        for one, other in zip(walked, summed, strict=True):
            np.testing.assert_array_equal(one, other)
        found.append(steps)
    assert (found[0] != found[1]).any()  # the control: other blocks, other bits
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


def test_residuals_are_the_gradient_in_the_scores_times_the_weights():
    rankings, theta, precision = problem(6)
    _, modes, _, residual, _ = ascend(rankings, theta, precision, EXACT)
    h = 1e-5
    for y, k in [(0, K), (2, 0), (4, 1), (7, K)]:
        owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr]))
        factor = np.ones(rankings.n_entries) if k == K else modes[owner, k]
        values = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[y, k] += sign * h
            values.append(factored.user_log_likelihoods(lists_of(rankings), EXACT, moved, modes).sum())
        mine = (residual * factor)[rankings.items == y].sum()
        np.testing.assert_allclose(mine, (values[0] - values[1]) / (2 * h), rtol=1e-6, atol=1e-8)


def test_draws_of_a_user_have_the_laplace_covariance_and_a_stretched_one_fails():
    rankings, theta, precision = problem(7)
    user, n = 1, 4_000
    modes, density = np.zeros((rankings.n_users, 2, K)), np.empty((rankings.n_users, 2, n))
    places, slopes = dependence(rankings)
    given = np.stack((2 * theta, theta)), places, np.stack((np.zeros_like(slopes), slopes)), precision
    keys = np.array([4, 5], np.uint64)
    draws = factored.posterior_draws(lists_of(rankings), BRESLOW, *given, modes, keys, density)
    assert (modes[user, 0] != modes[user, 1]).all()
    modes, draws, density = modes[:, 1], draws[:, 1], density[:, 1]
    information = laplace_precision(rankings, theta, precision, BRESLOW, user, modes[user])
    away = draws[user] - modes[user]
    distance = np.einsum("ni,ij,nj->n", away, information, away).sum()
    assert 1e-4 < chi2.cdf(distance, n * K) < 1 - 1e-4
    assert chi2.sf(1.2 * distance, n * K) < 1e-6
    expected = 0.5 * np.linalg.slogdet(information / (2 * np.pi))[1] - 0.5 * np.einsum(
        "ni,ij,nj->n", away, information, away
    )
    np.testing.assert_allclose(density[user], expected, rtol=1e-8, atol=1e-8)
    # A user without a ranking is drawn from the prior.
    np.testing.assert_allclose(draws[-1].var(axis=0), 1 / precision, rtol=0.15)
    np.testing.assert_allclose(draws[-1].mean(axis=0), prior_means(rankings)[-1], atol=6 / np.sqrt(0.5 * n))


def test_draws_of_an_item_have_the_covariance_of_its_system():
    rankings, theta, precision = problem(8)
    _, modes, _, residual, curvature = ascend(rankings, theta, precision, BRESLOW)
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr])).astype(np.int32)
    view, ones = rankings.item_view, np.ones(K + 1)
    data = BLOCKS, view, owner[view.entries], modes
    data = *data, Items(theta, np.zeros_like(theta), ones), Entries(residual, curvature)
    mean = factored_items.item_steps(*data, NO_NOISE, NO_MEANS)
    n, y = 1_500, 3
    drawn = [factored_items.item_steps(*data, Noise(np.uint64(i), True), NO_MEANS)[y] for i in range(n)]
    system = np.diag(ones)
    for e in np.flatnonzero(rankings.items == y):
        x = np.append(modes[owner[e]], 1.0)
        system = system + curvature[e] * np.outer(x, x)
    away = np.array(drawn) - mean[y]
    distance = np.einsum("ni,ij,nj->n", away, system, away).sum()
    assert 1e-4 < chi2.cdf(distance, n * (K + 1)) < 1 - 1e-4
    assert chi2.sf(1.2 * distance, n * (K + 1)) < 1e-6


def test_the_number_of_threads_changes_no_bit():
    rankings, theta, precision = problem(9, n_users=40)
    before, results = numba.get_num_threads(), []
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr])).astype(np.int32)
    view, items = rankings.item_view, Items(theta, np.zeros_like(theta), np.ones(K + 1))
    data = np.array([0, 13, 13, 41]), view, owner[view.entries]
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            found = ascend(rankings, theta, precision, BRESLOW, draw=True)
            noise, entries = Noise(np.uint64(3), True), Entries(*found[3:])
            steps = factored_items.item_steps(*data, found[2], items, entries, noise, NO_MEANS)
            results.append([*found, steps])
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_noise_belongs_to_its_item_and_has_mean_zero_and_variance_one():
    items = np.array([7, 2, 9])
    noise = factored_items.item_noise(items, 500, 4, np.uint64(3))
    np.testing.assert_array_equal(
        noise[:, :, ::-1], factored_items.item_noise(items[::-1].copy(), 500, 4, np.uint64(3))
    )
    np.testing.assert_array_equal(noise.mean(axis=1), 0)
    squares = (noise[:, ::2] ** 2).sum(axis=(0, 1))
    assert (np.abs(chi2.cdf(squares, 1000) - 0.5) < 0.4999).all()
    assert chi2.sf(1.3 * squares, 1000).max() < 1e-4
    assert np.abs(np.corrcoef(noise[:, ::2].reshape(-1, 3).T) - np.eye(3)).max() < 0.15


def test_metropolis_steps_draw_users_from_the_exact_posterior():
    n, theta = 3_000, np.zeros((4, K + 1))
    theta[:, 0], theta[:, K] = [3.0, 1.0, -1.0, -3.0], [0.0, 0.5, -0.5, 0.0]
    rankings = pr.Rankings.from_lists({user: [0, 1, 2, 3] for user in range(n)})
    grid = np.linspace(-8.0, 12.0, 4_001)
    scores = np.multiply.outer(grid, theta[:, 0]) + theta[:, K]
    tails = np.logaddexp.accumulate(scores[:, ::-1], axis=1)[:, ::-1]
    density = np.exp(np.sum(scores - tails, axis=1) - 0.5 * grid**2)
    density /= density.sum()
    mean = density @ grid
    error = np.sqrt(density @ (grid - mean) ** 2 / n)
    prior = Prior(np.zeros((n, 1)), np.zeros((1, K)), np.ones(K), np.zeros((n, 0)))
    entries = Entries(np.empty(rankings.n_entries), np.empty(rankings.n_entries))
    found = {}
    for exact in (True, False):
        users = Users(np.zeros((n, K)), np.zeros((n, K)))
        for sweep in range(12):
            noise = Noise(np.uint64(sweep + 1), True, 0, exact)
            factored.move_users(lists_of(rankings), BRESLOW, theta, prior, users, Newton(5, 1e-9), noise, entries)
        found[exact] = users.draws[:, 0]
    assert abs(found[True].mean() - mean) < 4 * error
    assert found[False].mean() < mean - 8 * error  # control: the Gaussian at the mode is too close to the prior
    places = np.interp(found[True], grid, np.cumsum(density))
    assert kstest(places, "uniform").pvalue > 1e-4
