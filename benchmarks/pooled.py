"""Pooled Plackett-Luce against choix: the same estimate, and the ratio of times, in one run.

Needs PERMRANK_DATA (Sushi and MovieLens 1M) or a network to fetch them. ``--full`` runs choix's I-LSR to the end on
MovieLens too (half an hour); without it choix is given the benefit of one LSR pass, of which I-LSR makes several.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import permrank as pr
from peers import peer_python, run_peer
from permrank.rankings.describe import strong_components

COLD = """
import time, sys
begin = time.perf_counter()
import permrank as pr
pr.PlackettLuce().fit(pr.datasets.load("sushi"), verbose=False)
print(time.perf_counter() - begin)
"""


def best_of(repeats: int, rankings: pr.Rankings) -> tuple[float, pr.PlackettLuce]:
    """Shortest wall time of a fit, JIT warm."""
    model = pr.PlackettLuce().fit(rankings, verbose=False)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        model = pr.PlackettLuce().fit(rankings, verbose=False)
        times.append(time.perf_counter() - begin)
    return min(times), model


def against_choix(name: str, rankings: pr.Rankings, mode: str, wanted: float, repeats: int) -> None:
    """Print one line of the table."""
    seconds, model = best_of(5, rankings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.npz"
        np.savez(path, items=rankings.items, indptr=rankings.indptr, start=model.scores_)
        peer = run_peer(peer_python("choix"), "peer_choix.py", path, mode, repeats)
    what = "I-LSR" if mode == "ilsr" else "one LSR pass"
    print(
        f"{name:<34} permrank {seconds:8.3f} s   choix {what} {peer['seconds']:8.2f} s   "
        f"ratio {peer['seconds'] / seconds:8.1f} (wanted {wanted:g})   "
        f"largest difference of a score {peer['difference']:.1e} (wanted 1e-05)",
        flush=True,
    )


def movielens_lists() -> pr.Rankings:
    """Strict lists of the ML-1M users, order within ties at random, items that have an estimate."""
    rankings = pr.datasets.load("ml-1m").shuffled_ties(seed=0)
    while not (components := strong_components(rankings)).connected:
        rankings = rankings.drop(items=rankings.item_ids.take(components.outside).to_list())
    return rankings


def cold_seconds() -> float:
    """Wall time of import, load and fit in a new process with an empty Numba cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run([sys.executable, "-c", COLD], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run choix's I-LSR to the end on MovieLens 1M")
    full = parser.parse_args().full
    against_choix("sushi, 5,000 lists of 10", pr.datasets.load("sushi"), "ilsr", 5, 3)
    lists = movielens_lists()
    name = f"ml-1m, {lists.n_rankings:,} lists, {lists.n_entries:,}"
    against_choix(name, lists, "ilsr" if full else "pass", 20, 1)
    print(f"cold: import, load and fit of sushi with an empty Numba cache {cold_seconds():.1f} s")


if __name__ == "__main__":
    main()
