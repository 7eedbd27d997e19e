"""Where the Gibbs sampler of Thurstone's model stands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Array, Float64Array

_NOTHING = np.zeros(0)


class State(NamedTuple):
    """All that a sweep depends on, beside the priors of items and users.

    Attributes
    ----------
    x, components, draws, means, residuals
        See `People`.
    theta : float64 (n_components, n_items, n_columns + 1)
        Loadings on the factors, on the users' level if there are ratings, and mean of every item.
    variances : float64 (n_components, n_items)
    shares : float64 (n_components,)
    thresholds : float64 (n_thresholds,)
    flip : float
    shape : float64 (n_items, n_items + 1)
        Of a full covariance: what the covariances and the means of all components have in common.
    strengths : float64 (4,)
        How closely they follow it; see `FullSampler`.
    """

    x: Float64Array
    components: Array
    draws: Float64Array
    means: Float64Array
    residuals: Float64Array
    theta: Float64Array
    variances: Float64Array
    shares: Float64Array
    thresholds: Float64Array
    flip: float
    shape: Float64Array = _NOTHING
    strengths: Float64Array = _NOTHING
