"""Seconds of one iteration of implicit's alternating least squares. Runs in .venv-peers."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits


def main(path: str, factors: int) -> None:
    with np.load(path) as stored:
        matrix = csr_matrix((stored["ratings"].astype(np.float32), (stored["users"], stored["items"])))
    found = []
    with threadpool_limits(1, "blas"):  # implicit has threads of its own and asks for a single one of BLAS
        for iterations in (2, 12) * 3:
            model = AlternatingLeastSquares(factors=factors, iterations=iterations, random_state=0, num_threads=2)
            begin = time.perf_counter()
            model.fit(matrix, show_progress=False)
            found.append(time.perf_counter() - begin)
    # Ten iterations more, without what is done once.
    print(json.dumps({"seconds": (min(found[1::2]) - min(found[0::2])) / 10}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
