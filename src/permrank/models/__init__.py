"""The models, one file per family, and the list of their names."""

from __future__ import annotations

# Class name to module, of the models that are built in; registry.py knows others.
MODELS = {
    "Borda": "permrank.models.baselines.borda",
    "BradleyTerry": "permrank.models.pairwise.bradley_terry",
    "CofiRank": "permrank.models.matrix.cofirank",
    "Copeland": "permrank.models.baselines.copeland",
    "FactoredPlackettLuce": "permrank.models.factored.model",
    "FactoredThurstone": "permrank.models.thurstone.model",
    "ImplicitFactors": "permrank.models.catalogue.implicit_factors",
    "ItemToItem": "permrank.models.catalogue.item_to_item",
    "LatentPlackettLuce": "permrank.models.latent.model",
    "LatentPreference": "permrank.models.pairwise.latent_preference",
    "ListNet": "permrank.models.matrix.listnet",
    "Mallows": "permrank.models.distance.mallows",
    "MeanRating": "permrank.models.baselines.mean_rating",
    "PairwiseFactorisation": "permrank.models.matrix.pairwise_factorisation",
    "PairwiseLogLinear": "permrank.models.log_linear.pairwise",
    "PlackettLuce": "permrank.models.plackett_luce.pooled",
    "Popularity": "permrank.models.baselines.popularity",
    "PositionwiseLogLinear": "permrank.models.log_linear.positionwise",
    "Random": "permrank.models.baselines.random",
    "Recommender": "permrank.models.catalogue.recommender",
    "SpectralAnalysis": "permrank.models.spectral.spectral",
}
