"""Prior of the items of Thurstone's model: regressions on what is known, with variances that are learnt."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammainccinv

from permrank.posterior import prior_means
from permrank.posterior.item_covariates import item_mentions
from permrank.posterior.problem import Problem
from permrank.types import Array, Float64Array

# Inverse gamma priors of variances, (shape, scale): of the factors' columns (the scale is shared by them), and of the
# means of items around their regression.
_FACTORS, _MEANS = (2.0, 1.0), (1.0, 0.5)
# Means of items have a prior deviation of at most 5, as in the factored model: where everybody agrees, nothing else
# bounds it.
_MOST_SPREAD = 25.0
# With ratings the factors' part of a utility has this variance a priori: that of `FactoredPlackettLuce` with ties, .49,
# in units of its logistic noise. A learnt one is larger, and predicts worse (decision 20).
_RATED_SPREAD = 0.49 * 3.0 / np.pi**2
# Prior precision of the slopes by popularity and co-listing, in units of what they explain.
_RIDGE = 1.0


class ItemPrior(prior_means.ItemPrior):
    """θ_zy ~ N(covariates_y Γ_z, spreads_z) for each component z, side by side as columns."""

    exact = True

    def __init__(self, problem: Problem, n_factors: int, n_components: int) -> None:
        size = n_factors + problem.odds + 1
        self.shape = n_components, problem.rankings.n_items, size
        columns = np.arange(n_components * size).reshape(n_components, size)
        self.n_factors, blocks = n_factors, [columns[:, :n_factors].ravel(), columns[:, -1]]
        spreads = np.full((n_components, size), 1.0 / max(n_factors, 1))
        spreads[:, -1] = 0.5
        # Items that nobody lists tell nothing of what is known of them.
        listed = (item_mentions(problem.rankings) > 0).astype(np.float64)
        super().__init__(problem, 1.0 / spreads.ravel(), blocks, listed, _RIDGE, problem.rankings.n_items)

    def flat(self, theta: Float64Array) -> Float64Array:
        """Items as the regression has them, (n_items, n_components * n_columns)."""
        return np.moveaxis(theta, 0, 1).reshape(self.shape[1], -1)

    def by_component(self, rows: Float64Array) -> Float64Array:
        """The reverse of `flat`, of any rows: (n_components, n_rows, n_columns)."""
        return np.moveaxis(rows.reshape(len(rows), self.shape[0], self.shape[2]), 1, 0)

    @property
    def spreads(self) -> Float64Array:
        """Prior variances around the means, (n_components, n_columns)."""
        return 1.0 / self.precision.reshape(self.shape[0], self.shape[2])

    def energy(self, theta: Float64Array) -> tuple[Float64Array, int]:
        """Minus twice the log-density of items and coefficients, by column, constants left out; terms of a column."""
        away = (self.flat(theta) - self.centre) ** 2
        squares = away.sum(axis=0)
        for block, scales in zip(self.blocks, self.scales, strict=True):
            squares[block] += self.regression.precisions(scales) @ self.slopes[:, block] ** 2
        squares[self.levels] = 0.0
        return np.asarray(squares * self.precision), len(away) + len(self.slopes)

    def stretch(self, factors: Float64Array, theta: Float64Array) -> None:
        """Take the slopes of all components times these factors, (n_columns,), as the items have been."""
        self.hold(self.flat(theta), self.slopes * np.tile(factors, self.shape[0]))

    def _learn_precision(self, away: Float64Array, rng: prior_means.Generator | None) -> None:
        """Draws of the variances, inverse gamma; the intercepts' is cut at `_MOST_SPREAD`."""
        assert rng is not None
        free = 0.5 * (self._weights.sum() + len(self.slopes))
        squares = self._weights @ away**2
        for block, scales in zip(self.blocks, self.scales, strict=True):
            squares[block] += self.regression.precisions(scales) @ self.slopes[:, block] ** 2
        factors, means = self.blocks
        rates = _FACTORS[1] / max(self.n_factors, 1) + 0.5 * squares[factors]
        self.precision[factors] = rng.standard_gamma(_FACTORS[0] + free, size=factors.size) / rates
        if self._problem.odds:
            self.precision[factors] = self.n_factors / _RATED_SPREAD
        for column, rate in zip(means, _MEANS[1] + 0.5 * squares[means], strict=True):
            gamma = rng.standard_gamma(_MEANS[0] + free)
            if rate > gamma * _MOST_SPREAD:  # then a draw from what is allowed
                most = gammaincc(_MEANS[0] + free, rate / _MOST_SPREAD)
                gamma = gammainccinv(_MEANS[0] + free, rng.random() * most) if most > 0.0 else 0.0
            self.precision[column] = max(gamma / rate, 1.0 / _MOST_SPREAD)

    def drawn_new(self, theta: Float64Array, rng: prior_means.Generator) -> None:
        """Draw items that nobody lists from their prior, in place: slopes were drawn without them."""
        if self.new.size:
            drawn = self.centre[self.new] + rng.normal(size=(self.new.size, self.precision.size)) / np.sqrt(
                self.precision
            )
            drawn[:, self.levels] = self.centre[self.new][:, self.levels]
            theta[:, self.new] = self.by_component(drawn)

    def with_popularity(self, theta: Float64Array, rng: prior_means.Generator) -> Float64Array:
        """Items, with a draw of what features leave open of the other covariates of those that nobody lists."""
        base = self._problem.n_base
        if not (self.new.size and base and self._problem.known.items.shape[1]):
            return theta
        values, vectors = np.linalg.eigh(self._problem.unsure)
        away = rng.normal(size=(self.new.size, base)) * np.sqrt(np.maximum(values, 0.0))
        theta = theta.copy()
        theta[:, self.new] += self.by_component(away @ vectors.T @ self.slopes[:base])
        return theta

    def effects(self, users: prior_means.UserPrior, shares: Float64Array) -> tuple[Array, ...]:
        """What features and links are worth; over components, the mean."""
        slopes = np.einsum("z,zjk->jk", shares, self.by_component(self.slopes))
        spread = np.einsum("z,zk->k", shares, self.spreads)[: self.n_factors]
        columns = [*range(self.n_factors), self.shape[2] - 1]
        return prior_means.effects_of_features(self, users, self._problem, slopes[:, columns], spread)
