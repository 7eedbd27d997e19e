"""Answers of a model that keeps draws: every probability is an average over the posterior of items and user."""

from __future__ import annotations

from typing import Any

import numpy as np

from permrank.checks import require_memory, whole_from
from permrank.data.rankings import Rankings, require_rankings
from permrank.distributions.base import RankingDistribution
from permrank.distributions.luce import LuceMixture
from permrank.kernels.factored.items import item_noise
from permrank.kernels.factored.users import posterior_draws, user_log_likelihoods
from permrank.models.factored.problem import Lists, one_user
from permrank.models.priors.co_listing import user_places
from permrank.models.ranker import Ranker
from permrank.models.users import NewUser, UserReference
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.types import Float64Array, Int64Array

# Vectors of a user drawn for each kept draw of the items: with 64 of those, 256 in all, so that the sampling error of
# an averaged probability is at most 0.5 / sqrt(256) = 0.03 and mostly a tenth of that.
_USER_DRAWS = 4


class PosteriorAnswers(Ranker):
    """Distribution answers from ``item_draws_`` and the user's Laplace posterior given each of them."""

    item_draws_: Any
    company_: Any
    user_slopes_: Any
    item_variances_: Any
    temperature_: float
    ties: Any

    def _precision(self) -> Float64Array:
        raise NotImplementedError

    def _modes(self, user: UserReference) -> Float64Array:
        raise NotImplementedError

    def _tie_code(self) -> int:
        from permrank.models.factored.model import TIES

        return TIES[self.ties]

    def _lists(self, rankings: Rankings) -> Lists:
        raise NotImplementedError

    def _places(self, rankings: Rankings, *, alone: bool = False) -> Float64Array:
        """Places of users by what they list (models/priors/co_listing.py); ``alone``: every ranking is a user's."""
        bounds = rankings.indptr if alone else rankings.indptr[rankings.user_indptr]
        return user_places(np.asarray(self.company_, np.float64), *frozen(bounds, self._aligned_items(rankings)))

    def _slopes(self, draw: int) -> Float64Array:
        return np.asarray(self.user_slopes_[draw], np.float64)

    def _user_rankings(self, user: UserReference) -> Rankings:
        return user.rankings if isinstance(user, NewUser) else one_user(self.rankings_, int(user or 0))

    def _user_lists(self, user: UserReference) -> Lists:
        """Lists of one user as they were learnt from."""
        return self._lists(self._user_rankings(user))

    def _user_draws(self, user: UserReference, size: int = _USER_DRAWS) -> Float64Array:
        """Draws of the user's vector: (n_kept, size, n_factors)."""
        lists, modes, places = self._user_lists(user), self._modes(user), self._places(self._user_rankings(user))
        out = np.empty((len(modes), size, modes.shape[1]))
        for d, theta in enumerate(self.item_draws_):
            out[d] = posterior_draws(
                *lists, self._tie_code(), theta.astype(np.float64), self._precision(), modes[d][None].copy(),
                stream_key(0, d), size, np.empty((1, size)), places, self._slopes(d),
            )[0]  # fmt: skip
        return out

    def _score_draws(self, user: UserReference, items: Int64Array) -> Float64Array:
        """Scores of items under every draw, the items' own uncertainty included: (n_kept * _USER_DRAWS, n_items)."""
        theta = self.item_draws_[:, items].astype(np.float64)
        scores = np.einsum("dik,djk->dji", theta[:, :, :-1], self._user_draws(user)) + theta[:, None, :, -1]
        spread = np.sqrt(self.item_variances_[:, None, items].astype(np.float64))
        scores += spread * item_noise(items, scores.shape[0], scores.shape[1], stream_key(2))
        return np.asarray(self.temperature_ * scores.reshape(scores.shape[0] * scores.shape[1], items.size))

    @property
    def _knows_ranks(self) -> bool:
        return True

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        return LuceMixture(self._score_draws(user, items))

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking with its user integrated out, as if given by somebody new.

        Items are at their means given the users of each draw that was kept; their own uncertainty is left out here.
        See `log_likelihood_with_error` for the error of the estimator.
        """
        return self.log_likelihood_with_error(rankings)[0]

    def _check_points(self, size: object, n_rankings: int) -> None:
        """Raise unless so many vectors can be drawn for each kept draw and ranking."""
        whole_from("size", size, 1)
        n_points = int(size) * n_rankings * len(self.item_draws_)  # type: ignore[call-overload]
        require_memory(24 * n_points, f"size={size} draws for each of {n_rankings} rankings", "take fewer")

    def log_likelihood_with_error(self, rankings: Rankings, size: int = 64) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities with the user integrated over the prior by importance sampling, and standard errors.

        Parameters
        ----------
        rankings : Rankings
            Every ranking is taken for that of a person of whom nothing else is known.
        size : int
            Draws from the Laplace posterior for every kept draw of the items.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        self._require_fitted()
        n, precision = require_rankings(rankings).n_rankings, self._precision()
        self._check_points(size, n)
        items, each, ones = frozen(self._aligned_items(rankings), np.arange(n + 1), np.ones(n))
        data = (each, rankings.indptr, items, rankings.levels, ones, self._tie_code())
        places = self._places(rankings, alone=True)
        parts = np.empty((n, len(self.item_draws_), size))
        constant = 0.5 * float(np.sum(np.log(precision / (2.0 * np.pi))))
        for d, stored in enumerate(self.item_draws_):
            theta, density = stored.astype(np.float64), np.empty((n, size))
            users = posterior_draws(
                *data, theta, precision, np.zeros((n, precision.size)), stream_key(1, d), size, density, places,
                self._slopes(d),
            )  # fmt: skip
            means = np.einsum("uj,jk->uk", places, self._slopes(d))
            for j in range(size):
                point = np.ascontiguousarray(users[:, j])
                likelihood = user_log_likelihoods(*data, theta, point)
                parts[:, d, j] = likelihood + constant - 0.5 * ((point - means) ** 2 @ precision) - density[:, j]
        flat = parts.reshape(n, -1)
        top = flat.max(axis=1, keepdims=True)
        weights = np.exp(flat - top)
        mean = weights.mean(axis=1)
        errors = weights.std(axis=1) / (mean * np.sqrt(flat.shape[1]))
        return np.asarray(top[:, 0] + np.log(mean)), np.asarray(errors)
