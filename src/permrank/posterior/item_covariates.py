"""What the prior mean of an item's score may depend on: how often it is mentioned, and its mean rating."""

from __future__ import annotations

import numpy as np

from permrank.posterior.item_scores import GaussianPrior
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array

# Ratings of a user, or of an item, that pull its mean half-way from the overall mean: a usual choice.
_HALF_MEAN = 5.0
# An item seen this often counts half in the regression of scores on covariates, whose ridge is in rows' worth.
_HALF_TRUSTED, _RIDGE = 5.0, 0.01


def rating_worths(ratings: Array) -> Float64Array:
    """e^(standardised rating), the scale on which worths are added up."""
    values = ratings.astype(np.float64)
    spread = values.std()
    # A single rating far out must not rule all others: five deviations are enough.
    return np.asarray(np.exp(np.clip((values - values.mean()) / (spread if spread > 0 else 1.0), -5.0, 5.0)))


def item_mentions(rankings: Rankings) -> Float64Array:
    """How often each item is mentioned, weights of rankings counted."""
    weights = rankings.entry_weights()
    return np.asarray(np.bincount(rankings.items, weights, rankings.n_items), np.float64)


def shrunk_means(values: Float64Array, rankings: Rankings, owner: Int32Array) -> Float64Array:
    """Shrunk mean of the values (n_entries,) of each item, after the users' own means have been taken out."""
    values = values - values.mean()
    n_users, n_items = rankings.n_users, rankings.n_items
    user_counts = np.bincount(owner, minlength=n_users) + _HALF_MEAN
    item_counts = np.bincount(rankings.items, minlength=n_items) + _HALF_MEAN
    of_items = np.zeros(n_items)
    for _ in range(10):  # alternating shrunk means settle to three digits in about five rounds
        of_users = np.bincount(owner, values - of_items[rankings.items], n_users) / user_counts
        of_items = np.bincount(rankings.items, values - of_users[owner], n_items) / item_counts
    return np.asarray(of_items)


def item_covariates(rankings: Rankings) -> Float64Array:
    """Logarithm of how often an item is mentioned, and shrunk mean of its ratings if there are any; standardised."""
    columns = [np.log1p(item_mentions(rankings))]
    if rankings.ratings is not None:
        columns.append(shrunk_means(rating_worths(rankings.ratings), rankings, rankings.entry_users(np.int32)))
    known = np.column_stack(columns)
    spread = known.std(axis=0)
    return np.asarray(np.where(spread > 1e-9, (known - known.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0), 0.0))


def informed_prior(rankings: Rankings, scores: Float64Array, variances: Float64Array) -> GaussianPrior:
    """Prior of scores around their regression on the covariates of the items, learnt from scores and their variances.

    Items count by how often they are seen; two imaginary ones of variance 1 keep the scale from 0.
    """
    known, mentions = item_covariates(rankings), item_mentions(rankings)
    trust = mentions / (mentions + _HALF_TRUSTED)
    weighted = known * trust[:, None]
    slopes = np.linalg.solve(weighted.T @ known + _RIDGE * np.eye(known.shape[1]), weighted.T @ scores)
    centre = known @ slopes
    left = float(np.sum(trust * ((scores - centre) ** 2 + variances)))
    return GaussianPrior(float(np.sqrt((left + 2.0) / (trust.sum() + 2.0))), centre)
