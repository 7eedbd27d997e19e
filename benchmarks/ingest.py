"""From a Parquet file of (user, item, rating) to Rankings, against Polars sorting the same frame.

Polars' time is that of ``sort("user", "rating")`` on the frame in memory; ours includes reading the file and
checking it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import permrank as pr
from peers import peak_megabytes

WANTED = 3.0


def write_ratings(path: Path, n_rows: int) -> None:
    """Users with about 140 half-star ratings each, popular items more often, rows in random order."""
    rng = np.random.default_rng(0)
    n_users, n_items = max(n_rows // 140, 1), 27_000
    users = rng.integers(n_users, size=int(1.15 * n_rows) + 100)
    items = (n_items * rng.random(users.size) ** 2).astype(np.int64)
    pairs = np.unique(users * n_items + items)
    pairs = rng.permutation(pairs)[:n_rows]
    frame = pl.DataFrame(
        {"user": pairs // n_items, "item": pairs % n_items, "rating": rng.integers(1, 11, pairs.size) / 2}
    )
    frame.write_parquet(path)


def measure(path: Path, job: str) -> None:
    """One job in this process: prints seconds and peak memory."""
    if job == "polars":
        frame = pl.read_parquet(path)
        begin = time.perf_counter()
        frame.sort("user", "rating")
    else:
        begin = time.perf_counter()
        rankings = pr.read(path)
        assert rankings.n_entries > 0
    print(time.perf_counter() - begin, peak_megabytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "JOB"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(Path(arguments.measure[0]), arguments.measure[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.parquet"
        write_ratings(path, arguments.rows)
        found = {}
        for job in ("polars", "permrank"):
            runs = []
            for _ in range(3):
                command = [sys.executable, __file__, "--measure", str(path), job]
                runs.append([float(x) for x in subprocess.check_output(command, text=True).split()])
            found[job] = min(runs)
            print(f"{job:<9} {found[job][0]:6.2f} s   peak {found[job][1]:7,.0f} MB", flush=True)
    ratio = found["permrank"][0] / found["polars"][0]
    print(f"{arguments.rows:,} rows: read and build over Polars' sort = {ratio:.2f} (wanted at most {WANTED:g})")


if __name__ == "__main__":
    main()
