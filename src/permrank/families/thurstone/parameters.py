"""Parameters of `FactoredThurstone`."""

from __future__ import annotations

from permrank.core.declared import (
    MOST_COMMUNITIES,
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_SWEEPS,
    Categorical,
    Declared,
    Flag,
    Integer,
    Seed,
)

PARAMETERS = Declared(
    n_factors=Integer(1, MOST_FACTORS, tune=(2, 32), help="Factors of every user and item."),
    covariance=Categorical(("auto", "factors", "full"), help="Of utilities; auto: any matrix up to 50 items."),
    one_draw=Flag(help="Whether all rankings of a user share one draw of utilities."),
    n_components=Integer(1, MOST_COMMUNITIES, also=(None,), help="Populations in a mixture; None: by the data."),
    item_noise=Flag(help="Learn the deviation of the noise of every item; else it is 1."),
    rating_thresholds=Flag(help="Let the level of ratings count."),
    co_listing=Flag(help="Let what is listed together tell of taste."),
    max_iter=Integer(1, MOST_SWEEPS, also=(None,), help="Sweeps; None: 100 to 600."),
    n_draws=Integer(1, MOST_DRAWS, help="Draws that are kept."),
    seed=Seed(help="Of the draws."),
)
