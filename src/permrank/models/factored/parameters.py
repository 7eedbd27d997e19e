"""Parameters of `FactoredPlackettLuce`."""

from __future__ import annotations

from permrank.models.declared import (
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_STARTS,
    MOST_SWEEPS,
    Categorical,
    Checked,
    Declared,
    Flag,
    Float,
    Integer,
    Seed,
)
from permrank.models.factored.estimate import KINDS, TIES, check_damping

PARAMETERS = Declared(
    n_factors=Integer(1, MOST_FACTORS, also=("auto",), tune=(2, 32), help="Factors of every user and item."),
    factor_scale=Float(
        above=0.0,
        also=("auto",),
        tune=(0.3, 3.0),
        tune_also=("auto",),
        when=("method", "draws"),
        help="Prior standard deviation of the score that the factors make.",
    ),
    user_penalty=Float(above=0.0, tune=(0.03, 30.0), when=("method", "point"), help="Penalty of the users' factors."),
    item_penalty=Float(above=0.0, tune=(0.03, 30.0), when=("method", "point"), help="Penalty of the items' factors."),
    intercepts=Flag(tune=(True, False), help="Whether items have an intercept."),
    method=Categorical(("draws", "point"), help="Draws from the posterior, or a penalised mode."),
    ties=Categorical(tuple(TIES), help="What a tie says."),
    rating_thresholds=Flag(when=("method", "draws"), help="Let the level of ratings count."),
    co_listing=Flag(when=("method", "draws"), help="Let what is listed together tell of taste."),
    damping=Checked(
        check_damping,
        f"{', '.join(KINDS)}, list of numbers",
        when=("method", "point"),
        help="Benter's factors of the scores at each stage of a list.",
    ),
    max_iter=Integer(1, MOST_SWEEPS, also=(None,), help="Most sweeps; None: 600 of draws, 5,000 for point."),
    n_draws=Integer(1, MOST_DRAWS, when=("method", "draws"), help="Draws that are kept."),
    n_starts=Integer(1, MOST_STARTS, when=("method", "point"), help="Random starts, of which the best is kept."),
    tol=Float(above=0.0, when=("method", "point"), help="Ends when the objective gains less than this part of itself."),
    seed=Seed(help="Of the draws."),
)
