"""Seconds of one iteration of implicit's alternating least squares, on two threads. Runs in .venv-peers."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits


def main(path: str, factors: int, more: int = 10, repeats: int = 3) -> None:
    with np.load(path) as stored:
        matrix = csr_matrix((stored["ratings"].astype(np.float32), (stored["users"], stored["items"])))
    found = []
    with threadpool_limits(1, "blas"):  # implicit has threads of its own and asks for a single one of BLAS
        for iterations in (2, 2 + more) * repeats:
            model = AlternatingLeastSquares(factors=factors, iterations=iterations, random_state=0, num_threads=2)
            begin = time.perf_counter(), time.process_time()
            model.fit(matrix, show_progress=False)
            found.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    # So many iterations more, without what is done once.
    wall, processor = (np.min(found[1::2], axis=0) - np.min(found[0::2], axis=0)) / more
    print(json.dumps({"seconds": wall, "processor": processor}))


if __name__ == "__main__":
    main(sys.argv[1], *(int(value) for value in sys.argv[2:]))
