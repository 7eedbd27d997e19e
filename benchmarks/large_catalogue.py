"""A catalogue of a million items: does `Recommender` end, in how much memory, and how quick is an answer?

`python benchmarks/large_catalogue.py` simulates 1 million people, 1 million items and 20 million entries: popularity
falls as a power law, and people choose within one of a thousand tastes. It prints seconds and gigabytes.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import polars as pl

import permrank as pr


def gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def interactions(n_users: int, n_items: int, n_entries: int, n_tastes: int, seed: int) -> pl.DataFrame:
    """Rows of user and item; so many more are drawn than entries are wanted that enough differ."""
    n_entries = round(1.65 * n_entries)
    rng = np.random.default_rng(seed)
    users = rng.integers(n_users, size=n_entries, dtype=np.int64)
    # Zipf with exponent 1 by inversion: popular items come first, and every taste has items of all popularities.
    rank = np.minimum(np.exp(rng.random(n_entries) * np.log(n_items)).astype(np.int64), n_items) - 1
    own = rng.random(n_entries) < 0.8
    taste = users % n_tastes
    items = np.where(own, rank // n_tastes * n_tastes + taste, rank)
    return pl.DataFrame({"user": users, "item": np.minimum(items, n_items - 1)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=20_000_000)
    parser.add_argument("--factors", type=int, help="as many as the model chooses unless given")
    parser.add_argument("--seed", type=int, default=10)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    frame = interactions(arguments.users, arguments.items, arguments.entries, 1000, arguments.seed)
    rankings = pr.Rankings.from_interactions(frame)
    del frame
    print(f"data     {rankings!r} {time.perf_counter() - begin:7.1f} s {gigabytes():5.1f} GB", flush=True)
    model = pr.Recommender(n_factors=arguments.factors or "auto").fit(rankings)
    print(f"fit      {model.fit_seconds_:7.1f} s {gigabytes():5.1f} GB, held-out NDCG {model.history_}", flush=True)
    people = list(rankings.user_ids)[:: max(1, rankings.n_users // 20)][:20]
    model.recommend(people[0])
    begin = time.perf_counter()
    for person in people:
        model.recommend(person)
    print(
        f"ten best of {rankings.n_items:,} items {1000 * (time.perf_counter() - begin) / len(people):7.1f} ms a person"
    )
    new = rankings.lists(people[1])[0]
    model.recommend(model.fold_in(new))
    begin = time.perf_counter()
    model.recommend(model.fold_in(new))
    print(f"somebody new              {1000 * (time.perf_counter() - begin):7.1f} ms")


if __name__ == "__main__":
    main()
