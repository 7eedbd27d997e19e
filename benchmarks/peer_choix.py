"""choix on rankings from a file: I-LSR, or one LSR pass and I-LSR from a given estimate. Runs in .venv-peers."""

from __future__ import annotations

import itertools
import json
import sys
import time

import choix
import numpy as np


def main(path: str, mode: str, repeats: int) -> None:
    with np.load(path) as stored:
        items, indptr, start = stored["items"], stored["indptr"], stored["start"]
    lists = [items[a:b].tolist() for a, b in itertools.pairwise(indptr)]
    n_items = int(start.size)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        if mode == "ilsr":
            estimate = choix.ilsr_rankings(n_items, lists)
        else:
            choix.lsr_rankings(n_items, lists)
        times.append(time.perf_counter() - begin)
    if mode == "pass":
        # One more pass from the given point: at choix's own optimum it changes nothing.
        estimate = choix.lsr_rankings(n_items, lists, initial_params=start)
    print(json.dumps({"seconds": min(times), "difference": float(np.abs(estimate - start).max())}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
