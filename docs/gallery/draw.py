"""Draw the pictures of the gallery: ``python docs/gallery/draw.py`` writes them beside this file."""

import argparse
from pathlib import Path

import permrank as pr

HERE = Path(__file__).parent
LARGEST = 60_000
# Games of 1987 between seven baseball teams (Agresti 2002, p. 438): wins of the row over the column, home and away.
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
WINS = """
- 7 9 7 7 9 11
6 - 7 5 11 9 9
4 6 - 7 7 8 12
6 8 6 - 6 7 10
6 2 6 7 - 7 12
4 4 5 6 6 - 6
2 4 1 3 1 7 -
"""


def games():
    """Results as comparisons with weights."""
    lists, weights = [], []
    for winner, row in zip(TEAMS, WINS.strip().splitlines(), strict=True):
        for loser, times in zip(TEAMS, row.split(), strict=True):
            if times not in ("-", "0"):
                lists.append([winner, loser])
                weights.append(int(times))
    return pr.Rankings.from_lists(lists, weights=weights)


def figures():
    """Every picture by its name."""
    season = pr.PlackettLuce().fit(games())
    yield "worths", season.plot()
    yield "positions", season.plot("positions")

    people = pr.datasets.load("simulated", n_users=400, n_items=40, n_communities=3)
    train, test = pr.hold_out(people, 0.3)
    apart = pr.datasets.load("simulated", n_users=120, n_items=40, n_communities=3, separation=1.5)
    yield "communities", pr.LatentPlackettLuce(3, mixing="list").fit(apart).plot("communities")

    personal = pr.FactoredPlackettLuce(seed=0).fit(train)
    yield "map", personal.plot("map", n_items=40)
    yield "reliability", personal.plot("reliability", rankings=test)

    factors = pr.PairwiseFactorisation(seed=0).fit(train, validation=pr.Validation(test, every=2, patience=6))
    yield "learning", factors.plot("learning")
    yield "validation", factors.plot("validation")

    orders = season.sample(None, ["Milwaukee", "Boston", "Cleveland", "Baltimore"], size=400, seed=1)
    spectral = pr.SpectralAnalysis().fit(pr.Rankings.from_lists(orders.tolist()))
    yield "effects", spectral.plot()


def main():
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="Write them as PNG too, to look at.")
    asked = parser.parse_args()
    for name, figure in figures():
        path = HERE / f"{name}.svg"
        figure.save(path)
        if asked.png:
            figure.save(asked.png / f"{name}.png")
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        if size > LARGEST:
            raise SystemExit(f"{path} is larger than {LARGEST:,} bytes")


if __name__ == "__main__":
    main()
