"""The rest of the field on the protocols of ``accuracy.py``: baselines, and the models that the paper is set against.

Takes the options of ``accuracy.py`` and prints the same tables. Settings are the defaults of each model, but for what
a row's name says; none was chosen on the seeds that are measured (0 to 4). ``--figures`` prints instead what is
measured on the data as they are: the parts of the APA ballots, Mallows models of Sushi, Bradley-Terry against choix.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

import numpy as np

import accuracy
import permrank as pr
from accuracy import NATS, NDCG, PAIRS, System, biases, permrank_model


def model(name: str, *measures: str, **parameters: Any) -> System | None:
    """A model by the name of its class, asked for NDCG and pairs if nothing else is said."""
    system = permrank_model(name, **parameters)
    return system and system._replace(measures=measures or (NDCG, PAIRS))


# To add a system: a line here. None marks a model that this version does not have.
SYSTEMS: accuracy.Systems = {
    "MeanRating": model("MeanRating"),
    "MeanRating not centred": model("MeanRating", centred=False),
    "user + item bias": System(biases, (NDCG, PAIRS)),
    "Popularity": model("Popularity"),
    "Popularity listed": model("Popularity", count="listed"),
    "Random": model("Random", NDCG, PAIRS, NATS),
    "Borda": model("Borda"),
    "Copeland": model("Copeland"),
    "LatentPreference": model("LatentPreference"),
    "Mallows": model("Mallows", NATS),
    "Mallows 6": model("Mallows", NATS, n_communities=6, n_starts=64),
    "Mallows 6 spearman": model("Mallows", NATS, n_communities=6, n_starts=64, distance="spearman"),
    "BradleyTerry gaussian": model("BradleyTerry", prior="gaussian"),
    "PairwiseFactorisation logistic": model("PairwiseFactorisation"),
    "PairwiseFactorisation hinge": model("PairwiseFactorisation", loss="hinge"),
    "PairwiseFactorisation squared": model("PairwiseFactorisation", loss="squared"),
    "CofiRank NDCG": model("CofiRank"),
    "CofiRank ordinal": model("CofiRank", loss="ordinal"),
    "CofiRank squared": model("CofiRank", loss="squared"),
    "CofiRank squared, no intercepts": model("CofiRank", loss="squared", intercepts=False),
    "ListNet": model("ListNet"),
    "ListMLE": model("ListNet", loss="listmle"),
    "PlackettLuce gaussian": model("PlackettLuce", NDCG, PAIRS, NATS, prior="gaussian", ties="breslow"),
}


def figures() -> None:
    """What is measured without a split."""
    parts = pr.SpectralAnalysis().fit(pr.datasets.load("apa")).components()
    print("APA 1980, mean squares:", ", ".join(f"{name} {value:.1f}" for name, value in parts[:, [0, 2]].rows()))
    sushi = pr.datasets.load("sushi-10")
    for settings in ({}, {"distance": "spearman"}, {"n_communities": 6, "n_starts": 64}):
        begin = time.perf_counter()
        fitted = pr.Mallows(**settings).fit(sushi, verbose=False)
        seconds = time.perf_counter() - begin
        print(f"Sushi-10 in sample, {fitted!r}: {-fitted.log_likelihood(sushi).mean():.4f} nats, {seconds:.1f} s")
    _print_bradley_terry(sushi)


def _print_bradley_terry(rankings: pr.Rankings) -> None:
    import choix

    pairs = [pair for ranking in rankings.lists() for pair in itertools.combinations(ranking, 2)]
    place = {name: index for index, name in enumerate(rankings.item_ids)}
    begin = time.perf_counter()
    wanted = choix.ilsr_pairwise(len(place), [(place[a], place[b]) for a, b in pairs], tol=1e-10)
    between = time.perf_counter()
    found = pr.BradleyTerry(tol=1e-10).fit(rankings, verbose=False)
    difference = np.abs(found.scores_ - wanted).max()
    print(
        f"Bradley-Terry, {len(pairs)} pairs of Sushi-10: differs from choix by {difference:.1e}; "
        f"{time.perf_counter() - between:.3f} s, choix {between - begin:.3f} s"
    )


if __name__ == "__main__":
    if "--figures" in sys.argv:
        figures()
    else:
        accuracy.main(SYSTEMS, __doc__)
