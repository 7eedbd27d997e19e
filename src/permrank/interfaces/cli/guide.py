"""Which model to use when: what ``permrank info --models`` says, by kind."""

from __future__ import annotations

import polars as pl

from permrank.core.ranker import Ranker
from permrank.core.registry import every

# Of every kind its models and when to use each; personal is said where it depends on settings.
_GUIDE: dict[str, dict[str, str]] = {
    "find and order: what would somebody choose, of everything": {
        "Recommender": "ratings, clicks or chosen lists, and you want recommendations: begin here",
        "ItemToItem": "only what is taken up matters, and reasons should be items",
        "ImplicitFactors": "the same, by a few factors of each item",
    },
    "order, personal: how somebody ranks what they see": {
        "FactoredPlackettLuce": "ratings or lists of many items, with calibrated probabilities",
        "FactoredThurstone": "pairs or lists of one sitting, and questions to ask next",
        "LatentPlackettLuce": "people fall into groups that you want to see",
        "PairwiseFactorisation": "an order in a fraction of a second, probabilities of pairs",
        "PositionwiseLogLinear": "short strict lists, as careful at the bottom as at the top",
        "PairwiseLogLinear": "short strict lists, and pairs of items that attract or repel",
        "LatentPreference": "groups that compare in pairs (pLPA)",
        "CofiRank": "to compare with a matrix factorisation for NDCG",
        "ListNet": "items or people have features",
    },
    "one order for all: how good is each item": {
        "PlackettLuce": "ballots, races, surveys of the same items; worths with standard errors",
        "BradleyTerry": "comparisons in pairs, also with draws",
        "Mallows": "a consensus, and how far people stray from it",
        "SpectralAnalysis": "to describe counts of orders of few items, without a model",
    },
    "baselines: what a model has to beat": {
        "MeanRating": "ratings: level of the user plus level of the item",
        "Popularity": "what most people like or take up",
        "Borda": "a voting rule: share of comparisons won",
        "Copeland": "a voting rule: majorities won",
        "Random": "the level of chance",
    },
}
_OTHERS = "others"
_DEPENDS = {"Mallows": "with components"}


def models() -> pl.DataFrame:
    """Every model, by kind: whether it is personal, when to use it, what it assumes and takes, where it comes from."""
    order = {name: (kind, use) for kind, uses in _GUIDE.items() for name, use in uses.items()}
    places = {name: place for place, name in enumerate(order)}
    rows = [_row(kind, *order.get(kind.__name__, (_OTHERS, ""))) for kind in every()]
    return pl.DataFrame(sorted(rows, key=lambda row: places.get(row["model"], len(places))))


def by_kind() -> dict[str, pl.DataFrame]:
    """What fits a terminal: a frame for each kind."""
    frame = models().select("kind", "model", pl.col("personal").alias("personal?"), "use_when")
    return {str(kind): part.drop("kind") for (kind,), part in frame.group_by("kind", maintain_order=True)}


def _row(model: type[Ranker], kind: str, use: str) -> dict[str, str]:
    said = {name: getattr(model, name, "") for name in ("assumes", "takes", "reference")}
    personal = _DEPENDS.get(model.__name__, "yes" if model.personal else "no")
    return {"kind": kind, "model": model.__name__, "personal": personal, "use_when": use or said["assumes"], **said}
