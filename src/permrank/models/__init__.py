"""The models, one file per family, and the list of their names."""

from __future__ import annotations

# Class name to module: a model file names a class, and only these can be loaded.
MODELS = {
    "Borda": "permrank.models.borda",
    "BradleyTerry": "permrank.models.bradley_terry",
    "CofiRank": "permrank.models.cofirank",
    "Copeland": "permrank.models.copeland",
    "FactoredPlackettLuce": "permrank.models.factored",
    "LatentPlackettLuce": "permrank.models.latent",
    "LatentPreference": "permrank.models.latent_preference",
    "ListNet": "permrank.models.listnet",
    "Mallows": "permrank.models.mallows",
    "MeanRating": "permrank.models.mean_rating",
    "PairwiseFactorisation": "permrank.models.pairwise_factorisation",
    "PairwiseLogLinear": "permrank.models.pairwise_log_linear",
    "PlackettLuce": "permrank.models.plackett_luce",
    "Popularity": "permrank.models.popularity",
    "PositionwiseLogLinear": "permrank.models.positionwise_log_linear",
    "Random": "permrank.models.uniform",
    "SpectralAnalysis": "permrank.models.spectral",
}
