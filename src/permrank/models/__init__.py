"""The models, one file per family, and the list of their names."""

from __future__ import annotations

# Class name to module: a model file names a class, and only these can be loaded.
MODELS = {
    "FactoredPlackettLuce": "permrank.models.factored",
    "LatentPlackettLuce": "permrank.models.latent",
    "PlackettLuce": "permrank.models.plackett_luce",
}
