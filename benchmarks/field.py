"""The rest of the field on the protocols of ``accuracy.py``: baselines, and the models that the paper is set against.

Takes the options of ``accuracy.py`` and prints the same tables. Settings are the defaults of each model, but for what
a row's name says; none was chosen on the seeds that are measured (0 to 4).
"""

from __future__ import annotations

import accuracy
from accuracy import NDCG, PAIRS, System, biases, permrank_model

# To add a system: a line here. None marks a model that this version does not have.
SYSTEMS: accuracy.Systems = {
    "MeanRating": permrank_model("MeanRating"),
    "MeanRating not centred": permrank_model("MeanRating", centred=False),
    "user + item bias": System(biases, (NDCG, PAIRS)),
    "Popularity": permrank_model("Popularity"),
    "Popularity listed": permrank_model("Popularity", count="listed"),
    "Random": permrank_model("Random"),
    "Borda": permrank_model("Borda"),
    "Copeland": permrank_model("Copeland"),
    "BradleyTerry gaussian": permrank_model("BradleyTerry", prior="gaussian"),
    "PairwiseFactorisation logistic": permrank_model("PairwiseFactorisation"),
    "PairwiseFactorisation hinge": permrank_model("PairwiseFactorisation", loss="hinge"),
    "PairwiseFactorisation squared": permrank_model("PairwiseFactorisation", loss="squared"),
    "CofiRank NDCG": permrank_model("CofiRank"),
    "CofiRank ordinal": permrank_model("CofiRank", loss="ordinal"),
    "CofiRank squared": permrank_model("CofiRank", loss="squared"),
    "ListNet": permrank_model("ListNet"),
    "ListMLE": permrank_model("ListNet", loss="listmle"),
    "PlackettLuce gaussian": permrank_model("PlackettLuce", prior="gaussian", ties="breslow"),
}


if __name__ == "__main__":
    accuracy.main(SYSTEMS, __doc__)
