"""The Gibbs sampler of Thurstone's model with a full covariance matrix, for populations of few items.

In component z utilities of all n items are N(μ_z, Σ_z), with a prior that the components share:

    Σ_z ~ inverse Wishart(ν, (ν - n - 1) Ω),  μ_z ~ N(μ_0, Σ_z / κ),  Ω ~ Wishart(m, 1 / m),  μ_0 ~ N(0, 1 / λ),

with ν and m on a grid and κ, λ ~ Gamma(1, 1), all of them learnt. To the moves of users it is a model with n factors:
Σ = H Hᵀ + d 1 with d half the smallest eigenvalue of Σ, so that all that is asked of the model is answered as with
factors. Items that a user has not listed are drawn given the factors; then all of the above is conjugate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import multigammaln

from permrank.families.thurstone.sampler import GibbsState, Sampler
from permrank.randomness import stream_key
from permrank.types import Float64Array

# Degrees of freedom above the number of items: from a heavy tail to a matrix that hardly varies.
_GRID = 2.0 ** np.arange(1, 9)
# Gamma prior of κ and λ, (shape, rate).
_MEANS = (1.0, 1.0)
# Share of the smallest eigenvalue that is noise of the items.
_OWN = 0.5


class FullSampler(Sampler):
    """State of the draws; ``strengths`` of the state are ν, m, κ, λ, ``shape`` is Ω beside μ_0."""

    def _start(self, n_components: int) -> GibbsState:
        state, n = super()._start(n_components), self.problem.rankings.n_items
        means, rng = state.theta[0, :, -1], np.random.default_rng(int(stream_key(int(self._key), 8)))
        theta = np.zeros((n_components, n, n + 1))
        theta[:, range(n), range(n)] = np.sqrt(1.0 - _OWN)
        theta[..., -1] = means + (0.3 * rng.normal(size=(n_components, n)) if n_components > 1 else 0.0)
        return state._replace(
            theta=theta, variances=np.full((n_components, n), _OWN), shape=np.column_stack((np.eye(n), means)),
            strengths=np.array([n + 4.0, n + 4.0, 1.0, 1.0]),
        )  # fmt: skip

    def _draw_population(self, number: int, rng: np.random.Generator) -> None:
        state, n = self.state, self.problem.rankings.n_items
        sums = self._passes.scatter(self.population, stream_key(int(self._key), number, 3), self.people)
        omega, centre = state.shape[:, :n], state.shape[:, n]
        freedom, m, kappa, precision = state.strengths
        inverses, means = np.empty((len(sums), n, n)), np.empty((len(sums), n))
        for z, lower in enumerate(sums):
            moments = lower + np.tril(lower, -1).T
            count, total = moments[n, n], kappa * centre + moments[n, :n]
            mean = total / (kappa + count)
            scatter = (freedom - n - 1.0) * omega + moments[:n, :n] + kappa * np.outer(centre, centre)
            scatter -= np.outer(total, mean)
            inverses[z] = wishart(rng, freedom + count, np.linalg.inv(0.5 * (scatter + scatter.T)))
            covariance = np.linalg.inv(inverses[z])
            means[z] = mean + np.linalg.cholesky(covariance) @ rng.normal(size=n) / np.sqrt(kappa + count)
        # What the components have in common
        prior = m * np.eye(n) + (freedom - n - 1.0) * inverses.sum(axis=0)
        omega = wishart(rng, m + len(sums) * freedom, np.linalg.inv(prior))
        normal = precision * np.eye(n) + kappa * inverses.sum(axis=0)
        half = np.linalg.cholesky(normal)
        centre = np.linalg.solve(normal, kappa * np.einsum("zij,zj->i", inverses, means))
        centre += np.linalg.solve(half.T, rng.normal(size=n))
        away = means - centre
        square = float(np.einsum("zi,zij,zj->", away, inverses, away))
        kappa = rng.standard_gamma(_MEANS[0] + 0.5 * means.size) / (_MEANS[1] + 0.5 * square)
        precision = rng.standard_gamma(_MEANS[0] + 0.5 * n) / (_MEANS[1] + 0.5 * float(centre @ centre))
        freedom = n + _chosen(rng, [sum(_log_wishart(v, n + g, (g - 1.0) * omega) for v in inverses) for g in _GRID])
        m = n + _chosen(rng, [_log_wishart(omega, n + g, (n + g) * np.eye(n)) for g in _GRID])
        # Everything times c leaves what is observed alone; the priors of Ω and μ_0 alone notice.
        rate = 0.5 * (m * np.trace(omega) + precision * float(centre @ centre))
        c = float(np.sqrt(rng.standard_gamma(0.5 * n * (m + 1.0)) / rate))
        omega, centre, means, inverses = c**2 * omega, c * centre, c * means, inverses / c**2
        np.multiply(state.x, c, out=state.x)
        for z, inverse in enumerate(inverses):
            state.theta[z], state.variances[z] = _with_factors(np.asarray(np.linalg.inv(inverse), np.float64), means[z])
        strengths = np.array([freedom, m, kappa, precision])
        self.state = state._replace(shape=np.column_stack((omega, centre)), strengths=strengths)


def wishart(rng: np.random.Generator, freedom: float, scale: Float64Array) -> Float64Array:
    """A draw from the Wishart distribution, by Bartlett's decomposition."""
    n = len(scale)
    lower = np.tril(rng.normal(size=(n, n)), -1)
    lower[range(n), range(n)] = np.sqrt(2.0 * rng.standard_gamma(0.5 * (freedom - np.arange(n))))
    half = np.linalg.cholesky(0.5 * (scale + scale.T)) @ lower
    return np.asarray(half @ half.T)


def _log_wishart(matrix: Float64Array, freedom: float, rate: Float64Array) -> float:
    """Log-density of Wishart(freedom, rate^-1), without terms of the matrix alone."""
    n = len(matrix)
    value = freedom * (np.linalg.slogdet(rate)[1] + np.linalg.slogdet(matrix)[1]) - float(np.sum(rate * matrix))
    return float(0.5 * (value - freedom * n * np.log(2.0)) - multigammaln(0.5 * freedom, n))


def _chosen(rng: np.random.Generator, logs: list[float]) -> float:
    """A value of the grid by its log-probability."""
    p = np.exp(np.array(logs) - max(logs))
    return float(rng.choice(_GRID, p=p / p.sum()))


def _with_factors(covariance: Float64Array, mean: Float64Array) -> tuple[Float64Array, float]:
    """Factors beside the mean, and the variance of the noise."""
    own = _OWN * float(np.linalg.eigvalsh(covariance)[0])
    loads = np.linalg.cholesky(covariance - own * np.eye(len(mean)))
    return np.column_stack((loads, mean)), own
