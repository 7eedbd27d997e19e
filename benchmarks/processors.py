"""How far the estimates of one seed differ between processors, for every model with its default parameters.

Each processor is a process of its own with an empty Numba cache, told by its environment what it may use
(``tests/sweep.py`` has the names). One thread must change nothing. The last column is another seed on the processor at
hand: a difference of that size between processors is Monte Carlo error, or another of several optima.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import permrank as pr
from permrank.families import MODELS

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from sweep import processor_variables

# Beside every model as it comes: those of its learners in which the compiler may reorder sums.
MODES = {f"{name}()": {} for name in MODELS} | {"FactoredPlackettLuce(method='point')": {"method": "point"}}


def data_for(name: str) -> pr.Rankings:
    """Simulated data of the kind that the model takes."""
    if name.startswith("SpectralAnalysis"):
        return pr.datasets.load("simulated", n_users=200, n_items=5, list_length=5)
    return pr.datasets.load("simulated", n_users=200, n_items=20, list_length=(8, 12))


def learn(output: Path, names: list[str], seed: int) -> None:
    """Fit every model and write the scores of all users."""
    found = {}
    for name in names:
        model = getattr(pr, name.partition("(")[0])(**MODES[name])
        if "seed" in model.get_params():
            model.set_params(seed=seed)
        rankings = data_for(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rankings)
        found[name] = np.array([model.score(user) for user in list(rankings.user_ids)[:50]])
    np.savez(output, **found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--processors", nargs="+", default=["haswell", "generic", "prescott", "baseline"])
    parser.add_argument("--learn", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.learn:
        learn(options.learn, options.models, options.seed)
        return
    scores = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("native", "one thread", *options.processors, "seed 1"):
            processor = "native" if name in ("one thread", "seed 1") else name
            output, cache = Path(folder) / f"{name}.npz", {"NUMBA_CACHE_DIR": str(Path(folder) / processor)}
            command = [sys.executable, __file__, "--learn", output, "--seed", "1" if name == "seed 1" else "0"]
            variables = {**os.environ, **cache, **processor_variables(processor)}
            if name == "one thread":
                variables |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            subprocess.run([*command, "--models", *options.models], env=variables, check=True)
            scores[name] = dict(np.load(output))
    others = [name for name in scores if name != "native"]
    print("largest difference of a score from native, in standard deviations of the scores")
    print(f"{'':40}" + "".join(f"{other:>12}" for other in others))
    for model in options.models:
        native = scores["native"][model]
        gaps = [np.abs(scores[other][model] - native).max() / native.std() for other in others]
        print(f"{model:40}" + "".join(f"{gap:12.1e}" for gap in gaps))


if __name__ == "__main__":
    main()
