"""Speed and calibration of the factored model on MovieLens 1M (see accuracy.py for how well it ranks).

Prints the time of the default fit to all ratings, of a thousand new users with 20 items each, and, for 50 given ratings
a user, how often held-out pairs of different ratings come true against ``prefers``. Needs PERMRANK_DATA or a network.
"""

from __future__ import annotations

import time

import numpy as np

import permrank as pr
import splits

PEOPLE, ITEMS, PAIRS = 1_500, 60, 60  # users looked at, and at most so many items and pairs of each
FEWEST = 1_000  # pairs in a bin that is judged


def speed() -> None:
    ratings = pr.datasets.load("ml-1m")
    pr.FactoredPlackettLuce(max_iter=5).fit(ratings, verbose=False)  # compiles
    begin = time.perf_counter()
    model = pr.FactoredPlackettLuce().fit(ratings, verbose=False)
    print(f"default fit to {ratings.n_entries:,} ratings: {time.perf_counter() - begin:.1f} s (wanted at most 20)")
    rng, ids = np.random.default_rng(0), np.array(list(ratings.item_ids))
    new = pr.Rankings.from_lists({i: rng.permutation(ids)[:20].tolist() for i in range(1_000)})
    model.fold_in_many(new)
    begin = time.perf_counter()
    model.fold_in_many(new)
    print(f"1,000 new users with 20 items each: {time.perf_counter() - begin:.2f} s (wanted below 1)", flush=True)


def calibration() -> None:
    split = splits.weak_generalisation("ml-1m", 50, 0)
    train, test = split.train, split.test
    rankings = pr.Rankings.from_ratings({"user": train.users, "item": train.items, "rating": train.ratings})
    model = pr.FactoredPlackettLuce().fit(rankings, verbose=False)
    rng, known = np.random.default_rng(0), np.isin(test.items, rankings.item_ids.ids.to_numpy())
    predicted, observed = [], []
    for user in rng.permutation(rankings.n_users)[:PEOPLE]:
        rows = rng.permutation(np.flatnonzero((test.users == user) & known))[:ITEMS]
        places = model.item_ids.indices(test.items[rows].tolist())
        scores = model._score_draws(model._reference(int(user)), places)  # what prefers() averages, all items at once
        first, second = rng.integers(rows.size, size=(2, PAIRS))
        differ = test.ratings[rows[first]] != test.ratings[rows[second]]
        first, second = first[differ], second[differ]
        predicted += np.mean(1.0 / (1.0 + np.exp(scores[:, second] - scores[:, first])), axis=0).tolist()
        observed += (test.ratings[rows[first]] > test.ratings[rows[second]]).tolist()
    place, came = np.floor(10 * np.array(predicted)), np.array(observed)
    for bin_ in np.unique(place):
        inside = place == bin_
        if inside.sum() >= FEWEST:
            mean = np.array(predicted)[inside].mean()
            print(f"prefers {mean:.3f}   came true {came[inside].mean():.3f}   pairs {inside.sum():,}")


if __name__ == "__main__":
    speed()
    calibration()
