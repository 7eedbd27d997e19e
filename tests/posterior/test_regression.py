"""Regressions on what is known beforehand: draws against closed forms, and planted effects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from permrank.posterior.regression import Regression, Scales, imputed


@pytest.fixture
def problem():
    rng = np.random.default_rng(5)
    known, weights = rng.normal(size=(40, 4)), rng.uniform(0.2, 1.0, size=40)
    wanted = known @ rng.normal(size=(4, 2)) + rng.normal(size=(40, 2))
    return Regression(known, np.array([-1, 0, 0, 1]), 0.5, weights), known, weights, wanted


def test_draws_have_the_conjugate_posterior(problem):
    made, known, weights, wanted = problem
    precision, scales = np.array([2.0, 0.7]), Scales.start(2)._replace(groups=np.array([0.3, 2.0]))
    prior = np.diag([0.5, 1 / 0.3, 1 / 0.3, 1 / 2.0])
    covariance = np.linalg.inv(known.T @ np.diag(weights) @ known + prior)
    mean = covariance @ known.T @ (weights[:, None] * wanted)
    assert_allclose(made.posterior(made.sums(wanted), scales)[0], mean, rtol=1e-10)
    rng = np.random.default_rng(8)
    draws = np.array([made.drawn(made.sums(wanted), precision, scales, rng)[0] for _ in range(3000)])
    for k in range(2):
        whitened = np.linalg.solve(np.linalg.cholesky(covariance / precision[k]), (draws[:, :, k] - mean[:, k]).T)
        assert stats.kstest(whitened.ravel(), "norm").pvalue > 1e-4
        wrong = np.linalg.solve(np.linalg.cholesky(1.2 * covariance / precision[k]), (draws[:, :, k] - mean[:, k]).T)
        assert stats.kstest(wrong.ravel(), "norm").pvalue < 1e-4  # the control
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]) < 5 / np.sqrt(3000)


def test_scales_have_their_posterior():
    # One group of three coefficients: sqrt(v) ~ half-Cauchy(t), t ~ half-Cauchy(1); v given the squares by quadrature.
    squares, counts = np.array([2.5]), np.array([3.0])
    rng, scales, found = np.random.default_rng(3), Scales.start(1), []
    for _ in range(12_000):
        scales = scales.drawn(squares, counts, rng)
        found.append(scales.groups[0])

    def density(log_v):
        s = np.exp(log_v / 2)
        # ∫ HC(s; t) HC(t; 1) dt = 4 / π² · log(s) / (s² - 1), with s ds = s / 2 · s dlog v
        prior = (2 / np.pi) ** 2 * (np.log(s) / (s**2 - 1) if abs(s - 1) > 1e-6 else 0.5) * s
        return prior * np.exp(-1.5 * log_v - squares[0] / (2 * np.exp(log_v)))

    grid = np.linspace(-12, 25, 20_001)
    values = np.array([density(x) for x in grid])
    cumulative = integrate.cumulative_trapezoid(values, grid, initial=0.0)
    cumulative /= cumulative[-1]
    places = np.interp(np.log(found), grid, cumulative)[50::15]
    assert stats.kstest(places, "uniform").pvalue > 1e-4
    assert stats.kstest(np.interp(np.log(found) + 0.5, grid, cumulative)[50::15], "uniform").pvalue < 1e-4  # control


def test_planted_effects_are_covered_and_noise_is_shrunk():
    rng = np.random.default_rng(11)
    inside, total, noise = 0, 0, []
    for _ in range(8):
        known, truth = rng.normal(size=(200, 24)), np.zeros((24, 3))
        truth[:4] = rng.normal(size=(4, 3)) * 0.5
        wanted = known @ truth + rng.normal(size=(200, 3))
        made = Regression(known, np.r_[0, 0, 1, 2, np.arange(3, 23)], 0.01, np.ones(200))
        scales, draws = Scales.start(made.n_groups), []
        for sweep in range(200):
            coefficients, scales = made.drawn(made.sums(wanted), np.ones(3), scales, rng)
            if sweep >= 50:
                draws.append(coefficients)
        low, high = np.quantile(draws, (0.05, 0.95), axis=0)
        inside += np.sum((low[:4] <= truth[:4]) & (truth[:4] <= high[:4]))
        total += truth[:4].size
        ridge_free = np.linalg.lstsq(known, wanted, rcond=None)[0]
        noise.append(np.sum(np.mean(draws, axis=0)[4:] ** 2) / np.sum(ridge_free[4:] ** 2))
    # 96 intervals of 90 %: within four standard errors.
    assert abs(inside / total - 0.9) < 4 * np.sqrt(0.09 / total)
    assert np.mean(noise) < 0.3  # of what least squares would believe of the twenty columns of noise


def test_rows_that_were_not_seen_are_predicted_from_their_features():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(300, 3))
    known = features @ np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 0.0]]) + 0.3 * rng.normal(size=(300, 2))
    seen = (np.arange(300) >= 100).astype(float)
    filled, covariance = imputed(known, features, seen)
    assert_allclose(filled[100:], known[100:])
    error = known[:100] - filled[:100]
    assert_allclose(np.mean(error**2, axis=0), np.diag(covariance), rtol=0.5)
    assert_allclose(np.diag(covariance), 0.09, rtol=0.35)
    same, nothing = imputed(known, features[:, :0], seen)
    assert_allclose(same, known)
    assert not nothing.any()


def test_linked_rows_count_by_their_precision():
    rng = np.random.default_rng(2)
    n, p, tau, scale = 30, 3, 1.5, 0.4
    known, wanted, linked = rng.normal(size=(n, p)), rng.normal(size=(n, 2)), np.arange(n) < 20
    adjacency = np.triu(rng.random((n, n)) < 0.3, 1) * np.outer(linked, linked)
    adjacency = adjacency + adjacency.T.astype(float)
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    regression = Regression(known, np.full(p, -1), 0.5, np.ones(n), laplacian @ known, linked)
    mean, lower = regression.posterior(regression.sums(wanted, tau, scale), Scales.start(0), tau, scale)
    precision = np.diag(np.where(linked, scale, 1.0)) + scale * tau * laplacian
    expected = known.T @ precision @ known + 0.5 * np.eye(p)
    assert_allclose(lower @ lower.T, expected)
    assert_allclose(mean, np.linalg.solve(expected, known.T @ precision @ wanted))


def test_a_penalty_is_that_of_the_least_error_by_generalised_cross_validation():
    rng = np.random.default_rng(4)
    features, seen = rng.normal(size=(60, 12)), (np.arange(60) >= 20).astype(float)
    known = np.column_stack((features @ rng.normal(size=12), 0.3 * features[:, 0])) + 2.0 * rng.normal(size=(60, 2))
    x, y = features[20:], known[20:]
    filled, covariance = imputed(known, features, seen)
    grid = np.linalg.norm(x, 2) ** 2 * np.logspace(-6, 3, 28)
    chosen = []
    for column in range(2):
        hats = [x @ np.linalg.solve(x.T @ x + penalty * np.eye(12), x.T) for penalty in grid]
        away = [y[:, column] - hat @ y[:, column] for hat in hats]
        best = int(np.argmin([r @ r / (40 - np.trace(hat)) ** 2 for r, hat in zip(away, hats, strict=True)]))
        slopes = np.linalg.solve(x.T @ x + grid[best] * np.eye(12), x.T @ y[:, column])
        assert_allclose(filled[:20, column], features[:20] @ slopes, rtol=1e-8)
        assert_allclose(covariance[column, column], np.mean(away[best] ** 2), rtol=1e-8)
        chosen.append(best)
    assert 0 < chosen[0] < chosen[1]  # without the degrees of freedom it is the least penalty
