"""Links between users: the sampler of all users side by side against the joint normal, and τ found again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from permrank.posterior import links
from permrank.posterior.links import _GRID, UserGraph
from permrank.rankings.links import Edges


def random_edges(rng, n_users, n_links):
    pairs = np.unique(np.sort(rng.integers(0, n_users, (4 * n_links, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = pairs[np.sort(rng.permutation(len(pairs))[:n_links])]
    return Edges(pairs[:, 0], pairs[:, 1], rng.uniform(0.5, 2.0, len(pairs)))


def dense(edges, n_users):
    adjacency = np.zeros((n_users, n_users))
    adjacency[edges.first, edges.second] = edges.weights
    adjacency += adjacency.T
    degrees = adjacency.sum(axis=1)
    scaled = adjacency / np.sqrt(np.outer(np.maximum(degrees, 1e-12), np.maximum(degrees, 1e-12)))
    return np.diag(scaled.sum(axis=1)) - scaled


def precision_of(made, laplacian, tau):
    """That of all users: s (I + τ L) for those who are linked, s being the mean of what would be their variances."""
    linked = np.diag(laplacian) > 0
    exact = np.linalg.inv(np.eye(len(laplacian)) + tau * laplacian)
    assert_allclose(made.scale(tau), np.mean(np.diag(exact)[linked]), rtol=0.06)  # by random vectors
    scale = float(made.scale(tau))
    return np.diag(np.where(linked, scale, 1.0)) + scale * tau * laplacian


@pytest.fixture(scope="module")
def graph():
    edges = random_edges(np.random.default_rng(4), 60, 90)
    return UserGraph(edges, 62), dense(edges, 62)


def test_products_and_determinants_are_those_of_the_laplacian(graph):
    made, laplacian = graph
    rows = np.random.default_rng(0).normal(size=(62, 3))
    assert_allclose(made.laplacian(rows), laplacian @ rows, rtol=1e-5, atol=1e-6)  # sums are float32
    for tau in (0.1, 3.0, 100.0):
        exact = np.linalg.slogdet(np.eye(62) + tau * laplacian)[1]
        # The error of a random trace is that of a few hundredths of the determinant.
        assert_allclose(made.log_determinant(tau), exact, rtol=0.06)


@pytest.mark.parametrize("rows", [4096, 24])
def test_users_drawn_side_by_side_have_the_joint_posterior(graph, rows, monkeypatch):
    # With a row of noise for each of 90 links, and with 24 rows that they share.
    monkeypatch.setattr(links, "_ROWS", rows)
    (made, laplacian), tau = graph, 3.0
    # Each user has a normal observation of precision c; the posterior of all is normal with this covariance.
    rng = np.random.default_rng(1)
    c, seen = rng.uniform(0.0, 2.0, 62), rng.normal(size=(62, 2))
    prior = precision_of(made, laplacian, tau)
    covariance = np.linalg.inv(prior + np.diag(c))
    mean = covariance @ (c[:, None] * seen)
    lower = np.linalg.cholesky(np.linalg.inv(covariance))
    away, found = np.zeros((62, 2)), []
    for sweep in range(2500):
        pull = made.pull(away, made.sums(away), tau, np.uint64(1000 + sweep))
        precision = pull[:, 2:] + c[:, None]
        away = (pull[:, 2:] * pull[:, :2] + c[:, None] * seen) / precision + rng.normal(size=(62, 2)) / np.sqrt(
            precision
        )
        if sweep >= 100 and sweep % 10 == 0:
            found.append(lower.T @ (away - mean))
    whitened = np.array(found)
    assert stats.kstest(whitened.ravel(), "norm").pvalue > 1e-4
    assert stats.kstest(1.08 * whitened.ravel(), "norm").pvalue < 1e-3  # the control
    deterministic = made.friends_pull(made.sums(away), tau)
    expected = -(prior - np.diag(np.diag(prior))) @ away / np.diag(prior)[:, None]
    assert_allclose(deterministic, np.column_stack((expected, np.diag(prior))), rtol=1e-5, atol=1e-6)


def test_planted_strength_is_found_again_and_none_where_there_is_none():
    rng, inside, none = np.random.default_rng(9), 0, []
    for _ in range(12):
        edges = random_edges(rng, 200, 450)
        made, laplacian = UserGraph(edges, 200), dense(edges, 200)
        tau = np.exp(rng.uniform(-1, 2))
        lower = np.linalg.cholesky(precision_of(made, laplacian, tau))
        away = np.linalg.solve(lower.T, rng.normal(size=(200, 8)))
        cumulative = np.cumsum(np.exp(made.log_density(away, made.sums(away))))
        inside += 0.05 <= np.interp(np.log(tau), np.log(_GRID), cumulative) <= 0.95
        noise = rng.normal(size=(200, 8))
        density = np.exp(made.log_density(noise, made.sums(noise)))
        none.append(float(density @ _GRID))
    assert inside >= 7  # of 12 at 90 %: fewer with probability below 0.001
    assert np.mean(none) < 0.1


@pytest.mark.parametrize("n_links", [150, 4000])
def test_neither_a_common_mean_nor_another_variance_is_taken_for_likeness(n_links):
    rng, found, controls = np.random.default_rng(n_links), [], []
    for spread in (0.5, 1.0, 2.0) * 3:
        made = UserGraph(random_edges(rng, 200, n_links), 200)
        strangers = 1.5 + spread * rng.normal(size=(200, 8))
        found.append(float(np.exp(made.log_density(strangers, made.sums(strangers))) @ _GRID))
        # The control: with the prior's own mean and variance most of these are taken for friends.
        own, scale = np.sum(strangers**2), made.scale(_GRID)
        energy = np.sum(strangers * made.laplacian(strangers))
        determinant = 8 * (made.log_determinant(_GRID) + np.count_nonzero(made.linked) * np.log(scale))
        controls.append(_GRID[np.argmax(determinant - scale * (own + _GRID * energy))])
    assert np.median(found) < 0.2
    assert np.median(controls) > 1.0


@pytest.mark.parametrize("rows", [4096, 24])
def test_noise_of_links_has_their_covariance(graph, rows, monkeypatch):
    monkeypatch.setattr(links, "_ROWS", rows)
    made, laplacian = graph
    wanted = 2.0 * np.diag(np.diag(laplacian)) - laplacian  # D + A
    found = np.array([made.noise(8, np.uint64(key)) for key in range(400)])
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[3], made.noise(8, np.uint64(3)))
    sides = np.random.default_rng(5).normal(size=(62, 40))
    exact = np.sum(sides * (wanted @ sides), axis=0)
    variances = np.mean((np.swapaxes(found, 1, 2) @ sides) ** 2, axis=(0, 1))
    # 3,200 values each, those of one key with common rows: an error of 2.5 % or a little more.
    assert_allclose(variances, exact, rtol=0.2)
    other = np.sum(sides * (laplacian @ sides), axis=0)
    assert np.abs(variances / other - 1.0).max() > 0.2  # the control: D - A instead


def test_the_same_bits_for_the_same_key(graph):
    made, _ = graph
    away = np.random.default_rng(1).normal(size=(62, 2))
    first, second = (made.pull(away, made.sums(away), 1.0, np.uint64(7)) for _ in range(2))
    assert_allclose(first, second, rtol=0)
    assert not np.allclose(first, made.pull(away, made.sums(away), 1.0, np.uint64(8)))


def test_the_strength_of_links_has_its_prior_where_nothing_is_seen(graph):
    made = graph[0]
    nothing = np.zeros((62, 0))  # no factor
    found = np.exp(made.log_density(nothing, made.sums(nothing)))
    wanted = 1.0 / (1.0 + _GRID)  # dτ / τ (1 + τ), on a grid that is even in log τ
    assert_allclose(found, wanted / wanted.sum(), rtol=1e-10)
