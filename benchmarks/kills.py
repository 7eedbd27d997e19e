"""kill -9 at random moments of saving: what is at the path must load whole, and the next save must tidy up.

Each model is learnt once from simulated people; then, for each kill, a new process loads it and saves it over and over
until it is killed. After every kill the file is loaded and compared with the model; after the last, it is saved once
more, and nothing else may be left in the folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import permrank as pr

SAVING = """
import sys, permrank as pr
model = pr.load(sys.argv[1])
while True:
    model.save(sys.argv[1])
    print(flush=True)
"""
MODELS = (
    pr.FactoredPlackettLuce(n_factors=8, max_iter=30),
    pr.LatentPlackettLuce(n_communities=4, n_starts=1),
    pr.PlackettLuce(prior="gaussian"),
    pr.PairwiseFactorisation(n_factors=8),
)


def identical(model: pr.Ranker, other: pr.Ranker) -> bool:
    arrays = all(np.array_equal(getattr(model, name), getattr(other, name)) for name in model.estimate_.names())
    return arrays and model.rankings_ == other.rankings_


def kill(path: Path, wait: float) -> bool:
    """Kill a process ``wait`` seconds after its first save; whether it has left a temporary file."""
    with subprocess.Popen([sys.executable, "-c", SAVING, path], stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        saving.stdout.readline()
        time.sleep(wait)
        saving.kill()
    return any(path.parent.glob(".*.tmp"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of each model")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    rng, wrong = np.random.default_rng(arguments.seed), 0
    rankings = pr.datasets.load("simulated", n_users=2_000, n_items=100)
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.permrank"
            model.fit(rankings, callback=lambda progress: progress.iteration >= 30).save(path)
            torn = whole = 0
            for _ in range(arguments.kills):
                torn += kill(path, 0.2 * rng.random())
                whole += identical(pr.load(path), model)
            pr.load(path).save(path)
            clean = [left.name for left in path.parent.iterdir()] == ["m.permrank"]
            wrong += whole < arguments.kills or not clean
            print(
                f"{type(model).__name__}: {whole} of {arguments.kills} whole, {torn} killed while writing; "
                f"the next save left {'nothing else' if clean else 'SOMETHING ELSE'}",
                flush=True,
            )
    sys.exit(f"{wrong} models went wrong" if wrong else 0)


if __name__ == "__main__":
    main()
