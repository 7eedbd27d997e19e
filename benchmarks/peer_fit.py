"""implicit's alternating least squares, one fit on two threads: wall and processor seconds, in .venv-peers."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits


def main(path: str, factors: int, iterations: int = 15) -> None:
    with np.load(path) as stored:
        matrix = csr_matrix((stored["ratings"].astype(np.float32), (stored["users"], stored["items"])))
    with threadpool_limits(1, "blas"):  # implicit has threads of its own and asks for a single one of BLAS
        model = AlternatingLeastSquares(factors=factors, iterations=iterations, random_state=0, num_threads=2)
        begin = time.perf_counter(), time.process_time()
        model.fit(matrix, show_progress=False)
    print(json.dumps({"seconds": time.perf_counter() - begin[0], "processor": time.process_time() - begin[1]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
