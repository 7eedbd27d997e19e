"""The models, one file per family, and the list of their names."""

from __future__ import annotations

# Class name to module, of the models that are built in; registry.py knows others.
MODELS = {
    "Borda": "permrank.families.baselines.borda",
    "BradleyTerry": "permrank.families.pairwise.bradley_terry",
    "CofiRank": "permrank.families.matrix.model",
    "Copeland": "permrank.families.baselines.copeland",
    "FactoredPlackettLuce": "permrank.families.factored.model",
    "FactoredThurstone": "permrank.families.thurstone.model",
    "ImplicitFactors": "permrank.families.catalogue.implicit_factors",
    "ItemToItem": "permrank.families.catalogue.item_to_item",
    "LatentPlackettLuce": "permrank.families.latent.model",
    "LatentPreference": "permrank.families.pairwise.latent_preference",
    "ListNet": "permrank.families.matrix.model",
    "Mallows": "permrank.families.mallows.model",
    "MeanRating": "permrank.families.baselines.mean_rating",
    "PairwiseFactorisation": "permrank.families.matrix.model",
    "PairwiseLogLinear": "permrank.families.log_linear.models",
    "PlackettLuce": "permrank.families.plackett_luce.model",
    "Popularity": "permrank.families.baselines.popularity",
    "PositionwiseLogLinear": "permrank.families.log_linear.models",
    "Random": "permrank.families.baselines.random",
    "Recommender": "permrank.families.catalogue.recommender",
    "SpectralAnalysis": "permrank.families.spectral.model",
}
