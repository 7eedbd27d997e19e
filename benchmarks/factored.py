"""Speed, memory and calibration of the factored model (see accuracy.py for how well it ranks).

On MovieLens 1M: the time of the default fit to all ratings, of a thousand new users with 20 items each, and, for 50
given ratings a user, how often held-out pairs of different ratings come true against ``prefers`` (needs PERMRANK_DATA
or a network). On simulated lists: a sweep of the point estimate at 32 factors over 20 million entries, beside an
iteration of implicit's ALS in the same run; how its time grows; its peak memory; and how the damped likelihood grows
with a list. Seconds of the processor, over all threads, are printed too: other work on the machine changes them less.
``--only`` runs some of the parts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import permrank as pr
import splits
from peers import peak_megabytes, peer_python, run_peer
from permrank.errors import ConvergenceWarning
from permrank.kernels.luce.damping import damped_statistics, damping_sequence
from permrank.rankings.vocabulary import Vocabulary

PEOPLE, ITEMS, PAIRS = 1_500, 60, 300  # users looked at, and at most so many items and pairs of each
FEWEST = 1_000  # pairs in a bin that is judged
RELIABILITY: Path | None = None  # where the picture goes, from the command line
USERS, LENGTH, CATALOGUE, FACTORS = 200_000, 100, 20_000, 32  # 20 million entries


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
    mentions = np.bincount(train.items, minlength=train.n_items)
    predicted, observed, rarer = [], [], []
    for user in rng.permutation(rankings.n_users)[:PEOPLE]:
        rows = rng.permutation(np.flatnonzero((test.users == user) & known))[:ITEMS]
        places = model.item_ids.indices(test.items[rows].tolist())
        scores = model.fitted_.settings._score_draws(
            model.fitted_, model.person(int(user)), places
        )  # what prefers() averages, all items at once
        first, second = rng.integers(rows.size, size=(2, PAIRS))
        differ = test.ratings[rows[first]] != test.ratings[rows[second]]
        first, second = first[differ], second[differ]
        predicted += np.mean(1.0 / (1.0 + np.exp(scores[:, second] - scores[:, first])), axis=0).tolist()
        observed += (test.ratings[rows[first]] > test.ratings[rows[second]]).tolist()
        rarer += np.minimum(*mentions[test.items[rows[[first, second]]]]).tolist()
    predicted, came, rarer = np.array(predicted), np.array(observed), np.array(rarer)
    rows = bins(predicted, came)
    for mean, share, n in rows:
        print(f"prefers {mean:.3f}   came true {share:.3f}   pairs {n:,}")
    worst = max(abs(mean - share) for mean, share, _ in rows)
    print(f"temperature {model.temperature_:.2f}, furthest off {100 * worst:.1f} points (wanted at most 2)", flush=True)
    for low, high in ((1, 10), (10, 30), (30, 100), (100, np.inf)):
        part = (rarer >= low) & (rarer < high)
        off = max(bins(predicted[part], came[part]), key=lambda row: abs(row[0] - row[1]))
        print(
            f"  the rarer item rated {low} to {high} times: {off[0]:.3f} came true {off[1]:.3f} in the bin furthest off"
        )
    if RELIABILITY is not None:
        draw(rows, RELIABILITY)


def bins(predicted: np.ndarray, came: np.ndarray) -> list[tuple[float, float, int]]:
    """Mean prediction, share that came true and number of the pairs in each tenth that holds enough of them."""
    place = np.minimum(np.floor(10 * predicted), 9)
    return [
        (predicted[place == b].mean(), came[place == b].mean(), int(np.sum(place == b)))
        for b in np.unique(place)
        if np.sum(place == b) >= FEWEST
    ]


def partial() -> None:
    """A third of the people of ML-100K added later: correlation of scores with those of a full fit."""
    ratings = pr.datasets.load("ml-100k")
    people = list(ratings.user_ids)
    grown = pr.FactoredPlackettLuce().fit(ratings.drop(users=people[::3]), verbose=False)
    grown.partial_fit(ratings.select(users=people[::3]), verbose=False)
    full, other = (pr.FactoredPlackettLuce(seed=seed).fit(ratings, verbose=False) for seed in (0, 1))
    found = []
    for user in people[::10]:
        scores = [model.score(user, ratings.item_ids) for model in (full, grown, other)]
        found.append(np.corrcoef(scores)[0, 1:])
    after, among = np.mean(found, axis=0)
    print(f"scores after partial_fit correlate {after:.4f} with a full fit, two full fits {among:.4f}", flush=True)


def draw(rows: list[tuple[float, float, int]], path: Path) -> None:
    """A picture of predicted against observed frequencies."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "permrank"  # the same picture is the same file
    figure = Figure(figsize=(4.5, 4.2), layout="constrained")
    axes = figure.add_subplot(xlabel="predicted by prefers()", ylabel="came true", xlim=(0, 1), ylim=(0, 1), aspect=1)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    mean, share, _ = np.array(rows).T
    axes.plot(mean, share, "o-", color="#1f6f8b", markersize=5)
    axes.set_title("ML-1M, 50 ratings given, held-out pairs", fontsize=10)
    figure.savefig(path, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))


def lists_of_items(items: np.ndarray, n_users: int) -> pr.Rankings:
    """Strict lists of LENGTH items each."""
    ids = [Vocabulary(pl.Series(kind, np.arange(n)), kind) for kind, n in (("user", n_users), ("item", CATALOGUE))]
    return pr.Rankings._trusted(
        np.arange(n_users + 1), np.arange(n_users + 1) * LENGTH, items[: n_users * LENGTH],
        np.tile(np.arange(LENGTH, dtype=np.int32), n_users), np.ones(n_users), *ids,
    )  # fmt: skip


