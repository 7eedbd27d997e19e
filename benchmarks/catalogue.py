"""Finding what people would choose: permrank and its peers over the whole catalogue, all in one run.

ML-1M, ML-100K and FilmTrust: a fifth of every user's positive ratings is hidden (recall@10, NDCG@10); Gowalla and
LastFM have a split of their own (recall@20, NDCG@20); simulated sets of odd shapes are run if they are named. Every
item that is not in a user's training rows is a candidate. Peers choose their settings on a validation part of the
training rows, the others come as they are. Every fit is a process of its own; seconds are of the one fit with the
chosen settings, megabytes the peak of the whole process.

``--results FILE`` appends a JSON line for each system, and the same command goes on where it was broken off. Needs
PERMRANK_DATA; peers are installed into .venv-peers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

import catalogue_data as data
from catalogue_io import Job, marks, write_job
from peers import peer_python

HERE = Path(__file__).parent
PEERS = ("popularity", "EASE", "EASE, graded", "implicit ALS", "implicit BPR", "irspack iALS", "irspack RP3beta")
OWN = ("permrank Popularity", "permrank FactoredPlackettLuce", "permrank Recommender")
_PACKAGES = {"implicit": ("implicit", "threadpoolctl"), "irspack": ("irspack",)}
_COLUMNS = ("system", "recall", "NDCG", "NDCG / best peer", "fit s", "tune s", "MB", "settings of the last seed")


def left_out(dataset: str, system: str) -> str:
    """Why a system is not asked about these data; nothing if it is."""
    if dataset not in data.POSITIVE and system in ("permrank FactoredPlackettLuce", "EASE, graded"):
        return "the data have neither order nor grades"
    return ""


def measured(dataset: str, system: str, seed: int) -> dict[str, Any]:
    """Run a system in a process of its own and mark what it shows."""
    split, k = data.split_of(dataset, seed), data.TOP[dataset]
    train, asked = split.train, np.unique(split.test.users)
    positive, counts = data.POSITIVE.get(dataset, 1.0), dataset in data.simulated.COUNTS
    job = Job(train.users, train.items, train.ratings, train.n_users, train.n_items, positive, asked, k, seed, counts)
    peer = system.split()[0] in _PACKAGES
    script = "peer_catalogue.py" if peer else "catalogue_systems.py"
    packages = [name for each in _PACKAGES.values() for name in each]
    python = peer_python(*packages) if peer else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "job.npz", Path(folder) / "best.npy"
        write_job(job, source)
        command = [python, str(HERE / script), system, str(source), str(target)]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if done.returncode:
            return {"problem": f"ended with {done.returncode}"}
        told: dict[str, Any] = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
        return told | marks(asked, np.load(target), split.test.users, split.test.items) | {"n_users": int(asked.size)}


def table(rows: list[dict[str, Any]], dataset: str) -> str:
    """Means over seeds, best first, and ratios to the best peer."""
    by_system: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["data"] == dataset and "problem" not in row:
            by_system.setdefault(row["system"], []).append(row)
    if not by_system:
        return f"{dataset}: no results"

    def mean(system: str, what: str) -> float:
        return float(np.mean([row[what] for row in by_system[system]]))

    best = max((mean(system, "ndcg") for system in by_system if system in PEERS), default=float("nan"))
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
    for system in sorted(by_system, key=lambda each: -mean(each, "ndcg")):
        told = ", ".join(f"{name}={value}" for name, value in by_system[system][-1]["settings"].items())
        megabytes = max(row["megabytes"] for row in by_system[system])
        recall, ndcg = mean(system, "recall"), mean(system, "ndcg")
        cells = [
            system, f"{recall:.4f}", f"{ndcg:.4f}", f"{ndcg / best:.3f}",
            f"{mean(system, 'fit_seconds'):.2f}", f"{mean(system, 'tune_seconds'):.0f}", f"{megabytes:.0f}", told,
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    seeds = sorted({row["seed"] for rows in by_system.values() for row in rows})
    return f"{dataset}, @{data.TOP[dataset]}, seeds {seeds}\n\n" + "\n".join(lines)


def main() -> None:
    """Measure what is not in the file of results yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(data.TOP), default=list(data.REAL))
    parser.add_argument("--systems", nargs="+", default=["*"], help="names or patterns: 'permrank*' 'EASE*'")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)), help="of the splits of rated data")
    parser.add_argument("--results", type=Path, help="a file of JSON lines; what it holds is not measured again")
    options = parser.parse_args()
    rows = []
    if options.results and options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    done = {(row["data"], row["seed"], row["system"]) for row in rows if "problem" not in row}
    systems = [name for name in (*PEERS, *OWN) if any(fnmatch(name, each) for each in options.systems)]
    for dataset in options.data:
        for system in systems:
            if why := left_out(dataset, system):
                print(f"{dataset}, {system}: left out, {why}", file=sys.stderr)
                continue
            for seed in options.seeds[:1] if dataset in data.FIXED else options.seeds:
                if (dataset, seed, system) in done:
                    continue
                rows.append({"data": dataset, "seed": seed, "system": system} | measured(dataset, system, seed))
                if options.results:
                    with options.results.open("a") as file:
                        file.write(f"{json.dumps(rows[-1])}\n")
                print(json.dumps(rows[-1]), file=sys.stderr)
        shown = [row for row in rows if row["seed"] in options.seeds]  # those of earlier runs too
        print(f"{table(shown, dataset)}\n", flush=True)


if __name__ == "__main__":
    main()
