"""How long the default fit and its answers take on MovieLens 1M, beside implicit's ALS in the same run.

Both have 16 factors and two threads; kernels are compiled before. ``wall`` and ``processor`` are seconds of the
quickest of several runs (the fit: of one); a ratio above 1 says that permrank takes longer. Processor seconds, over all
threads, change less with other work on the machine. Needs PERMRANK_DATA or a network.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numba
import numpy as np

import permrank as pr
from peers import peer_python, run_peer
from permrank.errors import CatalogueWarning
from timing import quickest

FACTORS, ITERATIONS, THREADS, PAIRS = 16, 15, 2, 1_000_000


def ours(ratings: pr.Rankings) -> dict[str, tuple[float, float]]:
    """Seconds of permrank's work, by its name."""
    pr.FactoredPlackettLuce(FACTORS, max_iter=8).fit(ratings, verbose=False)  # compiles
    model = pr.FactoredPlackettLuce(FACTORS)
    fit = quickest(lambda: model.fit(ratings, verbose=False), 1)
    user, ids = ratings.user_ids[0], list(ratings.item_ids)
    said = {item: 1.0 + place % 5 for place, item in enumerate(ids[:20])}
    rng = np.random.default_rng(0)
    who = rng.choice(np.array(list(ratings.user_ids)), PAIRS).tolist()
    what = rng.choice(np.array(ids), PAIRS).tolist()
    new = model.fold_in(said)
    model.prefers(new, ids[0], ids[1])
    return {
        "default fit": fit,
        "ten best, everybody": quickest(lambda: model.recommend(None), 3),
        "ten best, one user": quickest(lambda: model.recommend(user), 20),
        "the same with intervals": quickest(lambda: model.recommend(user, interval=True), 3),
        "a new user, 20 items": quickest(lambda: model.fold_in(said), 20),
        "prefers, of somebody new": quickest(lambda: model.prefers(new, ids[30], ids[40]), 20),
        "a million scores": quickest(lambda: model.score_pairs(who, what), 2),
    }


def main() -> None:
    warnings.simplefilter("ignore", CatalogueWarning)
    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    ratings = pr.datasets.load("ml-1m")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ratings.npz")
        users = np.repeat(np.arange(ratings.n_users), np.diff(ratings.user_bounds))
        np.savez(path, users=users, items=ratings.items, ratings=ratings.ratings)
        python = peer_python("implicit", "threadpoolctl")
        theirs = run_peer(python, "peer_answers.py", path, FACTORS, ITERATIONS)
    print(f"{'work':28}{'wall':>10}{'processor':>11}{'implicit':>20}{'ratio of processor':>20}")
    for name, (wall, processor) in ours(ratings).items():
        peer = theirs.get(name)
        beside = f"{peer[0]:>11.5f}{peer[1]:>9.5f}{processor / max(peer[1], 1e-9):>20.1f}" if peer else ""
        print(f"{name:28}{wall:>10.5f}{processor:>11.5f}{beside}", flush=True)


if __name__ == "__main__":
    main()