def sweep_seconds(rankings: pr.Rankings, n_sweeps: int, posterior: str = "point") -> tuple[float, float]:
    """Wall and processor seconds of a sweep, the mean over all but the first."""
    stamps: list[tuple[float, float]] = []
    n_factors = FACTORS if posterior == "point" else FACTORS // 2
    model = pr.FactoredPlackettLuce(n_factors, method=posterior, max_iter=n_sweeps, tol=1e-12, n_draws=1, n_starts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rankings, verbose=False, callback=lambda _: stamps.append((time.perf_counter(), time.process_time())))
    wall, processor = (np.array(stamps[-1]) - np.array(stamps[0])) / (n_sweeps - 1)
    return float(wall), float(processor)


def simulated_items(folder: Path) -> Path:
    """Items of 200,000 lists, in a file for the processes that are measured."""
    drawn = pr.datasets.simulated(
        USERS, CATALOGUE, n_communities=1, separation=0.0, n_factors=8, list_length=LENGTH, seed=10
    )
    path = folder / "items.npy"
    np.save(path, drawn.rankings.items)
    return path


def point() -> None:
    """A sweep beside an iteration of ALS, its growth, and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = simulated_items(Path(folder))
        items = np.load(path)
        users = np.repeat(np.arange(USERS, dtype=np.int32), LENGTH)
        rows = Path(folder) / "rows.npz"
        np.savez(rows, users=users, items=items, ratings=np.ones(items.size, np.float32))
        python = peer_python("implicit")
        found = []
        for _ in range(2):  # in turns, and the better of the two each
            peer = run_peer(python, "peer_als_iteration.py", rows, FACTORS, 2, 1)
            command = [sys.executable, __file__, "--measure", str(path)]
            mine = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found.append((mine["wall"], peer["seconds"], mine["processor"], peer["processor"], mine["peak"]))
            print(f"  sweep {mine['wall']:.2f} s, ALS {peer['seconds']:.2f} s, {mine}", flush=True)
        wall, als, processor, als_processor, peak = np.min(found, axis=0)
        print(
            f"sweep over {items.size:,} entries, K = {FACTORS}: {wall:.2f} s over {als:.2f} s of ALS: {wall / als:.2f} "
            f"(wanted at most 0.5); of the processor {processor:.2f} over {als_processor:.2f} s: "
            f"{processor / als_processor:.2f}"
        )
        rankings = lists_of_items(items, USERS)
        arrays = (rankings.items, rankings.levels, rankings.indptr, rankings.user_indptr, rankings.weights)
        data = sum(array.nbytes for array in arrays) / 2**20
        parameters = 4 * (USERS * FACTORS + CATALOGUE * (FACTORS + 1)) / 2**20
        whole, bare = peak / (data + parameters), mine["before"] / (data + parameters)
        print(
            f"peak {peak:.0f} MB, {mine['before']:.0f} MB of it the bare process; data {data:.0f} MB, parameters "
            f"{parameters:.0f} MB: {whole:.2f} times, {whole - bare:.2f} without the bare process (wanted below 3)",
            flush=True,
        )
        growth(items)


def growth(items: np.ndarray) -> None:
    """How the time of a sweep grows with the entries: the slope in logarithms."""
    sizes = [1, 2, 4, 8, 16]
    for posterior, n_sweeps, n_times in (("point", 7, 2), ("draws", 5, 1)):
        times = [
            min(sweep_seconds(lists_of_items(items, 10_000 * size), n_sweeps, posterior) for _ in range(n_times))
            for size in sizes
        ]
        for size, (wall, processor) in zip(sizes, times, strict=True):
            print(f"  {posterior}, {size} million entries: {wall:.3f} s a sweep, {processor:.3f} s of the processor")
        slopes = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(
            f"{posterior}: slope of a sweep {slopes[0]:.2f}, of the processor {slopes[1]:.2f} (wanted 0.95 to 1.1)",
            flush=True,
        )


def measure(path: str) -> None:
    """What `point` runs in a process of its own."""
    sweep_seconds(pr.datasets.simulated(200, 50, n_factors=2, seed=0).rankings, 3)  # compiles, or reads the cache
    before = peak_megabytes()
    wall, processor = sweep_seconds(lists_of_items(np.load(path), USERS), 8)
    print(json.dumps({"wall": wall, "processor": processor, "before": before, "peak": peak_megabytes()}))


def damped() -> None:
    """Growth of the damped likelihood and its gradient with the length of a list."""
    rng, found = np.random.default_rng(0), {}
    for n in (2_000, 4_000):
        scores, damping, results = rng.normal(0, 1.5, n), damping_sequence("log", n), np.empty((3, n))
        times = []
        for _ in range(200):
            begin = time.process_time()
            damped_statistics(np.array([0, n]), scores, damping, *results)
            times.append(time.process_time() - begin)
        found[n] = min(times)
    ratio = found[4_000] / found[2_000]
    print(f"damped likelihood, n = 4000 over n = 2000: {ratio:.2f} (wanted at most 2.3)", flush=True)


PARTS = {"speed": speed, "calibration": calibration, "point": point, "damped": damped, "partial": partial}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the calibration into this file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    RELIABILITY = options.plot
    if options.measure:
        measure(options.measure)
    else:
        for name in options.only:
            PARTS[name]()
