"""Where the Gibbs sampler of Thurstone's model stands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Array, Float64Array

_NOTHING = np.zeros(0)


class State(NamedTuple):
    """All that a sweep depends on.

    Attributes
    ----------
    x, components, draws, means, residuals
        See `People`.
    theta : float64 (n_components, n_items, n_columns + 1)
        Loadings on the factors, on the users' level if there are ratings, and mean of every item.
    variances : float64 (n_components, n_items)
    spreads : float64 (n_components, n_columns + 1)
        Prior variances of the columns of theta.
    slopes : float64 (n_components, n_covariates, n_columns + 1)
        How prior means of items depend on what is known of them.
    user_slopes : float64 (n_dimensions, n_columns)
    shares : float64 (n_components,)
    thresholds : float64 (n_thresholds,)
    flip : float
    item_ridge, user_ridge : float
        Prior precisions of the slopes by what is listed together.
    shape : float64 (n_items, n_items + 1)
        Of a full covariance: what the covariances and the means of all components have in common.
    strengths : float64 (4,)
        How closely they follow it; see `FullSampler`.
    item_scales, user_scales : float64 (2, n), (1 or 2, n)
        Learnt scales of the coefficients of features (features.py): of factors and means of items; of factors of users,
        and of their level if there are ratings.
    """

    x: Float64Array
    components: Array
    draws: Float64Array
    means: Float64Array
    residuals: Float64Array
    theta: Float64Array
    variances: Float64Array
    spreads: Float64Array
    slopes: Float64Array
    user_slopes: Float64Array
    shares: Float64Array
    thresholds: Float64Array
    flip: float
    item_ridge: float
    user_ridge: float
    shape: Float64Array = _NOTHING
    strengths: Float64Array = _NOTHING
    item_scales: Float64Array = _NOTHING
    user_scales: Float64Array = _NOTHING
